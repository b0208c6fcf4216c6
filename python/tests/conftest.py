"""What the tests share. They run on the device of LEAT_DEVICE, which is cpu:0 unless it is set."""

import ctypes
import faulthandler
import os
import threading
import time

os.environ.setdefault("LEAT_DEVICE", "cpu:0")
import pytest

import pyleat
from pyleat import _c, _hold

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def pytest_configure(config):
    """End a run that hangs, and print where it does, past pytest's capturing."""
    global _real_stderr
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        _real_stderr = os.fdopen(os.dup(2), "w")
    seconds = float(os.environ.get("PYLEAT_TEST_SECONDS", "300"))
    faulthandler.dump_traceback_later(seconds, exit=True, file=_real_stderr)


class Gate:
    """Holds up a stream until open(), so that a test can say what runs before what."""

    def __init__(self, stream):
        self._opened = threading.Event()
        self._reached = threading.Event()
        self._stream = stream

        def wait(_):
            self._reached.set()
            self._opened.wait(120)

        self._function = HOST_FUNCTION(wait)
        launch = _c.leat.leat_launch_host
        launch.argtypes = (ctypes.c_void_p, HOST_FUNCTION, ctypes.c_void_p)
        assert launch(stream._handle, self._function, None) == 0
        assert self._reached.wait(60)

    def open(self):
        self._opened.set()

    def open_later(self, seconds=0.05):
        """Open the gate from another thread, which needs the interpreter's lock for that."""
        threading.Timer(seconds, self.open).start()


def load_kernels(dst, src):
    """Copy once before a gate is there. CUDA loads a kernel at its first launch, and then waits for all work of the
    device, also for gates."""
    pyleat.copy(dst, src)
    dst.stream.synchronize()


def becomes_done(stream, seconds=60):
    """Wait until the stream has no work left, and return if that happened. Unlike synchronize(), it gives up."""
    end = time.monotonic() + seconds
    while not stream.done and time.monotonic() < end:
        time.sleep(0.001)
    return stream.done


@pytest.fixture
def gate():
    """Return a function that makes a gate on a stream. All gates are open at the end of the test."""
    made = []

    def make(stream):
        made.append(Gate(stream))
        return made[-1]

    yield make
    for one in made:
        one.open()
    for one in made:
        one._stream.synchronize()


@pytest.fixture
def nothing_running():
    """Fail if tickets are left over whose work is over."""
    yield
    pyleat.device().synchronize()
    assert _hold.running() == 0
