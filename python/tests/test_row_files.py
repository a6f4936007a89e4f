"""Files of rows as a distributed search opens them: by their headers, and any run of rows."""

import pickle
from pathlib import Path

import numpy as np
import oracle
import pytest
import vicinal
from vicinal import _row_files, distributed


def written(path, rows):
    kind = path.suffix
    if kind == ".npy":
        np.save(path, rows)
    elif kind in (".fbin", ".u8bin"):
        path.write_bytes(np.array(rows.shape, "<u4").tobytes() + rows.tobytes())
    elif kind == ".fvecs":
        path.write_bytes(b"".join(np.array([rows.shape[1]], "<i4").tobytes() + row.tobytes() for row in rows))
    elif kind == ".bvecs":
        path.write_bytes(b"".join(np.array([rows.shape[1]], "<i4").tobytes() + row.tobytes() for row in rows))
    elif kind == ".vicinal":
        vicinal.Corpus(rows).save(path)
    elif kind == ".csv":
        np.savetxt(path, rows, delimiter=",")
    elif kind == ".hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["train"] = rows
    elif kind == ".parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        lists = arrow.FixedSizeListArray.from_arrays(arrow.array(rows.ravel()), rows.shape[1])
        parquet.write_table(arrow.table({"id": np.arange(len(rows)), "vector": lists}), path, row_group_size=7)
    return f"{path}:train" if kind == ".hdf5" else path


@pytest.mark.parametrize("kind", ["npy", "fbin", "u8bin", "fvecs", "bvecs", "vicinal", "csv", "hdf5", "parquet"])
def test_files_are_opened_by_their_slices(kind, rng, tmp_path):
    rows = rng.integers(0, 200, (30, 5)).astype(np.uint8 if kind in ("u8bin", "bvecs") else np.float64 if kind == "csv" else np.float32)
    target = written(tmp_path / f"rows.{kind}", rows)
    if kind == "csv" and not (Path(vicinal.__file__).parent / "bin" / "vicinal").exists():
        pytest.skip("the package has no command")
    file = distributed.describe(target)
    assert file.shape == (30, 5) and np.dtype(file.dtype) == rows.dtype
    for first, last in ((0, 30), (4, 19), (29, 30), (7, 7)):
        assert (file.read(first, last) == rows[first:last]).all()
    piece = pickle.loads(pickle.dumps(distributed.RowSlice(file, 3, 20)))
    assert (distributed.rows([piece, rows[:2]]) == np.concatenate([rows[3:20], rows[:2]])).all()
    found, wanted = distributed.local(piece, rows[:4], 3, 2), vicinal.knn(rows[3:20], rows[:4], 2, first_id=3)
    assert oracle.same_bits(found.distances, wanted.distances) and oracle.same_bits(found.ids, wanted.ids)


def test_files_that_are_none(tmp_path):
    (tmp_path / "short.fbin").write_bytes(np.array([1000, 8], "<u4").tobytes())
    (tmp_path / "odd.fvecs").write_bytes(b"\x04\0\0\0abc")
    (tmp_path / "no.vicinal").write_bytes(b"x" * 400)
    np.save(tmp_path / "flat.npy", np.zeros(3))
    for name in ("short.fbin", "odd.fvecs", "no.vicinal", "flat.npy"):
        with pytest.raises(vicinal.FormatError, match=name):
            distributed.describe(tmp_path / name)
    (tmp_path / "long.fbin").write_bytes(np.array([1, 2], "<u4").tobytes() + bytes(20))
    said = r"long.fbin: n=1 and d=2 of float32 needs 16 bytes, the file has 28; a header of 64-bit counts: n="
    with pytest.raises(vicinal.FormatError, match=said):
        distributed.describe(tmp_path / "long.fbin")
    for name in ("empty.npy", "empty.fvecs", "empty.u8bin", "empty.vicinal"):
        (tmp_path / name).touch()
        with pytest.raises(vicinal.FormatError, match=name):
            distributed.describe(tmp_path / name)
    with pytest.raises(vicinal.IoError) as refused:
        distributed.describe(tmp_path / "gone.npy")
    assert refused.value.errno == 2
    with pytest.raises(vicinal.Unsupported, match=r"known are \.npy"):
        distributed.describe(tmp_path / "x.pdf")


def test_counts_of_64_bits(tmp_path):
    rows = np.arange(12, dtype="<f4").reshape(4, 3)
    (tmp_path / "x.fbin").write_bytes(np.array([4, 3], "<u8").tobytes() + rows.tobytes())
    (tmp_path / "x.hbin").write_bytes(np.array([4, 3], "<u4").tobytes() + rows.astype("<f2").tobytes())
    for name in ("x.fbin", "x.hbin"):
        file = distributed.describe(tmp_path / name)
        assert file.shape == (4, 3) and (file.read(1, 3) == rows[1:3]).all()


def test_rows_of_other_widths_in_one_file(tmp_path):
    """Of such a length that the first row's width fits it: who reads the row notices."""
    rows = [np.zeros(4, "<f4"), np.zeros(3, "<f4"), np.zeros(5, "<f4")]
    (tmp_path / "x.fvecs").write_bytes(b"".join(np.array([len(row)], "<i4").tobytes() + row.tobytes() for row in rows))
    file = distributed.describe(tmp_path / "x.fvecs")
    assert file.read(0, 1).shape == (1, 4)
    with pytest.raises(vicinal.FormatError, match=r"x.fvecs: row 1 has d=3, expected 4"):
        file.read()


def test_datasets_that_are_no_rows(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["flat"], file["nothing"] = np.zeros(3), h5py.Empty("f4")
        file.create_group("group")
    for name in ("flat", "nothing", "group"):
        with pytest.raises(vicinal.FormatError, match=f"rows have 2 dimensions, '{name}' is"):
            distributed.describe(f"{tmp_path}/x.h5:{name}")
    (tmp_path / "bad.h5").write_bytes(b"x" * 100)
    with pytest.raises(vicinal.FormatError, match="bad.h5"):
        distributed.describe(f"{tmp_path}/bad.h5:rows")


def test_a_parquet_file_that_is_none(tmp_path):
    pytest.importorskip("pyarrow.parquet")
    (tmp_path / "x.parquet").write_bytes(b"x" * 100)
    with pytest.raises(vicinal.FormatError, match="x.parquet"):
        distributed.describe(tmp_path / "x.parquet")


def test_a_saved_corpus_of_another_kind(tmp_path):
    """Its header has a checksum and two versions, as Corpus.open reads them."""
    vicinal.Corpus(np.zeros((40, 8), np.float32)).save(tmp_path / "x.vicinal")
    good = (tmp_path / "x.vicinal").read_bytes()
    assert distributed.describe(tmp_path / "x.vicinal").shape == (40, 8)
    vicinal.PermutationIndex(np.zeros((40, 8), np.float32), permutants=4).save(tmp_path / "index.vicinal")
    with pytest.raises(vicinal.FormatError, match="no saved corpus"):
        distributed.describe(tmp_path / "index.vicinal")
    for at, value, kind, said in ((24, 20, vicinal.FormatError, "header: checksum differs"), (8, 2, vicinal.VersionError, "file format 2.0"),
                                  (16, 2, vicinal.VersionError, "semantics version 2")):  # fmt: skip
        changed = bytearray(good)
        changed[at] = value
        if kind is vicinal.VersionError:
            changed[252:256] = _row_files._crc32c(bytes(changed[:252])).to_bytes(4, "little")
        (tmp_path / "x.vicinal").write_bytes(changed)
        for read in (distributed.describe, vicinal.Corpus.open):
            with pytest.raises(kind, match=said):
                read(tmp_path / "x.vicinal")
    assert _row_files._crc32c(b"123456789") == 0xE3069283


def test_files_of_rows_without_columns(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((5, 0), np.float32))
    (tmp_path / "x.fbin").write_bytes(np.array([5, 0], "<u4").tobytes())
    (tmp_path / "x.fvecs").write_bytes(bytes(20))
    for name in ("x.npy", "x.fbin", "x.fvecs"):
        with pytest.raises(vicinal.InvalidArgument, match=rf"{name}: dimension is 0, of shape \(5, 0\)"):
            distributed.describe(tmp_path / name)
