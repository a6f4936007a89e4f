"""What the compiler made of the sources, checked after a build of the cpu preset.

No object holds a fused multiply-add that the source did not spell:
only the AVX kernel files may hold any. Every object was compiled without contraction, those of CUDA too. Every program and library
looks for others beside itself alone, in the build tree and installed. Closes with "N passed, N failed". With --headers, which
`make lint` adds: every header of the library compiles alone. `check_build.py --paths FOLDER...` looks at the search paths of the
programs and libraries below FOLDER and at nothing else; scripts/dist and the wheel's test call it so. No kernel of libvicinal_cuda.so takes more
registers or stack than scripts/kernel_registers.txt says; `check_build.py --write-registers` writes that list anew.
"""

import json
import os
import platform
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
REGISTERS = ROOT / "scripts" / "kernel_registers.txt"


def outcomes(work, items):
    """(item, finished process) of each, two or more at a time."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from zip(items, pool.map(work, items))


def compilations():
    """(source, words of the command) of the project's own files."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        name = os.path.relpath(entry["file"], ROOT)
        if not name.startswith("."):  # .venv has sources of nanobind, which are not ours
            yield name, shlex.split(entry["command"])


def headers():
    """Every header of the library compiles alone."""

    compiled = {name for name, _ in compilations()}  # several at a time have no line of their own there

    def seen(path):
        """A source that begins with its own header has compiled it alone already, where it was compiled by itself."""
        source = path.with_suffix(".cpp")
        if os.path.relpath(source, ROOT) not in compiled:
            return False
        first = re.search(r'^#include [<"](.+)[>"]$', source.read_text(), re.MULTILINE)
        return first is not None and first[1].endswith(path.name)

    nvcc = shutil.which("nvcc")
    toolkit = Path(nvcc).resolve().parent.parent / "include" if nvcc else None
    files = [path for folder in ("include", "src") for path in sorted((ROOT / folder).rglob("*.hpp"))
             if not seen(path) and (toolkit or "cuda" not in path.relative_to(ROOT).parts)]
    command = ["g++", "-std=c++20", "-fsyntax-only", "-I", "include", "-I", "src", "-I", "tests",  # src/cuda has the emulator's
               *(["-isystem", str(toolkit)] if toolkit else []), "-include"]

    def compile_alone(path):
        return subprocess.run([*command, str(path), "-x", "c++", "/dev/null"], cwd=ROOT, capture_output=True, text=True)

    for path, done in outcomes(compile_alone, files):
        if done.returncode:
            yield f"{path.relative_to(ROOT)}: {done.stderr[:1000]}"


def fused():
    """Fused multiply-adds occur in the AVX kernel files alone."""
    if platform.machine() != "x86_64":
        return
    objects = sorted((BUILD / "CMakeFiles" / "vicinal_objects.dir").rglob("*.o"))
    if not objects:
        yield f"no objects below {BUILD}"
    for path in objects:
        if "_avx2" in path.name or "_avx512" in path.name:
            continue
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True,
                              check=True).stdout
        count = len(re.findall(r"\bvfn?m(?:add|sub)\w*", text))
        if count:
            yield f"{path.name}: {count} fused multiply-adds"


def contraction():
    """Every compilation of the project says -ffp-contract=off, and none says fast-math."""
    for name, command in compilations():
        words = {part for word in command for part in word.removeprefix("-Xcompiler=").split(",")}  # nvcc hands words on
        if any(Path(word).name == "nvcc" for word in command[:2]) and "-fmad=false" not in words:
            yield f"{name}: no -fmad=false in {' '.join(command)}"
        if "-ffp-contract=off" not in words or {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-use_fast_math", "--use_fast_math"} & words:
            yield f"{name}: {' '.join(command)}"


def linked_files(folder):
    """Programs and libraries below a folder: ELF files that are no objects (e_type 1), of the files that are no links."""
    for path in sorted(Path(folder).rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            head = file.read(18)
        if head[:4] == b"\x7fELF" and int.from_bytes(head[16:18], "big" if head[5] == 2 else "little") in (2, 3):
            yield path


def path_faults(folder):
    """What is wrong with the search paths below a folder: an empty or relative entry means the current directory, an absolute one
    a folder of the machine that built it; and a needed library with a slash in its name is not searched for at all."""
    files = list(linked_files(folder))
    if not files:
        yield f"no programs or libraries below {folder}"
    for path in files:
        text = subprocess.run(["readelf", "-dW", str(path)], capture_output=True, text=True, check=True).stdout
        for kind, value in re.findall(r"\((RPATH|RUNPATH|NEEDED)\)[^\[]*\[(.*)\]", text):
            parts = [value] if kind == "NEEDED" else value.split(":")
            wrong = [part for part in parts if ("/" in part if kind == "NEEDED" else part.split("/")[0] != "$ORIGIN")]
            if wrong:
                yield f"{path}: {kind} {value!r} has {wrong[0]!r}"


def built_paths():
    """Programs and libraries of the build tree search $ORIGIN alone."""
    for folder in ("bin", "lib", "python"):  # beside them is what tests build as strangers would
        yield from path_faults(BUILD / folder)


def installed_paths():
    """Installed programs and libraries search $ORIGIN alone, and the command finds its library."""
    with tempfile.TemporaryDirectory() as prefix:
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        for command in (["cmake", "--install", str(BUILD), "--prefix", prefix], [f"{prefix}/bin/vicinal", "info"]):
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            if done.returncode:
                yield f"{' '.join(command)}: {done.stderr[-1000:]}"
                return
        yield from path_faults(prefix)


def device_images(library):
    """(name of the architecture, bytes) of each device's ELF file inside a library; e_machine 190 is CUDA."""
    data = library.read_bytes()
    for match in re.finditer(rb"\x7fELF\x02\x01", data):
        image = memoryview(data)[match.start():]
        machine, = struct.unpack_from("<H", image, 18)
        flags, = struct.unpack_from("<I", image, 48)
        if machine == 190:  # where flags have the architecture changed with version 8 of the ABI, CUDA 13
            yield f"sm_{flags >> 8 & 255 if image[8] >= 8 else flags & 255}", image


def kernels_of(image):
    """{kernel: (registers, bytes of stack)} of a device's ELF file: its section .nv.info has them as attributes, (format, attribute, size),
    of which 0x2f counts registers and 0x12 the stack, each of a symbol."""
    begin, = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", image, begin + i * size) for i in range(count)]

    def data_of(head):
        return bytes(image[head[4]:head[4] + head[5]])

    def text(strings, at):
        return strings[at:strings.index(b"\0", at)].decode()

    headings = data_of(heads[names])
    sections = {text(headings, head[0]): head for head in heads}
    symbols, strings = data_of(sections[".symtab"]), data_of(sections[".strtab"])
    attributes, at, found = data_of(sections[".nv.info"]), 0, {0x2f: {}, 0x12: {}}
    while at < len(attributes):
        kind, attribute, length = struct.unpack_from("<BBH", attributes, at)
        at += 4
        if kind != 4:  # the value stands in place of the length
            continue
        if attribute in found:
            symbol, value = struct.unpack_from("<II", attributes, at)
            found[attribute][text(strings, struct.unpack_from("<I", symbols, 24 * symbol)[0])] = value
        at += length
    return {name: (registers, found[0x12].get(name, 0)) for name, registers in found[0x2f].items()}


def built_registers():
    """(architecture and compiler, {kernel: (registers, bytes of stack)}) of libvicinal_cuda.so; None without it."""
    library = BUILD / "lib" / "libvicinal_cuda.so"
    if not library.exists():
        return None
    text = "".join(path.read_text() for path in (BUILD / "CMakeFiles").glob("*/CMakeCUDACompiler.cmake"))
    version = re.search(r'CMAKE_CUDA_COMPILER_VERSION "(.*?)"', text)
    kernels, architectures = {}, set()
    for architecture, image in device_images(library):
        architectures.add(architecture)
        for name, needs in kernels_of(image).items():  # some are in more than one source
            kernels[name] = tuple(map(max, needs, kernels.get(name, needs)))
    plain = subprocess.run(["c++filt"], input="\n".join(kernels), capture_output=True, text=True, check=True).stdout.splitlines()
    # Names as calls have them: without the namespace, the type of the result, and the one argument.
    short = [re.sub(r"\([^()]*\)$", "", name.removeprefix("void ").replace("vicinal::cuda::", "").replace(" ", "")) for name in plain]
    return f"{' '.join(sorted(architectures))}, nvcc {version[1] if version else '?'}", dict(zip(short, kernels.values()))


def registers():
    """No kernel takes more registers or stack than scripts/kernel_registers.txt lists; `scripts/check_build.py --write-registers` writes it anew."""
    built = built_registers()
    if built is None:
        print("registers: skipped, libvicinal_cuda.so was not built")
        return
    first, *lines = REGISTERS.read_text().splitlines()
    if first != f"# {built[0]}":
        print(f"registers: skipped, the list is of {first.removeprefix('# ')}, this build of {built[0]}")
        return
    listed = {name: (int(count), int(stack)) for name, count, stack in (line.split() for line in lines if not line.startswith("#"))}
    for name, (count, stack) in sorted(built[1].items()):
        if name not in listed:
            yield f"{name}: {count} registers, {stack} bytes of stack, which is not listed"
        elif count > listed[name][0] or stack > listed[name][1]:
            yield f"{name}: {count} registers, {stack} bytes of stack, where {listed[name][0]} and {listed[name][1]} are listed"
    yield from (f"{name} is listed and not built" for name in sorted(listed.keys() - built[1].keys()))


def write_registers():
    built = built_registers()
    if built is None:
        sys.exit("libvicinal_cuda.so was not built")
    lines = [f"{name} {count} {stack}" for name, (count, stack) in sorted(built[1].items())]
    REGISTERS.write_text("\n".join([f"# {built[0]}", "# kernel, registers, bytes of stack", *lines]) + "\n")


CHECKS = (fused, contraction, built_paths, installed_paths, registers)


def main():
    if sys.argv[1:2] == ["--paths"]:
        faults = [fault for folder in sys.argv[2:] for fault in path_faults(folder)]
        print(*faults, sep="\n", end="\n" if faults else "")
        return int(bool(faults))
    if sys.argv[1:2] == ["--write-registers"]:
        return write_registers()
    checks = (*CHECKS, headers) if "--headers" in sys.argv[1:] else CHECKS
    failed = 0
    for check in checks:
        faults = list(check())
        failed += bool(faults)
        if faults:
            print(check.__doc__, *faults, sep="\n  ")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
