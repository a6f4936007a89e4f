"""Inputs that another thread changes while they are read: undefined values or an error, never a crash."""

import threading

import numpy as np
import pytest
import test_strings
import vicinal
from test_lying_objects import WORDS


def while_changing(change, call, rounds=60):
    """Calls, while another thread changes what they read."""
    stop = threading.Event()

    def run():
        while not stop.is_set():
            change()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        for _ in range(rounds):
            try:
                call()
            except (vicinal.Error, TypeError):
                pass
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("holder", ["U", "S", "objects", "list", "arrow"])
def test_strings_that_change_while_they_are_read(holder):
    words = [word * 3 for word in WORDS] * 40
    rng = np.random.default_rng(9)
    if holder == "arrow":
        x = test_strings.Arrow([word.encode() for word in words])
        data = np.frombuffer(bytearray(x.data.tobytes()), np.uint8)
        x.data, x.buffers[2] = data, data.ctypes.data

        def change():
            data[rng.integers(0, len(data), 50)] = rng.integers(0, 256, 50)

        def call():
            fresh = test_strings.Arrow([word.encode() for word in words])
            fresh.buffers[2] = data.ctypes.data
            vicinal.knn(fresh, words[:3], 2, "levenshtein")
    else:
        x = np.array(words) if holder == "U" else np.array([word.encode() for word in words]) if holder == "S" else words
        x = test_strings.objects(x) if holder == "objects" else x

        def change():
            at = int(rng.integers(0, len(words)))
            x[at] = x[at - 1]
            if holder == "list" and len(x) < 300:
                x.append("more")
            elif holder == "list":
                x.pop()

        def call():
            vicinal.knn(x, x[:3], 2, "levenshtein")

    while_changing(change, call)


@pytest.mark.parametrize("dtype", ["int64", "uint16", "bool"])
def test_rows_that_change_while_they_are_converted(dtype):
    x = np.ones((3000, 32), dtype)
    rng = np.random.default_rng(9)
    labels, mask = np.zeros(3000, np.int64), np.ones(3000, bool)

    def change():
        x.view(np.uint8)[:, ::3] = rng.integers(0, 256)
        labels[::2], mask[::2] = rng.integers(0, 2, 2)

    while_changing(change, lambda: vicinal.knn(x, x[:9], 2, labels=(labels, labels[:9]), eligible=mask, pad=True), rounds=20)
    while_changing(change, lambda: vicinal.select_k(x.view(np.uint8), 3), rounds=20)
