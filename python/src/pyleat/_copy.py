"""Copies between any two places, and the tickets that follow them."""

from __future__ import annotations

import sys
import threading
import time
from ctypes import addressof, byref, c_char, c_float, c_void_p, cast, create_string_buffer
from typing import Any, Generator, NamedTuple, Sequence

from . import _c, _hold
from ._array import Array, EventHold, Memory, fill_layout
from ._device import Device, Event, Stream, device
from ._dtype import DType
from ._errors import Error, check, fail
from ._operand import operand

_lib = _c.leat
_copy_sync = _lib.leat_copy_sync
_from_buffer: Any = c_char.from_buffer
_POINTS = {"staged": _c.POINT_STAGED, "done": _c.POINT_DONE, "durable": _c.POINT_DURABLE}
_NOT_READY = 1
_MOST_GPUS = 64
# ctypes calls cannot be interrupted, so a long wait is cut into parts: Ctrl-C then works.
_SLICE_NS = 50_000_000


class Progress(NamedTuple):
    """How far a copy is: bytes that have arrived, and all bytes."""

    arrived: int
    total: int


class Ticket:
    """A copy that was started, or a load, a save or a commit.

    `await ticket` waits for the end in asyncio, and so does :meth:`wait` elsewhere. The memory of the copy stays
    until it is over, even if the ticket is forgotten. A ticket that fails raises its failure at each wait; the next
    `synchronize()` of the stream raises it once more (leat/copy.h).
    """

    _handle = 0
    _last = _c.POINT_DONE  # the point at which everything is over
    _wait = staticmethod(_lib.leat_ticket_wait)
    _get_info = staticmethod(_lib.leat_ticket_get_info)
    _cancel = staticmethod(_lib.leat_ticket_cancel)
    _destroy = staticmethod(_lib.leat_ticket_destroy)
    _info: type[Any] = _c.TicketInfo

    def __init__(self, handle: int, objects: tuple[object, ...], last: int = _c.POINT_DONE) -> None:
        self._handle = handle
        self._objects = objects
        self._last = last
        _hold.keep(self)

    def _poll(self) -> bool:
        """Return True, and let the memory go, if the work is over. Does not wait."""
        if self._wait(self._handle, self._last, 0) == _NOT_READY:
            return False
        self._over()
        return True

    def _over(self) -> None:
        self._objects = ()
        _hold.release(self)

    def wait(self, timeout: float | None = None, point: str | None = None) -> bool:
        """Wait until the copy has reached point, for at most timeout seconds. Returns False after a timeout.

        point is "staged" (the source may change), "done" (the bytes are at the destination) or, for commits and
        saves, "durable" (they are on the disk); without it the last of these. Raises the failure of a copy that
        failed, was cancelled or passed its deadline. Ctrl-C interrupts the wait, and not the copy.
        """
        number = self._last if point is None else _POINTS.get(point)
        if number is None:
            raise ValueError(f"point {point!r}: must be one of {', '.join(_POINTS)}")
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE_NS if end is None else int(max(0, min(_SLICE_NS, (end - time.monotonic()) * 1e9)))
            status = self._wait(self._handle, number, left)
            if status == 0:
                if number >= self._last:
                    self._over()
                return True
            if status != _NOT_READY:
                try:
                    fail(status)
                finally:
                    self._poll()
            if end is not None and time.monotonic() >= end:
                return False

    def __await__(self) -> Generator[Any, None, None]:
        return self._awaited().__await__()

    async def _awaited(self) -> None:
        import asyncio

        begin = time.monotonic()
        try:
            while not self.wait(0):
                # Asks again after an eighth of the time that it has taken so far, so an await is at most that late.
                passed = time.monotonic() - begin
                await asyncio.sleep(min(0.002, max(0.00005, passed / 8)))
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _read(self) -> Any:
        raw = self._info()
        check(self._get_info(self._handle, byref(raw)))
        return raw

    @property
    def done(self) -> bool:
        """True if the copy is over, also if it failed."""
        return self._poll()

    @property
    def staged(self) -> bool:
        """True if the source has been read, and may change."""
        return bool(self._read().staged)

    @property
    def progress(self) -> Progress:
        """The bytes that have arrived so far, and all bytes."""
        raw = self._read()
        return Progress(raw.arrived_bytes, raw.bytes)

    def cancel(self) -> None:
        """Cancel what has not been read yet. Does not wait; has no effect on a copy that is over."""
        check(self._cancel(self._handle))

    def __repr__(self) -> str:
        raw = self._read()
        state = "failed" if raw.status else "done" if raw.done else "running"
        return f"<{type(self).__name__} {state}, {raw.arrived_bytes} of {raw.bytes} bytes>"

    def __del__(self, _is_own: Any = _hold.is_own) -> None:
        if self._handle and _is_own():
            self._destroy(self._handle)


class _EventTicket(Ticket):
    """The ticket of a copy between layouts, for which leat has none: it knows the end, and no progress."""

    def __init__(self, stream: Stream, nbytes: int, objects: tuple[object, ...]) -> None:
        self._event: Event = stream.record()
        self._stream = stream
        self._nbytes = nbytes
        super().__init__(0, objects)

    def _poll(self) -> bool:
        if _lib.leat_event_query(self._event._handle) == _NOT_READY:
            return False
        self._over()
        return True

    def wait(self, timeout: float | None = None, point: str | None = None) -> bool:
        if point not in (None, "staged", "done"):
            raise ValueError(f"point {point!r}: must be staged or done")
        begin = time.monotonic()
        while True:
            status = _lib.leat_event_query(self._event._handle)
            if status != _NOT_READY:
                self._over()
                check(status)
                return True
            passed = time.monotonic() - begin
            if timeout is not None and passed >= timeout:
                return False
            time.sleep(min(0.001, max(0.00002, passed / 8)))

    @property
    def staged(self) -> bool:
        return self._poll()

    @property
    def progress(self) -> Progress:
        return Progress(self._nbytes if self._poll() else 0, self._nbytes)

    def cancel(self) -> None:
        """Has no effect: leat does not cancel copies between layouts."""

    def __repr__(self) -> str:
        return f"<Ticket {'done' if self._poll() else 'running'}, {self._nbytes} bytes between layouts>"


def default_stream(*objects: Any) -> Stream:
    """Return the stream for a copy of these objects, the most important one first."""
    for item in objects:
        if isinstance(item, Array):
            return item.stream
    torch = sys.modules.get("torch")
    for item in objects:
        if torch is not None and isinstance(item, torch.Tensor):
            if item.is_cuda:
                from .torch import current_stream

                return current_stream(item.device)
        elif type(item).__module__ != "numpy":
            found = _gpu_of(item)
            if found is not None:
                return found.stream
    return device().stream


def _gpu_of(item: Any) -> Device | None:
    """Return the device of another package's GPU memory, or None if it has none."""
    if hasattr(item, "__dlpack_device__"):
        from . import _dlpack

        try:
            name = _dlpack.device_name(item)
            return device(name) if name is not None else None
        except Exception:  # the package, or leat, does not know the device
            pass
    if hasattr(item, "__cuda_array_interface__"):
        ptr = item.__cuda_array_interface__["data"][0]
        info = _c.PointerInfo()
        for driver in ("cuda", "hip") if ptr else ():
            for number in range(_MOST_GPUS):
                try:
                    found = device(f"{driver}:{number}")
                except Error:
                    break
                status = _lib.leat_pointer_get_info(ptr, byref(info))
                if status or not info.kind:
                    break  # no memory of this driver
                if info.device == found._handle:  # NULL: of a device that is not open yet
                    return found
    return None


def _stream_of(dst: Any, src: Any) -> Stream:
    """Return the stream of a copy: PyTorch's current one if a CUDA tensor takes part, else that of an Array."""
    torch = sys.modules.get("torch")
    if torch is not None:
        for item in (dst, src):
            if isinstance(item, torch.Tensor) and item.is_cuda:
                from .torch import current_stream

                return current_stream(item.device)
    if isinstance(dst, Array) and isinstance(src, Array) and dst.kind != "device" and src.kind == "device":
        return src.stream
    return default_stream(dst, src)


def _match(dst: Any, src: Any) -> None:
    if dst.shape != src.shape:
        if dst.nbytes == src.nbytes and dst._dense and src._dense and 1 in (dst.dtype.itemsize, src.dtype.itemsize):
            if len(dst.shape) == 1 or len(src.shape) == 1:
                return  # raw bytes to or from elements
        raise ValueError(f"the destination has the shape {dst.shape}, the source {src.shape}")
    if dst.dtype is not src.dtype and dst.dtype.name != src.dtype.name:
        raise TypeError(
            f"the destination has elements of {dst.dtype.name}, the source of {src.dtype.name}: leat moves bytes and "
            "converts nothing; use view() if that is meant"
        )


class _PointerInfo(threading.local):
    """A struct for each thread, since to make one takes longer than to ask."""

    def __init__(self) -> None:
        self.raw = _c.PointerInfo()
        self.place = byref(self.raw)


_pointer_info = _PointerInfo()
_get_pointer_info = _lib.leat_pointer_get_info


def _is_pageable(ptr: int) -> bool:
    info = _pointer_info
    status = _get_pointer_info(ptr, info.place)
    if status:
        fail(status)
    return bool(info.raw.kind == 0)  # KIND_PAGEABLE


# Memory that other packages use in work of their streams.
_IN_STREAM_ORDER = ("device", "managed")


def _is_done(found: Any) -> bool:
    """Return True if leat_copy_sync() leaves nothing to wait for on this side."""
    return not found.nbytes or (found.kind not in _IN_STREAM_ORDER and _is_pageable(found.ptr))


def _settle(stream: Stream, foreign: list[Any]) -> None:
    """After a copy: keep what other packages own until the stream has passed, or wait for it."""
    torch = sys.modules.get("torch")
    for found in foreign:
        if found.kind in _IN_STREAM_ORDER:
            owner = found.owner[1] if isinstance(found.owner, tuple) else found.owner
            if torch is None or not isinstance(owner, torch.Tensor):
                # The other package does not know of this stream, so its later work must find the copy complete.
                stream.synchronize()
                return
    _hold.keep(EventHold(stream, tuple(found.owner for found in foreign)))


def _layouts(dst: Any, src: Any) -> tuple[_c.Layout, _c.Layout]:
    to, of = _c.Layout(), _c.Layout()
    fill_layout(to, dst)
    fill_layout(of, src)
    return to, of


def move(dst: Any, src: Any, stream: Stream) -> None:
    """copy() for operands."""
    d, s = dst, src
    to_array, of_array = type(d) is Array, type(s) is Array
    if d.dtype is not s.dtype or d.shape != s.shape:
        _match(d, s)
    if to_array:
        memory: Memory = d._memory
        if memory._only is not stream:
            memory.use(stream, True)
    if of_array:
        memory = s._memory
        if memory._only is not stream:
            memory.use(stream, False)
    if d._dense and s._dense:
        status = _copy_sync(stream._handle, d.ptr, s.ptr, d.nbytes)
        if status:
            fail(status)
        if to_array and of_array:
            return
        foreign = [found for found in (d, s) if type(found) is not Array and not _is_done(found)]
        if foreign:
            _settle(stream, foreign)
        return
    to, of = _layouts(d, s)
    with _hold.starting((d, s, stream)):
        check(_lib.leat_copy_layout(stream._handle, d.ptr, byref(to), s.ptr, byref(of)))
        _settle_strided(stream, d, s)


def _settle_strided(stream: Stream, d: Any, s: Any) -> None:
    """Wait, if the call must, for a copy that leat makes by leat_copy_layout() or leat_copy_convert()."""
    foreign = [found for found in (d, s) if type(found) is not Array]
    if any(found.kind not in _IN_STREAM_ORDER for found in foreign):
        stream.synchronize()
    elif foreign:
        _settle(stream, foreign)


def _copy_ndarray(array: Any, host: Any, write: bool) -> bool:
    """Copy between a contiguous Array and a contiguous, writable NumPy array of its shape and type, the usual case.

    Returns False, and does nothing, in other cases; move() does the same then, more slowly.
    """
    if type(array) is not Array or not array._dense or type(host).__module__ != "numpy":
        return False
    typestr = array.dtype._typestr
    if getattr(getattr(host, "dtype", None), "str", None) != typestr or host.shape != array.shape:
        return False
    if "V" in typestr or not array.nbytes:
        return False
    try:
        # Takes a quarter of the time of __array_interface__. Fails unless the array is contiguous and may be written.
        held = _from_buffer(host)
    except (TypeError, ValueError, BufferError):
        return False
    ptr = addressof(held)
    memory: Memory = array._memory
    stream = memory.stream
    if write:
        if array._readonly:
            return False
        if memory._only is not stream:
            memory.use(stream, True)
        status = _copy_sync(stream._handle, array.ptr, ptr, array.nbytes)
    else:
        if memory._only is not stream:
            memory.use(stream, False)
        status = _copy_sync(stream._handle, ptr, array.ptr, array.nbytes)
    if status:
        fail(status)
    if not _is_pageable(ptr):
        _hold.keep(EventHold(stream, (host,)))
    return True


def copy(dst: Any, src: Any, *, stream: Stream | None = None) -> None:
    """Copy src to dst, in stream order, between any two places and with any strides.

    Both are Arrays, NumPy arrays, buffers such as bytes and mmap, or arrays and tensors of other packages, of the
    same shape and type. When the call returns, host memory of other packages may be changed (a source) or read (a
    destination), except for pinned memory, whose copies run in stream order as those of device memory do.

    The stream is that of the Array among the two (of dst, if both are), or PyTorch's current stream if one is a CUDA
    tensor. Use :func:`copy_start` for a copy that runs while the program goes on.
    """
    if stream is None and (_copy_ndarray(dst, src, True) or _copy_ndarray(src, dst, False)):
        return
    if type(dst) is Array and not dst._readonly:
        d: Any = dst
        if stream is None:
            stream = dst._memory.stream if type(src) is not Array and not hasattr(src, "is_cuda") else None
    else:
        d = None
    if stream is None:
        stream = _stream_of(dst, src)
    if d is None:
        d = operand(dst, True, stream)
    s = src if type(src) is Array else operand(src, False, stream)
    move(d, s, stream)


_NUMBERS = {
    "uint8": _c.NUMBER_U8,
    "float16": _c.NUMBER_F16,
    ">f2": _c.NUMBER_F16,
    "bfloat16": _c.NUMBER_BF16,
    "float32": _c.NUMBER_F32,
    ">f4": _c.NUMBER_F32,
}


def _swaps(kind: DType) -> bool:
    return kind._typestr[0] == ">"


def _conversion(d: DType, s: DType) -> _c.Conversion:
    """Return the conversion between two types of elements, without its numbers."""
    to, of = _NUMBERS.get(d.name), _NUMBERS.get(s.name)
    if to is None or of is None:
        # Other types can only change the order of their bytes. A complex number is two numbers.
        if d._typestr[1:] != s._typestr[1:] or "c" in d._typestr or "V" in d._typestr or d.itemsize not in (2, 4, 8):
            raise TypeError(
                f"convert from {s.name} to {d.name}: leat converts uint8, float16, bfloat16 and float32 to one of the "
                "last three, and reverses the bytes of elements of 2, 4 and 8 bytes"
            )
        to = of = _c.NUMBER_BITS
    flags = (_c.CONVERT_SWAP_DST if _swaps(d) else 0) | (_c.CONVERT_SWAP_SRC if _swaps(s) else 0)
    return _c.Conversion(dst=to, src=of, flags=flags)


def _floats(name: str, value: float | Sequence[float] | None, channels: int) -> Any:
    """Return the numbers of a conversion as an array of C, or None."""
    if value is None:
        return None
    try:
        numbers = [float(number) for number in value]  # type: ignore[union-attr]
    except TypeError:  # a number, or a NumPy array without dimensions
        numbers = [float(value)]  # type: ignore[arg-type]
    if len(numbers) == 1 and channels:
        numbers *= channels
    if len(numbers) != max(1, channels):
        raise ValueError(f"{name} has {len(numbers)} numbers for {max(1, channels)} channels")
    return (c_float * len(numbers))(*numbers)


def convert(
    dst: Any,
    src: Any,
    *,
    scale: float | Sequence[float] | None = None,
    bias: float | Sequence[float] | None = None,
    channel: int | None = None,
    stream: Stream | None = None,
) -> None:
    """Copy src to dst as :func:`copy` does, and convert each element on the way, in the same pass over memory.

    Each element becomes `src * scale + bias` in dst's type, rounded as leat/layout.h says of leat_copy_convert(). src is
    of uint8, float16, bfloat16 or float32, dst of one of the last three; NumPy's types of the other byte order (">f4")
    are read and written too. Any other types must be the same apart from their byte order. scale and bias are a number,
    or one number for each index of dimension `channel`, in host memory:

        planes = pyleat.empty((n, 3, h, w), "float16")
        pyleat.convert(planes, pixels.transpose(0, 3, 1, 2), scale=1 / (255 * std), bias=-mean / std, channel=1)
    """
    if stream is None:
        stream = _stream_of(dst, src)
    d, s = operand(dst, True, stream), operand(src, False, stream)
    if d.shape != s.shape:
        raise ValueError(f"convert from shape {s.shape} to {d.shape}: they must be the same")
    conversion = _conversion(d.dtype, s.dtype)
    if channel is not None:
        if not -len(d.shape) <= channel < len(d.shape):
            raise ValueError(f"channel {channel}: the arrays have {len(d.shape)} dimensions")
        conversion.channel_dim = channel % len(d.shape)
        conversion.channels = d.shape[conversion.channel_dim]
    scales, biases = _floats("scale", scale, conversion.channels), _floats("bias", bias, conversion.channels)
    conversion.scale, conversion.bias = cast(scales, c_void_p), cast(biases, c_void_p)
    for found, write in ((d, True), (s, False)):
        if isinstance(found, Array):
            found._memory.use(stream, write)
    to, of = _layouts(d, s)
    with _hold.starting((d, s, stream)):
        check(_lib.leat_copy_convert(stream._handle, d.ptr, byref(to), s.ptr, byref(of), byref(conversion)))
        _settle_strided(stream, d, s)


def copy_start(dst: Any, src: Any, *, stream: Stream | None = None, deadline: float | None = None) -> Ticket:
    """Start a copy and return its ticket at once, also for ordinary host memory.

    The arguments are those of :func:`copy`; deadline is in seconds, after which leat cancels what it has not read.
    Both objects are kept until the copy is over. Until then, the host must neither read dst nor change src; src may
    change once the ticket is `staged`.
    """
    if stream is None:
        stream = _stream_of(dst, src)
    d, s = operand(dst, True, stream), operand(src, False, stream)
    _match(d, s)
    for found, write in ((d, True), (s, False)):
        if isinstance(found, Array):
            found._memory.use(stream, write)
    objects = (d, s, stream)
    if not (d._dense and s._dense):
        to, of = _layouts(d, s)
        with _hold.starting(objects):
            check(_lib.leat_copy_layout(stream._handle, d.ptr, byref(to), s.ptr, byref(of)))
            return _EventTicket(stream, d.nbytes, objects)
    handle, options = c_void_p(), copy_options(deadline)
    with _hold.starting(objects):
        check(_lib.leat_copy_start(stream._handle, d.ptr, s.ptr, d.nbytes, options, byref(handle)))
        return Ticket(handle.value or 0, objects)


def nanoseconds(deadline: float) -> int:
    """Return a deadline in seconds, which may be infinite, in nanoseconds."""
    return int(max(1, min(deadline * 1e9, 1 << 62)))


def copy_options(deadline: float | None) -> Any:
    """Return the options of a copy, or None."""
    if deadline is None:
        return None
    if deadline <= 0:
        raise ValueError(f"deadline {deadline}: must be more than 0 seconds")
    return byref(_c.CopyOptions(deadline_ns=nanoseconds(deadline)))


def explain(dst: Any, src: Any, *, stream: Stream | None = None) -> str:
    """Describe how leat would make this copy now, why, and what limits its speed. Copies nothing."""
    if stream is None:
        stream = _stream_of(dst, src)
    d, s = operand(dst, True, stream), operand(src, False, stream)
    _match(d, s)
    text = create_string_buffer(4096)
    if d._dense and s._dense:
        check(_lib.leat_copy_explain(stream._handle, d.ptr, s.ptr, d.nbytes, text, len(text)))
    else:
        to, of = _layouts(d, s)
        check(
            _lib.leat_copy_layout_explain(
                stream._handle, d.ptr, byref(to), s.ptr, byref(of), text, len(text)
            )
        )
    return text.value.decode("utf-8", "replace")


__all__ = ["Progress", "Ticket", "convert", "copy", "copy_start", "explain"]
