"""Tensors by name: safetensors, GGUF, npy and npz files to devices, and back into new files (leat/model.h)."""

from __future__ import annotations

import os
from ctypes import POINTER, byref, c_char_p, c_int64, c_size_t, c_void_p, cast, pointer, sizeof, string_at
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _c, _hold
from ._array import Array, Memory, empty, fill_layout
from ._copy import Ticket, copy, default_stream, nanoseconds
from ._device import DeviceLike, Stream, _made, device
from ._dtype import UINT8, DType, from_model
from ._errors import Status, c_text, check, make_error
from ._operand import operand
from ._shape import span

_lib = _c.leat
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class TensorInfo(NamedTuple):
    """One tensor of a model.

    type is its name in leat/model.h ("F32", "Q4_K"); dtype is None if its elements are not whole bytes, as in the
    block types of GGUF. Such tensors are loaded as bytes, with the bytes of a row as the last size.
    """

    name: str
    type: str
    shape: Tuple[int, ...]
    dtype: Optional[DType]
    nbytes: int
    file: int
    offset: int
    fortran_order: bool


class _SetMemory(Memory):
    """The block of one file of a loaded set. The set is freed with its last tensor."""

    def __init__(self, ptr: int, nbytes: int, stream: Stream, loaded: _hold.Handle) -> None:
        super().__init__(ptr, nbytes, "device", stream)
        self._needs.append(loaded)

    def __del__(self, _use: Any = _lib.leat_block_use, _is_own: Any = _hold.is_own) -> None:
        if not _is_own():
            return
        try:
            for stream in self._others:
                if self.ptr and _use(stream._handle, self.ptr):
                    stream.synchronize()
        finally:
            self._release()


class _Load(Ticket):
    """A running load. `await` it, or wait(), and then take `tensors`; :meth:`result` does both.

    The tensors may be used in work of the same stream at once.
    """

    _info = _c.ModelLoadInfo
    tensors: Dict[str, Array]

    def __init__(self, handle: int, objects: tuple[object, ...], tensors: dict[str, Array], owned: bool) -> None:
        library = _c.files()
        self._wait = library.leat_model_load_wait
        self._get_info = library.leat_model_load_get_info
        self._cancel = library.leat_model_load_cancel
        self._destroy = library.leat_model_load_destroy if owned else _nothing
        # The load of a set belongs to the set, which must live as long as this ticket.
        self._set = () if owned else objects
        self.tensors = tensors
        super().__init__(handle, objects)

    def result(self, timeout: float | None = None) -> dict[str, Array]:
        """Wait until everything is there, and return the tensors. Raises TimeoutError after timeout seconds."""
        if not self.wait(timeout):
            raise TimeoutError(f"the load is not complete after {timeout} s: {self.progress}")
        return self.tensors


class _Save(Ticket):
    _info = _c.ModelSaveInfo

    def __init__(self, handle: int, objects: tuple[object, ...]) -> None:
        library = _c.files()
        self._wait = library.leat_model_save_wait
        self._get_info = library.leat_model_save_get_info
        self._cancel = library.leat_model_save_cancel
        self._destroy = library.leat_model_save_destroy
        super().__init__(handle, objects, _c.POINT_DURABLE)


def _nothing(_handle: int) -> int:
    return 0


class Model(Mapping[str, TensorInfo]):
    """The tensors of a set of files by name; the values are :class:`TensorInfo`.

    paths: one or several safetensors, GGUF, npy and npz files, or index files (*.index.json). Opening reads the
    headers only. A file that breaks a rule of its format is refused (docs/models.md); pickles always are.
    """

    _handle = 0

    def __init__(self, paths: Path | Sequence[Path]) -> None:
        several = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else list(paths)
        names = (c_char_p * max(len(several), 1))(*(c_text(os.fsencode(path)) for path in several))
        self._files = _c.files()
        self._close = self._files.leat_model_close
        self._handle = _made(self._files.leat_model_open, names, len(several))
        count, files = c_size_t(), c_size_t()
        check(self._files.leat_model_count(self._handle, byref(count), byref(files)))
        self._tensors: dict[str, TensorInfo] = {}
        self._numbers: dict[str, int] = {}
        raw = _c.ModelTensorInfo()
        for index in range(count.value):
            check(self._files.leat_model_get_tensor_info(self._handle, index, byref(raw)))
            name, kind = raw.name.decode(), raw.type.decode()
            self._tensors[name] = TensorInfo(
                name,
                kind,
                tuple(raw.shape[: raw.dims]),
                from_model(kind) if raw.block_elements == 1 else None,
                raw.bytes,
                raw.file,
                raw.offset,
                bool(raw.fortran_order),
            )
            self._numbers[name] = index

    def __getitem__(self, name: str) -> TensorInfo:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"<Model of {len(self)} tensors, {sum(info.nbytes for info in self.values())} bytes>"

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of all files; of GGUF files leat keeps none."""
        count = c_size_t()
        check(self._files.leat_model_metadata_count(self._handle, byref(count)))
        found = {}
        raw = _c.ModelMetadataInfo()
        for index in range(count.value):
            check(self._files.leat_model_get_metadata_info(self._handle, index, byref(raw)))
            found[raw.key.decode()] = string_at(raw.text, raw.text_bytes).decode("utf-8", "replace")
        return found

    def load(
        self, pattern: str | None = None, *, device: DeviceLike = None, stream: Stream | None = None
    ) -> dict[str, Array]:
        """Load the tensors whose names match pattern ("*.mlp.*"; None: all) to a device, and wait for them."""
        return self.load_start(pattern, device=device, stream=stream).result()

    def load_start(
        self,
        pattern: str | None = None,
        *,
        device: DeviceLike = None,
        stream: Stream | None = None,
        deadline: float | None = None,
    ) -> _Load:
        """Start :meth:`load`, and return its ticket. Its `tensors` can be used by work of the stream at once."""
        stream = stream or _device_stream(device)
        options = None if deadline is None else byref(_c.ModelOptions(deadline_ns=nanoseconds(deadline)))
        handle = _made(
            self._files.leat_model_load_all, stream._handle, self._handle,
            c_text(pattern) if pattern is not None else None, options,
        )  # fmt: skip
        loaded = _hold.Handle(handle, self._files.leat_model_set_destroy, stream._core)
        memories: dict[int, _SetMemory] = {}
        tensors = {}
        ptr = c_void_p()
        raw = _c.PointerInfo()
        for name, info in self._tensors.items():
            status = self._files.leat_model_set_get_pointer(handle, self._numbers[name], byref(ptr))
            if status == Status.NOT_FOUND:  # the pattern does not match
                continue
            check(status)
            address = ptr.value or 0
            base = 0
            if address:
                check(_lib.leat_pointer_get_info(address, byref(raw)))
                base = raw.base or 0
            if base not in memories:
                memories[base] = _SetMemory(base, raw.bytes if base else 0, stream, loaded)
            tensors[name] = _tensor_array(memories[base], address, info)
        return _Load(self._files.leat_model_set_get_load(handle), (loaded,), tensors, False)

    def load_into(
        self,
        places: Mapping[str, Any],
        *,
        slices: Mapping[str, Sequence[slice]] | None = None,
        stream: Stream | None = None,
    ) -> None:
        """Load tensors by name into arrays that exist, and wait for them; see :meth:`load_into_start`."""
        self.load_into_start(places, slices=slices, stream=stream).wait()

    def load_into_start(
        self,
        places: Mapping[str, Any],
        *,
        slices: Mapping[str, Sequence[slice]] | None = None,
        stream: Stream | None = None,
        deadline: float | None = None,
    ) -> Ticket:
        """Start to load tensors into arrays of any package, with any strides, and return a ticket.

        slices has a slice for each dimension of a tensor of which only a part is wanted. Shapes and types must match.
        """
        items = (_c.ModelItem * max(len(places), 1))()
        stream = stream or default_stream(*places.values())
        keep: list[object] = [stream]
        for item, (name, place) in zip(items, places.items()):
            if name not in self._tensors:
                raise _not_found(name, self)
            info = self._tensors[name]
            found = operand(place, True, stream)
            shape = info.shape
            item.size = sizeof(_c.ModelItem)
            item.tensor = self._numbers[name]
            item.dst = found.ptr
            item.stream = stream._handle
            if slices and name in slices:
                parts = slices[name]
                if len(parts) != len(shape):
                    raise ValueError(f"tensor {name!r} has {len(shape)} dimensions, and {len(parts)} slices were given")
                ranges = [part.indices(size) for part, size in zip(parts, shape)]
                rows = (_c.ModelSlice * max(len(ranges), 1))(*(_c.ModelSlice(*part) for part in ranges))
                item.slice = cast(rows, POINTER(_c.ModelSlice))
                keep.append(rows)
                shape = tuple(len(range(*part)) for part in ranges)
            if info.dtype is None:
                if not found._dense:
                    raise ValueError(f"tensor {name!r} of type {info.type} needs a contiguous destination")
            else:
                if found.shape != shape or found.dtype.name != info.dtype.name:
                    raise ValueError(
                        f"tensor {name!r} is {info.dtype.name} {shape}, its destination {found.dtype.name} {found.shape}"
                    )
                layout = _c.Layout()
                fill_layout(layout, found)
                item.layout = pointer(layout)
                keep.append(layout)
            low, high = span(found.shape, found.strides, found.dtype.itemsize)
            if low < 0:
                layout.offset_bytes = -low
                item.dst = found.ptr + low
            item.dst_bytes = high - low
            if isinstance(found, Array):
                found._memory.use(stream, True)
            keep.append(found)
        options = None if deadline is None else byref(_c.ModelOptions(deadline_ns=nanoseconds(deadline)))
        with _hold.starting((*keep, self)):
            handle = _made(self._files.leat_model_load_start, self._handle, items, len(places), options)
            return _Load(handle, tuple(keep), {}, True)

    def __del__(self, _is_own: Any = _hold.is_own) -> None:
        if self._handle and _is_own():
            self._close(self._handle)


def _not_found(name: str, model: Model) -> Exception:
    import difflib

    near = difflib.get_close_matches(name, list(model), 1)
    return make_error(Status.NOT_FOUND, f"there is no tensor {name!r}" + (f"; is it {near[0]!r}?" if near else ""))


def _device_stream(name: DeviceLike) -> Stream:
    return device(name).stream


def _tensor_array(memory: Memory, address: int, info: TensorInfo) -> Array:
    shape = info.shape
    if info.dtype is None:
        rows = 1
        for size in shape[:-1]:
            rows *= size
        row = info.nbytes // rows if rows else 0
        return Array(memory, address, (*shape[:-1], row), UINT8)
    if info.fortran_order:
        strides = []
        step = info.dtype.itemsize
        for size in shape:
            strides.append(step)
            step *= size
        return Array(memory, address, shape, info.dtype, tuple(strides))
    return Array(memory, address, shape, info.dtype)


def load(
    paths: Path | Sequence[Path],
    pattern: str | None = None,
    *,
    device: DeviceLike = None,
    stream: Stream | None = None,
) -> dict[str, Array]:
    """Load the tensors of model files to a device, and return them by name when they are there.

    paths: see :class:`Model`. pattern selects names as in the shell ("*.mlp.*"); None loads all.
    """
    return Model(paths).load(pattern, device=device, stream=stream)


def load_start(
    paths: Path | Sequence[Path],
    pattern: str | None = None,
    *,
    device: DeviceLike = None,
    stream: Stream | None = None,
    deadline: float | None = None,
) -> _Load:
    """Start :func:`load`, and return its ticket: `await` it, or call its `result()`."""
    return Model(paths).load_start(pattern, device=device, stream=stream, deadline=deadline)


def save(
    path: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None, *, stream: Stream | None = None
) -> None:
    """Save arrays of any package as a safetensors file, or one array as an npy file if path ends in ".npy".

    When the call returns, the file is on the disk under its name. Until then an older file keeps the name.
    """
    save_start(path, tensors, metadata, stream=stream).wait()


def save_start(
    path: Path,
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
    *,
    stream: Stream | None = None,
    deadline: float | None = None,
) -> Ticket:
    """Start :func:`save`, and return its ticket, whose last point is "durable"."""
    stream = stream or default_stream(*tensors.values())
    items = (_c.ModelSaveItem * max(len(tensors), 1))()
    keep: list[object] = [stream]
    for item, (name, value) in zip(items, tensors.items()):
        found = operand(value, False, stream)
        if found.dtype._model is None:
            raise TypeError(f"tensor {name!r}: safetensors files have no type for {found.dtype.name}")
        if not found._dense:
            made = empty(found.shape, found.dtype, stream=stream, kind="device")
            copy(made, value, stream=stream)
            found = made
        shape = (c_int64 * max(len(found.shape), 1))(*found.shape)
        if isinstance(found, Array):
            found._memory.use(stream, False)
        item.size = sizeof(_c.ModelSaveItem)
        item.name = c_text(name)
        item.type = found.dtype._model.encode()
        item.dims = len(found.shape)
        item.shape = cast(shape, POINTER(c_int64))
        item.src = found.ptr
        item.src_bytes = found.nbytes
        keep += [found, shape]
    entries = [_c.ModelEntry(c_text(key), c_text(text)) for key, text in (metadata or {}).items()]
    options = _c.ModelSaveOptions(
        deadline_ns=0 if deadline is None else nanoseconds(deadline),
        metadata=cast((_c.ModelEntry * max(len(entries), 1))(*entries), POINTER(_c.ModelEntry)),
        metadata_count=len(entries),
    )
    name_of_file = c_text(os.fsencode(path))
    with _hold.starting(tuple(keep)):
        handle = _made(
            _c.files().leat_model_save_start, stream._handle, name_of_file, items, len(tensors), byref(options)
        )
        return _Save(handle, tuple(keep))


__all__ = ["Model", "TensorInfo", "load", "load_start", "save", "save_start"]
