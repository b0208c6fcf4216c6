"""DLPack in both directions, with the exchange of streams."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_uint, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p, py_object
from typing import TYPE_CHECKING, Any

from . import _c, _hold
from ._device import Stream, own_stream
from ._dtype import DType, from_dlpack
from ._operand import Finalized, Operand

if TYPE_CHECKING:
    from ._array import Array

CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, CUDA_MANAGED = 1, 2, 3, 10, 11, 13
_KINDS = {CPU: "pageable", CUDA: "device", CUDA_HOST: "pinned", ROCM: "device", ROCM_HOST: "pinned",
          CUDA_MANAGED: "managed"}
READ_ONLY, IS_COPIED = 1, 2
_NAME, _VERSIONED = b"dltensor", b"dltensor_versioned"


class _Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Managed(Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _ManagedVersioned(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


_python = ctypes.pythonapi
_new = _python.PyCapsule_New
_new.argtypes, _new.restype = (c_void_p, c_char_p, c_void_p), py_object
_is_valid = _python.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = (py_object, c_char_p), c_int
_pointer = _python.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (py_object, c_char_p), c_void_p
_set_name = _python.PyCapsule_SetName
_set_name.argtypes, _set_name.restype = (py_object, c_char_p), c_int
_DELETER = ctypes.CFUNCTYPE(None, c_void_p)

_native = _c.load("libpyleat.so")
_deleted = c_uint.in_dll(_native, "pyleat_deleted")
_delete = ctypes.cast(_native.pyleat_dlpack_delete, c_void_p).value
_delete_versioned = ctypes.cast(_native.pyleat_dlpack_delete_versioned, c_void_p).value

# ---- in


class _Consumed(Finalized):
    """A tensor that another package exported. Its deleter is called when the last reference is gone."""

    def __init__(self, capsule: Any) -> None:
        self._deleter = 0
        if _is_valid(capsule, _VERSIONED):
            versioned = _ManagedVersioned.from_address(_pointer(capsule, _VERSIONED))
            if versioned.major != 1:
                raise BufferError(f"DLPack version {versioned.major}.{versioned.minor}: pyleat knows versions 0 and 1")
            self.tensor = versioned.tensor
            self.readonly = bool(versioned.flags & READ_ONLY)
            managed: Any = versioned
            _set_name(capsule, b"used_dltensor_versioned")
        elif _is_valid(capsule, _NAME):
            managed = _Managed.from_address(_pointer(capsule, _NAME))
            self.tensor = managed.tensor
            self.readonly = False
            _set_name(capsule, b"used_dltensor")
        else:
            raise BufferError("the DLPack capsule was used before, or is none")
        self._address = ctypes.addressof(managed)
        self._deleter = managed.deleter or 0

    def __del__(self, _call: Any = _DELETER, _is_own: Any = _hold.is_own) -> None:
        if self._deleter and _is_own():
            _call(self._deleter)(self._address)


def _driver(device_type: int) -> str:
    return "hip" if device_type == ROCM else "cuda"


def device_name(source: Any) -> str | None:
    """Return leat's name of the GPU of an object with __dlpack_device__, or None for memory of the host."""
    device_type, device_id = source.__dlpack_device__()
    if _KINDS.get(int(device_type)) not in ("device", "managed"):
        return None
    return f"{_driver(device_type)}:{int(device_id)}"


def consume(source: Any, stream: Stream | None) -> Operand:
    """Take an object with __dlpack__ as an operand. Device and managed memory is then ordered for stream."""
    device_type, device_id = source.__dlpack_device__()
    kind = _KINDS.get(int(device_type))
    if kind is None:
        raise BufferError(f"DLPack's device type {int(device_type)} is no CPU, CUDA or ROCm memory")
    arguments: dict[str, Any] = {}
    if kind in ("device", "managed"):
        if stream is None or stream.device.info.driver != _driver(device_type):
            where = f"{_driver(device_type)}:{device_id}"
            raise BufferError(f"memory of {where} needs a stream of that device: pass stream= or device={where!r}")
        arguments["stream"] = stream.native or 1
    try:
        capsule = source.__dlpack__(max_version=(1, 0), **arguments)
    except TypeError:  # an exporter of DLPack before 1.0
        capsule = source.__dlpack__(**arguments)
    owner = _Consumed(capsule)
    tensor = owner.tensor
    element: DType = from_dlpack(tensor.code, tensor.bits, tensor.lanes)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = None
    if tensor.strides:
        strides = tuple(stride * element.itemsize for stride in tensor.strides[: tensor.ndim])
    address = (tensor.data or 0) + tensor.byte_offset
    return Operand(address, shape, element, strides, owner.readonly, (owner, source), kind)


# ---- out


class _Export:
    def __init__(self, array: Array) -> None:
        self.flag = c_uint(0)
        self.sizes = (c_int64 * max(array.ndim, 1))(*array.shape)
        itemsize = array.dtype.itemsize
        self.steps = (c_int64 * max(array.ndim, 1))(*(stride // itemsize for stride in array.strides))
        self.array = array
        self.managed: Any = None
        self.capsule: Any = None

    def over(self) -> bool:
        if self.flag.value:
            return True
        if self.capsule is not None:
            consumed = not (_is_valid(self.capsule, _NAME) or _is_valid(self.capsule, _VERSIONED))
            if not consumed and sys.getrefcount(self.capsule) <= 2:
                return True  # nobody took the capsule, and nobody can
            if consumed:
                self.capsule = None
        return False


_exports: dict[int, _Export] = {}
_sweeping = threading.Lock()  # held by the thread that sweeps; nobody waits for it
_seen = 0


def sweep(all_of_them: bool = False) -> None:
    """Release the exports whose consumers have deleted them, and those that no consumer took."""
    global _seen
    if not _exports or (_deleted.value == _seen and not all_of_them):
        return
    if not _sweeping.acquire(blocking=False):
        return
    dead = []  # dropped outside the lock, because finalizers may call anything
    try:
        _seen = _deleted.value
        for key in list(_exports):
            export = _exports.get(key)
            if export is not None and export.over():
                dead.append(_exports.pop(key, None))
    finally:
        _sweeping.release()


def _in_child() -> None:
    global _sweeping
    _sweeping = threading.Lock()  # another thread of the parent may have held it


_hold.sweeps.append(sweep)
os.register_at_fork(after_in_child=_in_child)


def device_of(array: Array) -> tuple[int, int]:
    """Return DLPack's device of an array. Pinned memory counts as memory of the CPU, which all consumers know."""
    info = array.device.info
    if array.kind in ("pageable", "pinned") or info.driver == "cpu":
        if not array.on_host:
            raise BufferError(f"LEAT_STRICT=1: the host cannot read {array.kind} memory of {info.name}")
        return CPU, 0
    if info.driver == "cuda":
        return (CUDA_MANAGED if array.kind == "managed" else CUDA), info.ordinal
    return ROCM, info.ordinal


_PER_THREAD = 2  # CUDA's handle for the default stream of the calling thread: another queue in each thread


def _consumer(native: int, array: Array) -> Stream:
    """Return the stream of a consumer. The memory refers to it, so it must not end before the memory does: streams of
    pyleat and of CuPy are kept. PyTorch's and JAX's never end."""
    memory, device = array._memory, array.device
    for known in (memory.stream, *memory._others):
        if known._native == native and known.device is device and native != _PER_THREAD:
            return known
    found = own_stream(native)
    if found is not None and found.device is device:
        return found
    owner = None
    cupy = sys.modules.get("cupy")
    if cupy is not None and native > _PER_THREAD:  # neither of CUDA's default streams
        current = cupy.cuda.get_current_stream()
        owner = current if current.ptr == native else None
    return Stream.wrap(native, device, owner)


def export(
    array: Array,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """Make a capsule of an array, whose contents are ready for the consumer's stream, or for the host."""
    sweep(True)
    device_type, device_id = own_type, _ = device_of(array)
    given = array
    if dl_device is not None and tuple(dl_device) != (device_type, device_id):
        if tuple(dl_device) != (CPU, 0) or copy is False:
            raise BufferError(f"the array is on DLPack's device {(device_type, device_id)}, not on {tuple(dl_device)}")
        import pyleat

        array = pyleat.to_device(array, stream=array.stream, kind="pinned")
        device_type, device_id = CPU, 0
    elif copy:
        import pyleat

        array = pyleat.to_device(array, stream=array.stream, kind="pinned" if array.kind != "device" else "device")
    if array.dtype._dlpack is None:
        raise BufferError(f"DLPack has no type for {array.dtype.name}")
    if any(stride % array.dtype.itemsize for stride in array.strides):
        raise BufferError(f"strides {array.strides} are no multiples of {array.dtype.itemsize} bytes")
    versioned = max_version is not None and max_version[0] >= 1
    if array._readonly and not versioned:
        raise BufferError("the array is read-only, which only DLPack 1.0 can say")
    memory = array._memory
    if device_type == CPU or device_type == CUDA_MANAGED:
        # A consumer passes a stream of the array's own device also if it wants a copy on the host.
        if own_type == CPU and stream is not None:
            raise BufferError("memory of the CPU has no streams: stream must be None")
        memory.wait(not array._readonly)  # the host can read managed memory too
    if device_type != CPU and stream != -1 and (stream is not None or device_type != CUDA_MANAGED):
        # None means the legacy default stream (1). Registered as a user of the memory, the consumer's stream is
        # asked for its work when the memory is freed.
        memory.use(_consumer(1 if stream is None else int(stream), array), not array._readonly)
    made = _Export(array)
    if versioned:
        made.managed = _ManagedVersioned(major=1, minor=0)
        made.managed.flags = (READ_ONLY if array._readonly else 0) | (IS_COPIED if array is not given else 0)
        made.managed.deleter = _delete_versioned
    else:
        made.managed = _Managed()
        made.managed.deleter = _delete
    made.managed.context = ctypes.addressof(made.flag)
    tensor = made.managed.tensor
    tensor.data = array.ptr
    tensor.device_type, tensor.device_id = device_type, device_id
    tensor.ndim = array.ndim
    tensor.code, tensor.bits = array.dtype._dlpack
    tensor.lanes = 1
    tensor.shape = ctypes.cast(made.sizes, POINTER(c_int64))
    tensor.strides = ctypes.cast(made.steps, POINTER(c_int64))
    name = _VERSIONED if versioned else _NAME
    capsule = _new(ctypes.addressof(made.managed), name, None)
    made.capsule = capsule
    _exports[ctypes.addressof(made.managed)] = made
    return capsule
