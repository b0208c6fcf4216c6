"""Garbage in reference cycles: Python runs the finalizers of streams, pools and memory in any order."""

import ctypes
import gc

import numpy as np
import pytest
from conftest import load_kernels

import pyleat
from pyleat import _c, _dlpack, _hold
from pyleat._errors import Status


class Cycle:
    """An object that only the cyclic garbage collector can free, with all that it refers to."""

    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def nothing_needed():
    """Fail if a test keeps handles for memory that is gone."""
    gc.collect()
    before = len(_hold.needed)
    yield
    gc.collect()
    pyleat.device().synchronize()
    gc.collect()
    assert len(_hold.needed) <= before


def test_a_block_is_freed_before_its_stream():
    pool = pyleat.device().pool()
    gc.collect()
    before = pool.stats().live_blocks
    garbage = Cycle()
    garbage.stream = pyleat.Stream()
    garbage.other = pyleat.Stream()
    garbage.block = pyleat.empty(BYTES, "uint8", stream=garbage.stream)
    garbage.block.fill(1, stream=garbage.other)
    garbage.empty = pyleat.empty(0, stream=garbage.stream)
    del garbage
    gc.collect()
    assert pool.stats().live_blocks == before


def test_a_stream_that_refers_to_its_memory_is_freed_with_it():
    pool = pyleat.device().pool()
    before = pool.stats().live_blocks
    stream = pyleat.Stream()
    stream.block = pyleat.empty(BYTES, "uint8", stream=stream)
    del stream
    gc.collect()
    assert pool.stats().live_blocks == before


def test_a_block_is_freed_before_its_pool():
    garbage = Cycle()
    garbage.pool = pyleat.Pool(name="ours")
    garbage.block = pyleat.empty(BYTES, "uint8", pool=garbage.pool)
    handle, raw = garbage.pool._handle, _c.PoolStats()
    del garbage
    gc.collect()
    pyleat.device().synchronize()
    assert _c.leat.leat_pool_get_stats(handle, ctypes.byref(raw)) == Status.HANDLE


def test_tensors_are_freed_before_their_set(gate, tmp_path):
    pyleat.save(tmp_path / "m.safetensors", {"a": np.arange(BYTES, dtype=np.uint8)})
    pool = pyleat.device().pool()
    before = pool.stats().live_blocks
    garbage = Cycle()
    garbage.tensors = pyleat.load(tmp_path / "m.safetensors")
    a, other = garbage.tensors["a"], pyleat.Stream()
    home, ptr = a.stream, a.ptr
    y = pyleat.zeros(BYTES, "uint8", stream=other)
    other.synchronize()
    held = gate(other)
    pyleat.copy(y, a, stream=other)
    del garbage, a
    gc.collect()
    others = [pyleat.full(BYTES, 5, "uint8", stream=home) for _ in range(4)]
    assert ptr not in [one.ptr for one in others]
    held.open()
    assert (y.to_host() == np.arange(BYTES, dtype=np.uint8)).all()
    del others, y
    gc.collect()
    assert pool.stats().live_blocks == before


class Deleted(_dlpack._Consumed):
    """Counts how many owners of DLPack's memory have let it go."""

    count = 0

    def __del__(self):
        Deleted.count += 1
        super().__del__()


def test_foreign_memory_outlives_its_stream_and_its_work(gate, monkeypatch):
    monkeypatch.setattr(_dlpack, "_Consumed", Deleted)
    Deleted.count = 0
    garbage = Cycle()
    garbage.stream = pyleat.Stream()
    x = pyleat.zeros((1024, 512), "uint8", stream=garbage.stream)
    load_kernels(x, np.zeros((512, 1024), np.uint8).T)
    held = gate(garbage.stream)
    garbage.wrapped = pyleat.from_dlpack(np.full((512, 1024), 3, np.uint8), stream=garbage.stream)
    pyleat.copy(x, garbage.wrapped.T)
    del garbage
    gc.collect()
    assert Deleted.count == 0
    held.open()
    x.stream.synchronize()
    _hold.reap(100)
    gc.collect()
    assert Deleted.count == 1
    assert (x.to_host() == 3).all()


def test_foreign_memory_is_kept_if_its_stream_is_lost():
    device = pyleat.Device(pyleat._device._made(_c.leat.leat_device_open, pyleat.device().name.encode()))
    stream = pyleat.Stream(device)
    wrapped = pyleat.asarray(np.zeros(4), stream=stream)
    stream._handle = 1 << 40  # no stream
    before = len(_hold.lost)
    del wrapped
    assert len(_hold.lost) == before + 1


BYTES = 1 << 20
