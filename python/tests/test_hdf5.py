"""Datasets of h5py: mapped where they lie in one piece, and read where the file holds other elements than NumPy."""

import numpy as np
import oracle
import pytest
import vicinal

h5py = pytest.importorskip("h5py", reason="h5py is not installed: not run")


def test_hdf5_datasets(small, tmp_path):
    corpus, queries = small
    expected = vicinal.knn(corpus, queries, 5)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        whole = file.create_dataset("whole", data=corpus)
        chunked = file.create_dataset("chunked", data=corpus, chunks=(7, 37), compression="gzip")
        for dataset, copied in ((whole, 0), (chunked, corpus.nbytes)):
            result = vicinal.knn(dataset, queries, 5)
            assert oracle.same_bits(result.ids, expected.ids) and result.stats.copied_bytes == copied
    with h5py.File(tmp_path / "x.h5") as file:
        prepared = vicinal.Corpus(file["whole"])
    assert oracle.same_bits(prepared.knn(queries, 5).ids, expected.ids)  # the map outlives the file object
    h5py.File(tmp_path / "x.h5", "r+").close()  # and keeps no lock


def test_hdf5_datasets_of_types_that_h5py_converts(tmp_path):
    """The bytes of the file are no elements of the type that h5py gives: they are read, all others mapped."""
    rows = (np.arange(320).reshape(80, 4) % 7).astype(np.float32)
    bfloat16, three_bytes = h5py.h5t.IEEE_F32LE.copy(), h5py.h5t.IEEE_F32LE.copy()
    bfloat16.set_fields(15, 7, 8, 0, 7)
    three_bytes.set_fields(23, 15, 8, 0, 15)
    shifted, narrow = h5py.h5t.NATIVE_INT32.copy(), h5py.h5t.NATIVE_UINT16.copy()
    for kind, bits, offset in ((bfloat16, 16, 0), (three_bytes, 24, 0), (shifted, 16, 8), (narrow, 12, 4)):
        if kind in (bfloat16, three_bytes):
            kind.set_size(bits // 8)
        kind.set_precision(bits)
        kind.set_offset(offset)
    odd = {"bfloat16": bfloat16, "three_bytes": three_bytes, "shifted": shifted, "narrow": narrow}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, kind in odd.items():
            given = np.ascontiguousarray(rows, np.float32 if name in ("bfloat16", "three_bytes") else np.int32)
            space = h5py.h5s.create_simple(rows.shape)
            h5py.h5d.create(file.id, name.encode(), kind, space).write(h5py.h5s.ALL, h5py.h5s.ALL, given)
        for name in ("f2", "f4", "f8", "i1", "u1", ">f4", ">f8"):
            file[name] = rows.astype(name)
        file["bool"] = rows > 3
        file.create_dataset("enum", data=rows.astype("u1"), dtype=h5py.enum_dtype({"a": 0, "b": 1}, "u1"))
    with h5py.File(tmp_path / "x.h5") as file:
        for name, dataset in file.items():
            found, expected = vicinal.knn(dataset, rows[:3], 5), vicinal.knn(dataset[...], rows[:3], 5)
            assert oracle.same_bits(found.ids, expected.ids) and oracle.same_bits(found.distances, expected.distances), name
            assert (found.stats.copied_bytes == 0) == (name not in (*odd, "bool", "enum")), name


def test_hdf5_datasets_are_read_from_the_open_file(small, tmp_path, monkeypatch):
    """By its name another file could be read: after chdir, or when the file was replaced."""
    corpus, queries = small
    for folder, rows in (("here", corpus), ("there", -corpus)):
        (tmp_path / folder).mkdir()
        with h5py.File(tmp_path / folder / "x.h5", "w") as file:
            file["rows"] = rows
    expected = vicinal.knn(corpus, queries, 5)
    monkeypatch.chdir(tmp_path / "here")
    with h5py.File("x.h5") as file:
        for change in (monkeypatch.chdir, lambda there: (there / "x.h5").replace(tmp_path / "here/x.h5")):
            change(tmp_path / "there")
            result = vicinal.knn(file["rows"], queries, 5)
            assert oracle.same_bits(result.distances, expected.distances) and result.stats.copied_bytes == 0
