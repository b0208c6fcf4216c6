"""pyleat with PyTorch, as far as it goes without a GPU, and the functions that PyTorch's allocator calls."""

import ctypes
import gc
import importlib
import sys
import types

import numpy as np
import pytest

import pyleat
from pyleat import _c

BYTES = 1 << 20


streams = []


def lasting_stream():
    """Return a stream that lives as long as the process, as PyTorch's do: the plug keeps its handle for one."""
    streams.append(pyleat.Stream())
    return streams[-1]


@pytest.fixture(scope="module")
def plug():
    library = _c.load("libpyleat-torch.so")
    library.pyleat_torch_set_driver(pyleat.device().info.driver.encode())
    library.pyleat_torch_set_pool.argtypes = (ctypes.c_int, ctypes.c_void_p)
    for name in ("pyleat_torch_alloc", "pyleat_torch_alloc_or_throw"):
        function = getattr(library, name)
        function.argtypes = (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        function.restype = ctypes.c_void_p
    library.pyleat_torch_free.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
    library.pyleat_torch_free.restype = None
    library.pyleat_torch_record_stream.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    library.pyleat_torch_record_stream.restype = None
    library.pyleat_torch_failures.restype = ctypes.c_uint64
    return library


def test_the_plug_allocates_from_the_chosen_pool(plug):
    number = pyleat.device().info.ordinal
    stream = lasting_stream()
    pool = pyleat.Pool(limit=64 << 20)
    default = pyleat.device().pool().stats().live_blocks
    plug.pyleat_torch_set_pool(number, pool._handle)
    ptr = plug.pyleat_torch_alloc(BYTES, number, stream.native)
    assert ptr
    assert pool.stats().live_blocks == 1
    assert pool.stats().requested_bytes == BYTES
    plug.pyleat_torch_free(ptr, BYTES, number, stream.native)
    again = plug.pyleat_torch_alloc_or_throw(BYTES, number, stream.native)
    assert again == ptr  # in stream order, the same stream gets the same memory at once
    plug.pyleat_torch_free(again, BYTES, number, stream.native)
    failed = plug.pyleat_torch_failures()
    assert plug.pyleat_torch_alloc(128 << 20, number, stream.native) is None
    assert plug.pyleat_torch_failures() == failed + 1
    plug.pyleat_torch_set_pool(number, None)
    ptr = plug.pyleat_torch_alloc(BYTES, number, stream.native)
    assert pool.stats().live_blocks == 0
    assert pyleat.device().pool().stats().live_blocks == default + 1
    plug.pyleat_torch_free(ptr, BYTES, number, stream.native)
    assert plug.pyleat_torch_alloc(BYTES, 99, stream.native) is None
    plug.pyleat_torch_free(ptr, BYTES, number, stream.native)  # freed before: counted, and nothing else
    assert plug.pyleat_torch_failures() == failed + 3


def test_record_stream_delays_the_reuse(plug, gate):
    number = pyleat.device().info.ordinal
    a, b = lasting_stream(), lasting_stream()
    y = pyleat.zeros(BYTES, "uint8", stream=b)
    b.synchronize()
    ptr = plug.pyleat_torch_alloc(BYTES, number, a.native)
    wrapped = pyleat.Stream.wrap(a.native)
    assert _c.leat.leat_fill_pattern(wrapped._handle, ptr, b"\1", 1, BYTES) == 0
    wrapped.synchronize()
    held = gate(b)
    assert _c.leat.leat_copy(b._handle, y.ptr, ptr, BYTES) == 0
    plug.pyleat_torch_record_stream(ptr, b.native)
    plug.pyleat_torch_free(ptr, BYTES, number, a.native)
    other = plug.pyleat_torch_alloc(BYTES, number, a.native)
    assert other != ptr
    held.open()
    assert (y.to_host(stream=b) == 1).all()
    plug.pyleat_torch_free(other, BYTES, number, a.native)


torch = None


@pytest.fixture
def stand_in(monkeypatch):
    """Return pyleat.torch over a stand-in for PyTorch, whose tensors are NumPy arrays, and a list of its waits."""
    torch = types.ModuleType("torch")
    torch.float32, torch.Tensor, torch.from_dlpack = "float32", type("Tensor", (), {}), np.from_dlpack
    waits = []
    torch.cuda = types.SimpleNamespace(
        is_available=lambda: True,
        is_current_stream_capturing=lambda: False,
        device_count=lambda: 3,
        synchronize=waits.append,
        memory=types.SimpleNamespace(),
    )
    torch._C = types.SimpleNamespace(_cuda_hasPrimaryContext=lambda number: number != 1)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "pyleat.torch", raising=False)
    monkeypatch.delattr(pyleat, "torch", raising=False)
    module = importlib.import_module("pyleat.torch")
    monkeypatch.setattr(module, "leat_device", lambda where: pyleat.device())
    yield module, torch, waits
    del sys.modules["pyleat.torch"]
    del pyleat.torch


def test_pinned_memory_is_reused_after_a_wait(stand_in, monkeypatch):
    module, torch, waits = stand_in
    monkeypatch.setattr(module, "_DROPPED_BYTES", 3 * BYTES)
    pool = pyleat.device().pool("pinned")
    gc.collect()
    pyleat._dlpack.sweep(True)
    before = pool.stats().live_blocks
    for i in range(9):
        t = module.pinned(BYTES, "uint8")
        t.fill(i)
        del t
        pyleat._dlpack.sweep()
        assert len(module._dropped) == i % 3 + 1
        assert waits == [0, 2] * (i // 3)
    assert pool.stats().live_blocks == before + 3
    torch.cuda.is_current_stream_capturing = lambda: True
    module._reuse()
    assert len(module._dropped) == 3
    torch.cuda.is_current_stream_capturing = lambda: False
    module._reuse()
    assert pool.stats().live_blocks == before


def test_the_allocator_of_a_mem_pool_is_kept(stand_in, monkeypatch):
    module, torch, _ = stand_in
    allocator = types.SimpleNamespace(allocator=lambda: "allocator")
    monkeypatch.setattr(module, "_set_pool", lambda pool, number: None)
    monkeypatch.setattr(module, "_allocator", lambda function: allocator)
    torch.cuda.current_device = lambda: 0
    torch.cuda.MemPool = lambda made: made
    assert module.mem_pool() == "allocator"
    assert allocator in module._allocators


@pytest.fixture
def tensors():
    global torch
    torch = pytest.importorskip("torch")
    return torch


def test_tensors_take_part_in_copies(tensors):
    source = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
    x = pyleat.to_device(source)
    assert x.dtype == torch.float32
    assert (x.to_host() == source.numpy()).all()
    target = torch.zeros(5, 4, 3)
    pyleat.copy(target, x.T)
    assert torch.equal(target, source.permute(2, 1, 0))
    pyleat.copy(target.permute(2, 1, 0), x)
    assert torch.equal(target, source.permute(2, 1, 0))
    halves = torch.arange(8).to(torch.bfloat16)
    back = torch.zeros(8, dtype=torch.bfloat16)
    pyleat.copy(back, pyleat.to_device(halves))
    assert torch.equal(back, halves)
    small = torch.arange(4).to(torch.float8_e4m3fn)
    assert pyleat.to_device(small).dtype == "float8_e4m3fn"
    with pytest.raises(BufferError, match="requires? grad|require gradient"):
        pyleat.to_device(torch.zeros(3, requires_grad=True))
    ticket = pyleat.copy_start(x, source + 1)
    ticket.wait()
    assert (x.to_host() == source.numpy() + 1).all()


def test_tensors_of_leats_memory(tensors):
    x = pyleat.full((3, 4), 7, "float32", kind="device" if pyleat.device().is_host else "pinned")
    t = torch.from_dlpack(x)
    assert t.data_ptr() == x.ptr
    assert torch.equal(t, torch.full((3, 4), 7.0))
    assert torch.equal(torch.from_dlpack(x.T), t.T)
    del x
    gc.collect()
    others = [pyleat.full((3, 4), 9, "float32") for _ in range(4)]
    assert float(t.sum()) == 84
    del others
    y = pyleat.asarray(t)
    assert y.ptr == t.data_ptr()


def test_load_into_tensors(tensors, tmp_path):
    import pyleat.torch

    want = {"a.x": torch.randn(30, 40), "a.y": torch.randn(7).to(torch.bfloat16), "b": torch.arange(3)}
    pyleat.save(tmp_path / "m.safetensors", want)
    found = pyleat.torch.load(tmp_path / "m.safetensors", where="cpu")
    assert set(found) == set(want)
    for name, value in want.items():
        assert torch.equal(found[name], value)
    assert set(pyleat.torch.load(tmp_path / "m.safetensors", "a.*", where="cpu")) == {"a.x", "a.y"}


def test_names_of_devices(tensors):
    import pyleat.torch

    with pytest.raises(ValueError, match="no CUDA device"):
        pyleat.torch.leat_device("cpu")
    with pytest.raises(ValueError, match="pinned"):
        pyleat.torch._set_pool(pyleat.Pool(kind="pinned"), 0)


def test_the_end_of_a_process_with_tensors(tensors):
    import test_process

    test_process.run("import torch; t = torch.from_dlpack(x); u = pyleat.asarray(torch.ones(4)); del x")
    test_process.run("import torch; t = torch.from_dlpack(x)[3:]; u = np.asarray(t)")




# ---- on a GPU


@pytest.fixture
def cuda(tensors):
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU")
    import pyleat.torch

    return pyleat.torch


def test_copies_of_cuda_tensors_are_in_order(cuda):
    source = torch.randn(1 << 20)
    t = torch.empty(1 << 20, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        for factor in range(1, 5):
            pyleat.copy(t, source * factor)
            t.mul_(2)
            back = torch.empty(1 << 20)
            pyleat.copy(back, t)
            assert torch.equal(back, source * factor * 2)
    x = pyleat.to_device(t)
    assert x.device.name == f"cuda:{t.device.index}"
    assert (x.to_host() == t.cpu().numpy()).all()
    u = cuda.tensor(x)
    assert u.data_ptr() == x.ptr
    assert torch.equal(u, t)


def test_a_mem_pool_of_leat(cuda):
    ours = pyleat.Pool(cuda.leat_device(), name="torch")
    pool = cuda.mem_pool(ours)
    with torch.cuda.use_mem_pool(pool):
        t = torch.full((1 << 20,), 3.0, device="cuda")
    assert ours.stats().live_blocks > 0
    assert float(t.sum()) == 3 * (1 << 20)
    del t
    del pool
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    assert ours.stats().live_blocks == 0


def test_pinned_tensors(cuda):
    t = cuda.pinned((1000,), torch.float32)
    assert t.is_pinned()
    t.fill_(2)
    assert float(t.cuda(non_blocking=True).sum()) == 2000


def test_load_to_the_gpu(cuda, tmp_path):
    want = {"a": torch.randn(300, 400), "b": torch.randn(70).to(torch.bfloat16)}
    pyleat.save(tmp_path / "m.safetensors", {name: value.cuda() for name, value in want.items()})
    found = cuda.load(tmp_path / "m.safetensors", where="cuda")
    for name, value in want.items():
        assert found[name].is_cuda
        assert torch.equal(found[name].cpu(), value)


def test_the_whole_allocator(cuda):
    import os
    import subprocess
    import sys

    code = """
import torch, pyleat, pyleat.torch
pyleat.torch.use_as_allocator()
stats = pyleat.torch.leat_device().pool().stats
t = torch.full((1 << 20,), 3.0, device="cuda")
assert stats().live_blocks >= 1
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    u = t * 2
t.record_stream(side)
del t
torch.cuda.synchronize()
assert float(u.sum()) == 6 * (1 << 20)
try:
    torch.empty(1 << 50, device="cuda", dtype=torch.uint8)
except RuntimeError as problem:
    assert "leat" in str(problem), problem
else:
    raise AssertionError("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240, env=dict(os.environ))
