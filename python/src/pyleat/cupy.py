"""pyleat with CuPy: leat's pools behind CuPy's allocators, and CuPy's current stream as a stream of leat.

CuPy's arrays can be passed to :func:`pyleat.copy` and all other calls as they are.

    import cupy, pyleat.cupy
    pyleat.cupy.use_as_allocator()                  # device memory
    pyleat.cupy.use_as_pinned_allocator()           # pinned memory
    x = cupy.zeros((1000, 1000))                    # a block of leat's pool
"""

from __future__ import annotations

import collections
import gc
import importlib
import threading
import weakref
from typing import Any

from ._array import Block
from ._device import Device, Pool, Stream, device
from ._errors import OutOfMemoryError

cupy: Any = importlib.import_module("cupy")

_streams: weakref.WeakValueDictionary[tuple[int, int], Stream] = weakref.WeakValueDictionary()
_recent: collections.deque[Stream] = collections.deque(maxlen=8)  # kept, so that they are not made for each block
_lock = threading.RLock()  # guards both; reentrant, since a garbage collection inside may drop a stream


def _driver() -> str:
    return "hip" if cupy.cuda.runtime.is_hip else "cuda"


def leat_device(number: int | None = None) -> Device:
    """Return leat's device for one of CuPy's, by its number; None: the current one."""
    return device(f"{_driver()}:{cupy.cuda.runtime.getDevice() if number is None else number}")


def wrap_stream(stream: Any, number: int | None = None) -> Stream:
    """Return a cupy.cuda.Stream as a stream of leat. Both names stand for the same queue.

    number is that of the stream's device; None: the current one.
    """
    if number is None:
        number = int(cupy.cuda.runtime.getDevice())
    key = (number, int(stream.ptr))
    with _lock:
        found = _streams.get(key)
        if found is None:
            # It keeps CuPy's stream, so that the handle stays this stream's while a block refers to it.
            found = _streams[key] = Stream.wrap(key[1], leat_device(number), stream)
            _recent.append(found)
        return found


def current_stream() -> Stream:
    """Return CuPy's current stream of the current device as a stream of leat."""
    return wrap_stream(cupy.cuda.get_current_stream())


def _pool_for(pool: Pool | None, where: Device) -> Pool | None:
    return pool if pool is not None and pool.device is where else None


def _check(pool: Pool | None, kind: str) -> None:
    if pool is not None and (pool.kind != kind or not pool._owned):
        raise ValueError(f"the pool must be a pyleat.Pool of your own with {kind} memory")


def _block(size: int, kind: str, stream: Stream, pool: Pool | None) -> Block:
    try:
        return Block(size, kind, stream, _pool_for(pool, stream.device))
    except OutOfMemoryError:
        gc.collect()  # arrays in reference cycles
        return Block(size, kind, stream, _pool_for(pool, stream.device))


class Allocator:
    """An allocator of device memory for cupy.cuda.set_allocator() and cupy.cuda.using_allocator().

    A block belongs to CuPy's current stream: it is freed in the order of that stream, as in CuPy's own pool.

    pool: a pool of the current device with its own limits. None, and on other devices: the device's default pool.
    """

    def __init__(self, pool: Pool | None = None) -> None:
        _check(pool, "device")
        self._pool = pool

    def __call__(self, size: int) -> Any:
        """Return a cupy.cuda.MemoryPointer to a new block."""
        if size == 0:
            memory = cupy.cuda.UnownedMemory(0, 0, None, cupy.cuda.runtime.getDevice())
        else:
            stream = current_stream()
            block = _block(size, "device", stream, self._pool)
            memory = cupy.cuda.UnownedMemory(block.ptr, size, block, stream.device.info.ordinal)
        return cupy.cuda.MemoryPointer(memory, 0)

    malloc = __call__


class _PinnedMemory:
    """What a cupy.cuda.PinnedMemoryPointer points into."""

    def __init__(self, block: Block | None, size: int) -> None:
        self._block = block
        self.ptr = block.ptr if block is not None else 0
        self.size = size


class PinnedAllocator:
    """An allocator of pinned memory for cupy.cuda.set_pinned_memory_allocator().

    The memory can be used at once, on any stream. It is free again when the last reference to it is gone: until then
    keep what an asynchronous copy uses, as with CuPy's own pool. CuPy keeps what its own copies use.

    pool: a pool of pinned memory of the current device. None, and on other devices: the device's default pool for it.
    """

    def __init__(self, pool: Pool | None = None) -> None:
        _check(pool, "pinned")
        self._pool = pool
        self._own: dict[int, Stream] = {}  # by device: a stream that never has work but leat's waits
        self._lock = threading.Lock()  # guards _own

    def _stream(self) -> Stream:
        where = leat_device()
        with self._lock:
            if where.info.ordinal not in self._own:
                self._own[where.info.ordinal] = Stream(where)
            return self._own[where.info.ordinal]

    def __call__(self, size: int) -> Any:
        """Return a cupy.cuda.PinnedMemoryPointer to a new block."""
        block = None
        if size:
            stream = self._stream()
            block = _block(size, "pinned", stream, self._pool)
            stream.synchronize()  # the block may have been freed behind work of another stream
        return cupy.cuda.PinnedMemoryPointer(_PinnedMemory(block, size), 0)

    malloc = __call__


def use_as_allocator(pool: Pool | None = None) -> None:
    """Make leat's pools CuPy's allocator of device memory, for all threads and devices: see :class:`Allocator`.

    Arrays that exist keep their memory. cupy.get_default_memory_pool() has nothing to report then: use
    :meth:`pyleat.Pool.stats`. cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc) ends it.
    """
    cupy.cuda.set_allocator(Allocator(pool))


def use_as_pinned_allocator(pool: Pool | None = None) -> None:
    """Make leat's pools CuPy's allocator of pinned memory: see :class:`PinnedAllocator`."""
    cupy.cuda.set_pinned_memory_allocator(PinnedAllocator(pool))


__all__ = [
    "Allocator",
    "PinnedAllocator",
    "current_stream",
    "leat_device",
    "use_as_allocator",
    "use_as_pinned_allocator",
    "wrap_stream",
]
