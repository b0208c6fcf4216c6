"""The C API of leat through ctypes: structs, enumerators and prototypes.

`tools/check-python-abi.py` compares all of them with leat's headers. ctypes needs no compiler and is a part of Python,
and it releases the interpreter lock (GIL) during each call.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

FOREVER = 2**64 - 1

KIND_PAGEABLE, KIND_PINNED, KIND_DEVICE, KIND_MANAGED = range(4)
POINT_STAGED, POINT_DONE, POINT_DURABLE = 1, 2, 3
FILE_READ, FILE_WRITE, FILE_CREATE, FILE_TRUNCATE = 1, 2, 4, 8
FILE_DIRECT, FILE_CACHED, FILE_TEMPORARY, FILE_KEEP = 16, 32, 64, 128
MAX_DIMS = 32
NUMBER_BITS, NUMBER_U8, NUMBER_F16, NUMBER_BF16, NUMBER_F32 = 0, 1, 2, 3, 4
CONVERT_SWAP_SRC, CONVERT_SWAP_DST = 1, 2
MAX_ELEMENT_BYTES = 16


class Sized(Structure):
    """A struct of leat that can grow. Its first field is its size, which the constructor sets."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.size = ctypes.sizeof(self)


class DeviceInfo(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char * 16),
        ("driver", c_char * 8),
        ("ordinal", c_int),
        ("model", c_char * 96),
        ("architecture", c_char * 32),
        ("memory_bytes", c_uint64),
        ("compute_units", c_uint32),
        ("max_block_threads", c_uint32),
        ("max_shared_bytes", c_uint32),
        ("memory_clock_khz", c_uint32),
        ("memory_bus_bits", c_uint32),
        ("pci_address", c_char * 20),
        ("numa_node", c_int),
        ("link_gen", c_uint32),
        ("link_width", c_uint32),
        ("copy_engines", c_uint32),
        ("peer_mask", c_uint64),
        ("unified_addressing", c_uint8),
        ("managed_memory", c_uint8),
        ("virtual_memory", c_uint8),
        ("strict", c_uint8),
        ("kernel_code", c_char * 16),
    ]


class PointerInfo(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int),
        ("device", c_void_p),
        ("base", c_void_p),
        ("bytes", c_size_t),
        ("device_pointer", c_void_p),
        ("owned", c_uint8),
    ]


class CopyOptions(Sized):
    _fields_ = [("size", c_size_t), ("deadline_ns", c_uint64)]


class TicketInfo(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("bytes", c_uint64),
        ("arrived_bytes", c_uint64),
        ("staged", c_uint8),
        ("done", c_uint8),
        ("durable", c_uint8),
        ("status", c_int),
        ("protocol", c_char_p),
    ]


class Layout(Structure):
    _fields_ = [
        ("dims", c_uint32),
        ("element_bytes", c_uint32),
        ("offset_bytes", c_int64),
        ("sizes", c_int64 * MAX_DIMS),
        ("stride_bytes", c_int64 * MAX_DIMS),
        ("index", c_void_p),
        ("index_dim", c_uint32),
        ("index_bytes", c_uint32),
        ("index_bound", c_int64),
        ("index_wrong", c_void_p),
    ]


class Conversion(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("dst", c_int),
        ("src", c_int),
        ("flags", c_uint32),
        ("channels", c_uint32),
        ("channel_dim", c_uint32),
        ("scale", c_void_p),
        ("bias", c_void_p),
    ]


class PoolOptions(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("kind", c_int),
        ("reuse", c_int),
        ("limit_bytes", c_uint64),
        ("soft_limit_bytes", c_uint64),
        ("budget", c_void_p),
        ("dedicated", c_uint8),
        ("exportable", c_uint8),
        ("no_virtual_memory", c_uint8),
        ("guard", c_uint8),
        ("scrub", c_uint8),
        ("history", c_uint32),
        ("packing", c_int),
        ("plan", c_char_p),
    ]


class PoolStats(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("requested_bytes", c_uint64),
        ("requested_peak_bytes", c_uint64),
        ("used_bytes", c_uint64),
        ("reserved_bytes", c_uint64),
        ("reserved_peak_bytes", c_uint64),
        ("pending_bytes", c_uint64),
        ("live_blocks", c_uint64),
        ("allocations", c_uint64),
        ("frees", c_uint64),
        ("failures", c_uint64),
        ("cache_hits", c_uint64),
        ("driver_calls", c_uint64),
        ("driver_ns", c_uint64),
        ("pages_created", c_uint64),
        ("pages_stitched", c_uint64),
        ("pages_released", c_uint64),
        ("events", c_uint64),
        ("queries", c_uint64),
        ("stream_waits", c_uint64),
        ("host_waits", c_uint64),
        ("callbacks", c_uint64),
        ("guard_reports", c_uint64),
        ("stitches", c_uint64),
        ("stitch_reuses", c_uint64),
        ("planned", c_uint64),
        ("packing", c_int),
    ]


class ModelTensorInfo(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("type", c_char_p),
        ("block_elements", c_uint32),
        ("block_bytes", c_uint32),
        ("dims", c_uint32),
        ("shape", POINTER(c_int64)),
        ("file", c_size_t),
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("fortran_order", c_uint8),
    ]


class ModelMetadataInfo(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("file", c_size_t),
        ("key", c_char_p),
        ("text", c_void_p),
        ("text_bytes", c_size_t),
    ]


class ModelSlice(Structure):
    _fields_ = [("start", c_int64), ("stop", c_int64), ("step", c_int64)]


class ModelItem(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("tensor", c_size_t),
        ("dst", c_void_p),
        ("dst_bytes", c_size_t),
        ("slice", POINTER(ModelSlice)),
        ("layout", POINTER(Layout)),
        ("stream", c_void_p),
    ]


class ModelOptions(Sized):
    _fields_ = [("size", c_size_t), ("deadline_ns", c_uint64)]


class ModelLoadInfo(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("bytes", c_uint64),
        ("arrived_bytes", c_uint64),
        ("reads", c_size_t),
        ("staged", c_uint8),
        ("done", c_uint8),
        ("status", c_int),
        ("copied_bytes", c_uint64),
        ("copied_arrived_bytes", c_uint64),
    ]


class ModelSaveItem(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("type", c_char_p),
        ("dims", c_uint32),
        ("shape", POINTER(c_int64)),
        ("src", c_void_p),
        ("src_bytes", c_size_t),
    ]


class ModelEntry(Structure):
    _fields_ = [("key", c_char_p), ("text", c_char_p)]


class ModelSaveOptions(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("deadline_ns", c_uint64),
        ("metadata", POINTER(ModelEntry)),
        ("metadata_count", c_size_t),
    ]


class ModelSaveInfo(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("bytes", c_uint64),
        ("arrived_bytes", c_uint64),
        ("staged", c_uint8),
        ("done", c_uint8),
        ("durable", c_uint8),
        ("status", c_int),
    ]


# The structs by their names in C.
STRUCTS = {
    "leat_device_info": DeviceInfo,
    "leat_pointer_info": PointerInfo,
    "leat_copy_options": CopyOptions,
    "leat_ticket_info": TicketInfo,
    "leat_layout": Layout,
    "leat_conversion": Conversion,
    "leat_pool_options": PoolOptions,
    "leat_pool_stats": PoolStats,
    "leat_model_tensor_info": ModelTensorInfo,
    "leat_model_metadata_info": ModelMetadataInfo,
    "leat_model_slice": ModelSlice,
    "leat_model_item": ModelItem,
    "leat_model_options": ModelOptions,
    "leat_model_load_info": ModelLoadInfo,
    "leat_model_save_item": ModelSaveItem,
    "leat_model_entry": ModelEntry,
    "leat_model_save_options": ModelSaveOptions,
    "leat_model_save_info": ModelSaveInfo,
}

# The enumerators by their names in C.
CONSTANTS = {
    "LEAT_KIND_PAGEABLE": KIND_PAGEABLE,
    "LEAT_KIND_PINNED": KIND_PINNED,
    "LEAT_KIND_DEVICE": KIND_DEVICE,
    "LEAT_KIND_MANAGED": KIND_MANAGED,
    "LEAT_NUMBER_BITS": NUMBER_BITS,
    "LEAT_NUMBER_U8": NUMBER_U8,
    "LEAT_NUMBER_F16": NUMBER_F16,
    "LEAT_NUMBER_BF16": NUMBER_BF16,
    "LEAT_NUMBER_F32": NUMBER_F32,
    "LEAT_CONVERT_SWAP_SRC": CONVERT_SWAP_SRC,
    "LEAT_CONVERT_SWAP_DST": CONVERT_SWAP_DST,
    "LEAT_COPY_POINT_STAGED": POINT_STAGED,
    "LEAT_COPY_POINT_DONE": POINT_DONE,
    "LEAT_COPY_POINT_DURABLE": POINT_DURABLE,
    "LEAT_FILE_READ": FILE_READ,
    "LEAT_FILE_WRITE": FILE_WRITE,
    "LEAT_FILE_CREATE": FILE_CREATE,
    "LEAT_FILE_TRUNCATE": FILE_TRUNCATE,
    "LEAT_FILE_DIRECT": FILE_DIRECT,
    "LEAT_FILE_CACHED": FILE_CACHED,
    "LEAT_FILE_TEMPORARY": FILE_TEMPORARY,
    "LEAT_FILE_KEEP": FILE_KEEP,
    "LEAT_LAYOUT_MAX_DIMS": MAX_DIMS,
    "LEAT_LAYOUT_MAX_ELEMENT_BYTES": MAX_ELEMENT_BYTES,
}

_p = c_void_p
_s = c_char_p
_n = c_size_t
_u = c_uint64
# name: the types of the parameters. The result is a status, except where RESULTS says otherwise.
CORE = {
    "leat_last_error": (),
    "leat_status_name": (c_int,),
    "leat_status_text": (c_int,),
    "leat_version": (),
    "leat_device_open": (_s, _p),
    "leat_device_close": (_p,),
    "leat_device_synchronize": (_p,),
    "leat_device_get_info": (_p, _p),
    "leat_device_memory": (_p, _p, _p),
    "leat_device_list": (c_uint32, _p),
    "leat_stream_create": (_p, _p),
    "leat_stream_destroy": (_p,),
    "leat_stream_synchronize": (_p,),
    "leat_stream_query": (_p,),
    "leat_stream_wait": (_p, _p),
    "leat_stream_wrap": (_p, _p, _p),
    "leat_stream_native": (_p, _p),
    "leat_event_create": (_p, _p),
    "leat_event_destroy": (_p,),
    "leat_event_record": (_p, _p),
    "leat_event_synchronize": (_p,),
    "leat_event_query": (_p,),
    "leat_event_elapsed": (_p, _p, _p),
    "leat_event_native": (_p, _p),
    "leat_alloc": (_p, _n, _p),
    "leat_free": (_p, _p),
    "leat_memory_alloc": (_p, c_int, _n, _p),
    "leat_memory_free": (_p,),
    "leat_register": (_p, _p, _n),
    "leat_unregister": (_p,),
    "leat_pointer_get_info": (_p, _p),
    "leat_copy": (_p, _p, _p, _n),
    "leat_copy_sync": (_p, _p, _p, _n),
    "leat_copy_start": (_p, _p, _p, _n, _p, _p),
    "leat_copy_layout": (_p, _p, _p, _p, _p),
    "leat_copy_convert": (_p, _p, _p, _p, _p, _p),
    "leat_copy_explain": (_p, _p, _p, _n, _p, _n),
    "leat_copy_layout_explain": (_p, _p, _p, _p, _p, _p, _n),
    "leat_layout_reshape": (_p, c_uint32, _p),
    "leat_fill_pattern": (_p, _p, _p, _n, _n),
    "leat_ticket_wait": (_p, c_int, _u),
    "leat_ticket_get_info": (_p, _p),
    "leat_ticket_cancel": (_p,),
    "leat_ticket_destroy": (_p,),
    "leat_pool_create": (_p, _p, _p),
    "leat_pool_destroy": (_p,),
    "leat_pool_default": (_p, c_int, _p),
    "leat_pool_alloc": (_p, _p, _n, _p),
    "leat_pool_set_limits": (_p, _u, _u),
    "leat_pool_trim": (_p, _u, _p, _p),
    "leat_pool_get_stats": (_p, _p),
    "leat_pool_snapshot": (_p, _p, _p),
    "leat_block_use": (_p, _p),
    "leat_file_open": (_s, c_uint32, _p),
    "leat_file_wrap": (c_int, c_uint32, _p),
    "leat_file_close": (_p,),
    "leat_file_size": (_p, _p),
    "leat_file_cached": (_p, _u, _u, _p),
    "leat_file_read_start": (_p, _p, _p, _u, _n, _p, _p),
    "leat_file_write_start": (_p, _p, _u, _p, _n, _p, _p),
    "leat_file_sync_start": (_p, _p, _p, _p),
    "leat_file_commit_start": (_p, _p, _p, _p),
}
FILES = {
    "leat_model_open": (_p, _n, _p),
    "leat_model_close": (_p,),
    "leat_model_count": (_p, _p, _p),
    "leat_model_get_tensor_info": (_p, _n, _p),
    "leat_model_metadata_count": (_p, _p),
    "leat_model_get_metadata_info": (_p, _n, _p),
    "leat_model_load_start": (_p, _p, _n, _p, _p),
    "leat_model_load_wait": (_p, c_int, _u),
    "leat_model_load_get_info": (_p, _p),
    "leat_model_load_cancel": (_p,),
    "leat_model_load_destroy": (_p,),
    "leat_model_load_all": (_p, _p, _s, _p, _p),
    "leat_model_set_get_pointer": (_p, _n, _p),
    "leat_model_set_get_load": (_p,),
    "leat_model_set_destroy": (_p,),
    "leat_model_save_start": (_p, _s, _p, _n, _p, _p),
    "leat_model_save_wait": (_p, c_int, _u),
    "leat_model_save_get_info": (_p, _p),
    "leat_model_save_cancel": (_p,),
    "leat_model_save_destroy": (_p,),
}
RESULTS = {
    "leat_last_error": c_char_p,
    "leat_status_name": c_char_p,
    "leat_status_text": c_char_p,
    "leat_version": c_char_p,
    "leat_model_set_get_load": c_void_p,
}


def _declare(library: ctypes.CDLL, calls: dict[str, tuple[Any, ...]]) -> None:
    for name, parameters in calls.items():
        function = getattr(library, name)
        function.argtypes = parameters
        function.restype = RESULTS.get(name, c_int)


def folder() -> str:
    """Return the folder of the libraries: PYLEAT_LIBRARY_FOLDER, or the one in this package."""
    return os.environ.get("PYLEAT_LIBRARY_FOLDER") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")


def load(name: str) -> ctypes.CDLL:
    """Load one of the libraries of this package."""
    path = os.path.join(folder(), name)
    try:
        return ctypes.CDLL(path)
    except OSError as problem:
        raise ImportError(
            f"pyleat cannot load {path}: {problem}. Install the wheel (from a checkout: make wheel), or set "
            "PYLEAT_LIBRARY_FOLDER to a folder with libleat.so.0 and libleat-files.so.0."
        ) from None


leat = load("libleat.so.0")
_declare(leat, CORE)
_files: ctypes.CDLL | None = None


def files() -> ctypes.CDLL:
    """Return libleat-files, which is loaded at the first use of models."""
    global _files
    if _files is None:
        library = load("libleat-files.so.0")
        _declare(library, FILES)
        _files = library
    return _files
