"""pyleat with Numba: leat's pools behind Numba's device memory, as an External Memory Management (EMM) plugin.

Arrays of numba.cuda can be passed to :func:`pyleat.copy` and all other calls as they are.

    import pyleat.numba
    pyleat.numba.use_as_memory_manager()            # before Numba's first CUDA call
    from numba import cuda
    x = cuda.to_device(data)                        # a block of leat's pool

or, without a line of code, NUMBA_CUDA_MEMORY_MANAGER=pyleat.numba in the environment.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
from typing import Any, Tuple

from . import _hold
from ._array import Block
from ._device import Device, Pool, Stream, device
from ._errors import OutOfMemoryError

cuda: Any = importlib.import_module("numba.cuda")

_pools: dict[int, Pool] = {}  # by device; others allocate from the default pool

_Pending = Tuple[Block, int]


class MemoryManager(cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc]
    """Numba's memory manager over leat's pools. Numba makes one for each context.

    Numba does not say on which streams an array was used. So memory is reused only when the whole device has completed
    the work that was submitted before the array was dropped: like Numba's own manager, this one collects dropped
    arrays (NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT, and _RATIO), and then waits once for all of them. Pinned, mapped and
    managed memory is Numba's own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stream: Stream | None = None
        self._blocks: dict[int, Block] = {}  # what Numba's arrays refer to
        self._numbers = itertools.count()  # the keys of _blocks
        self._dropped = 0  # how many arrays were dropped so far
        self._waited = 0  # how many of them had been when the host last waited for the device

    @property
    def interface_version(self) -> int:
        """The version of Numba's interface for memory managers."""
        return 1

    def _device(self) -> Device:
        return device(f"cuda:{self.context.device.id}")

    def initialize(self) -> None:
        """Prepare this manager for its context."""
        if self._stream is None:
            # Memory is allocated and freed on this stream, and nothing else is done there.
            self._stream = Stream(self._device())
            self.deallocations.memory_capacity = self.get_memory_info().total

    def _allocate(self, size: int) -> Block:
        self.initialize()
        stream = self._stream
        assert stream is not None
        block = Block(size, "device", stream, _pools.get(self.context.device.id))
        stream.synchronize()  # the block may have been freed behind work of another stream
        return block

    def memalloc(self, size: int) -> Any:
        """Return a numba.cuda.MemoryPointer to a new block of device memory."""
        try:
            block = self._allocate(size)
        except OutOfMemoryError:
            self.deallocations.clear()
            block = self._allocate(size)
        address, key = block.ptr, next(self._numbers)
        self._blocks[key] = block
        del block

        def finalize() -> None:
            dropped = self._blocks.pop(key, None)
            if dropped is not None:
                self._dropped += 1
                self.deallocations.add_item(self._free, (dropped, self._dropped), size)

        return cuda.MemoryPointer(self.context, ctypes.c_void_p(address), size, finalizer=finalize)

    def _free(self, pending: _Pending) -> None:
        """Wait until no work uses the block, which is free when the caller drops it after this call."""
        _, number = pending
        if number > self._waited and _hold.is_own():
            so_far = self._dropped
            self._device().synchronize()
            self._waited = so_far

    def get_memory_info(self) -> Any:
        """Return the free and the total bytes of the device. What leat's pools hold is not free."""
        free, total = self._device().memory()
        return cuda.MemoryInfo(free=free, total=total)

    def get_ipc_handle(self, memory: Any) -> Any:
        """Refuse: blocks of pools have no handles of CUDA's old kind for other processes."""
        raise NotImplementedError("memory of leat's pools has no IPC handle; allocate the array without this manager")

    def reset(self) -> None:
        """Free all memory of this context. Arrays that refer to it must not be used any more."""
        super().reset()
        if self._blocks:
            self._device().synchronize()
            self._blocks.clear()


def use_as_memory_manager(pool: Pool | None = None) -> None:
    """Make leat's pools Numba's allocator of device memory. Call it before Numba's first CUDA call.

    pool: one with its own limits, for its device; other devices use their default pool.
    """
    if pool is not None:
        if pool.kind != "device" or not pool._owned:
            raise ValueError("the pool must be a pyleat.Pool of your own with device memory")
        _pools[pool.device.info.ordinal] = pool
    cuda.set_memory_manager(MemoryManager)


# The name that Numba looks for in the module of NUMBA_CUDA_MEMORY_MANAGER.
_numba_memory_manager = MemoryManager

__all__ = ["MemoryManager", "use_as_memory_manager"]
