"""What copies work on: the memory of any object that has some."""

from __future__ import annotations

import ctypes
import sys
from ctypes import Structure, byref, c_char_p, c_int, c_ssize_t, c_void_p, py_object
from typing import Any

from . import _hold
from ._device import Stream
from ._dtype import _BY_TYPESTR as BY_TYPESTR
from ._dtype import UINT8, DType, from_typestr
from ._dtype import dtype as to_dtype
from ._shape import count, dense_strides, is_dense, span


class Operand:
    """Memory of another package, with its shape. owner keeps it alive."""

    __slots__ = ("_dense", "_strides", "dtype", "kind", "nbytes", "owner", "ptr", "readonly", "shape")

    def __init__(
        self,
        ptr: int,
        shape: tuple[int, ...],
        dtype: DType,
        strides: tuple[int, ...] | None,
        readonly: bool,
        owner: object,
        kind: str = "pageable",
    ) -> None:
        self.ptr = ptr
        self.shape = shape
        self.dtype = dtype
        self.nbytes = count(shape) * dtype.itemsize
        self._dense = strides is None or is_dense(shape, strides, dtype.itemsize)
        self._strides = strides  # None: in C order
        self.readonly = readonly
        self.owner = owner
        self.kind = kind

    @property
    def strides(self) -> tuple[int, ...]:
        """The distances of neighbours in bytes."""
        if self._strides is None:
            self._strides = dense_strides(self.shape, self.dtype.itemsize)
        return self._strides


class _Buffer(Structure):
    """Python's Py_buffer."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", ctypes.POINTER(c_ssize_t)),
        ("strides", ctypes.POINTER(c_ssize_t)),
        ("suboffsets", ctypes.POINTER(c_ssize_t)),
        ("internal", c_void_p),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes, _get.restype = (py_object, c_void_p, c_int), c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes, _release.restype = (c_void_p,), None
_STRIDES_AND_FORMAT = 0x0010 | 0x0008 | 0x0004  # PyBUF_STRIDES | PyBUF_FORMAT
_FORMATS = {
    "?": "bool", "b": "int8", "B": "uint8", "c": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32",
    "q": "int64", "Q": "uint64", "l": "int64", "L": "uint64", "e": "float16", "f": "float32", "d": "float64",
    "Zf": "complex64", "Zd": "complex128",
}  # fmt: skip


class Finalized:
    """What keeps memory of another package, and lets it go in its finalizer."""


class _View(Finalized):
    """A buffer of an object, which cannot be resized or closed while this lives."""

    def __init__(self, source: Any) -> None:
        self.raw = _Buffer()
        _get(source, byref(self.raw), _STRIDES_AND_FORMAT)  # raises what the object raises

    def __del__(self, _done: Any = _release, _is_own: Any = _hold.is_own) -> None:
        if self.raw.obj:
            _done(byref(self.raw))


def _of_interface(source: Any, interface: dict[str, Any], kind: str) -> Operand:
    data = interface.get("data")
    if data is None:  # the object itself is the buffer
        data = source
    strides = interface.get("strides")
    text = interface["typestr"]
    # NumPy's text for types of ml_dtypes says only how many bytes they have.
    element = BY_TYPESTR.get(text) or (to_dtype(source.dtype) if hasattr(source, "dtype") else from_typestr(text))
    shape = tuple(interface["shape"])
    if isinstance(data, tuple):
        # The interface may have been computed, and may be all that keeps the memory.
        return Operand(data[0], shape, element, strides, bool(data[1]), (interface, source), kind)
    view, offset = _View(data), interface.get("offset", 0)
    low, high = span(shape, strides or dense_strides(shape, element.itemsize), element.itemsize)
    if offset + low < 0 or offset + high > view.raw.len:
        raise ValueError(f"__array_interface__ has a buffer of {view.raw.len} bytes, too few for its shape {shape}")
    return Operand((view.raw.buf or 0) + offset, shape, element, strides, bool(view.raw.readonly), (view, source), kind)


def _of_buffer(source: Any) -> Operand:
    view = _View(source)
    raw = view.raw
    text = (raw.format or b"B").decode().lstrip("@=<")
    element = to_dtype(_FORMATS[text]) if text in _FORMATS else UINT8
    if text not in _FORMATS and (raw.itemsize != 1):
        raise TypeError(f"pyleat has no type for a buffer's format {text!r}")
    shape = tuple(raw.shape[: raw.ndim]) if raw.shape else (raw.len // max(raw.itemsize, 1),)
    strides = tuple(raw.strides[: raw.ndim]) if raw.strides else None
    return Operand(raw.buf or 0, shape, element, strides, bool(raw.readonly), (view, source))


def finalized(owner: object) -> list[object]:
    """Return the objects of an operand's owner that let the memory go in their finalizers."""
    held = owner.owner if isinstance(owner, Operand) else owner
    items = held if isinstance(held, tuple) else (held,)
    return [item for item in items if isinstance(item, Finalized)]


# The class Array, which its module adds.
arrays: Any = ()


def operand(source: Any, write: bool | None, stream: Stream | None = None) -> Any:
    """Return source if it is an Array, and otherwise an Operand for its memory.

    write: True checks that it may be written, None leaves that to the caller. Device memory of another package is
    ordered for work of stream.
    """
    if isinstance(source, arrays):
        if write and source._readonly:
            raise ValueError("the destination is a read-only array")
        return source
    kind = type(source)
    found: Operand
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(source, numpy.generic):
        # A scalar. Its memory, also that of its __array_interface__, belongs to a temporary array.
        source = numpy.array(source)
        source.flags.writeable = False
        found = _of_interface(source, source.__array_interface__, "pageable")
    elif kind.__module__ == "numpy" and hasattr(source, "__array_interface__"):
        found = _of_interface(source, source.__array_interface__, "pageable")
    elif hasattr(source, "__dlpack__"):
        from . import _dlpack

        found = _dlpack.consume(source, stream)
    elif hasattr(source, "__cuda_array_interface__"):
        interface = source.__cuda_array_interface__
        waits_for = interface.get("stream")
        if waits_for is not None and stream is not None:
            stream.wait(Stream.wrap(waits_for, stream.device))
        found = _of_interface(source, interface, "device")
    else:
        try:
            found = _of_buffer(source)
        except (TypeError, BufferError) as problem:
            if hasattr(source, "__array_interface__"):
                found = _of_interface(source, source.__array_interface__, "pageable")
            else:
                raise TypeError(
                    f"{kind.__module__}.{kind.__qualname__} has no memory that pyleat can use ({problem}): pass an "
                    "Array, a NumPy array, a buffer, or an object with DLPack or __cuda_array_interface__"
                ) from None
    if write and found.readonly:
        raise ValueError(f"the destination, a {kind.__qualname__}, is read-only")
    return found
