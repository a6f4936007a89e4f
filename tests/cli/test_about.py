"""info, demo, help, version, completion scripts and the man page: all from one tree of commands."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import COMMAND, ROOT

COMMANDS = ["knn", "graph", "range", "truth", "select", "index", "verify", "convert", "recall", "merge", "match", "info", "bench", "demo", "completion", "man"]


def options_of(vicinal, command):
    """The long options that the help of a command lists."""
    return set(re.findall(r"^  (?:-\w, ?)?(--[a-z-]+)", vicinal(command, "--help").succeeds().out, re.M))


def test_help(vicinal):
    text = vicinal("--help").succeeds().out
    assert re.findall(r"^  ([a-z]+)  ", text, re.M)[: len(COMMANDS)] == COMMANDS and "Example" in text
    for command in COMMANDS:
        text = vicinal(command, "--help").succeeds().out
        assert "Usage: vicinal " + command in text and f"\n  vicinal {command}" in text.split("Example")[1] or command == "completion"
        assert max(map(len, text.splitlines())) <= 120
    assert {"--metric", "--device", "--threads", "--memory", "--distance-type", "--pad", "--first-id", "--json", "--plan",
            "--explain", "--output", "--distances", "--degenerate"} <= options_of(vicinal, "knn") | {"--output"}


def test_help_says_what_is_required_and_what_is_the_default(vicinal):
    def said(command, option):
        """The words of an option, without line breaks."""
        found = re.search(rf"^  (?:-\w,\s*)?{option} .*(?:\n {{10,}}.*)*", vicinal(command, "--help").succeeds().out, re.M)
        return " ".join(found[0].split())

    for command, option in (("knn", "CORPUS"), ("knn", "-k"), ("range", "QUERIES"), ("index", "ACTION"), ("index", "FILE")):
        assert "(required)" in said(command, option)
    for command, option, words in (
        ("knn", "--degenerate", "(default error)"), ("graph", "--symmetrize", "(default: neither, lists as found)"),
        ("index", "--prefix", "(default: a quarter)"), ("index", "--window", "(default 0: no limit)"),
        ("index", "--fraction", "(default: what the recall takes)"), ("index", "QUERIES", "(required for search)"),
        ("select", "FILE", "required unless --list)"), ("select", "-k", "(required unless --list)"),
        ("range", "--max-results", "(default: what free memory holds)"),
    ):
        assert words in said(command, option)


def test_version(vicinal):
    assert re.fullmatch(r"vicinal \d+\.\d+\.\d+ \(semantics \d+\)\n", vicinal("--version").succeeds().out)


def test_info(vicinal):
    info = vicinal("info", "--json").succeeds().json
    assert (info["schema"], info["command"], info["semantics_version"]) == (1, "info", 1)
    assert info["instruction_sets"][-1] == "plain" and set(info["instruction_sets"]) <= set(info["built_instruction_sets"])
    assert info["filters"][-1] == "canonical" and "cpu" in info["backends"] and info["threads"] >= 1
    assert info["devices"][0]["name"] == "cpu" and info["devices"][0]["usable"]
    assert all(device["usable"] or device["reason"] for device in info["devices"])
    assert {m["name"]: m["aliases"] for m in info["metrics"]}["l1"] == ["cityblock", "manhattan"]
    suffixes = " ".join(entry["suffixes"] for entry in info["formats"])
    assert set(suffixes.split()) >= {".npy", ".npz", ".fvecs", ".bvecs", ".ivecs", ".fbin", ".u8bin", ".i8bin", ".ibin"}
    text = vicinal("info").succeeds().out
    for word in [info["version"], *info["instruction_sets"], *(m["name"] for m in info["metrics"]), "device cpu", ".fvecs"]:
        assert word in text


def library_folder():
    return Path(COMMAND).resolve().parent.parent / "lib"


def devices(vicinal, **environment):
    """Lines of the devices beyond the CPU."""
    return vicinal("info", "--json", env={**os.environ, **environment}).succeeds().json["devices"][1:]


def test_cuda_devices_or_the_reason(vicinal):
    found = devices(vicinal)
    assert [device["name"] for device in found] in (["cuda"], [f"cuda:{i}" for i in range(len(found))])
    for device in found:
        assert device["usable"] == (device["reason"] == "") == (device["free_bytes"] > 0)
    if (library_folder() / "libvicinal_cuda.so").exists():
        assert "libvicinal_cuda.so" not in found[0]["reason"]  # it loads here; what is missing is a driver or a device
    else:
        folder = re.search("libvicinal_cuda.so is not in (.+), and ", found[0]["reason"])[1]  # perhaps by way of ..
        assert Path(folder).resolve() == library_folder()


def test_the_cuda_library_is_missing_or_broken(vicinal, tmp_path):
    library = next(library_folder().glob("libvicinal.so.?"))
    shutil.copy(library, tmp_path / library.name)
    away = {"LD_LIBRARY_PATH": str(tmp_path)}
    (absent,) = devices(vicinal, **away)
    assert re.search(f"libvicinal_cuda.so is not in {tmp_path}.*VICINAL_BACKEND_PATH is not set", absent["reason"])
    named = tmp_path / "named"
    named.mkdir()
    (absent,) = devices(vicinal, VICINAL_BACKEND_PATH=str(named), **away)
    assert f"not in VICINAL_BACKEND_PATH={named}" in absent["reason"]
    (named / "libvicinal_cuda.so").write_bytes(b"not a library")
    (absent,) = devices(vicinal, VICINAL_BACKEND_PATH=str(named), **away)
    assert not absent["usable"] and "libvicinal_cuda.so" in absent["reason"]
    (named / "libvicinal_cuda.so").unlink()
    shutil.copy(library, named / "libvicinal_cuda.so")
    (absent,) = devices(vicinal, VICINAL_BACKEND_PATH=str(named), **away)
    assert "is not a backend of vicinal" in absent["reason"]


def test_the_environment_forces_the_device(vicinal, tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.eye(3, dtype=np.float32))
    search = ("knn", path, path, "-k", 1, "-o", tmp_path / "out.npz")
    vicinal(*search, env={**os.environ, "VICINAL_BACKEND": "cpu"}).succeeds()
    vicinal(*search, env={**os.environ, "VICINAL_BACKEND": "cuda:77"}).fails(6, "DeviceError", "no usable CUDA device 77")
    vicinal(*search, "--device", "cpu", env={**os.environ, "VICINAL_BACKEND": "cuda"}).succeeds()
    vicinal(*search, "--device", "cuda").fails(6, "DeviceError", "CUDA|select")


def test_demo(vicinal):
    answer = vicinal("demo", "--json").succeeds().json
    assert answer["verified"] and answer["recall"] == 1 and answer["k"] == 100
    assert answer["certificate"]["certified"] and answer["certificate"]["queries"] == answer["queries"]["rows"] >= 1000
    text = vicinal("demo").succeeds().out
    for word in ("SIFT", "nearest id", "time", "certified exact", "right to the bit"):
        assert word in text


def test_the_demo_finds_what_integers_say(vicinal, tmp_path):
    path = ROOT / "data" / "demo" / "sift.npz"
    vicinal("knn", f"{path}:corpus", f"{path}:queries", "-k", 100, "-o", tmp_path / "out.npy").succeeds()
    with np.load(path) as sift:
        corpus, queries = sift["corpus"].astype(np.int64), sift["queries"].astype(np.int64)
    ids = np.load(tmp_path / "out.npy")
    for query in range(0, len(queries), 50):
        squared = ((corpus - queries[query]) ** 2).sum(1)
        assert np.array_equal(ids[query], np.argsort(squared, kind="stable")[:100])


def test_demo_without_data(vicinal, tmp_path):
    vicinal("demo", "--data", tmp_path).fails(4, "IoError", "--data")


def test_bash_completion(vicinal, tmp_path):
    script = tmp_path / "vicinal.bash"
    script.write_text(vicinal("completion", "bash").succeeds().out)
    subprocess.run(["bash", "-n", script], check=True)

    def complete(*words):
        line = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _vicinal; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    assert complete("vicinal", "''")[: len(COMMANDS)] == COMMANDS
    assert complete("vicinal", "ver") == ["verify"]
    assert complete("vicinal", "knn", "--me") == ["--metric", "--memory"]
    assert complete("vicinal", "knn", "--metric", "co") == ["cosine", "correlation"]
    assert complete("vicinal", "verify", "--ties", "''") == ["strict", "any"]
    assert complete("vicinal", "knn", "-k", "''") == []
    assert complete("vicinal", "completion", "''") == ["bash", "zsh", "fish"]
    for command in COMMANDS:
        assert options_of(vicinal, command) <= set(complete("vicinal", command, "--"))


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_of_other_shells(vicinal, tmp_path, shell):
    text = vicinal("completion", shell).succeeds().out
    for command in COMMANDS:
        assert command in text
        for option in options_of(vicinal, command):
            assert (option if shell == "zsh" else f"-l {option[2:]}") in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: the script was read, not parsed")
    (tmp_path / "script").write_text(text)
    subprocess.run([shell, "-n", tmp_path / "script"], check=True)


def test_man_page(vicinal, tmp_path):
    text = vicinal("man").succeeds().out
    assert text.startswith(".TH VICINAL 1 ") and "EXIT STATUS" in text
    for command in COMMANDS:
        assert f"\n.SS {command}\n" in text
        for option in options_of(vicinal, command):
            assert option.replace("-", "\\-") in text
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed: the page was read, not set")
    (tmp_path / "vicinal.1").write_text(text)
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", tmp_path / "vicinal.1"], capture_output=True, check=True)
    assert done.stderr == b"" and "vicinal knn" in re.sub("\x1b\\[\\d*m", "", done.stdout.decode())
