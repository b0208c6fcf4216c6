"""Files, and models by name."""

import importlib.metadata
import os

import numpy as np
import pytest

import pyleat

DATA = np.arange(100000, dtype=np.int32)


def test_ranges(tmp_path):
    path = tmp_path / "f"
    x = pyleat.to_device(DATA)
    with pyleat.File(path, "w+") as file:
        file.write(x)
        file.write(np.arange(10, dtype=np.int32), 40)
        assert file.size == DATA.nbytes
        assert 0 <= file.cached() <= file.size
        y = pyleat.empty(5, "int32")
        file.read(y, 48)
        assert list(y.to_host()) == [2, 3, 4, 5, 6]
        into = bytearray(8)
        file.read(into, 40)
        assert np.frombuffer(into, np.int32).tolist() == [0, 1]
        file.sync()
        assert "f'" in repr(file)
    assert "closed" in repr(file)
    with pytest.raises(ValueError, match="closed"):
        file.read(y)
    with open(path, "rb") as opened:
        wrapped = pyleat.File.wrap(opened)
        assert wrapped.size == DATA.nbytes
        with pytest.raises(pyleat.FileError):
            wrapped.write(x)
    want = DATA.copy()
    want[10:20] = np.arange(10)
    assert (np.fromfile(path, np.int32) == want).all()


def test_commit(tmp_path):
    path = tmp_path / "new"
    path.write_bytes(b"old")
    with pyleat.File(path, "new") as file:
        file.write(DATA)
        assert path.read_bytes() == b"old"
        ticket = file.commit_start()
        assert ticket.wait(60)
        assert ticket.wait(point="durable")
    assert (np.fromfile(path, np.int32) == DATA).all()
    with pyleat.File(path, "new") as file:
        file.write(b"forgotten")
    assert (np.fromfile(path, np.int32) == DATA).all()


def test_bad_files(tmp_path):
    with pytest.raises(pyleat.FileError, match="nothing"):
        pyleat.File(tmp_path / "nothing")
    with pytest.raises(ValueError, match="mode"):
        pyleat.File(tmp_path / "nothing", "rb")
    with pytest.raises(pyleat.FileError):
        pyleat.File(tmp_path)
    (tmp_path / "f").write_bytes(bytes(100))
    with pyleat.File(os.fsencode(tmp_path / "f")) as file:
        with pytest.raises(pyleat.InvalidError, match="100"):
            file.read(bytearray(101))
        with pytest.raises(ValueError, match="contiguous"):
            file.read(pyleat.zeros((4, 4), "uint8").T)
        with pytest.raises(pyleat.InvalidError):
            pyleat.File(tmp_path / "f", cached=True, direct=True)


def tensors():
    rng = np.random.default_rng(2)
    return {
        "a.weight": rng.random((30, 40), np.float32),
        "a.bias": rng.random(40),
        "b.weight": rng.integers(-100, 100, (3, 4, 5)).astype(np.int8),
        "scalar": np.array(3, np.int64),
        "none": np.zeros((0, 4), np.float16),
    }


def test_safetensors_there_and_back(tmp_path):
    path = tmp_path / "m.safetensors"
    want = tensors()
    pyleat.save(path, {name: pyleat.to_device(value) for name, value in want.items()}, {"format": "pt"})
    model = pyleat.Model(path)
    assert set(model) == set(want)
    assert model.metadata == {"format": "pt"}
    assert model["b.weight"].type == "I8"
    assert model["b.weight"].shape == (3, 4, 5)
    assert not model["a.bias"].fortran_order
    assert "5 tensors" in repr(model)
    found = pyleat.load(path)
    for name, value in want.items():
        assert found[name].dtype == value.dtype
        assert (found[name].to_host() == value).all()
    assert set(pyleat.load([path], "a.*")) == {"a.weight", "a.bias"}
    with pytest.raises(pyleat.NotFoundError) as raised:
        pyleat.load(path, "c.*")
    assert isinstance(raised.value, LookupError)


def test_safetensors_of_the_package(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    want = tensors()
    safetensors.save_file(want, tmp_path / "theirs.safetensors")
    found = pyleat.load(tmp_path / "theirs.safetensors")
    for name, value in want.items():
        assert (found[name].to_host() == value).all()
    pyleat.save(tmp_path / "ours.safetensors", want)
    back = safetensors.load_file(tmp_path / "ours.safetensors")
    for name, value in want.items():
        assert (back[name] == value).all()


def test_weights_of_a_real_model(tmp_path):
    """A model that detects speech, from the package that ships it, to the device and back into a file."""
    safetensors = pytest.importorskip("safetensors.numpy")
    try:
        package = importlib.metadata.distribution("silero-vad")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package silero-vad is not installed")
    path = package.locate_file("silero_vad/data/silero_vad_16k.safetensors")
    want = safetensors.load_file(path)
    found = pyleat.load(path)
    assert len(want) == len(found) == 15
    for name, value in want.items():
        assert (found[name].to_host() == value).all(), name
    pyleat.save(tmp_path / "saved.safetensors", found)
    back = safetensors.load_file(tmp_path / "saved.safetensors")
    for name, value in want.items():
        assert (back[name] == value).all(), name


def test_load_into(tmp_path):
    path = tmp_path / "m.safetensors"
    want = tensors()
    pyleat.save(path, want)
    model = pyleat.Model(path)
    host, there = np.zeros((30, 40), np.float32), pyleat.zeros((5, 4, 3), "int8")
    model.load_into({"a.weight": host[::-1], "b.weight": there.transpose(2, 1, 0)})
    assert (host[::-1] == want["a.weight"]).all()
    assert (there.to_host().T == want["b.weight"]).all()
    part = np.zeros((10, 7), np.float32)
    model.load_into({"a.weight": part}, slices={"a.weight": (slice(5, 25, 2), slice(3, 10))})
    assert (part == want["a.weight"][5:25:2, 3:10]).all()
    with pytest.raises(ValueError, match="float32"):
        model.load_into({"a.weight": np.zeros((30, 40))})
    with pytest.raises(pyleat.NotFoundError, match=r"a\.weight"):
        model.load_into({"a.weigth": host})
    with pytest.raises(ValueError, match="slices"):
        model.load_into({"a.weight": part}, slices={"a.weight": (slice(5),)})


def test_npy_and_npz(tmp_path):
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.save(tmp_path / "c.npy", a)
    np.save(tmp_path / "f.npy", np.asfortranarray(a))
    np.savez(tmp_path / "z.npz", x=a, y=a.astype(">i4"))
    found = pyleat.load([tmp_path / "c.npy", tmp_path / "f.npy", tmp_path / "z.npz"])
    assert set(found) == {"c", "f", "x", "y"}
    for name in found:
        assert (found[name].to_host() == a).all(), name
    assert not found["f"].is_contiguous
    pyleat.save(tmp_path / "out.npy", {"x": found["f"]})
    assert (np.load(tmp_path / "out.npy") == a).all()
    pyleat.save(tmp_path / "out.npy", {"x": pyleat.to_device(a).T})
    assert (np.load(tmp_path / "out.npy") == a.T).all()
    into = np.zeros_like(a)
    pyleat.Model(tmp_path / "f.npy").load_into({"f": into})
    assert (into == a).all()


def gguf_file():
    """A GGUF file of version 3 with one tensor of Q8_0: two rows of 64 elements, in blocks of 32 with 34 bytes."""
    name = b"q"
    header = b"GGUF" + (3).to_bytes(4, "little") + (1).to_bytes(8, "little") + (0).to_bytes(8, "little")
    header += len(name).to_bytes(8, "little") + name + (2).to_bytes(4, "little")
    header += (64).to_bytes(8, "little") + (2).to_bytes(8, "little") + (8).to_bytes(4, "little") + bytes(8)
    header += bytes(-len(header) % 32)
    data = bytes(i % 251 for i in range(2 * 2 * 34))
    return header + data, data


def test_gguf(tmp_path):
    whole, data = gguf_file()
    (tmp_path / "m.gguf").write_bytes(whole)
    model = pyleat.Model(tmp_path / "m.gguf")
    assert model["q"].type == "Q8_0"
    assert model["q"].dtype is None
    assert model["q"].shape == (2, 64)
    loaded = model.load()["q"]
    assert loaded.shape == (2, 68)
    assert loaded.dtype == "uint8"
    assert loaded.tobytes() == data
    into = bytearray(len(data))
    model.load_into({"q": into})
    assert bytes(into) == data


def test_loads_and_saves_are_tickets(tmp_path):
    path = tmp_path / "m.safetensors"
    ticket = pyleat.save_start(path, {"a": DATA})
    assert ticket.wait(60)
    assert ticket.wait(point="durable")
    load = pyleat.load_start(path)
    twice = pyleat.empty(DATA.shape, "int32")
    pyleat.copy(twice, load.tensors["a"])  # in stream order, while the load runs
    assert (load.result()["a"].to_host() == DATA).all()
    assert (twice.to_host() == DATA).all()
    assert load.done
    assert load.progress.arrived == load.progress.total

    async def main():
        await pyleat.save_start(tmp_path / "n.safetensors", {"a": DATA})
        again = pyleat.load_start(tmp_path / "n.safetensors")
        await again
        return again.tensors["a"].to_host()

    import asyncio

    assert (asyncio.run(main()) == DATA).all()


def test_bad_models(tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(b"\x05\0\0\0\0\0\0\0{nope")
    with pytest.raises(pyleat.FileError, match="bad"):
        pyleat.load(tmp_path / "bad.safetensors")
    with pytest.raises(pyleat.InvalidError):
        pyleat.Model([])
    with pytest.raises(TypeError, match="M8"):
        pyleat.save(tmp_path / "x.safetensors", {"a": np.zeros(2, "M8[s]")})
    with pytest.raises(pyleat.InvalidError):
        pyleat.save(tmp_path / "x.npy", {"a": DATA, "b": DATA})
    assert not (tmp_path / "x.npy").exists()


def test_texts_with_a_zero_byte_are_refused(tmp_path):
    one = {"a": np.zeros(2, np.float32)}
    pyleat.save(tmp_path / "m.safetensors", one)
    model = pyleat.Model(tmp_path / "m.safetensors")
    cut = f"{tmp_path}/x\0.safetensors"
    for call in (
        lambda: pyleat.File(cut, "w"),
        lambda: pyleat.Model(cut),
        lambda: pyleat.save(cut, one),
        lambda: pyleat.save(tmp_path / "n.safetensors", {"a\0b": one["a"]}),
        lambda: pyleat.save(tmp_path / "n.safetensors", one, {"key\0": "text"}),
        lambda: model.load("a\0*"),
        lambda: pyleat.device("cpu:0\0"),
        lambda: pyleat.Pool(name="a\0b"),
    ):
        with pytest.raises(ValueError, match="zero byte"):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]
