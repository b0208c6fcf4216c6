"""Devices, streams, events and pools."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from ctypes import byref, c_double, c_uint64, c_void_p
from typing import Any, Union

from . import _c, _hold
from ._errors import Status, c_text, check, fail

_lib = _c.leat
_write = ctypes.CDLL(None).write
_KINDS = {"pinned": _c.KIND_PINNED, "device": _c.KIND_DEVICE, "managed": _c.KIND_MANAGED}
_KIND_NAMES = {number: name for name, number in _KINDS.items()}

_open_lock = threading.Lock()  # guards _open, so that two threads make one Device
_open: dict[int, "Device"] = {}  # devices by handle, until Device.close()
# Streams of pyleat's own, by the vendor's handle: handles are unique in a process.
_own_streams: weakref.WeakValueDictionary[int, "Stream"] = weakref.WeakValueDictionary()


def _in_child() -> None:
    global _open_lock
    _open_lock = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_in_child)


def _made(function: Any, *arguments: Any) -> int:
    """Call a function that returns a handle through its last parameter."""
    handle = c_void_p()
    check(function(*arguments, byref(handle)))
    return handle.value or 0


def kind_number(kind: str) -> int:
    try:
        return _KINDS[kind]
    except KeyError:
        raise ValueError(f"kind {kind!r}: must be one of {', '.join(_KINDS)}") from None


class DeviceInfo:
    """Properties of a device, with the names of leat_device_info (leat/device.h). 0 and "" mean unknown or none."""

    name: str
    driver: str
    ordinal: int
    model: str
    architecture: str
    memory_bytes: int
    compute_units: int
    max_block_threads: int
    max_shared_bytes: int
    memory_clock_khz: int
    memory_bus_bits: int
    pci_address: str
    numa_node: int
    link_gen: int
    link_width: int
    copy_engines: int
    peer_mask: int
    unified_addressing: int
    managed_memory: int
    virtual_memory: int
    strict: int
    kernel_code: str

    def __init__(self, raw: _c.DeviceInfo) -> None:
        for name, _ in raw._fields_[1:]:  # type: ignore[misc]
            value = getattr(raw, name)
            setattr(self, name, value.decode("utf-8", "replace") if isinstance(value, bytes) else value)

    def __repr__(self) -> str:
        return f"<DeviceInfo {self.name}: {self.model}, {self.architecture}>"


class Device:
    """A GPU, or the machine itself as a device ("cpu:0").

    Get one with :func:`device`. `stream` is its default stream, which arrays use unless another one is given.
    """

    _handle = 0

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._core = _hold.Handle(handle, _lib.leat_device_close)
        self._stream: Stream | None = None
        self._pools: dict[str, Pool] = {}
        self._lock = threading.Lock()  # guards _stream and _pools
        self.info = self._get_info()
        self.name = self.info.name

    def _get_info(self) -> DeviceInfo:
        raw = _c.DeviceInfo()
        check(_lib.leat_device_get_info(self._handle, byref(raw)))
        return DeviceInfo(raw)

    def __repr__(self) -> str:
        return f"<Device {self.name}: {self.info.model}>"

    @property
    def stream(self) -> Stream:
        """The default stream of this device. All threads share it."""
        if self._stream is None:
            with self._lock:
                if self._stream is None:
                    self._stream = Stream(self)
        return self._stream

    @property
    def is_host(self) -> bool:
        """True if the host can read and write this device's memory: the CPU device, unless LEAT_STRICT=1."""
        return self.info.driver == "cpu" and not self.info.strict

    def pool(self, kind: str = "device") -> Pool:
        """Return the default pool for a kind of memory: "device", "pinned" or "managed"."""
        with self._lock:
            found = self._pools.get(kind)
            if found is None:
                handle = _made(_lib.leat_pool_default, self._handle, kind_number(kind))
                found = self._pools[kind] = Pool._default(self, handle, kind)
        return found

    def memory(self) -> tuple[int, int]:
        """Return the free and the total bytes of device memory."""
        free, total = c_uint64(), c_uint64()
        check(_lib.leat_device_memory(self._handle, byref(free), byref(total)))
        return free.value, total.value

    def synchronize(self) -> None:
        """Wait until all work that was submitted to the device is complete."""
        check(_lib.leat_device_synchronize(self._handle))

    def close(self) -> None:
        """Give the device back. It closes when the last array, stream, event and pool of it is gone."""
        with _open_lock:
            if _open.get(self._handle) is self:
                del _open[self._handle]
        with self._lock:
            self._stream = None
            self._pools = {}

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


DeviceLike = Union[Device, str, None]


def device(name: DeviceLike = None) -> Device:
    """Return a device by its name, such as "cuda:0" or "cpu:0"; None is the best one, or that of LEAT_DEVICE.

    A device is opened once: later calls return the same object, until :meth:`Device.close`.
    """
    if isinstance(name, Device):
        return name
    handle = c_void_p()
    with _open_lock:
        check(_lib.leat_device_open(c_text(name) if name is not None else None, byref(handle)))
        opened = handle.value or 0
        found = _open.get(opened)
        if found is None:
            found = _open[opened] = Device(opened)
        else:
            _lib.leat_device_close(opened)  # this open; the first one stays
    return found


def devices() -> list[DeviceInfo]:
    """Return the properties of all devices, the best one first. Opens none of them."""
    found: list[DeviceInfo] = []
    while True:
        raw = _c.DeviceInfo()
        status = _lib.leat_device_list(len(found), byref(raw))
        if status == Status.NO_DEVICE:
            return found
        check(status)
        found.append(DeviceInfo(raw))


class Stream:
    """A queue of work. Work of one stream runs in order, work of different streams at the same time."""

    _handle = 0

    def __init__(self, device: DeviceLike = None) -> None:
        self.device: Device = _device(device)
        self._fences: list[Event] = []  # for wait()
        self._handle = _made(_lib.leat_stream_create, self.device._handle)
        self._core = _hold.Handle(self._handle, _lib.leat_stream_destroy, self.device._core)
        self._native = self.native
        _own_streams[self._native] = self

    @classmethod
    def wrap(cls, native: int, device: DeviceLike = None, owner: object = None) -> Stream:
        """Make a stream of the vendor's own handle, such as a CUstream; 0 is CUDA's legacy default stream.

        owner is kept as long as the new object, so that the handle stays valid.
        """
        self = cls.__new__(cls)
        self.device = _device(device)
        self._fences = []
        self._native = native
        self._handle = _made(_lib.leat_stream_wrap, self.device._handle, native or None)
        self._core = _hold.Handle(self._handle, _lib.leat_stream_destroy, self.device._core, owner)
        return self

    def __repr__(self) -> str:
        return f"<Stream {self._handle:#x} on {self.device.name}>"

    @property
    def native(self) -> int:
        """The vendor's handle of this stream, such as a CUstream."""
        return _made(_lib.leat_stream_native, self._handle)

    @property
    def done(self) -> bool:
        """True if all work that was submitted so far is complete."""
        status = _lib.leat_stream_query(self._handle)
        if status == Status.NOT_READY:
            return False
        check(status)
        return True

    def synchronize(self) -> None:
        """Wait until all work that was submitted so far is complete. Raises its failure, if there is one."""
        status = _lib.leat_stream_synchronize(self._handle)
        _hold.reap(16)
        if status:
            fail(status)

    def record(self, event: Event | None = None) -> Event:
        """Record event, or a new one, after the work that was submitted so far."""
        if event is None:
            event = Event(self.device)
        check(_lib.leat_event_record(self._handle, event._handle))
        return event

    def wait(self, other: Event | Stream) -> None:
        """Make later work of this stream wait for an event, or for the work of another stream so far."""
        if isinstance(other, Event):
            check(_lib.leat_stream_wait(self._handle, other._handle))
        elif other is not self:
            if self.device.info.driver != other.device.info.driver:
                other.synchronize()  # streams of two drivers cannot wait for one another
                return
            # No other thread uses the event between the record and the wait. The wait is for this record, so the
            # event can be recorded again after it.
            try:
                event = other._fences.pop()
            except IndexError:
                event = Event(other.device)
            other.record(event)
            check(_lib.leat_stream_wait(self._handle, event._handle))
            other._fences.append(event)


class Event:
    """A point in a stream, with its time."""

    _handle = 0

    def __init__(self, device: DeviceLike = None) -> None:
        self.device: Device = _device(device)
        self._handle = _made(_lib.leat_event_create, self.device._handle)

    def record(self, stream: Stream | None = None) -> None:
        """Record this event after the work that was submitted to stream so far."""
        (stream or self.device.stream).record(self)

    @property
    def done(self) -> bool:
        """True if the stream has reached this event, or if it was never recorded."""
        status = _lib.leat_event_query(self._handle)
        if status == Status.NOT_READY:
            return False
        check(status)
        return True

    def synchronize(self) -> None:
        """Wait until the stream has reached this event."""
        check(_lib.leat_event_synchronize(self._handle))

    def elapsed_ms(self, end: Event) -> float:
        """Return the milliseconds of device time from this event to end. Both must have been reached."""
        milliseconds = c_double()
        check(_lib.leat_event_elapsed(self._handle, end._handle, byref(milliseconds)))
        return milliseconds.value

    def __del__(self, _destroy: Any = _lib.leat_event_destroy, _is_own: Any = _hold.is_own) -> None:
        if self._handle and _is_own():
            _destroy(self._handle)


class PoolStats:
    """Figures of a pool, with the names of leat_pool_stats (leat/pool.h)."""

    requested_bytes: int
    requested_peak_bytes: int
    used_bytes: int
    reserved_bytes: int
    reserved_peak_bytes: int
    pending_bytes: int
    live_blocks: int
    allocations: int
    frees: int
    failures: int
    cache_hits: int
    driver_calls: int
    driver_ns: int
    pages_created: int
    pages_stitched: int
    pages_released: int
    events: int
    queries: int
    stream_waits: int
    host_waits: int
    callbacks: int
    guard_reports: int
    stitches: int
    stitch_reuses: int
    planned: int

    def __init__(self, raw: _c.PoolStats) -> None:
        for name, _ in raw._fields_[1:-1]:  # type: ignore[misc]
            setattr(self, name, getattr(raw, name))

    def __repr__(self) -> str:
        return "PoolStats(" + ", ".join(f"{name}={value}" for name, value in vars(self).items()) + ")"


class Pool:
    """Memory of one kind of one device, from which arrays are allocated in stream order (docs/pools.md).

    limit and soft_limit are in bytes, 0 means none. With guard, leat detects wrong use of blocks, slowly.
    """

    _handle = 0
    _owned = False
    _device_name = ""

    def __init__(
        self,
        device: DeviceLike = None,
        kind: str = "device",
        *,
        name: str | None = None,
        limit: int = 0,
        soft_limit: int = 0,
        guard: bool = False,
        scrub: bool = False,
        dedicated: bool = False,
    ) -> None:
        self.device: Device = _device(device)
        self.kind = kind
        options = _c.PoolOptions(
            name=c_text(name) if name is not None else None,
            kind=kind_number(kind),
            limit_bytes=limit,
            soft_limit_bytes=soft_limit,
            guard=guard,
            scrub=scrub,
            dedicated=dedicated,
        )
        self._handle = _made(_lib.leat_pool_create, self.device._handle, byref(options))
        self._core = _hold.Handle(self._handle, _lib.leat_pool_destroy, self.device._core)
        self._owned = True

    @classmethod
    def _default(cls, device: Device, handle: int, kind: str) -> Pool:
        # Has no reference to its device, which refers to its default pools.
        self = cls.__new__(cls)
        self.kind = kind
        self._handle = handle
        self._device_name = device.name
        return self

    def __repr__(self) -> str:
        stats = self.stats()
        return f"<Pool of {self.kind} memory: {stats.requested_bytes} bytes live, {stats.reserved_bytes} held>"

    def stats(self) -> PoolStats:
        """Return the pool's figures."""
        raw = _c.PoolStats()
        check(_lib.leat_pool_get_stats(self._handle, byref(raw)))
        return PoolStats(raw)

    def set_limits(self, limit: int = 0, soft_limit: int = 0) -> None:
        """Change the limits, in bytes; 0: none. A limit below what is in use is refused."""
        check(_lib.leat_pool_set_limits(self._handle, limit, soft_limit))

    def trim(self, keep: int = 0) -> tuple[int, int]:
        """Return idle memory to the driver until the pool holds keep bytes.

        Returns the bytes that were released, and the bytes whose last work is not complete. Does not wait.
        """
        released, pending = c_uint64(), c_uint64()
        check(_lib.leat_pool_trim(self._handle, keep, byref(released), byref(pending)))
        return released.value, pending.value

    def snapshot(self) -> str:
        """Return the state of the pool as JSON, which 'leat pool-map' draws."""
        # leat holds the pool's lock while it writes, so no Python code may run then: a garbage collection could free
        # an array of this pool. The function that writes is therefore libc's write(), its argument a descriptor.
        file = os.memfd_create("pyleat-snapshot")
        try:
            check(_lib.leat_pool_snapshot(self._handle, ctypes.cast(_write, c_void_p), file))
            with open(file, "rb", closefd=False) as written:
                written.seek(0)
                return written.read().decode("utf-8", "replace")
        finally:
            os.close(file)


def own_stream(native: int) -> Stream | None:
    """Return the stream of pyleat's own that has this handle of the vendor's."""
    return _own_streams.get(native)


def _device(name: DeviceLike) -> Device:
    """device(), for functions with a parameter of that name."""
    return device(name)
