"""DLPack, __cuda_array_interface__ and buffers, in both directions."""

import ctypes
import gc
import types
import weakref

import numpy as np
import pytest
from conftest import becomes_done

import pyleat
from pyleat import _c, _copy, _dlpack

SOURCE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def host_kind():
    return "device" if pyleat.device().is_host else "pinned"


def test_numpy_takes_dlpack():
    x = pyleat.to_device(SOURCE, kind=host_kind())
    assert x.__dlpack_device__() == (1, 0)
    y = np.from_dlpack(x)
    assert (y == SOURCE).all()
    assert y.ctypes.data == x.ptr
    assert (np.from_dlpack(x.T) == SOURCE.T).all()
    assert (np.from_dlpack(x[:, ::-1]) == SOURCE[:, ::-1]).all()
    x.fill(7)
    x.stream.synchronize()
    assert (y == 7).all()


def test_dlpack_of_numpy():
    y = pyleat.from_dlpack(SOURCE.copy())
    assert y.kind == "pageable"
    assert (y.to_host() == SOURCE).all()
    assert (pyleat.from_dlpack(SOURCE.copy().transpose(1, 2, 0)).to_host() == SOURCE.transpose(1, 2, 0)).all()
    y.fill(3)
    assert (y.to_host() == 3).all()
    assert pyleat.from_dlpack(np.zeros((0, 3))).shape == (0, 3)


class Only:
    """An object with DLPack only, of the old or the new version."""

    def __init__(self, array, old):
        self.array, self.old = array, old

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **arguments):
        if self.old and "max_version" in arguments:
            raise TypeError("max_version")
        self.capsule = self.array.__dlpack__(**arguments)
        return self.capsule


@pytest.mark.parametrize("old", [False, True])
def test_both_versions_and_the_deleter(old):
    import weakref

    x = pyleat.to_device(SOURCE, kind=host_kind())
    block = weakref.ref(x._memory)
    there = Only(x, old)
    y = pyleat.from_dlpack(there)
    name = b"used_dltensor" if old else b"used_dltensor_versioned"
    assert ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(there.capsule), name)
    with pytest.raises(BufferError, match="used before"):
        _dlpack._Consumed(there.capsule)
    del x, there
    assert (y.to_host() == SOURCE).all()
    del y
    _dlpack.sweep()
    assert block() is None


def test_readonly():
    wide = pyleat.to_device(SOURCE, kind=host_kind()).broadcast_to(5, 2, 3, 4)
    y = pyleat.from_dlpack(Only(wide, False))
    assert y._readonly
    with pytest.raises(ValueError, match="read-only"):
        pyleat.copy(y, np.zeros(y.shape, np.float32))
    with pytest.raises(BufferError, match="read-only"):
        pyleat.from_dlpack(Only(wide, True))
    with pytest.raises(ValueError, match="read-only"):
        y.fill(0)


def test_exports_that_are_refused():
    x = pyleat.to_device(SOURCE, kind=host_kind())
    with pytest.raises(BufferError, match="not on"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="no type"):
        pyleat.to_device(np.zeros(2, ">f4"), kind=host_kind()).__dlpack__()
    y = pyleat.from_dlpack(Copied(x))
    assert y.ptr != x.ptr
    assert (y.to_host() == SOURCE).all()


class Copied(Only):
    def __init__(self, array):
        super().__init__(array, False)

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(copy=True, **arguments)


def test_types_of_ml_dtypes_by_dlpack():
    x = pyleat.full((2, 3), 2, "float32", kind=host_kind()).view("bfloat16")
    y = pyleat.from_dlpack(x)
    assert y.dtype == "bfloat16"
    assert y.shape == (2, 6)


def test_the_host_has_no_cuda_array_interface():
    x = pyleat.zeros(3)
    if x.device.info.driver == "cpu":
        assert not hasattr(x, "__cuda_array_interface__")
        with pytest.raises(BufferError, match="streams"):
            x.__dlpack__(stream=1)


# ---- memory of a GPU, also that of leat's own libcuda over the CPU device

gpu = pytest.mark.skipif(pyleat.device().info.driver == "cpu", reason="needs a GPU's driver")


class Theirs:
    """Another package's memory of a GPU: a block that it fills on a stream of its own."""

    def __init__(self, interface, stream=None):
        self.__cuda_array_interface__ = interface
        self.stream = stream


@gpu
def test_cuda_array_interface_out():
    x = pyleat.to_device(SOURCE)
    interface = x.T.__cuda_array_interface__
    assert interface["version"] == 3
    assert interface["data"] == (x.ptr, False)
    assert interface["shape"] == (4, 3, 2)
    assert interface["strides"] == (4, 16, 48)
    assert interface["typestr"] == "<f4"
    assert interface["stream"] == x.stream.native
    assert x.__cuda_array_interface__["strides"] is None
    with pytest.raises(TypeError, match="to_host"):
        np.asarray(x)
    with pytest.raises(TypeError, match="to_host"):
        x.numpy()


@gpu
def test_cuda_array_interface_in(gate):
    a = pyleat.Stream()
    x = pyleat.zeros(SOURCE.shape, "float32", stream=a)
    a.synchronize()
    held = gate(a)
    x.fill(7)
    theirs = Theirs(x.__cuda_array_interface__)
    y = pyleat.asarray(theirs)
    assert y.kind == "device"
    assert y.ptr == x.ptr
    assert not y.stream.done  # waits for their stream
    held.open_later()
    assert (y.to_host() == 7).all()
    target = np.zeros(SOURCE.shape, np.float32)
    pyleat.copy(target, theirs)
    assert (target == 7).all()
    pyleat.copy(theirs, SOURCE)
    assert (x.to_host() == SOURCE).all()


@gpu
def test_dlpack_orders_the_consumers_stream(gate):
    a, b = pyleat.Stream(), pyleat.Stream()
    x = pyleat.zeros(1 << 20, "uint8", stream=a)
    y = pyleat.zeros(1 << 20, "uint8", stream=b)
    a.synchronize()
    b.synchronize()
    assert x.__dlpack_device__() == (2, x.device.info.ordinal)
    held = gate(a)
    x.fill(7)
    z = pyleat.from_dlpack(x, stream=b)
    pyleat.copy(y, z, stream=b)
    held.open_later()
    assert (y.to_host(stream=b) == 7).all()
    # Without the exchange there is no such order: b ends while a is held. fill() makes a wait for b, so b may still
    # have to record an event.
    b.synchronize()
    held = gate(a)
    x.fill(8)
    x.__dlpack__(stream=-1)
    assert becomes_done(b)
    held.open()


@gpu
def test_memory_waits_for_the_stream_of_a_consumer(gate):
    a, b = pyleat.Stream(), pyleat.Stream()
    x = pyleat.full(1 << 20, 1, "uint8", stream=a)
    y = pyleat.zeros(1 << 20, "uint8", stream=b)
    ptr = x.ptr
    z = pyleat.from_dlpack(x, stream=b)
    b.synchronize()
    held = gate(b)
    assert _c.leat.leat_copy(b._handle, y.ptr, z.ptr, 1 << 20) == 0  # work that pyleat does not see
    del x, z
    gc.collect()
    others = [pyleat.full(1 << 20, 5, "uint8", stream=a) for _ in range(4)]
    assert ptr not in [other.ptr for other in others]
    held.open()
    assert (y.to_host(stream=b) == 1).all()


@gpu
def test_the_stream_of_a_consumer_is_kept():
    a, b = pyleat.Stream(), pyleat.Stream()
    x = pyleat.zeros(1 << 20, "uint8", stream=a)
    z = pyleat.from_dlpack(x, stream=b)
    assert z.ptr == x.ptr
    alive = weakref.ref(b)
    del b, z
    gc.collect()
    assert alive() is not None  # asked for its work when the memory is freed
    del x
    gc.collect()
    pyleat.device().synchronize()  # also of the event that the free recorded on b
    pyleat.empty(1, stream=a)
    assert alive() is None


def test_a_consumer_is_noted_once(monkeypatch):
    x, theirs = pyleat.zeros(10), pyleat.Stream()
    home, native = x.stream, theirs.native
    monkeypatch.setattr(_dlpack, "own_stream", lambda native: None)  # so it is a stream of another package
    for _ in range(5):
        x._memory.use(_dlpack._consumer(native, x), True)
        x._memory.use(home, True)
    assert len(x._memory._others) == 1
    assert x._memory._others[0] is not theirs
    assert _dlpack._consumer(home.native, x) is home


class Elsewhere:
    """Memory of a GPU of another package, as far as DLPack says."""

    def __init__(self, *there):
        self.there = there

    def __dlpack_device__(self):
        return self.there


def test_the_default_stream_is_that_of_the_objects_device(monkeypatch):
    names = []

    def device(name=None):
        names.append(name)
        return pyleat.device()

    monkeypatch.setattr(_copy, "device", device)
    for there, name in (((2, 1), "cuda:1"), ((10, 3), "hip:3"), ((13, 1), "cuda:1"), ((1, 0), None), ((99, 0), None)):
        names.clear()
        assert _copy.default_stream(np.zeros(3), Elsewhere(*there)) is pyleat.device().stream
        assert names == [name]


@gpu
def test_memory_of_the_second_gpu():
    if len([info for info in pyleat.devices() if info.driver == pyleat.device().info.driver]) < 2:
        pytest.skip("needs two GPUs")
    driver = pyleat.device().info.driver
    x = pyleat.to_device(SOURCE, f"{driver}:1")
    assert _copy._gpu_of(Theirs(x.__cuda_array_interface__)).name == f"{driver}:1"
    y = pyleat.from_dlpack(Only(x, False))
    assert y.device is x.device
    assert (y.to_host() == SOURCE).all()
    pyleat.asarray(Theirs(x.__cuda_array_interface__)).fill(2)
    assert (x.to_host() == 2).all()


def flags(capsule):
    return _dlpack._ManagedVersioned.from_address(_dlpack._pointer(capsule, b"dltensor_versioned")).flags


def test_copies_are_marked():
    x = pyleat.to_device(SOURCE, kind=host_kind())
    assert flags(x.__dlpack__(max_version=(1, 0))) == 0
    assert flags(x.__dlpack__(max_version=(1, 0), copy=True)) == _dlpack.IS_COPIED
    wide = x.broadcast_to(5, 2, 3, 4)
    assert flags(wide.__dlpack__(max_version=(1, 0))) == _dlpack.READ_ONLY


@gpu
def test_dlpack_to_the_host_with_a_stream(gate, monkeypatch):
    x = pyleat.zeros(SOURCE.shape, "float32")
    x.stream.synchronize()
    held = gate(x.stream)
    x.fill(7)
    held.open_later()
    capsule = x.__dlpack__(dl_device=(1, 0), stream=x.stream.native, max_version=(1, 0))
    assert flags(capsule) == _dlpack.IS_COPIED
    there = Elsewhere(1, 0)
    monkeypatch.setattr(Elsewhere, "__dlpack__", lambda self, **_: capsule, raising=False)
    assert (pyleat.from_dlpack(there).to_host() == 7).all()


@gpu
def test_dlpack_to_the_host():
    x = pyleat.to_device(SOURCE)
    y = pyleat.from_dlpack(ToHost(x))
    assert y.kind in ("pinned", "pageable")
    assert (y.to_host() == SOURCE).all()


class ToHost(Only):
    def __init__(self, array):
        super().__init__(array, False)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(dl_device=(1, 0), **arguments)


class Managed:
    """Managed memory of another package, or what says that it is."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return (13, 0)

    def __dlpack__(self, **arguments):
        self.arguments = arguments
        return self.array.__dlpack__()


class Waits:
    """A stream of the driver cuda that notes what is asked of it."""

    device = types.SimpleNamespace(info=types.SimpleNamespace(driver="cuda"))
    native = 0x70
    waits = 0

    def synchronize(self):
        self.waits += 1


def test_managed_memory_is_ordered_as_device_memory():
    there, stream = Managed(SOURCE.copy()), Waits()
    found = _dlpack.consume(there, stream)
    assert found.kind == "managed"
    assert there.arguments["stream"] == 0x70
    for settle in (_copy._settle, lambda stream, found: _copy._settle_strided(stream, *found)):
        before = stream.waits
        settle(stream, [found, found])
        assert stream.waits == before + 1
    assert not _copy._is_done(found)
    with pytest.raises(BufferError, match="needs a stream"):
        _dlpack.consume(there, None)


@gpu
def test_managed_memory_in_and_out(gate):
    x = pyleat.zeros(SOURCE.shape, "float32")
    there = Managed(SOURCE.copy())
    pyleat.copy(x, there)
    assert there.arguments["stream"] == x.stream.native
    assert (x.to_host() == SOURCE).all()
    a, b = pyleat.Stream(), pyleat.Stream()
    y = pyleat.full(1 << 20, 1, "uint8", kind="managed", stream=a)
    ptr = y.ptr
    z = pyleat.from_dlpack(y, stream=b)
    assert z.kind == "managed"
    b.synchronize()
    held = gate(b)  # work that pyleat does not see
    del y, z
    gc.collect()
    others = [pyleat.full(1 << 20, 5, "uint8", kind="managed", stream=a) for _ in range(4)]
    assert ptr not in [other.ptr for other in others]
    held.open()


# ---- __array_interface__


class Interface:
    """An object whose interface is computed at each access."""

    def __init__(self, make):
        self.make = make

    @property
    def __array_interface__(self):
        return self.make()


def test_numpy_scalars():
    x = pyleat.asarray(np.float64(7))
    others = [np.array(float(i)) for i in range(50)]
    assert x.shape == ()
    assert x.item() == 7
    assert others[3] == 3
    assert pyleat.to_device(np.int32(-5)).item() == -5
    with pytest.raises(ValueError, match="read-only"):
        pyleat.copy(np.float64(1), x)
    with pytest.raises(ValueError, match="read-only"):
        x.fill(1)


def test_a_computed_interface_keeps_its_memory():
    def make():
        array = np.arange(5.0)
        return {**array.__array_interface__, "theirs": array}

    x = pyleat.asarray(Interface(make))
    others = [np.full(5, 9.0) for _ in range(50)]
    assert (x.to_host() == np.arange(5.0)).all()
    assert len(others) == 50


def test_an_interface_with_a_buffer():
    there = {"shape": (2, 2), "typestr": "|u1", "version": 3}
    x = pyleat.asarray(Interface(lambda: {**there, "data": b"abcd"}))
    assert x.to_host().tobytes() == b"abcd"
    assert x._readonly
    data = bytearray(b"abcdef")
    x = pyleat.asarray(Interface(lambda: {**there, "data": data, "offset": 2}))
    x.fill(1)
    assert data == b"ab\1\1\1\1"
    with pytest.raises(ValueError, match="too few"):
        pyleat.asarray(Interface(lambda: {**there, "data": b"abc"}))
