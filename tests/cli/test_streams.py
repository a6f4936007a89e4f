"""Signals, terminals and pipes: what a user's shell sees while the command works and when it is stopped."""

import os
import pty
import select
import signal
import subprocess
import threading
import time

import numpy as np
import pytest
from conftest import COMMAND, ERROR_LINE

STATUS = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}


@pytest.fixture(scope="module")
def long_job(tmp_path_factory):
    """Arguments of a search that takes many seconds on any machine."""
    folder = tmp_path_factory.mktemp("long")
    rng = np.random.default_rng(3)
    np.save(folder / "c.npy", rng.random((120000, 256), dtype=np.float32))
    np.save(folder / "q.npy", rng.random((60000, 256), dtype=np.float32))
    yield [COMMAND, "knn", folder / "c.npy", folder / "q.npy", "-k", "10", "-o", folder / "out.npz"]
    for path in folder.iterdir():
        path.unlink()


class Terminal:
    """A process whose stderr is a terminal, and what it has written there."""

    def __init__(self, words, env=None):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=slave,
                                        env={**os.environ, "TERM": "xterm", **(env or {})})
        os.close(slave)
        self.text = ""

    def read_until(self, word, limit=60):
        end = time.monotonic() + limit
        while word not in self.text and time.monotonic() < end:
            if select.select([self.master], [], [], 0.05)[0] and not self.take():
                break
        assert word in self.text, self.text

    def take(self):
        try:
            piece = os.read(self.master, 65536).decode()
        except OSError:  # the other end is closed
            return False
        self.text += piece
        return bool(piece)

    def finish(self):
        while self.take():
            pass
        out = self.process.communicate()[0]
        os.close(self.master)
        return out


def stop_in_the_middle(long_job, number):
    """Seconds from the signal to the end, and all that stderr showed."""
    terminal = Terminal(long_job)
    terminal.read_until(" left")
    sent = time.monotonic()
    terminal.process.send_signal(number)
    terminal.process.wait(60)
    took = time.monotonic() - sent
    assert terminal.finish() == b""
    return took, terminal.process.returncode, terminal.text


@pytest.mark.parametrize("number", STATUS)
def test_a_signal_stops_the_search(long_job, number):
    """Within half a second in the best of five tries: other work on the machine may delay any one of them."""
    status, word = STATUS[number]
    folder = long_job[2].parent
    times = []
    for _ in range(5):
        took, returncode, text = stop_in_the_middle(long_job, number)
        assert returncode == status
        bar, line = text.rsplit("\x1b[K", 1)
        assert bar.endswith("\r") and line == f"vicinal: error [Cancelled]: {word}\r\n"
        assert sorted(path.name for path in folder.iterdir()) == ["c.npy", "q.npy"]
        times.append(took)
        if took < 0.5:
            return
    pytest.fail(f"stopped after {times} seconds")


def test_a_signal_while_writing_leaves_no_temporary(tmp_path):
    """200 MB of result: the temporary is seen, the signal is sent, and it is gone."""
    rng = np.random.default_rng(3)
    np.save(tmp_path / "c.npy", rng.random((800, 4), dtype=np.float32))
    np.save(tmp_path / "q.npy", rng.random((20000, 4), dtype=np.float32))
    words = [COMMAND, "knn", tmp_path / "c.npy", tmp_path / "q.npy", "-k", "800", "-o", tmp_path / "out.npz"]
    for _ in range(5):  # a fast disk may win the race
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            while process.poll() is None and not list(tmp_path.glob("*.tmp.*")):
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert not list(tmp_path.glob("*.tmp.*"))
        if process.returncode == 130:
            assert ERROR_LINE.match(err.decode())[1] == "Cancelled" and out == b""
            assert not (tmp_path / "out.npz").exists()
            return
        assert process.returncode == 0 and np.load(tmp_path / "out.npz")["ids"].shape == (20000, 800)
        (tmp_path / "out.npz").unlink()
    pytest.fail("never caught the command writing")


@pytest.mark.parametrize("number", STATUS)
def test_a_reader_that_takes_its_time_keeps_no_folder(number, tmp_path):
    """What is sent has no name any more. It is so much that the signal comes before the end of it."""
    np.save(tmp_path / "x.npy", np.random.default_rng(3).random((400000, 8)))
    folder = tmp_path / "temporary"
    folder.mkdir()
    words = [COMMAND, "convert", tmp_path / "x.npy", "-"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder)}) as process:
        assert process.stdout.read(1)
        assert not os.listdir(folder)
        process.send_signal(number)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == STATUS[number][0] and ERROR_LINE.match(err.decode())[1] == "Cancelled"


@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize("words", [("-", "out.npy"), ("x.csv", "npy:-")])
def test_a_signal_removes_the_folder_of_a_stream(words, number, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    line = ",".join(["0.123456789"] * 100) + "\n"
    (tmp_path / "x.csv").write_text(line * 40000)
    for _ in range(5):  # a fast machine may win the race
        with open(tmp_path / "x.csv") as rows, subprocess.Popen(
            [COMMAND, "convert", *words], stdin=rows, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env={**os.environ, "TMPDIR": str(folder)}
        ) as process:
            while process.poll() is None and not list(folder.glob("vicinal-*/*" if words[0] == "-" else "vicinal-*")):
                time.sleep(0.001)
            time.sleep(0.01)
            process.send_signal(number)
            process.communicate(timeout=60)
        assert not os.listdir(folder)
        if process.returncode == STATUS[number][0]:
            return
    pytest.fail("never caught the command reading")


def test_an_ignored_sigint_stays_ignored(data):
    """As in a shell's background job."""
    words = [COMMAND, "knn", *data.pair, "-k", "3"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err == b"" and b"certified" in out


@pytest.mark.parametrize("env, coloured", [({}, True), ({"NO_COLOR": "1"}, False)])
def test_the_bar_on_a_terminal(long_job, env, coloured):
    terminal = Terminal(long_job, env)
    terminal.read_until(" left")
    terminal.process.send_signal(signal.SIGINT)
    terminal.finish()
    assert terminal.text.startswith("\rknn") and " % " in terminal.text and "[" in terminal.text
    assert ("\x1b[36m" in terminal.text) is coloured


def stderr_after(words, seconds, **options):
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    timer = threading.Timer(seconds, process.send_signal, [signal.SIGINT])
    timer.start()
    err = process.communicate(timeout=60)[1]
    timer.cancel()
    return err.decode()


def test_no_bar_without_a_terminal(long_job):
    assert stderr_after(long_job, 1.5) == "vicinal: error [Cancelled]: interrupted\n"


def test_no_bar_on_a_dumb_terminal(long_job):
    terminal = Terminal(long_job, {"TERM": "dumb"})
    time.sleep(1.5)
    terminal.process.send_signal(signal.SIGINT)
    terminal.finish()
    assert terminal.text == "vicinal: error [Cancelled]: interrupted\r\n"


@pytest.mark.parametrize("arguments", [["--json"], []])
def test_a_reader_that_went_away_is_no_error(data, arguments):
    """As `vicinal knn ... | head -1`: the pipe is closed before anything is written."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([COMMAND, "knn", *data.pair, "-k", "300", *arguments], stdout=writing,
                          stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_head_in_a_real_pipe(data):
    line = f"set -o pipefail; '{COMMAND}' knn '{data.corpus_path}' '{data.queries_path}' -k 300 --json | head -c 10"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'{"schema":', b"")


def test_a_failed_verification_stays_failed_when_the_reader_went_away(data):
    np.save(data.path("bad.npy"), np.zeros((17, 2), np.int64))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([COMMAND, "verify", *data.pair, data.path("bad.npy")], stdout=writing,
                          stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_full_stdout_is_an_io_error(data):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([COMMAND, "knn", *data.pair, "-k", "3"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 4 and ERROR_LINE.match(done.stderr.decode())[1] == "IoError"
