"""Exceptions: each has leat's status and message."""

from __future__ import annotations

import enum
from typing import NoReturn

from . import _c


class Status(enum.IntEnum):
    """The status of a call of leat, with the numbers of the C API (leat/status.h)."""

    OK = 0
    NOT_READY = 1
    INVALID = -1
    HANDLE = -2
    POINTER = -3
    RANGE = -4
    OVERLAP = -5
    DEVICE_MEMORY = -6
    HOST_MEMORY = -7
    NO_DEVICE = -8
    NO_DRIVER = -9
    DRIVER_TOO_OLD = -10
    NOT_FOUND = -11
    UNSUPPORTED = -12
    IMAGE = -13
    REGISTERED = -14
    NOT_PERMITTED = -15
    DEVICE_LOST = -16
    DRIVER = -17
    SYSTEM = -18
    BUSY = -19
    CANCELLED = -20
    DEADLINE = -21
    FILE = -22
    LINK = -23
    UNKNOWN = -1000


class Error(Exception):
    """A call of leat failed. The text is leat's message: what was asked, what was wrong, what to do."""

    status: Status = Status.UNKNOWN


class InvalidError(Error, ValueError):
    """An argument, an address or a range is wrong, or source and destination overlap."""


class OutOfMemoryError(Error, MemoryError):
    """There is not enough device memory or host memory. The message says who holds it."""


class NoDeviceError(Error):
    """There is no such device, or its driver is missing or too old."""


class NotFoundError(Error, LookupError):
    """A name was not found."""


class UnsupportedError(Error):
    """The device or the driver cannot do that."""


class FileError(Error, OSError):
    """A file cannot be opened, read or written as asked."""


class CancelledError(Error):
    """The copy was cancelled."""


class DeadlineError(Error, TimeoutError):
    """The copy's deadline passed."""


_CLASSES: dict[Status, type[Error]] = {
    Status.INVALID: InvalidError,
    Status.POINTER: InvalidError,
    Status.RANGE: InvalidError,
    Status.OVERLAP: InvalidError,
    Status.DEVICE_MEMORY: OutOfMemoryError,
    Status.HOST_MEMORY: OutOfMemoryError,
    Status.NO_DEVICE: NoDeviceError,
    Status.NO_DRIVER: NoDeviceError,
    Status.DRIVER_TOO_OLD: NoDeviceError,
    Status.NOT_FOUND: NotFoundError,
    Status.UNSUPPORTED: UnsupportedError,
    Status.FILE: FileError,
    Status.CANCELLED: CancelledError,
    Status.DEADLINE: DeadlineError,
}


def make_error(status: int, text: str) -> Error:
    """Return the exception for a status."""
    try:
        known = Status(status)
    except ValueError:
        known = Status.UNKNOWN
    error = _CLASSES.get(known, Error)(text)
    error.status = known
    return error


def c_text(text: str | bytes) -> bytes:
    """Return a text for a C function. Raises ValueError if a zero byte would end it early."""
    found = text.encode() if isinstance(text, str) else text
    if b"\0" in found:
        raise ValueError(f"{text!r} has a zero byte")
    return found


def fail(status: int) -> NoReturn:
    """Raise the exception for the status that a call on this thread has just returned."""
    text: bytes = _c.leat.leat_last_error() or _c.leat.leat_status_text(status)
    raise make_error(status, text.decode("utf-8", "replace"))


def check(status: int) -> None:
    """Raise an exception unless status is LEAT_OK."""
    if status:
        fail(status)
