"""leat in Python: copies, pools, layouts and files for GPU memory, with or without a GPU.

    import numpy as np
    import pyleat

    x = pyleat.to_device(np.arange(10.0))      # on the best device there is: a GPU, else "cpu:0"
    y = pyleat.empty(x.shape, x.dtype)
    pyleat.copy(y, x)
    print(y.to_host())

Devices, streams and events: :func:`device`, :func:`devices`, :class:`Stream`, :class:`Event`. Arrays: :func:`empty`,
:func:`zeros`, :func:`full`, :func:`to_device`, :func:`asarray`, :func:`from_dlpack`, :class:`Array`. Copies:
:func:`copy`, :func:`copy_start`, :func:`convert`, :class:`Ticket`, :func:`explain`. Memory: :class:`Pool`. Files: :class:`File`,
:func:`load`, :func:`save`, :class:`Model`. Errors: :class:`Error` and its subclasses. Plugs for the allocators of other
packages: the modules `pyleat.torch`, `pyleat.cupy` and `pyleat.numba`, which import those packages.

Any thread may call anything here; calls that wait release the interpreter's lock. A child of fork() cannot use its
parent's objects: start children by "spawn" or "forkserver".
"""

from . import _c
from ._array import Array, asarray, empty, from_dlpack, full, to_device, zeros
from ._copy import Progress, Ticket, convert, copy, copy_start, explain
from ._device import Device, DeviceInfo, Event, Pool, PoolStats, Stream, device, devices
from ._dtype import DType, dtype
from ._errors import (
    CancelledError,
    DeadlineError,
    Error,
    FileError,
    InvalidError,
    NoDeviceError,
    NotFoundError,
    OutOfMemoryError,
    Status,
    UnsupportedError,
)
from ._files import File
from ._models import Model, TensorInfo, load, load_start, save, save_start

__version__: str = (_c.leat.leat_version() or b"").decode()

__all__ = [
    "Array",
    "CancelledError",
    "DType",
    "DeadlineError",
    "Device",
    "DeviceInfo",
    "Error",
    "Event",
    "File",
    "FileError",
    "InvalidError",
    "Model",
    "NoDeviceError",
    "NotFoundError",
    "OutOfMemoryError",
    "Pool",
    "PoolStats",
    "Progress",
    "Status",
    "Stream",
    "TensorInfo",
    "Ticket",
    "UnsupportedError",
    "__version__",
    "asarray",
    "convert",
    "copy",
    "copy_start",
    "device",
    "devices",
    "dtype",
    "empty",
    "explain",
    "from_dlpack",
    "full",
    "load",
    "load_start",
    "save",
    "save_start",
    "to_device",
    "zeros",
]
