"""Types of elements, for all packages that arrays come from: names of NumPy, DLPack codes, names in files."""

from __future__ import annotations

from typing import Any


class DType:
    """The type of an array's elements.

    Make one with :func:`dtype`. `name` is NumPy's or ml_dtypes' name ("float32", "bfloat16", "float8_e4m3fn"),
    `itemsize` the bytes of an element.
    """

    __slots__ = ("_dlpack", "_model", "_typestr", "itemsize", "name")

    def __init__(
        self, name: str, itemsize: int, typestr: str, dlpack: tuple[int, int] | None, model: str | None
    ) -> None:
        self.name = name
        self.itemsize = itemsize
        self._typestr = typestr  # of NumPy's array interface; "|V2" for types that NumPy does not have
        self._dlpack = dlpack  # type code and bits
        self._model = model  # the name in safetensors files

    def __repr__(self) -> str:
        return f"pyleat.dtype({self.name!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self.name == other.name
        try:
            return self.name == dtype(other).name
        except TypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)


_TABLE = [
    ("bool", 1, "|b1", (6, 8), "BOOL"),
    ("uint8", 1, "|u1", (1, 8), "U8"),
    ("int8", 1, "|i1", (0, 8), "I8"),
    ("uint16", 2, "<u2", (1, 16), "U16"),
    ("int16", 2, "<i2", (0, 16), "I16"),
    ("uint32", 4, "<u4", (1, 32), "U32"),
    ("int32", 4, "<i4", (0, 32), "I32"),
    ("uint64", 8, "<u8", (1, 64), "U64"),
    ("int64", 8, "<i8", (0, 64), "I64"),
    ("float16", 2, "<f2", (2, 16), "F16"),
    ("float32", 4, "<f4", (2, 32), "F32"),
    ("float64", 8, "<f8", (2, 64), "F64"),
    ("complex64", 8, "<c8", (5, 64), "C64"),
    ("complex128", 16, "<c16", (5, 128), "C128"),
    ("bfloat16", 2, "|V2", (4, 16), "BF16"),
    ("float8_e4m3fn", 1, "|V1", (10, 8), "F8_E4M3"),
    ("float8_e4m3fnuz", 1, "|V1", (11, 8), "F8_E4M3FNUZ"),
    ("float8_e5m2", 1, "|V1", (12, 8), "F8_E5M2"),
    ("float8_e5m2fnuz", 1, "|V1", (13, 8), "F8_E5M2FNUZ"),
    ("float8_e8m0fnu", 1, "|V1", (14, 8), "F8_E8M0"),
]
_TYPES = [DType(*row) for row in _TABLE]
_BY_NAME = {kind.name: kind for kind in _TYPES}
_BY_DLPACK = {kind._dlpack: kind for kind in _TYPES}
_BY_MODEL = {kind._model: kind for kind in _TYPES}
_BY_TYPESTR = {kind._typestr: kind for kind in _TYPES if "V" not in kind._typestr}
_made: dict[str, DType] = {}  # types that leat does not know, by their text; only for objects that have no other name
_PYTHON = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
UINT8 = _BY_NAME["uint8"]


def dtype(value: Any) -> DType:
    """Return the type of elements for a name ("float32"), a dtype of NumPy, ml_dtypes or PyTorch, or a Python type."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        found = _BY_NAME.get(value) or _BY_TYPESTR.get(value)
        return found or from_typestr(value)
    if isinstance(value, type) and value in _PYTHON:
        return _BY_NAME[_PYTHON[value]]
    text = str(value)
    if text.startswith("torch."):
        found = _BY_NAME.get(text[6:])
        if found:
            return found
        raise TypeError(f"pyleat has no type for {text}")
    if not hasattr(value, "str"):  # a scalar type of NumPy or ml_dtypes, such as numpy.float32
        name = getattr(value, "__name__", "")
        if name in _BY_NAME:
            return _BY_NAME[name]
        raise TypeError(f"pyleat has no type for {value!r}; names are {', '.join(_BY_NAME)}")
    # The name first, since NumPy has one text ("<V1", "<f1") for several types of ml_dtypes. But NumPy's names are the
    # same for both byte orders.
    found = _BY_NAME.get(getattr(value, "name", "")) if value.str[0] != ">" else None
    found = found or _BY_TYPESTR.get(value.str)
    if found:
        return found
    if getattr(value, "hasobject", False):
        raise TypeError(f"elements of type {value} are Python objects, which leat does not copy")
    return from_typestr(value.str)


def from_typestr(text: str) -> DType:
    """Return a type by its text in NumPy's array interface. leat moves types that it does not know as bytes."""
    found = _BY_TYPESTR.get(text) or _made.get(text)
    if found:
        return found
    if text[:1] in "<>|" and text[1:2] in "biufcmMSUV" and text[2:3].isdigit():
        digits = ""
        for letter in text[2:]:
            if not letter.isdigit():
                break
            digits += letter
        size = int(digits) * (4 if text[1] == "U" else 1)
        made = DType(text, size, text, None, _big_endian(text))
        _made[text] = made
        return made
    raise TypeError(f"pyleat has no type {text!r}; names are {', '.join(_BY_NAME)}")


def _big_endian(text: str) -> str | None:
    little = _BY_TYPESTR.get("<" + text[1:])
    return f"{little._model}_BE" if text[0] == ">" and little and little._model else None


def from_dlpack(code: int, bits: int, lanes: int) -> DType:
    """Return a type by its DLPack code."""
    found = _BY_DLPACK.get((code, bits)) if lanes == 1 else None
    if not found:
        raise BufferError(f"pyleat has no type for DLPack's code {code} with {bits} bits and {lanes} lanes")
    return found


def from_model(name: str) -> DType | None:
    """Return a type by its name in leat/model.h, or None if its elements are no whole bytes."""
    if name.endswith("_BE"):
        little = _BY_MODEL.get(name[:-3])
        return from_typestr(">" + little._typestr[1:]) if little else None
    return _BY_MODEL.get(name)


def numpy_dtype(kind: DType) -> Any:
    """Return NumPy's dtype for kind; for types that NumPy lacks, that of ml_dtypes."""
    import numpy

    if "V" not in kind._typestr or kind.name not in _BY_NAME:
        return numpy.dtype(kind._typestr)
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"NumPy has no {kind.name}: install ml_dtypes, or use view('uint{8 * kind.itemsize}') first"
        ) from None
    return numpy.dtype(getattr(ml_dtypes, kind.name))
