"""Each wait that pyleat makes: without it, the test finds other bytes."""

import ctypes
import gc
import threading
import weakref

import numpy as np
from conftest import becomes_done, load_kernels

import pyleat
from pyleat import _c, _hold

BYTES = 1 << 20


def new(value, stream=None):
    x = pyleat.full(BYTES, value, "uint8", stream=stream)
    x.stream.synchronize()
    return x


def test_a_read_waits_for_the_write_of_another_stream(gate):
    a, b = pyleat.Stream(), pyleat.Stream()
    x, y = new(1, a), new(2, b)
    held = gate(a)
    x.fill(7)
    pyleat.copy(y, x, stream=b)
    held.open_later()
    assert (y.to_host(stream=b) == 7).all()


def test_a_write_waits_for_the_read_of_another_stream(gate):
    a, b = pyleat.Stream(), pyleat.Stream()
    x, y = new(1, a), new(2, b)
    held = gate(b)
    pyleat.copy(y, x, stream=b)
    x.fill(9, stream=a)
    assert not x.stream.done
    held.open_later()
    assert (y.to_host(stream=b) == 1).all()
    assert (x.to_host() == 9).all()


def test_a_write_waits_for_the_write_of_another_stream(gate):
    a, b = pyleat.Stream(), pyleat.Stream()
    x = new(1, a)
    held = gate(a)
    x.fill(2, stream=a)
    x.fill(3, stream=b)
    held.open_later()
    b.synchronize()
    a.synchronize()
    assert (x.to_host() == 3).all()


def test_views_share_the_order_of_their_memory(gate):
    a, b = pyleat.Stream(), pyleat.Stream()
    x, y = new(1, a), new(2, b)
    held = gate(a)
    x[10:].fill(7)
    pyleat.copy(y[5:], x[5:], stream=b)
    held.open_later()
    assert (y.to_host(stream=b)[10:] == 7).all()


def test_memory_is_not_reused_before_another_stream_has_read_it(gate):
    a, b = pyleat.Stream(), pyleat.Stream()
    x, y = new(1, a), new(2, b)
    ptr = x.ptr
    held = gate(b)
    pyleat.copy(y, x, stream=b)
    del x
    others = [new(5, a) for _ in range(4)]
    assert ptr not in [other.ptr for other in others]
    held.open()
    assert (y.to_host(stream=b) == 1).all()


def test_the_host_waits_before_it_sees_the_memory(gate):
    x = new(1)
    if not x.on_host:
        x = pyleat.zeros(BYTES, "uint8", kind="pinned")
    held = gate(x.stream)
    x.fill(7)
    held.open_later()
    assert (x.numpy() == 7).all()
    held = gate(x.stream)
    x.fill(8)
    held.open_later()
    assert (np.from_dlpack(x) == 8).all()


def test_the_host_waits_for_a_reading_stream_before_it_may_write(gate):
    a, b = pyleat.Stream(), pyleat.Stream()
    x = pyleat.full(BYTES, 1, "uint8", stream=a, kind="pinned")
    y = new(2, b)
    held = gate(b)
    pyleat.copy(y, x, stream=b)
    held.open_later()
    x.numpy()[:] = 9
    assert (y.to_host(stream=b) == 1).all()


def test_a_stream_waits_for_an_event_and_for_a_stream(gate):
    a, b = pyleat.Stream(), pyleat.Stream()
    held = gate(a)
    event = a.record()
    b.wait(event)
    assert not event.done
    assert not b.done
    held.open()
    b.synchronize()
    assert event.done
    held = gate(a)
    b.wait(a)
    assert not b.done
    held.open()
    b.synchronize()


class Meeting(pyleat.Stream):
    """A stream whose record() returns only when two threads have called it."""

    def record(self, event=None):
        result = super().record(event)
        self.barrier.wait(60)
        return result


def test_two_threads_wait_for_a_stream(gate):
    a, b, c = Meeting(), pyleat.Stream(), pyleat.Stream()
    a.barrier = threading.Barrier(2)
    held = gate(a)
    threads = [threading.Thread(target=one.wait, args=(a,)) for one in (b, c)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({event._handle for event in a._fences}) == 2
    assert not becomes_done(b, 0.05)
    assert not becomes_done(c, 0.05)
    held.open()
    b.synchronize()
    c.synchronize()


def test_a_file_is_read_after_the_write_of_another_stream(gate, tmp_path):
    a, b = pyleat.Stream(), pyleat.Stream()
    x, y = new(7, a), new(2, b)
    with pyleat.File(tmp_path / "file", "w+") as file:
        held = gate(a)
        file.write_start(x, stream=a)
        ticket = file.read_start(y, stream=b)
        assert not ticket.wait(0.02)
        held.open()
        ticket.wait()
    assert (y.to_host() == 7).all()


def test_a_commit_comes_after_the_writes_of_all_streams(gate, tmp_path):
    a, b = pyleat.Stream(), pyleat.Stream()
    x, y = new(7, a), new(8, b)
    path = tmp_path / "new"
    with pyleat.File(path, "new") as file:
        held = gate(a)
        file.write_start(x, 0, stream=a)
        file.write_start(y, BYTES, stream=b)
        ticket = file.commit_start()
        assert not ticket.wait(0.02)
        assert not path.exists()
        held.open()
        ticket.wait()
    data = np.fromfile(path, np.uint8)
    assert (data[:BYTES] == 7).all()
    assert (data[BYTES:] == 8).all()


def test_the_source_of_a_copy_lives_until_it_is_over(gate):
    x = new(1)
    source = np.full(BYTES, 3, np.uint8)
    alive = weakref.ref(source)
    held = gate(x.stream)
    ticket = pyleat.copy_start(x, source)
    del source
    gc.collect()
    assert alive() is not None
    held.open()
    ticket.wait()
    assert alive() is None
    assert (x.to_host() == 3).all()


def test_the_ends_of_a_copy_without_a_ticket_live_too(gate):
    x = new(1)
    target = np.zeros(BYTES, np.uint8)
    alive = weakref.ref(target)
    held = gate(x.stream)
    pyleat.copy_start(target, x)
    del target
    gc.collect()
    assert alive() is not None
    assert _hold.running() == 1
    held.open()
    x.stream.synchronize()
    assert _hold.running() == 0
    assert alive() is None


def test_a_copy_between_layouts_keeps_its_ends(gate):
    x = pyleat.zeros((1024, 512), "uint8")
    load_kernels(x, np.zeros((512, 1024), np.uint8).T)
    source = np.full((512, 1024), 3, np.uint8)
    alive = weakref.ref(source)
    held = gate(x.stream)
    ticket = pyleat.copy_start(x, source.T)
    del source
    assert not ticket.wait(0.02)
    assert alive() is not None
    held.open()
    assert ticket.wait(60)
    assert alive() is None
    assert (x.to_host() == 3).all()


def test_a_page_locked_source_lives_until_the_stream_has_read_it(gate):
    x = new(1)
    device = x.device
    whole = np.full(BYTES + 8192, 3, np.uint8)
    check = _c.leat.leat_register(device._handle, whole.ctypes.data, whole.nbytes)
    assert check == 0
    address = whole.ctypes.data
    try:
        view = whole[4096 : 4096 + BYTES]
        alive = weakref.ref(view)
        held = gate(x.stream)
        pyleat.copy(x, view)
        del view
        gc.collect()
        assert alive() is not None
        held.open()
        x.stream.synchronize()
        _hold.reap(100)
        assert alive() is None
        assert (x.to_host() == 3).all()
    finally:
        assert _c.leat.leat_unregister(address) == 0


def test_foreign_memory_lives_until_its_work_is_over(gate):
    source = np.full(BYTES, 3, np.uint8)
    alive = weakref.ref(source)
    x = new(1)
    wrapped = pyleat.asarray(source)
    assert wrapped.kind == "pageable"
    assert wrapped.ptr == source.ctypes.data
    held = gate(x.stream)
    ticket = pyleat.copy_start(x, wrapped)
    del wrapped, source
    gc.collect()
    assert alive() is not None
    held.open()
    ticket.wait()
    del ticket
    gc.collect()
    x.stream.synchronize()
    _hold.reap(100)
    assert alive() is None


def test_foreign_memory_lives_without_a_ticket(gate):
    x = pyleat.zeros((1024, 512), "uint8")
    load_kernels(x, np.zeros((512, 1024), np.uint8).T)
    source = np.full((512, 1024), 3, np.uint8)
    alive = weakref.ref(source)
    held = gate(x.stream)
    wrapped = pyleat.asarray(source, stream=x.stream)
    pyleat.copy(x, wrapped.T)  # between two Arrays: in stream order
    del wrapped, source
    gc.collect()
    assert alive() is not None
    held.open()
    x.stream.synchronize()
    _hold.reap(100)
    assert alive() is None
    assert (x.to_host() == 3).all()


def test_a_view_of_numpy_keeps_the_memory():
    x = pyleat.full(BYTES, 4, "uint8", kind="pinned")
    block = weakref.ref(x._memory)
    view = x.numpy()[::2]
    del x
    gc.collect()
    others = [pyleat.full(BYTES, 5, "uint8", kind="pinned") for _ in range(4)]
    assert block() is not None
    assert (view == 4).all()
    del view, others
    gc.collect()
    assert block() is None


def test_a_consumer_of_dlpack_keeps_the_memory():
    x = pyleat.full(BYTES, 4, "uint8", kind="pinned")
    block = weakref.ref(x._memory)
    view = np.from_dlpack(x)
    del x
    gc.collect()
    assert block() is not None
    assert (view == 4).all()
    del view
    gc.collect()  # reaps
    assert block() is None


def test_a_capsule_that_nobody_takes_is_released():
    x = pyleat.zeros(64, "uint8", kind="pinned")
    block = weakref.ref(x._memory)
    capsule = x.__dlpack__()
    assert ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(capsule), b"dltensor")
    del x
    pyleat.zeros(64, kind="pinned").__dlpack__()
    assert block() is not None
    del capsule
    pyleat.zeros(64, kind="pinned").__dlpack__()
    assert block() is None


def test_the_tensors_of_a_set_stay_and_go_together(gate, tmp_path):
    pyleat.save(tmp_path / "m.safetensors", {"a": np.arange(BYTES, dtype=np.uint8), "b": np.ones(4, np.float32)})
    b = pyleat.Stream()
    loaded = pyleat.load(tmp_path / "m.safetensors")
    a = loaded.pop("a")
    ptr = a.ptr
    pool = a.device.pool()
    live = pool.stats().live_blocks
    del loaded
    gc.collect()
    assert pool.stats().live_blocks == live
    y = new(2, b)
    held = gate(b)
    pyleat.copy(y, a, stream=b)
    home = a.stream
    del a
    gc.collect()
    others = [new(5, home) for _ in range(4)]
    assert ptr not in [other.ptr for other in others]
    held.open()
    assert (y.to_host(stream=b) == np.arange(BYTES, dtype=np.uint8)).all()
