"""Ranges of files to memory and back."""

from __future__ import annotations

import os
from ctypes import byref, c_uint64
from typing import Any, Union

from . import _c, _hold
from ._array import Array
from ._copy import Ticket, copy_options, default_stream
from ._device import Stream, _made
from ._errors import c_text, check
from ._operand import operand

_lib = _c.leat
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_MODES = {
    "r": _c.FILE_READ,
    "r+": _c.FILE_READ | _c.FILE_WRITE,
    "w": _c.FILE_WRITE | _c.FILE_CREATE | _c.FILE_TRUNCATE,
    "w+": _c.FILE_READ | _c.FILE_WRITE | _c.FILE_CREATE | _c.FILE_TRUNCATE,
    "a+": _c.FILE_READ | _c.FILE_WRITE | _c.FILE_CREATE,
    "new": _c.FILE_READ | _c.FILE_WRITE | _c.FILE_TEMPORARY,
}


class File:
    """An open file, whose ranges are copied to memory and back in stream order (leat/file.h).

    mode: "r" (reads), "r+" (reads and writes), "w" and "w+" (an empty file), "a+" (the file as it is, or a new one),
    or "new": a file without a name, which :meth:`commit` gives its name when its bytes are on the disk. cached=True
    reads and writes through the system's cache, direct=True past it; otherwise leat chooses.
    """

    _handle = 0

    def __init__(self, path: Path, mode: str = "r", *, cached: bool = False, direct: bool = False) -> None:
        if mode not in _MODES:
            raise ValueError(f"mode {mode!r}: must be one of {', '.join(_MODES)}")
        flags = _MODES[mode] | (_c.FILE_CACHED if cached else 0) | (_c.FILE_DIRECT if direct else 0)
        self.path = os.fspath(path)
        self.mode = mode
        self._handle = _made(_lib.leat_file_open, c_text(os.fsencode(path)), flags)

    @classmethod
    def wrap(cls, file: Any) -> File:
        """Return a File for a file that the program has open: a descriptor, or an object with fileno().

        leat keeps a descriptor of its own. Flush what a file object has buffered first.
        """
        self = cls.__new__(cls)
        descriptor = file if isinstance(file, int) else file.fileno()
        self.path = f"<descriptor {descriptor}>"
        self.mode = "r+"
        self._handle = _made(_lib.leat_file_wrap, descriptor, 0)
        return self

    def __repr__(self) -> str:
        return f"<File {self.path!r}, {self.mode!r}{'' if self._handle else ', closed'}>"

    _writers: tuple[Stream, ...] = ()  # the streams that have written, the last one at the end

    def _order(self, stream: Stream, write: bool) -> None:
        """Order work of stream on this file after the writes of other streams."""
        for writer in self._writers:
            if writer is not stream:
                stream.wait(writer)
        if write and (not self._writers or self._writers[-1] is not stream):
            self._writers = (*(writer for writer in self._writers if writer is not stream), stream)

    def _open(self) -> int:
        if not self._handle:
            raise ValueError(f"the file {self.path!r} is closed")
        return self._handle

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        found = c_uint64()
        check(_lib.leat_file_size(self._open(), byref(found)))
        return found.value

    def cached(self, offset: int = 0, nbytes: int | None = None) -> int:
        """Return how many bytes of a range are in the system's cache."""
        found = c_uint64()
        size = self.size - offset if nbytes is None else nbytes
        check(_lib.leat_file_cached(self._open(), offset, size, byref(found)))
        return found.value

    def read(self, dst: Any, offset: int = 0, *, stream: Stream | None = None) -> None:
        """Fill dst with the bytes of the file from offset on, and wait until they are there."""
        self.read_start(dst, offset, stream=stream).wait()

    def read_start(
        self, dst: Any, offset: int = 0, *, stream: Stream | None = None, deadline: float | None = None
    ) -> Ticket:
        """Start to fill dst, which must be contiguous, with the bytes of the file from offset on."""
        stream = stream or default_stream(dst)
        found = operand(dst, True, stream)
        _require_dense(found)
        if isinstance(found, Array):
            found._memory.use(stream, True)
        self._order(stream, False)
        options = copy_options(deadline)
        with _hold.starting((found, stream)):
            handle = _made(
                _lib.leat_file_read_start, stream._handle, found.ptr, self._open(), offset, found.nbytes, options
            )
            return Ticket(handle, (found, stream))

    def write(self, src: Any, offset: int = 0, *, stream: Stream | None = None) -> None:
        """Write src to the file at offset, and wait until the file has the bytes."""
        self.write_start(src, offset, stream=stream).wait()

    def write_start(
        self, src: Any, offset: int = 0, *, stream: Stream | None = None, deadline: float | None = None
    ) -> Ticket:
        """Start to write src, which must be contiguous, to the file at offset."""
        stream = stream or default_stream(src)
        found = operand(src, False, stream)
        _require_dense(found)
        if isinstance(found, Array):
            found._memory.use(stream, False)
        self._order(stream, True)
        options = copy_options(deadline)
        with _hold.starting((found, stream)):
            handle = _made(
                _lib.leat_file_write_start, stream._handle, self._open(), offset, found.ptr, found.nbytes, options
            )
            return Ticket(handle, (found, stream))

    def sync(self, *, stream: Stream | None = None) -> None:
        """Wait until everything that was written is on the disk."""
        stream = stream or (self._writers[-1] if self._writers else default_stream())
        self._order(stream, True)
        handle = _made(_lib.leat_file_sync_start, stream._handle, self._open(), None)
        Ticket(handle, (stream,), _c.POINT_DURABLE).wait()

    def commit(self, *, stream: Stream | None = None) -> None:
        """Give a file of mode "new" its name, and wait until it has it. It replaces an older file as a whole."""
        self.commit_start(stream=stream).wait()

    def commit_start(self, *, stream: Stream | None = None, deadline: float | None = None) -> Ticket:
        """Start :meth:`commit`, after the work of stream so far. The ticket's last point is "durable"."""
        stream = stream or (self._writers[-1] if self._writers else default_stream())
        self._order(stream, True)
        handle = _made(_lib.leat_file_commit_start, stream._handle, self._open(), copy_options(deadline))
        return Ticket(handle, (stream,), _c.POINT_DURABLE)

    def close(self) -> None:
        """Close the file. Copies that were started go on. A file of mode "new" without a commit disappears."""
        handle, self._handle = self._handle, 0
        if handle:
            check(_lib.leat_file_close(handle))

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self, _close: Any = _lib.leat_file_close, _is_own: Any = _hold.is_own) -> None:
        if self._handle and _is_own():
            _close(self._handle)


def _require_dense(found: Any) -> None:
    if not found._dense:
        raise ValueError(
            f"an array with strides {found.strides} is not contiguous: read into or write from a contiguous one, and "
            "copy() between the two"
        )
