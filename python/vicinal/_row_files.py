"""Files of rows as a distributed search uses them: facts from the header alone, and any run of rows opened where a task runs.

Rows of npy, fbin, f16bin, u8bin, i8bin, fvecs, bvecs, HDF5 and saved corpora are mapped or read by offset, so that each worker touches its own
part alone; of Parquet the row groups are read that hold the rows. What remains (text, idx, mtx, npz) is converted by the command of
this package, once a task, and is meant for small files.
"""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import _frames, _inputs, _tables
from .errors import FormatError, InvalidArgument, IoError, Unsupported, VersionError

_BIN = {".fbin": "<f4", ".f16bin": "<f2", ".hbin": "<f2", ".u8bin": "u1", ".i8bin": "i1"}
_VECS = {".fvecs": "<f4", ".bvecs": "u1"}
_CONVERTED = (".csv", ".tsv", ".idx", ".mtx", ".npz")
_SAVED = ("<f4", "<f8", "<f2", None, "u1", "i1")  # element types of a .vicinal file by their number; bfloat16 is none of NumPy's
SUFFIXES = (".npy", *_BIN, *_VECS, ".parquet", ".hdf5", ".h5", ".vicinal", *_CONVERTED)


@dataclass(frozen=True)
class RowFile:
    """A file of `rows` x `columns` elements of `dtype`, of which nothing but the header was read.

    names: columns of a Parquet file that are the rows (one of lists, or numbers), or the dataset of an HDF5 file.
    offset: bytes before the first element, where elements lie row-major in the file. stride: bytes from row to row.
    """

    path: str
    rows: int
    columns: int
    dtype: str
    names: tuple[str, ...] = ()
    offset: int | None = None
    stride: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns

    def read(self, first: int = 0, last: int | None = None) -> np.ndarray:
        """Rows `first` to `last` (exclusive) as an array, mapped where the format allows it.

        Raises
        ------
        IoError, FormatError
            The system refuses the file; it is not what it was when it was described.
        """
        last = self.rows if last is None else last
        if not 0 <= first <= last <= self.rows:
            raise InvalidArgument(f"{self.path}: rows {first} to {last} of {self.rows}")
        suffix = Path(self.path).suffix.lower()
        try:
            if self.offset is not None:
                return self._mapped(first, last)
            if suffix == ".npy":
                return np.lib.format.open_memmap(self.path, mode="r")[first:last]
            if suffix == ".parquet":
                return _parquet_rows(self, first, last)
            if suffix in (".hdf5", ".h5"):
                return _hdf5(self.path, self.names)[first:last]
        except OSError as error:
            raise _refused(self.path, error) from error
        return _converted(self.path)[first:last]

    def read_into(self, out: np.ndarray, first: int) -> None:
        """Fills `out` with the rows from `first` on: bytes of the file where they lie as in `out`, without a map."""
        if self.offset is None or self.stride != self.columns * np.dtype(self.dtype).itemsize or out.dtype != np.dtype(self.dtype):
            out[:] = self.read(first, first + len(out))
            return
        try:
            with open(self.path, "rb", buffering=0) as file:
                file.seek(self.offset + first * self.stride)
                room, done = out.reshape(-1).view(np.uint8).data, 0
                while done < len(room):
                    count = file.readinto(room[done:])
                    if not count:
                        raise FormatError(f"{self.path}: ends within row {first + done // self.stride} of {self.rows}")
                    done += count
        except OSError as error:
            raise _refused(self.path, error) from error

    def _mapped(self, first: int, last: int) -> np.ndarray:
        kind = np.dtype(self.dtype)
        if first == last or self.columns == 0:
            return np.empty((last - first, self.columns), kind)
        whole = np.memmap(self.path, np.uint8, "r", (self.offset or 0) + first * self.stride, ((last - first) * self.stride,))
        head = self.stride - self.columns * kind.itemsize
        if head:  # of .fvecs and .bvecs: the row's own number of columns, which describe looked at in row 0 alone
            widths = np.ndarray(last - first, "<i4", whole, 0, self.stride)
            for row in np.flatnonzero(widths != self.columns)[:1]:
                raise FormatError(f"{self.path}: row {first + row} has d={widths[row]}, expected {self.columns}")
        return np.ndarray((last - first, self.columns), kind, whole, head, (self.stride, kind.itemsize))


def describe(path: Any, names: Any = None) -> RowFile:
    """What the header of a file of rows says of it.

    Parameters
    ----------
    path : str, bytes or os.PathLike
        By suffix, as :data:`SUFFIXES` lists them; ``FILE.hdf5:NAME`` is a dataset.
    names : str or sequence of str, optional
        Of a Parquet file: the column of lists, or the columns of numbers. None: the one column of lists, or all columns.

    Raises
    ------
    IoError, FormatError, Unsupported, VersionError, InvalidArgument
        The last of rows without columns.
    """
    text = os.fsdecode(_inputs.path_bytes(path))
    head, colon, dataset = text.rpartition(":")
    if colon and Path(head).suffix.lower() in (".hdf5", ".h5"):
        text, names = head, dataset
    wanted = (names,) if isinstance(names, str) else tuple(names or ())
    suffix = Path(text).suffix.lower()
    if suffix not in SUFFIXES:
        raise Unsupported(f"{text}: no rows are read from {suffix or 'a file without a suffix'} by parts; known are {' '.join(SUFFIXES)}")
    try:
        found = _described(text, suffix, wanted)
    except OSError as error:
        raise _refused(text, error) from error
    if not found.columns and found.rows:
        raise InvalidArgument(f"{text}: dimension is 0, of shape {found.shape}; a row has a column at least")
    return found


def _described(path: str, suffix: str, names: tuple[str, ...]) -> RowFile:
    if suffix == ".parquet":
        return _parquet(path, names)
    if suffix in (".hdf5", ".h5"):
        found = _hdf5(path, names)
        return RowFile(path, found.shape[0], found.shape[1], found.dtype.str, names)
    if suffix == ".npy":
        try:
            array = np.lib.format.open_memmap(path, mode="r")
        except ValueError as error:
            raise FormatError(f"{path}: {error}") from error
        if array.ndim != 2:
            raise FormatError(f"{path}: rows have 2 dimensions, the array has shape {array.shape}")
        dense = isinstance(array, np.memmap) and array.flags.c_contiguous
        where = ((), array.offset, array.shape[1] * array.itemsize) if dense else ()
        return RowFile(path, array.shape[0], array.shape[1], array.dtype.str, *where)
    if suffix in _CONVERTED:
        rows = _converted(path)
        return RowFile(path, rows.shape[0], rows.shape[1], rows.dtype.str)
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        head = file.read(384)
    if suffix in _BIN:
        return _bin(path, _enough(path, head, 8), size, _BIN[suffix])
    if suffix in _VECS:
        return _vecs(path, _enough(path, head, 4), size, _VECS[suffix])
    return _saved(path, _enough(path, head, 320), size)


def _bin(path: str, head: bytes, size: int, dtype: str) -> RowFile:
    """Counts of 32 bits, or of 64: the length of the file says which, as in src/io/bin.cpp."""
    kind, readings = np.dtype(dtype), []
    for form, offset in (("<II", 8), ("<QQ", 16)):
        if size >= offset:
            rows, columns = struct.unpack(form, head[:offset])
            need = offset + rows * columns * kind.itemsize
            if need == size:
                return RowFile(path, rows, columns, dtype, (), offset, columns * kind.itemsize)
            told = need if need < 1 << 63 else "more than 2^63"
            readings.append(f"n={rows} and d={columns} of {kind.name} needs {told} bytes")
    readings[0] += f", the file has {size}"
    raise FormatError(f"{path}: {'; a header of 64-bit counts: '.join(readings)}")


def _vecs(path: str, head: bytes, size: int, dtype: str) -> RowFile:
    """By the number of columns that row 0 has; that of the others is looked at when they are read."""
    columns = struct.unpack("<i", head[:4])[0]
    stride, name = 4 + columns * np.dtype(dtype).itemsize, Path(path).suffix.lower()[1:]
    if columns < 0:
        raise FormatError(f"{path}: not a {name} file: row 0 has d={columns}")
    if size % stride:
        raise FormatError(f"{path}: d={columns} makes rows of {stride} bytes, the file has {size}: "
                          f"truncated, or not {name}")  # fmt: skip
    return RowFile(path, size // stride, columns, dtype, (), 0, stride)


def _saved(path: str, head: bytes, size: int) -> RowFile:
    """A saved corpus (docs/file-format.md), by its header, whose checksum is verified; Corpus.open verifies those of the rows, too."""
    if head[:8] != b"\x89VIC\r\n\x1a\n":
        raise FormatError(f"{path}: no saved corpus")
    if _crc32c(head[:252]) != struct.unpack("<I", head[252:256])[0]:
        raise FormatError(f"{path}: header: checksum differs")
    major, minor, kind, semantics = struct.unpack("<HHII", head[8:20])
    if major > 1 or semantics > 1:
        raise VersionError(f"{path}: file format {major}.{minor} of semantics version {semantics}, this build reads 1 of 1")
    if (major, semantics, kind) != (1, 1, 1):
        raise FormatError(f"{path}: no saved corpus")
    element, (rows, columns) = head[20], struct.unpack("<QQ", head[24:40])
    dtype = _SAVED[element] if element < len(_SAVED) else None
    if dtype is None:
        raise Unsupported(f"{path}: rows of element type {element} are read by Corpus.open alone")
    offset = struct.unpack("<Q", head[264:272])[0]
    stride = columns * np.dtype(dtype).itemsize
    need = offset + rows * stride
    if need > size:
        raise FormatError(f"{path}: the header says {rows} rows of {columns} columns, {need} bytes; "
                          f"the file has {size}")  # fmt: skip
    return RowFile(path, rows, columns, dtype, (), offset, stride)


def _crc32c(data: bytes) -> int:
    """Of RFC 3720, bit by bit: for some hundred bytes."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


def _enough(path: str, head: bytes, count: int) -> bytes:
    if len(head) < count:
        begins = f"first bytes {head[:6].hex(' ').upper()}" if head else "the file is empty"
        raise FormatError(f"{path}: not a {Path(path).suffix.lower()[1:]} file ({begins})")
    return head


def _refused(path: str, error: OSError) -> IoError | FormatError:
    if isinstance(error, IoError):
        return error
    if error.errno is None:  # of libhdf5: the system gave it all that it asked for
        return FormatError(f"{path}: {error}")
    return IoError(error.errno, f"{path}: {error.strerror or error}")


def _parquet_file(path: str) -> Any:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError as error:
        raise ImportError("rows of Parquet are read by pyarrow (pip install pyarrow)") from error
    try:
        return parquet.ParquetFile(path)
    except ArrowInvalid as error:
        raise FormatError(f"{path}: {error}") from error


def _parquet(path: str, names: tuple[str, ...]) -> RowFile:
    file = _parquet_file(path)
    schema = file.schema_arrow
    if not names:
        lists = [field.name for field in schema if str(field.type).startswith(("list<", "large_list<", "fixed_size_list<"))]
        if len(lists) > 1:
            raise InvalidArgument(f"{path}: columns {', '.join(lists)} hold lists; say which are the rows")
        names = tuple(lists or schema.names)
    absent = [name for name in names if name not in schema.names]
    if absent:
        raise InvalidArgument(f"{path} has no column {absent[0]!r}; it has {', '.join(schema.names)}")
    first = next(file.iter_batches(1, columns=list(names)), None)
    if first is None:
        return RowFile(path, 0, 0, "<f4", names)
    rows = _array_of(first, names, path)
    return RowFile(path, file.metadata.num_rows, rows.shape[1], rows.dtype.str, names)


def _array_of(table: Any, names: tuple[str, ...], path: str) -> np.ndarray:
    import pyarrow

    whole = table if isinstance(table, pyarrow.Table) else pyarrow.Table.from_batches([table])
    whole = whole.select(list(names))
    found = _frames.array(whole, path) or _tables.array(whole, path)
    if found is None:  # one column of numbers
        column = whole.column(0).to_numpy()
        return column.reshape(-1, 1)
    return found[0]


def _parquet_rows(file: RowFile, first: int, last: int) -> np.ndarray:
    """The rows, from the row groups that hold them."""
    source = _parquet_file(file.path)
    starts = np.cumsum([0, *(source.metadata.row_group(group).num_rows for group in range(source.num_row_groups))])
    groups = [group for group in range(source.num_row_groups) if starts[group] < last and starts[group + 1] > first]
    if not groups or first == last:
        return np.empty((0, file.columns), np.dtype(file.dtype))
    table = source.read_row_groups(groups, columns=list(file.names))
    rows = _array_of(table.slice(first - int(starts[groups[0]]), last - first), file.names, file.path)
    if rows.shape[1] != file.columns:
        raise InvalidArgument(f"{file.path}: row {first} has {rows.shape[1]} values, row 0 has {file.columns}")
    return rows


def _hdf5(path: str, names: tuple[str, ...]) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError("rows of HDF5 are read by h5py (pip install h5py)") from error
    file = h5py.File(path, "r")
    if len(names) != 1 or names[0] not in file:
        raise InvalidArgument(f"{path}: which of its datasets? PATH:NAME, of {', '.join(file)}")
    found = file[names[0]]
    shape = getattr(found, "shape", None)  # a group has none
    if shape is None or len(shape) != 2:
        what = "no dataset of rows" if shape is None else f"of shape {shape}"
        raise FormatError(f"{path}: rows have 2 dimensions, {names[0]!r} is {what}")
    return found


def _converted(path: str) -> np.ndarray:
    """Rows of the formats that the command reads, through a file of its making."""
    command = Path(__file__).parent / "bin" / "vicinal"
    if not command.exists():
        raise Unsupported(f"{path}: this build of the package has no command, which converts such files; give .npy or .fbin")
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "rows.npy")
        done = subprocess.run([command, "convert", "--as", "rows", path, target], capture_output=True, text=True)
        if done.returncode:
            raise FormatError(done.stderr.strip().removeprefix("vicinal: error "))
        return np.load(target)


@dataclass(frozen=True)
class RowSlice:
    """Rows `first` to `last` (exclusive) of a file, as a task takes them: a few words that are opened where it runs."""

    file: RowFile
    first: int
    last: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.last - self.first, self.file.columns

    def read(self) -> np.ndarray:
        return self.file.read(self.first, self.last)
