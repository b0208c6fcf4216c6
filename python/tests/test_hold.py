"""What keeps tickets and exports, and lets them go: without a lock that a finalizer could need."""

import gc
import threading
import weakref

import numpy as np
import pytest

import pyleat
from pyleat import _copy, _dlpack, _files, _hold, _models


def host_array():
    return pyleat.zeros(64, "uint8", kind="pinned")


class Watch:
    """Notes whether a sweep holds its lock while this object's finalizer runs."""

    seen = []

    def __del__(self):
        self.seen.append(_dlpack._sweeping.locked())


def test_exports_are_dropped_outside_the_lock():
    x = host_array()
    view = np.from_dlpack(x)
    list(_dlpack._exports.values())[-1].watch = Watch()
    Watch.seen.clear()
    del view
    _dlpack.sweep()
    assert Watch.seen == [False]


def test_nobody_waits_for_a_sweep():
    x = host_array()
    view = np.from_dlpack(x)
    with _dlpack._sweeping:
        del view
        done = []

        def run():
            _hold.reap(4)
            gc.collect()
            x.__dlpack__()
            done.append(True)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(30)
        assert done
    before = len(_dlpack._exports)
    _dlpack.sweep(True)
    assert len(_dlpack._exports) < before


class Other:
    def __init__(self, over):
        self.over = over

    def _poll(self):
        if self.over is None:
            raise KeyboardInterrupt
        return self.over


def test_a_ticket_whose_poll_is_interrupted_stays():
    ticket = Other(None)
    _hold.keep(ticket)
    with pytest.raises(KeyboardInterrupt):
        _hold.reap(100)
    assert _hold._running[id(ticket)] is ticket
    ticket.over = True
    _hold.reap(100)
    assert id(ticket) not in _hold._running


def test_all_tickets_have_their_turn():
    pyleat.device().synchronize()
    _hold.reap(100)
    waiting = [Other(False) for _ in range(50)]
    for ticket in waiting:
        _hold.keep(ticket)
    waiting[40].over = True
    for _ in range(20):
        _hold.reap(4)
    assert id(waiting[40]) not in _hold._running
    for ticket in waiting:
        ticket.over = True
    assert _hold.running() == 0


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "module, name, start",
    [
        (_copy, "Ticket", lambda x, host, path: pyleat.copy_start(x, host)),
        (_copy, "_EventTicket", lambda x, host, path: pyleat.copy_start(x.reshape(8, 8).T, host.reshape(8, 8))),
        (_copy, "_settle_strided", lambda x, host, path: pyleat.copy(x.reshape(8, 8).T, host.reshape(8, 8))),
        (_files, "Ticket", lambda x, host, path: pyleat.File(path, "w").write_start(host, stream=x.stream)),
        (_models, "_Save", lambda x, host, path: pyleat.save_start(path, {"a": host}, stream=x.stream)),
    ],
)
def test_an_interrupted_start_keeps_its_memory(module, name, start, monkeypatch, tmp_path):
    x = pyleat.zeros(64, "uint8")
    host = np.full(64, 3, np.uint8)
    alive = weakref.ref(host)
    monkeypatch.setattr(module, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(x, host, tmp_path / "file.safetensors")
    del host
    gc.collect()
    assert alive() is not None
    x.stream.synchronize()
    _hold._starting.clear()


def test_a_start_that_fails_keeps_nothing(tmp_path):
    x = pyleat.zeros(64, "uint8")
    with pyleat.File(tmp_path / "file", "w") as file, pytest.raises(pyleat.Error):
        file.read_start(x)
    pyleat.copy_start(x, np.zeros(64, np.uint8)).wait()
    assert not _hold._starting
