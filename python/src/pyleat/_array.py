"""Arrays: memory with a shape, and whatever keeps that memory alive."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, Sequence, Tuple, Union

from . import _c, _hold, _operand
from ._device import _KIND_NAMES, Device, DeviceLike, Event, Pool, Stream, device
from ._dtype import DType, dtype, numpy_dtype
from ._errors import Error, Status, check, fail
from ._shape import count, dense_strides, is_dense, span

if TYPE_CHECKING:
    import numpy as np

    NumpyArray = np.ndarray[Any, Any]

_lib = _c.leat
Shape = Union[int, Sequence[int]]


def _shape(shape: Shape) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
    if any(size < 0 for size in sizes):
        raise ValueError(f"shape {sizes}: a size is negative")
    return sizes


class Memory:
    """Memory that arrays share, and the order of the work on it.

    Every operation calls use() with its stream first. Reads then wait for the last write on another stream, writes
    also for all reads since then. The memory is freed when no array refers to it, after the work of every stream that
    has used it.
    """

    def __init__(self, ptr: int, nbytes: int, kind: str, stream: Stream) -> None:
        self.ptr = ptr
        self.nbytes = nbytes
        self.kind = kind
        self.stream = stream
        # Guards what follows. Reentrant, since a garbage collection inside may run a finalizer.
        self._lock = threading.RLock()
        self._writer = stream  # the stream of the last write
        self._readers: list[Stream] = []  # other streams that were ordered after that write, and have read since
        self._others: list[Stream] = []  # all streams but the home stream that have ever used the memory
        # The stream that needs no further order for any operation, if there is one. It is read without the lock:
        # a stale value can only be seen by threads that use the memory at the same time without any order.
        self._only: Stream | None = stream
        # Handles that must exist when __del__ runs, which calls _release() at its end.
        self._needs: list[object] = [stream._core]
        _hold.needed[id(self._needs)] = self._needs

    def _release(self, _needed: Any = _hold.needed) -> None:
        _needed.pop(id(self._needs), None)

    def use(self, stream: Stream, write: bool) -> None:
        """Order the next operation of stream on this memory after the earlier ones of other streams."""
        if self._only is stream:
            return
        with self._lock:
            if not write and (stream is self._writer or stream in self._readers):
                return
            if stream is not self._writer and stream not in self._readers:
                stream.wait(self._writer)
            if write:
                for reader in self._readers:
                    if reader is not stream:
                        stream.wait(reader)
                self._writer = stream
                self._readers = []
            else:
                self._readers.append(stream)
            if stream is not self.stream and stream not in self._others:
                self._others.append(stream)
                self._needs.append(stream._core)
            self._only = None if self._readers else self._writer

    def wait(self, write: bool) -> None:
        """Make the host wait for what use() makes a stream wait for."""
        with self._lock:
            streams = [self._writer, *self._readers] if write else [self._writer]
        for stream in streams:
            stream.synchronize()


class Block(Memory):
    """A block of a pool."""

    def __init__(self, nbytes: int, kind: str, stream: Stream, pool: Pool | None) -> None:
        ptr = c_void_p()
        for sweep in _hold.sweeps:
            sweep()
        if pool is None and kind == "device":
            status = _lib.leat_alloc(stream._handle, nbytes, byref(ptr))
        else:
            pool = pool or stream.device.pool(kind)
            status = _lib.leat_pool_alloc(stream._handle, pool._handle, nbytes, byref(ptr))
        if status:
            fail(status)
        super().__init__(ptr.value or 0, nbytes, kind, stream)
        if pool is not None and pool._owned:
            self._needs.append(pool._core)

    def __del__(
        self,
        _use: Any = _lib.leat_block_use,
        _free: Any = _lib.leat_free,
        _is_own: Any = _hold.is_own,
        _fail: Any = fail,
    ) -> None:
        if not hasattr(self, "_needs") or not _is_own():
            return
        try:
            if not self.ptr:
                return
            for stream in self._others:
                if _use(stream._handle, self.ptr):
                    stream.synchronize()
            status = _free(self.stream._handle, self.ptr)
        finally:
            self._release()
        if status:
            _fail(status)  # Python passes it to sys.unraisablehook: guard mode found that the block was overrun


class Foreign(Memory):
    """Memory of another package. The object that owns it is kept until no work uses it any more."""

    def __init__(self, ptr: int, nbytes: int, kind: str, stream: Stream, owner: object) -> None:
        super().__init__(ptr, nbytes, kind, stream)
        self._needs += _operand.finalized(owner)
        self._owner = owner

    def __del__(self, _is_own: Any = _hold.is_own) -> None:
        if not _is_own() or not hasattr(self, "_owner"):
            return
        for stream in {id(stream): stream for stream in (self.stream, *self._others)}.values():
            try:
                done = stream.done
            except Error as problem:
                # The work failed, so it is over. But without the stream, nothing says when it is.
                done = problem.status != Status.HANDLE
            try:
                if not done:
                    _hold.keep(EventHold(stream, (self._owner,)))
            except Error:
                _hold.lost.append(self._owner)
        self._release()


class EventHold:
    """Keeps objects until a stream has passed this point."""

    def __init__(self, stream: Stream, objects: tuple[object, ...]) -> None:
        self._objects = objects
        self._event: Event = stream.record()

    def _poll(self) -> bool:
        return bool(_lib.leat_event_query(self._event._handle) != 1)


class Array:
    """An array in memory of any kind: a shape, a type of elements, strides, and the memory.

    Make one with :func:`empty`, :func:`zeros`, :func:`to_device` or :func:`asarray`. Slices, :attr:`T`,
    :meth:`transpose` and the like are views of the same memory and move nothing; :func:`copy` moves elements between
    arrays with any strides.

    The memory stays while an Array, or a view of another package (:meth:`numpy`, DLPack), refers to it, and while
    submitted work uses it. Operations on different streams are ordered as their calls are. leat does not see the
    work of other packages, such as kernels: order that by the streams themselves (:meth:`Stream.wait`).

    Attributes: `shape`, `dtype`, `strides` (in bytes), `nbytes` (of the elements), `ptr` (address of the first
    element), `stream` (where its memory was allocated), `kind` ("device", "pinned", "managed" or "pageable").
    """

    __slots__ = ("__weakref__", "_dense", "_memory", "_readonly", "dtype", "nbytes", "ptr", "shape", "strides")

    # NumPy must not take an array apart by its items.
    __array_priority__ = 100
    __hash__ = object.__hash__

    def __init__(
        self,
        memory: Memory,
        ptr: int,
        shape: tuple[int, ...],
        dtype: DType,
        strides: tuple[int, ...] | None = None,
        readonly: bool = False,
    ) -> None:
        self._memory = memory
        self.ptr = ptr
        self.shape = shape
        self.dtype = dtype
        self.nbytes = count(shape) * dtype.itemsize
        self.strides: Tuple[int, ...]
        if strides is None:
            self.strides = dense_strides(shape, dtype.itemsize)
            self._dense = True
        else:
            self.strides = strides
            self._dense = is_dense(shape, strides, dtype.itemsize)
        self._readonly = readonly

    # ---- what it is

    @property
    def stream(self) -> Stream:
        """The stream on which the memory was allocated, and on which it is freed."""
        return self._memory.stream

    @property
    def device(self) -> Device:
        """The device of the stream."""
        return self._memory.stream.device

    @property
    def kind(self) -> str:
        """The kind of memory: "device", "pinned", "managed" or "pageable"."""
        return self._memory.kind

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return count(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """True if the elements follow one another in C order."""
        return self._dense

    @property
    def on_host(self) -> bool:
        """True if the host can read the memory."""
        return self._memory.kind != "device" or self.device.is_host

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<Array {self.shape} {self.dtype.name}, {self.kind} memory of {self.device.name}>"

    # ---- views

    def _view(self, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        return Array(self._memory, ptr, shape, self.dtype, strides, self._readonly)

    def __getitem__(self, key: Any) -> Array:
        """Return a view: integers, slices, ... and None, as in NumPy."""
        keys = key if isinstance(key, tuple) else (key,)
        given = sum(1 for item in keys if item is not None and item is not Ellipsis)
        if given > self.ndim:
            raise IndexError(f"{given} indices for an array of {self.ndim} dimensions")
        if sum(1 for item in keys if item is Ellipsis) > 1:
            raise IndexError("an index may have one ... only")
        if not any(item is Ellipsis for item in keys):
            keys = (*keys, Ellipsis)
        ptr, shape, strides, dim = self.ptr, [], [], 0
        for item in keys:
            if item is None:
                shape.append(1)
                strides.append(0)
            elif item is Ellipsis:
                rest = self.ndim - given
                shape.extend(self.shape[dim : dim + rest])
                strides.extend(self.strides[dim : dim + rest])
                dim += rest
            elif isinstance(item, slice):
                start, stop, step = item.indices(self.shape[dim])
                length = len(range(start, stop, step))
                ptr += start * self.strides[dim] if length else 0
                shape.append(length)
                strides.append(step * self.strides[dim])
                dim += 1
            elif hasattr(item, "__index__") and not isinstance(item, bool):
                index, size = item.__index__(), self.shape[dim]
                if not -size <= index < size:
                    raise IndexError(f"index {index} is out of bounds for dimension {dim} of size {size}")
                ptr += (index + size if index < 0 else index) * self.strides[dim]
                dim += 1
            else:
                raise TypeError(f"an index is an integer, a slice, ... or None, not {type(item).__name__}")
        return self._view(ptr, tuple(shape), tuple(strides))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copy value, an array of the same shape and type, into a part of this array."""
        from ._copy import copy

        copy(self[key], value)

    @property
    def T(self) -> Array:
        """A view with all dimensions reversed."""
        return self._view(self.ptr, self.shape[::-1], self.strides[::-1])

    def transpose(self, *order: int) -> Array:
        """Return a view with its dimensions in another order; without arguments reversed."""
        if not order:
            return self.T
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"order {order}: must have each of the numbers 0 to {self.ndim - 1} once")
        return self._view(self.ptr, tuple(self.shape[i] for i in order), tuple(self.strides[i] for i in order))

    def reshape(self, *shape: int) -> Array:
        """Return a view with other sizes; one may be -1. Fails if the elements would have to move."""
        sizes = list(_resolve(shape, self.size))
        if count(tuple(sizes)) != self.size:
            raise ValueError(f"{self.size} elements do not fill the shape {tuple(sizes)}")
        if self._dense:
            return Array(self._memory, self.ptr, tuple(sizes), self.dtype, None, self._readonly)
        layout = _c.Layout()
        fill_layout(layout, self)
        check(_lib.leat_layout_reshape(byref(layout), len(sizes), (ctypes.c_int64 * len(sizes))(*sizes)))
        return self._view(self.ptr, tuple(sizes), tuple(layout.stride_bytes[: len(sizes)]))

    def broadcast_to(self, *shape: int) -> Array:
        """Return a read-only view whose new dimensions, and those of size 1, repeat the elements."""
        if len(shape) < self.ndim:
            raise ValueError(f"shape {shape} has fewer dimensions than {self.shape}")
        more = len(shape) - self.ndim
        strides = [0] * more
        for size, wanted, stride in zip(self.shape, shape[more:], self.strides):
            if size not in (1, wanted):
                raise ValueError(f"an array of shape {self.shape} does not broadcast to {shape}")
            strides.append(stride if size == wanted else 0)
        view = self._view(self.ptr, _shape(shape), tuple(strides))
        view._readonly = True
        return view

    def view(self, kind: Any) -> Array:
        """Return a view of the same bytes with elements of another type. Sizes change in the last dimension."""
        new = dtype(kind)
        if new.itemsize == self.dtype.itemsize:
            return Array(self._memory, self.ptr, self.shape, new, self.strides, self._readonly)
        if not self._dense or not self.shape:
            raise ValueError("only a contiguous array with dimensions has views of elements of another size")
        row = self.shape[-1] * self.dtype.itemsize
        if row % new.itemsize:
            raise ValueError(f"rows of {row} bytes are no multiple of {new.itemsize}")
        return Array(self._memory, self.ptr, (*self.shape[:-1], row // new.itemsize), new, None, self._readonly)

    # ---- contents

    def fill(self, value: Any, stream: Stream | None = None) -> Array:
        """Set all elements to value, in stream order. Returns the array."""
        pattern = _pattern(value, self.dtype)
        if self._readonly:
            raise ValueError("the array is read-only")
        if self.kind == "pageable":
            self._memory.wait(True)
            self.numpy()[...] = value
            return self
        if not self._dense:
            from ._copy import copy

            one = empty((1,) * max(self.ndim, 1), self.dtype, stream=stream or self.stream).fill(value)
            copy(self, one.reshape(*(1,) * self.ndim).broadcast_to(*self.shape), stream=stream)
            return self
        stream = stream or self.stream
        self._memory.use(stream, True)
        check(_lib.leat_fill_pattern(stream._handle, self.ptr, pattern, len(pattern), self.nbytes))
        return self

    def contiguous(self) -> Array:
        """Return this array if its elements follow one another in C order, and otherwise a copy that does so."""
        if self._dense:
            return self
        from ._copy import copy

        made = empty(self.shape, self.dtype, kind=_new_kind(self.kind), stream=self.stream)
        copy(made, self)
        return made

    def to(self, to: DeviceLike = None, *, stream: Stream | None = None, kind: str = "device") -> Array:
        """Return a copy on a device, in C order."""
        return to_device(self, to, stream=stream, kind=kind)

    def to_host(self, stream: Stream | None = None) -> NumpyArray:
        """Return a copy as a NumPy array, complete when the call returns."""
        import numpy

        from ._copy import copy

        made: NumpyArray = numpy.empty(self.shape, numpy_dtype(self.dtype))
        copy(made, self, stream=stream)
        return made

    def tobytes(self) -> bytes:
        """Return the elements in C order as bytes."""
        from ._copy import copy

        made = bytearray(self.nbytes)
        copy(made, self.contiguous())
        return bytes(made)

    def item(self) -> Any:
        """Return the only element as a Python number."""
        value: Any = self.to_host().item()
        return value

    def numpy(self) -> NumpyArray:
        """Return a NumPy view of the same memory, after the work on it so far. The host must reach the memory.

        Later operations of leat on the array are not ordered with the host's use of the view: synchronize first.
        """
        import numpy

        if not self.on_host:
            raise TypeError(
                f"the host cannot read {self.kind} memory of {self.device.name}: to_host() makes a copy, and memory "
                "of kind 'pinned' or 'managed' can be read"
            )
        kind = numpy_dtype(self.dtype)
        if not self.nbytes:
            nothing: NumpyArray = numpy.empty(self.shape, kind)
            return nothing
        self._memory.wait(not self._readonly)
        low, high = span(self.shape, self.strides, self.dtype.itemsize)
        # The buffer refers to the memory's owner, and the NumPy array to the buffer.
        buffer = (ctypes.c_char * (high - low)).from_address(self.ptr + low)
        buffer._pyleat_owner = self  # type: ignore[attr-defined]
        made: NumpyArray = numpy.ndarray(self.shape, kind, memoryview(buffer), -low, self.strides)
        if self._readonly:
            made.flags.writeable = False
        return made

    # ---- exchange with other packages

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray:
        made = self.numpy()
        if dtype is not None and made.dtype != dtype:
            if copy is False:
                raise ValueError("another type of elements needs a copy")
            other: NumpyArray = made.astype(dtype)
            return other
        result: NumpyArray = made.copy() if copy else made
        return result

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.numpy())  # type: ignore[arg-type,unused-ignore]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.device.info.driver == "cpu" or self.kind == "pageable":
            raise AttributeError(f"{self.kind} memory of {self.device.name} has no __cuda_array_interface__")
        if "V" in self.dtype._typestr:
            raise AttributeError(f"__cuda_array_interface__ has no {self.dtype.name}; use DLPack")
        self._memory.use(self.stream, not self._readonly)
        return {
            "shape": self.shape,
            "typestr": self.dtype._typestr,
            "data": (self.ptr if self.nbytes else 0, self._readonly),
            "strides": None if self._dense else self.strides,
            "version": 3,
            "stream": self.stream.native or 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        from . import _dlpack

        return _dlpack.device_of(self)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        from . import _dlpack

        return _dlpack.export(self, stream, max_version, dl_device, copy)


_operand.arrays = (Array,)


def fill_layout(layout: _c.Layout, array: Any) -> None:
    """Describe an array, or anything with shape, strides and itemsize, as a layout."""
    if len(array.shape) > _c.MAX_DIMS:
        raise ValueError(f"{len(array.shape)} dimensions: leat's layouts have at most {_c.MAX_DIMS}")
    layout.dims = len(array.shape)
    layout.element_bytes = array.dtype.itemsize
    layout.sizes[: len(array.shape)] = array.shape
    layout.stride_bytes[: len(array.shape)] = array.strides


def _resolve(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    if shape.count(-1) > 1:
        raise ValueError(f"shape {shape}: only one size may be -1")
    if -1 in shape:
        known = -count(shape)
        if not known or size % known:
            raise ValueError(f"{size} elements do not fill the shape {shape}")
        shape = tuple(size // known if n == -1 else n for n in shape)
    return _shape(shape)


def _pattern(value: Any, kind: DType) -> bytes:
    """Return the bytes of one element."""
    if kind.itemsize not in (1, 2, 4, 8, 16):
        raise TypeError(f"leat cannot fill elements of {kind.itemsize} bytes")
    if type(value) in (bool, int, float) and value == 0 and not str(value).startswith("-"):
        return bytes(kind.itemsize)
    import numpy

    made = numpy.asarray(value)
    if made.size != 1:
        raise ValueError(f"fill needs one number, and not {made.size}: use copy() for an array")
    return made.astype(numpy_dtype(kind)).tobytes()


def _new_kind(kind: str) -> str:
    return "pinned" if kind == "pageable" else kind


def _choose(device_: DeviceLike, stream: Stream | None, pool: Pool | None, kind: str) -> tuple[Stream, str]:
    if stream is None:
        if device_ is None and pool is not None:
            device_ = pool.device if pool._owned else pool._device_name
        stream = device(device_).stream
    elif device_ is not None and device(device_) is not stream.device:
        raise ValueError(f"the stream is of {stream.device.name}, not of {device(device_).name}")
    return stream, pool.kind if pool is not None else kind


def empty(
    shape: Shape,
    dtype: Any = "float32",
    *,
    device: DeviceLike = None,
    stream: Stream | None = None,
    kind: str = "device",
    pool: Pool | None = None,
) -> Array:
    """Return a new array in C order. Its contents are undefined.

    kind is "device", "pinned" or "managed"; with a pool it is the pool's kind. The memory comes in the order of
    stream, which is the device's default stream if none is given.
    """
    element = _to_dtype(dtype)
    sizes = _shape(shape)
    stream, kind = _choose(device, stream, pool, kind)
    block = Block(count(sizes) * element.itemsize, kind, stream, pool)
    return Array(block, block.ptr, sizes, element)


_to_dtype = dtype


def zeros(
    shape: Shape,
    dtype: Any = "float32",
    *,
    device: DeviceLike = None,
    stream: Stream | None = None,
    kind: str = "device",
    pool: Pool | None = None,
) -> Array:
    """Return a new array of zeros; see :func:`empty`."""
    return empty(shape, dtype, device=device, stream=stream, kind=kind, pool=pool).fill(0)


def full(
    shape: Shape,
    value: Any,
    dtype: Any = "float32",
    *,
    device: DeviceLike = None,
    stream: Stream | None = None,
    kind: str = "device",
    pool: Pool | None = None,
) -> Array:
    """Return a new array whose elements are all value; see :func:`empty`."""
    return empty(shape, dtype, device=device, stream=stream, kind=kind, pool=pool).fill(value)


def to_device(
    source: Any,
    device: DeviceLike = None,
    *,
    stream: Stream | None = None,
    kind: str = "device",
    pool: Pool | None = None,
) -> Array:
    """Return a copy of source, in C order, on a device.

    source is an Array, a NumPy array, bytes or another buffer, or an array or tensor of another package. When the
    call returns, source may change if it is ordinary host memory.
    """
    from ._copy import default_stream, move

    if device is None and stream is None and pool is None:
        stream = default_stream(source)
    stream, kind = _choose(device, stream, pool, kind)
    found = _operand.operand(source, False, stream)
    made = empty(found.shape, found.dtype, stream=stream, kind=kind, pool=pool)
    move(made, found, stream)
    return made


def asarray(source: Any, *, device: DeviceLike = None, stream: Stream | None = None) -> Array:
    """Return an Array of the memory of source, without a copy.

    source is an Array, a NumPy array or another buffer, or an object with DLPack or `__cuda_array_interface__`. It is
    kept as long as the array, and until work that uses its memory is over. Host memory becomes an array of kind
    "pageable", or "pinned" if it is page-locked.
    """

    from ._copy import default_stream

    if isinstance(source, Array):
        return source
    if device is None and stream is None:
        stream = default_stream(source)
    stream, _ = _choose(device, stream, None, "device")
    found = _operand.operand(source, None, stream)
    if isinstance(found, Array):
        return found
    info = _c.PointerInfo()
    kind = "pageable"
    if found.nbytes:
        check(_lib.leat_pointer_get_info(found.ptr, byref(info)))
        kind = _KIND_NAMES.get(info.kind, "pageable")
    memory = Foreign(found.ptr, found.nbytes, kind, stream, found)
    return Array(memory, found.ptr, found.shape, found.dtype, found.strides, found.readonly)


def from_dlpack(source: Any, *, device: DeviceLike = None, stream: Stream | None = None) -> Array:
    """Return an Array of the memory of an object with `__dlpack__`, without a copy; see :func:`asarray`."""
    from . import _dlpack
    from ._copy import default_stream

    if device is None and stream is None:
        stream = default_stream(source)
    stream, _ = _choose(device, stream, None, "device")
    found = _dlpack.consume(source, stream)
    memory = Foreign(found.ptr, found.nbytes, found.kind, stream, found)
    return Array(memory, found.ptr, found.shape, found.dtype, found.strides, found.readonly)


__all__ = ["Array", "asarray", "empty", "from_dlpack", "full", "to_device", "zeros"]
