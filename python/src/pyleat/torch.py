"""pyleat with PyTorch: tensors of leat's memory, leat's pools behind PyTorch's allocator, streams, pinned memory.

Tensors can be passed to :func:`pyleat.copy`, :func:`pyleat.File.read` and all other calls as they are. If one of them
is a CUDA tensor, the stream is PyTorch's current stream, so leat's work is in order with PyTorch's.

    import pyleat.torch
    pool = pyleat.torch.mem_pool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty(1 << 30, device="cuda")        # memory of leat's pool
"""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from typing import TYPE_CHECKING, Any, Sequence, Union

from . import _c
from ._array import Array, Memory, empty
from ._copy import default_stream
from ._device import Device, Pool, Stream, device
from ._models import Model, Path

if TYPE_CHECKING:
    from torch import Tensor
    from torch import dtype as TorchType

torch: Any = importlib.import_module("torch")

_streams: dict[tuple[int, int], Stream] = {}
_lock = threading.Lock()  # guards _streams, _plug and what the plug refers to
_plug: ctypes.CDLL | None = None
_kept: dict[int, Pool] = {}  # the pool that the plug uses for a device, kept while PyTorch may allocate from it
_whole: Any = None
_allocators: list[Any] = []  # of all MemPools, for ever


def _driver() -> str:
    return "hip" if getattr(torch.version, "hip", None) else "cuda"


def _number(where: Any) -> int:
    if where is None:
        return int(torch.cuda.current_device())
    found = torch.device(where) if not isinstance(where, int) else torch.device("cuda", where)
    if found.type != "cuda":
        raise ValueError(f"{found} is no CUDA device")
    return int(torch.cuda.current_device()) if found.index is None else int(found.index)


def leat_device(where: Any = None) -> Device:
    """Return leat's device for one of PyTorch's: a torch.device, a number, or None for the current one."""
    return device(f"{_driver()}:{_number(where)}")


def current_stream(where: Any = None) -> Stream:
    """Return PyTorch's current stream of a device as a stream of leat. Both names stand for the same queue."""
    number = _number(where)
    return wrap_stream(torch.cuda.current_stream(number))


def wrap_stream(stream: Any) -> Stream:
    """Return a torch.cuda.Stream as a stream of leat."""
    key = (int(stream.device_index), int(stream.cuda_stream))
    with _lock:
        found = _streams.get(key)
        if found is None:
            found = _streams[key] = Stream.wrap(key[1], device(f"{_driver()}:{key[0]}"), stream)
    return found


def tensor(array: Array) -> Tensor:
    """Return a tensor of an Array's memory, without a copy. It keeps the memory; the streams are ordered."""
    made: Tensor = torch.from_dlpack(array)
    return made


def pinned(shape: Union[int, Sequence[int]], dtype: TorchType = torch.float32, *, where: Any = None) -> Tensor:
    """Return a CPU tensor in pinned memory of leat's pool, which PyTorch recognises (`is_pinned()`).

    PyTorch does not say which streams use the tensor (`non_blocking=True`). So memory of tensors that are gone is
    collected, and is used again after a later call of this function has waited once for all devices of PyTorch: when
    the collection has 64 MiB or 256 tensors. Keep a tensor that you need again.
    """
    _reuse()
    home = leat_device(where)
    with _lock:
        stream = _pinned_streams.get(home.name)
        if stream is None or stream.device is not home:
            stream = _pinned_streams[home.name] = Stream(home)
    array = empty(shape, dtype, stream=stream, kind="pinned")
    array._memory = _Pinned(array._memory)
    return tensor(array)  # waits for the stream: the block may have been freed behind work of another one


_pinned_streams: dict[str, Stream] = {}  # by device: a stream that never has work but leat's waits
_dropped: list[Memory] = []  # blocks of tensors that are gone, which PyTorch's work may still use
_reuse_lock = threading.Lock()  # guards removals from _dropped
_DROPPED_BYTES, _DROPPED_COUNT = 64 << 20, 256


class _Pinned(Memory):
    """The block of a pinned tensor. The finalizer does not free it, but adds it to _dropped."""

    def __init__(self, block: Memory) -> None:
        super().__init__(block.ptr, block.nbytes, block.kind, block.stream)
        self._block = block

    def __del__(self, _dropped: list[Memory] = _dropped) -> None:
        # What streams of leat have used the memory is the block's to know when it is freed.
        self._block._others += self._others
        self._block._needs += self._needs
        _dropped.append(self._block)
        self._release()


def _reuse() -> None:
    """Wait for PyTorch's devices and free the blocks in _dropped, if there are many."""
    if len(_dropped) < _DROPPED_COUNT and sum(block.nbytes for block in list(_dropped)) < _DROPPED_BYTES:
        return
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return  # a wait would end the capture
    with _reuse_lock:
        over = list(_dropped)
        _synchronize()
        del _dropped[: len(over)]


def _synchronize() -> None:
    """Wait for all work of PyTorch."""
    used = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    for number in range(torch.cuda.device_count()):
        if used is None or used(number):
            torch.cuda.synchronize(number)


def load(
    paths: Path | Sequence[Path], pattern: str | None = None, *, where: Any = None, stream: Stream | None = None
) -> dict[str, Tensor]:
    """Load the tensors of model files, as :func:`pyleat.load`, and return PyTorch tensors without a further copy.

    where: "cuda", "cuda:1", or "cpu", which loads into ordinary memory of PyTorch.
    """
    model = Model(paths)
    if where is not None and torch.device(where).type == "cpu":
        names = [name for name in model if pattern is None or _matches(name, pattern)]
        places = {}
        for name in names:
            info = model[name]
            if info.dtype is None:
                raise TypeError(f"tensor {name!r}: PyTorch has no type {info.type}")
            places[name] = torch.empty(info.shape, dtype=getattr(torch, info.dtype.name))
        if places:
            model.load_into(places, stream=stream or default_stream())
        return places
    loaded = model.load(pattern, stream=stream or current_stream(where))
    return {name: tensor(array) for name, array in loaded.items()}


def _matches(name: str, pattern: str) -> bool:
    import fnmatch

    return fnmatch.fnmatchcase(name, pattern)


def plug() -> ctypes.CDLL:
    """Return the library with the functions that PyTorch calls (python/native/torch_plug.cc)."""
    global _plug
    with _lock:
        if _plug is None:
            found = _c.load("libpyleat-torch.so")
            found.pyleat_torch_set_driver.argtypes = (ctypes.c_char_p,)
            found.pyleat_torch_set_pool.argtypes = (ctypes.c_int, ctypes.c_void_p)
            found.pyleat_torch_failures.restype = ctypes.c_uint64
            found.pyleat_torch_set_driver(_driver().encode())
            _plug = found
    return _plug


def _set_pool(pool: Pool | None, number: int) -> None:
    library = plug()
    if pool is not None and pool.kind != "device":
        raise ValueError(f"the pool has {pool.kind} memory; PyTorch's allocator needs device memory")
    with _lock:
        library.pyleat_torch_set_pool(number, pool._handle if pool is not None else None)
        if pool is not None:
            _kept[number] = pool


def _allocator(function: str) -> Any:
    path = os.path.join(_c.folder(), "libpyleat-torch.so")
    library = plug()
    made = torch.cuda.memory.CUDAPluggableAllocator(path, function, "pyleat_torch_free")
    use = ctypes.cast(library.pyleat_torch_record_stream, ctypes.c_void_p).value
    made.allocator().set_record_stream_fn(use)
    return made


def mem_pool(pool: Pool | None = None, *, where: Any = None) -> Any:
    """Return a torch.cuda.MemPool whose segments come from a pool of leat; use it by torch.cuda.use_mem_pool().

    pool: one with its own limits, or None for the device's default pool. All MemPools of a device take segments from
    the pool given last. PyTorch's caching allocator, its statistics and its snapshots stay as they are.
    """
    _set_pool(pool, _number(where))
    made = _allocator("pyleat_torch_alloc")
    result = torch.cuda.MemPool(made.allocator())
    _allocators.append(made)  # PyTorch does not keep it, and frees segments through it after the MemPool is gone
    return result


def use_as_allocator(pool: Pool | None = None, *, where: Any = None) -> None:
    """Make leat's pools the allocator of all of PyTorch's CUDA memory, before its first allocation.

    Every tensor is then a block of leat's pool, and `Tensor.record_stream()` is leat's leat_block_use(). PyTorch's own
    statistics and snapshots do not work any more (its CUDAPluggableAllocator has none): use :meth:`pyleat.Pool.stats`.
    """
    global _whole
    if pool is not None:
        _set_pool(pool, _number(where))
    _whole = _allocator("pyleat_torch_alloc_or_throw")
    torch.cuda.memory.change_current_allocator(_whole)


def failures() -> int:
    """Return how many calls of PyTorch to leat have failed so far."""
    return int(plug().pyleat_torch_failures())


__all__ = [
    "current_stream",
    "failures",
    "leat_device",
    "load",
    "mem_pool",
    "pinned",
    "plug",
    "tensor",
    "use_as_allocator",
    "wrap_stream",
]
