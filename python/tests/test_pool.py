"""Pools, devices, events, errors."""

import json

import pytest

import pyleat


def test_statistics():
    pool = pyleat.Pool(name="ours")
    assert pool.stats().live_blocks == 0
    x = pyleat.empty(1000, "uint8", pool=pool)
    stats = pool.stats()
    assert (stats.live_blocks, stats.requested_bytes) == (1, 1000)
    assert "live_blocks=1" in repr(stats)
    state = json.loads(pool.snapshot())
    assert state["pool"] == "ours"
    del x
    assert pool.stats().live_blocks == 0
    pool.device.synchronize()
    released, pending = pool.trim()
    assert released > 0
    assert pending == 0
    assert pool.stats().reserved_bytes == 0
    default = pyleat.device().pool()
    assert default is pyleat.device().pool("device")
    assert pyleat.empty(3, pool=default).device is pyleat.device()


def test_limits():
    pool = pyleat.Pool(limit=8 << 20)
    x = pyleat.empty(6 << 20, "uint8", pool=pool)
    with pytest.raises(pyleat.OutOfMemoryError, match="Advice") as raised:
        pyleat.empty(6 << 20, "uint8", pool=pool)
    assert isinstance(raised.value, MemoryError)
    assert raised.value.status == pyleat.Status.DEVICE_MEMORY
    pool.set_limits(limit=32 << 20)
    y = pyleat.empty(6 << 20, "uint8", pool=pool)
    with pytest.raises(pyleat.Error) as busy:
        pool.set_limits(limit=4 << 20)
    assert busy.value.status == pyleat.Status.BUSY
    del x, y
    with pytest.raises(pyleat.InvalidError):
        pyleat.Pool(limit=1 << 20, soft_limit=2 << 20)


def test_a_pool_goes_after_its_arrays():
    pool = pyleat.Pool(kind="pinned")
    x = pyleat.full(100, 7, "uint8", pool=pool)
    assert x.kind == "pinned"
    del pool
    assert (x.to_host() == 7).all()


def test_guard_mode_reports_what_was_overwritten(capfd):
    import ctypes
    import sys

    pool = pyleat.Pool(guard=True)
    if not pool.device.is_host:
        pytest.skip("the host cannot write device memory")
    x = pyleat.full(1000, 1, "uint8", pool=pool)
    x.stream.synchronize()
    seen = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda problem: seen.append(problem.exc_value)
    try:
        ctypes.memset(x.ptr + 1000, 5, 1)
        stream, ptr = x.stream, x.ptr
        del x
    finally:
        sys.unraisablehook = hook
    assert len(seen) == 1
    assert seen[0].status == pyleat.Status.RANGE
    from pyleat import _c

    assert _c.leat.leat_free(stream._handle, ptr) == 0  # leat restored the red zone
    capfd.readouterr()


def test_devices():
    infos = pyleat.devices()
    assert any(info.driver == "cpu" for info in infos)
    device = pyleat.device()
    assert pyleat.device(device.name) is device
    assert pyleat.device(device) is device
    free, total = device.memory()
    assert 0 < free <= total
    assert device.info.memory_bytes == total or device.info.memory_bytes > 0
    with pytest.raises(pyleat.InvalidError, match="nonsense"):
        pyleat.device("nonsense:0")
    with pytest.raises(pyleat.NoDeviceError):
        pyleat.device("cpu:77")


def test_a_closed_device_lives_while_it_is_used():
    name = pyleat.devices()[-1].name
    device = pyleat.device(name)
    x = pyleat.full(1000, 3, "uint8", device=device)
    device.close()
    device.close()
    again = pyleat.device(name)
    assert again is not device
    assert (x.to_host() == 3).all()
    del device
    y = pyleat.zeros(1000, "uint8", device=again)
    pyleat.copy(y, x)
    del x
    assert (y.to_host() == 3).all()
    with again:
        pass


def test_events_measure():
    stream = pyleat.Stream()
    first = stream.record()
    pyleat.zeros(1 << 20, "uint8", stream=stream)
    last = pyleat.Event()
    last.record(stream)
    last.synchronize()
    assert first.elapsed_ms(last) >= 0
    with pytest.raises(pyleat.InvalidError):
        pyleat.Event().elapsed_ms(last)
    wrapped = pyleat.Stream.wrap(stream.native, stream.device, stream)
    assert wrapped.native == stream.native
    x = pyleat.zeros(10, "uint8", stream=wrapped)
    assert x.to_host().sum() == 0
    assert "Stream" in repr(wrapped)


def test_statuses_are_those_of_the_library():
    from pyleat import _c, _errors

    for status in pyleat.Status:
        if status != pyleat.Status.UNKNOWN:
            name = _c.leat.leat_status_name(status).decode()
            assert name in ("LEAT_" + status.name, "LEAT_ERROR_" + status.name)
    assert _c.leat.leat_status_name(pyleat.Status.LINK - 1) == b"LEAT_UNKNOWN"
    assert _errors.make_error(-12345, "x").status == pyleat.Status.UNKNOWN
