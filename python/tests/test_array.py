"""Arrays, views, types, copies with any strides."""

import threading

import numpy as np
import pytest

import pyleat

rng = np.random.default_rng(1)
SOURCE = rng.integers(0, 1 << 30, (4, 5, 6), dtype=np.int32)

INDICES = [
    np.s_[1],
    np.s_[-1, 2],
    np.s_[1:3],
    np.s_[::2, 1:, ::-1],
    np.s_[..., 3],
    np.s_[None, 2, ..., None],
    np.s_[3:1:-1, :, 5:0:-2],
    np.s_[2:2],
    np.s_[...],
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices_are_those_of_numpy(index):
    x = pyleat.to_device(SOURCE)
    assert x[index].shape == SOURCE[index].shape
    assert x[index].strides == SOURCE[index].strides or 0 in SOURCE[index].shape or 1 in SOURCE[index].shape
    assert (x[index].to_host() == SOURCE[index]).all()
    assert x[index].tobytes() == SOURCE[index].tobytes()
    if x.on_host:
        assert (x[index].numpy() == SOURCE[index]).all()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_transposed_copies_in_all_directions(order):
    x = pyleat.to_device(SOURCE)
    want = SOURCE.transpose(order)
    assert (x.transpose(*order).to_host() == want).all()
    assert (pyleat.to_device(want).to_host() == want).all()
    y = pyleat.empty(want.shape, "int32")
    pyleat.copy(y, x.transpose(*order))
    assert (y.to_host() == want).all()
    back = np.zeros_like(SOURCE)
    pyleat.copy(back.transpose(order), y)
    assert (back == SOURCE).all()
    assert (x.T.contiguous().to_host() == SOURCE.T).all()


def test_shapes():
    x = pyleat.to_device(SOURCE)
    assert (x.reshape(20, -1).to_host() == SOURCE.reshape(20, -1)).all()
    assert (x[:, ::2].reshape(4, 3, 2, 3).to_host() == SOURCE[:, ::2].reshape(4, 3, 2, 3)).all()
    with pytest.raises(pyleat.UnsupportedError, match="reshape"):
        x.T.reshape(-1)
    with pytest.raises(ValueError, match="120 elements"):
        x.reshape(7, -1)
    wide = x[:1].broadcast_to(3, 4, 5, 6)
    assert (wide.to_host() == np.broadcast_to(SOURCE[:1], (3, 4, 5, 6))).all()
    with pytest.raises(ValueError, match="read-only"):
        pyleat.copy(wide, np.zeros((3, 4, 5, 6), np.int32))
    with pytest.raises(ValueError, match="broadcast"):
        x.broadcast_to(4, 5, 7)
    assert (x.view("uint8").to_host() == SOURCE.view(np.uint8)).all()
    assert (x.view("float32").view("int32").to_host() == SOURCE).all()
    assert len(x) == 4
    assert x.size == 120
    with pytest.raises(IndexError):
        x[4]
    with pytest.raises(TypeError):
        x["a"]


def test_parts_are_assigned():
    x = pyleat.zeros((6, 7), "float64")
    want = np.zeros((6, 7))
    x[1:4, ::3] = np.ones((3, 3))
    want[1:4, ::3] = 1
    x[5] = pyleat.full(7, 2.5, "float64")
    want[5] = 2.5
    x[:, 6].fill(3)
    want[:, 6] = 3
    assert (x.to_host() == want).all()


@pytest.mark.parametrize(
    "kind", ["bool", "uint8", "int16", "uint32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
)
def test_types(kind):
    a = (rng.random((3, 5)) * 2).astype(kind)
    x = pyleat.to_device(a)
    assert x.dtype == kind
    assert x.dtype == a.dtype
    assert (x.to_host() == a).all()
    assert (x.T.to_host() == a.T).all()
    assert (pyleat.full((2, 3), 1, kind).to_host() == np.ones((2, 3), kind)).all()
    assert pyleat.dtype(getattr(np, kind if kind != "bool" else "bool_")) == kind


def test_types_of_other_packages():
    import sys

    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        a = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, name))
        x = pyleat.to_device(a)
        assert x.dtype.name == name
        assert (x.T.to_host() == a.T).all()
        assert (pyleat.full(3, 2, name).to_host() == 2).all()
    assert "torch" not in sys.modules or pyleat.dtype(sys.modules["torch"].bfloat16) == "bfloat16"


def test_big_endian_and_odd_types_move_as_bytes():
    for a in (np.arange(6, dtype=">f4").reshape(2, 3), np.array(["ab", "cde"], "U3"), np.arange(3, dtype="i8").view("M8[s]")):
        x = pyleat.to_device(a)
        assert (x.to_host() == a).all()
    with pytest.raises(TypeError):
        pyleat.to_device(np.array([{}, None]))
    with pytest.raises(TypeError):
        pyleat.dtype("nonsense")


def test_empty_and_single():
    x = pyleat.zeros((), "int32")
    assert x.to_host() == 0
    assert x.item() == 0
    y = pyleat.empty((0, 3), "float32")
    assert y.to_host().shape == (0, 3)
    pyleat.copy(y, np.zeros((0, 3), np.float32))
    assert y.tobytes() == b""
    assert pyleat.empty((2, 0)).T.to_host().shape == (0, 2)
    with pytest.raises(ValueError, match="negative"):
        pyleat.empty((2, -1))


@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
def test_kinds(kind):
    if kind == "managed" and not pyleat.device().info.managed_memory:
        pytest.skip("no managed memory")
    x = pyleat.full((3, 4), 7, "int32", kind=kind)
    assert x.kind == kind
    assert (x.to_host() == 7).all()
    if kind != "device":
        view = x.numpy()
        view[1] = 8
        assert (x.to(kind="device").to_host()[1] == 8).all()
    with pytest.raises(ValueError, match="kind"):
        pyleat.empty(3, kind="nonsense")


def test_copies_refuse_what_does_not_fit():
    x = pyleat.zeros((3, 4))
    with pytest.raises(ValueError, match=r"\(3, 4\)"):
        pyleat.copy(x, np.zeros((4, 3), np.float32))
    with pytest.raises(TypeError, match="converts nothing"):
        pyleat.copy(x, np.zeros((3, 4), np.int32))
    with pytest.raises(ValueError, match="read-only"):
        pyleat.copy(bytes(48), x)
    frozen = np.zeros((3, 4), np.float32)
    frozen.flags.writeable = False
    pyleat.copy(x, frozen)
    with pytest.raises(ValueError, match="read-only"):
        pyleat.copy(frozen, x)
    with pytest.raises(pyleat.InvalidError, match="overlap"):
        pyleat.copy(x[1:], x[:-1])
    with pytest.raises(TypeError, match="no memory"):
        pyleat.copy(x, 3)
    with pytest.raises(TypeError, match="no memory"):
        pyleat.copy(x, [1.0, 2.0])


def test_buffers():
    data = bytes(range(48))
    x = pyleat.to_device(data)
    assert x.dtype == "uint8"
    assert x.tobytes() == data
    into = bytearray(48)
    pyleat.copy(into, x)
    assert bytes(into) == data
    view = memoryview(into)[::2]
    pyleat.copy(view, pyleat.full(24, 9, "uint8"))
    assert bytes(into[::2]) == bytes([9]) * 24
    y = pyleat.empty((3, 4), "float32")
    pyleat.copy(y, data)  # raw bytes into elements
    assert y.tobytes() == data
    import array

    z = pyleat.to_device(array.array("d", [1.5, 2.5]))
    assert z.dtype == "float64"
    assert list(z.to_host()) == [1.5, 2.5]
    with pytest.raises(BufferError):
        held = pyleat.asarray(into)
        into.append(1)
    del held


def test_buffers_of_mmap(tmp_path):
    import mmap

    (tmp_path / "f").write_bytes(bytes(range(256)) * 64)
    with open(tmp_path / "f", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    x = pyleat.to_device(mapped)
    assert x.tobytes() == bytes(range(256)) * 64
    mapped.close()


def test_host_to_host():
    a, b = np.arange(1000.0), np.zeros(1000)
    pyleat.copy(b, a)
    assert (a == b).all()


def test_numpy_reads_arrays_of_the_host():
    x = pyleat.to_device(SOURCE, kind="pinned")
    assert (np.asarray(x) == SOURCE).all()
    assert np.asarray(x, dtype=np.int64).dtype == np.int64
    copied = np.array(x)
    x.fill(0)
    x.stream.synchronize()
    assert (copied == SOURCE).all()


def test_two_devices():
    infos = pyleat.devices()
    one = [info.name for info in infos if info.driver == pyleat.device().info.driver]
    if len(one) < 2:
        pytest.skip("one device only")
    x = pyleat.to_device(SOURCE, one[0])
    y = x.to(one[1])
    assert y.device.name == one[1]
    assert (y.T.to_host() == SOURCE.T).all()
    with pytest.raises(ValueError, match="the stream is of"):
        pyleat.empty(3, stream=x.stream, device=one[1])


def test_many_threads_share_arrays():
    source = pyleat.to_device(np.arange(100000, dtype=np.int64))
    source.stream.synchronize()
    wrong = []

    def work(seed):
        stream = pyleat.Stream()
        own = np.random.default_rng(seed)
        for _ in range(30):
            low, high = sorted(own.integers(0, 100000, 2))
            x = pyleat.empty(int(high - low), "int64", stream=stream)
            pyleat.copy(x, source[int(low) : int(high)], stream=stream)
            if not (x.to_host() == np.arange(low, high)).all():
                wrong.append((low, high))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_text():
    x = pyleat.zeros((2, 3))
    assert "(2, 3) float32" in repr(x)
    assert x.device.name in repr(x.device)
    assert "device memory" in repr(x.device.pool())
    text = pyleat.explain(x, np.zeros((2, 3), np.float32))
    assert "protocol" in text
    assert "class" in pyleat.explain(pyleat.zeros((3, 2)), x.T) or len(text) > 20
    import pydoc

    for thing in (pyleat, pyleat.Array, pyleat.copy, pyleat.Ticket, pyleat.File, pyleat.Model, pyleat.Pool):
        assert len(pydoc.render_doc(thing)) > 200
    for name in pyleat.__all__:
        thing = getattr(pyleat, name)
        assert isinstance(thing, str) or thing.__doc__, f"{name} has no documentation"
        if isinstance(thing, type):
            for method, value in vars(thing).items():
                if not method.startswith("_") and callable(getattr(value, "fget", value)) and not isinstance(value, type):
                    assert value.__doc__, f"{name}.{method} has no documentation"


def test_types_of_ml_dtypes_have_no_text_of_their_own():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.ones(4, ml_dtypes.float8_e4m3fn)
    pyleat.to_device(np.zeros(3, "V1"))
    pyleat.to_device(np.zeros(3, "V2"))
    for text in ("<V1", "|V1", "<V2", "<f1"):
        pyleat.dtype(text)
    if hasattr(ml_dtypes, "float8_e3m4"):
        pyleat.to_device(np.ones(4, ml_dtypes.float8_e3m4))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        there = np.ones(4, getattr(ml_dtypes, name))
        assert pyleat.dtype(there.dtype).name == name
        assert pyleat.to_device(there).dtype.name == name
        assert pyleat.asarray(there).dtype.name == name
    pyleat.copy(pyleat.empty(4, "float8_e4m3fn"), x)
    assert pyleat.to_device(np.zeros(3, ">f4")).dtype.name == ">f4"


def test_fills_keep_the_sign_and_need_one_number():
    for kind in ("float32", "complex64"):
        assert np.signbit(pyleat.full(2, -0.0, kind).to_host().real).all()
        assert not np.signbit(pyleat.full(2, 0.0, kind).to_host().real).any()
    assert np.signbit(pyleat.full(2, np.float32(-0.0)).to_host()).all()
    for value in ([1, 2], np.arange(4), []):
        with pytest.raises(ValueError, match="one number"):
            pyleat.zeros(4).fill(value)
        with pytest.raises(ValueError, match="one number"):
            pyleat.asarray(np.zeros(4)).fill(value)
    assert (pyleat.zeros(4).fill(np.array([3])).to_host() == 3).all()
