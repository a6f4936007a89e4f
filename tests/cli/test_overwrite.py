"""A result never takes the name of what is read, by whatever spelling or link; an empty value is no option left out."""

import os
import re
import subprocess

import numpy as np
import pytest
from conftest import COMMAND, Outcome, call

# Every command that reads and writes: its words with a name for each file read (lower case) and written (upper case). A word of two
# parts is an option and its value.
COMMANDS = {
    "knn": "knn corpus queries -k=1 --eligible=ids --corpus-labels=labels --query-labels=more -o=OUT --distances=DISTANCES",
    "range": "range corpus queries -r=1 --eligible=ids --corpus-labels=labels --query-labels=more -o=OUT",
    "graph": "graph corpus -k=1 --eligible=ids --corpus-labels=labels -o=OUT --distances=DISTANCES",
    "truth": "truth base -k=1 --queries=queries --update=lists --old-distances=old --inserted=fresh --deleted=gone --eligible=ids --corpus-labels=labels "
             "--query-labels=more -o=OUT --distances=DISTANCES",
    "select": "select values -k=1 --payload=payload -o=OUT",
    "convert": "convert input OUT --in-distances=distances --distances=DISTANCES",
    "merge": "merge part another third -o=OUT --distances=DISTANCES",
    "match": "match database --pairs=pairs --global-descriptors=descriptors -o=OUT",
    "index build": "index build corpus -o=OUT",
    "index search": "index search index queries -o=OUT --distances=DISTANCES",
}
READERS = {"verify", "recall"}  # read and write nothing
PLAIN = {"info", "bench", "demo", "completion", "man", "help"}  # nor that


def files_of(words):
    return [word.split("=")[-1] for word in words.split() if re.fullmatch(r"(--?[a-z-]+=)?[a-z]+|(--?[a-z-]+=)?[A-Z]+", word)]


def run(folder, words, names, **options):
    """The command in a folder, with the files' names put in."""
    line = []
    for word in words.split()[len(next(name for name in COMMANDS if words.startswith(name + " ")).split()):]:
        option, _, value = word.rpartition("=")
        line += ([option] if option else []) + [names.get(value, value)]
    head = next(name for name in COMMANDS if words.startswith(name + " ")).split()
    return call(*head, *line, cwd=folder, **options)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def pairs():
    for name, words in COMMANDS.items():
        files = files_of(words.removeprefix(name))
        for read in (file for file in files if file.islower()):
            for written in (file for file in files if file.isupper()):
                yield name, read, written


@pytest.mark.parametrize("name, read, written", list(pairs()))
def test_no_command_replaces_what_it_reads(tmp_path, name, read, written):
    words = COMMANDS[name]
    names = {file: f"{file}.npy" for file in files_of(words.removeprefix(name))}
    for file, path in names.items():
        if file.islower():
            np.save(tmp_path / path, np.arange(8.0).reshape(4, 2))
    os.link(tmp_path / names[read], tmp_path / "alias.npy")
    before = contents(tmp_path)
    names[written] = "alias.npy"
    run(tmp_path, words, names).fails(2, "InvalidArgument", rf"alias.npy .*{names[read]}.*would be replaced.*another name")
    assert contents(tmp_path) == before


def spellings(folder):
    """Names of folder/corpus.npy as a user may write them, by the current directory `folder`."""
    (folder / "sub").mkdir()
    (folder / "link.npy").symlink_to("corpus.npy")
    (folder / "chain.npy").symlink_to("link.npy")
    (folder / "sub/up.npy").symlink_to("../corpus.npy")
    (folder / "here").symlink_to(".")
    os.link(folder / "corpus.npy", folder / "sub/hard.npy")
    return ["corpus.npy", "./corpus.npy", "sub/../corpus.npy", ".//corpus.npy", str(folder / "corpus.npy"), "link.npy", "chain.npy",
            "sub/up.npy", "here/corpus.npy", "here/link.npy", "sub/hard.npy"]


def test_every_spelling_of_a_file_is_the_file(tmp_path):
    np.save(tmp_path / "corpus.npy", np.eye(3))
    names = spellings(tmp_path)
    before = contents(tmp_path)
    for written in names:
        for read in (names[0], "sub/hard.npy", "chain.npy"):
            call("knn", read, "queries.npy", "-k", 1, "-o", written, cwd=tmp_path).fails(2, "InvalidArgument", "would be replaced")
            call("convert", read, written, cwd=tmp_path).fails(2, "InvalidArgument", "would be replaced")
    assert contents(tmp_path) == before
    call("convert", "link.npy", "fresh.npy", cwd=tmp_path).succeeds()  # what is another file is written
    np.save(tmp_path / "old.npy", np.zeros(1))
    call("convert", "corpus.npy", "old.npy", cwd=tmp_path).succeeds()
    np.testing.assert_array_equal(np.load(tmp_path / "old.npy"), np.eye(3))


def test_members_and_streams_are_their_files(tmp_path):
    np.savez(tmp_path / "data.npz", corpus=np.eye(3), queries=np.eye(3))
    np.savetxt(tmp_path / "rows.csv", np.eye(3), delimiter=",")
    before = contents(tmp_path)
    call("knn", "data.npz:corpus", "data.npz:queries", "-k", 1, "-o", "./data.npz", cwd=tmp_path).fails(
        2, "InvalidArgument", "data.npz:corpus.*would be replaced")
    with open(tmp_path / "rows.csv", "rb") as rows:
        call("convert", "-", "rows.csv", cwd=tmp_path, stdin=rows).fails(2, "InvalidArgument", "would be replaced")
    for appended in ("rows.csv", "data.npz"):
        with open(tmp_path / appended, "ab") as out:
            done = subprocess.run([COMMAND, "knn", appended if appended == "rows.csv" else "data.npz:corpus", "rows.csv", "-k", "1", "-o", "-"],
                                  cwd=tmp_path, stdout=out, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 2 and b"would be replaced" in done.stderr
    assert contents(tmp_path) == before
    with open(tmp_path / "other.csv", "wb") as out:
        assert subprocess.run([COMMAND, "knn", "rows.csv", "rows.csv", "-k", "1", "-o", "-"], cwd=tmp_path, stdout=out, check=False).returncode == 0


def test_every_file_of_every_command_is_in_the_table():
    """A command or an option that is new here has to be added above, and so is tested."""
    commands = re.findall(r"^  ([a-z]+) ", call("--help").out.split("Subcommands:")[1].split("Examples:")[0], re.MULTILINE)
    assert len(commands) > 10
    for command in commands:
        words = " ".join(text for name, text in COMMANDS.items() if name.split()[0] == command)
        text = call(command, "--help").out
        files = re.findall(r"^  (?:-\w,)?(\S+) FILE(?:\s|$)", text, re.MULTILINE)
        if not words:
            assert command in (READERS if files else PLAIN) and "--output" not in text
            continue
        names = set(re.findall(r"(-[-\w]+)=[a-zA-Z]", words)) | ({"--output"} if "-o=" in words else set())
        assert {file for file in files if file.startswith("-")} <= names, (command, files)
        positional = [file for file in files if not file.startswith("-")]
        assert positional and len(positional) <= len([w for w in words.split()[1:] if "=" not in w])


@pytest.mark.parametrize("folder", [".", "elsewhere"])
def test_a_link_to_nothing_gets_its_target(tmp_path, folder):
    """-o follows a link whether or not its target exists: the link stays one."""
    (tmp_path / "elsewhere").mkdir()
    np.save(tmp_path / "rows.npy", np.eye(3))
    link = tmp_path / "out.npy"
    link.symlink_to(f"{folder}/made.npy")
    chain = tmp_path / "elsewhere" / "chain.npy"
    chain.symlink_to("../out.npy")
    for name in (link, chain, link):  # the last finds the target there
        call("knn", "rows.npy", "rows.npy", "-k", 1, "-o", name, "--distances", "d.npy", cwd=tmp_path).succeeds()
        assert link.is_symlink() and chain.is_symlink() and not (tmp_path / folder / "made.npy").is_symlink()
        assert np.load(tmp_path / folder / "made.npy").tolist() == [[0], [1], [2]]
        if name == chain:
            break
        (tmp_path / folder / "made.npy").unlink()


def test_a_link_that_leads_nowhere_is_refused(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(3))
    (tmp_path / "lost.npy").symlink_to("no-such-folder/made.npy")
    (tmp_path / "loop.npy").symlink_to("loop.npy")
    for name, text in (("lost.npy", "No such file"), ("loop.npy", "Too many levels")):
        call("knn", "rows.npy", "rows.npy", "-k", 1, "-o", name, cwd=tmp_path).fails(4, "IoError", f"{name}.*{text}")
        assert (tmp_path / name).is_symlink()


def options_of(command):
    """Every option and positional of a command that takes a value."""
    text = call(command, "--help").out
    return re.findall(r"^  (?:-\w,)?(--?[\w-]+) [A-Zc-s]", text, re.MULTILINE)


@pytest.mark.parametrize("command", ["knn", "range", "graph", "select", "convert", "merge", "index", "verify", "recall", "bench", "demo"])
def test_an_empty_value_is_an_error(tmp_path, command):
    np.save(tmp_path / "rows.npy", np.eye(3))
    files = {"knn": 2, "range": 2, "graph": 1, "select": 1, "convert": 2, "merge": 2, "index": 2, "verify": 3, "recall": 2}.get(command, 0)
    words = [command, *(["search"] if command == "index" else []), *["rows.npy"] * files]
    options = options_of(command)
    assert len(options) >= (1 if command == "demo" else 2)
    for option in options:
        for given in ([option, ""], *([[option + "="]] if option.startswith("--") else [])):
            call(*words, *given, cwd=tmp_path).fails(2, "InvalidArgument", f"{option}: the value is empty")
    for place in range(files):
        line = list(words)
        line[-1 - place] = ""
        call(*line, cwd=tmp_path).fails(2, "InvalidArgument", "empty")
    assert sorted(os.listdir(tmp_path)) == ["rows.npy"]
    assert isinstance(call("info"), Outcome)
