"""Work that runs, and the objects whose memory it uses: both are kept until the work is over."""

from __future__ import annotations

import atexit
import gc
import os
import time
from typing import Any

from ._errors import Error

# Tickets whose work may not be over. They keep their objects alive. No lock guards this dictionary, since each use is a
# single operation of it: a lock could be held where a garbage collection begins, whose finalizers use it too.
_running: dict[int, Any] = {}
# False in a child of fork(): handles are the parent's, and finalizers must not use them.
_own = [True]


def is_own() -> bool:
    """Return False in a child of fork(), which cannot use its parent's handles."""
    return _own[0]


class Handle:
    """A handle of leat's, which is destroyed with this object.

    It refers to nothing but what the handle itself needs, so that `needed` can keep it without keeping user objects.
    """

    __slots__ = ("_destroy", "_needs", "value")

    def __init__(self, value: int, destroy: Any, *needs: object) -> None:
        self.value = value
        self._destroy = destroy
        self._needs = needs

    def __del__(self, _is_own: Any = is_own) -> None:
        if _is_own():
            self._destroy(self.value)


# The handles that memory needs until it is freed: for each memory a list, by the list's id. The cyclic garbage
# collector runs finalizers in any order. Since this dictionary refers to a stream's handle, the handle is not garbage
# before the finalizers of the memory on that stream have run. No lock guards it: each use is a single operation.
needed: dict[int, list[object]] = {}

# Objects that are kept for ever, because nothing says when the work that uses them is over.
lost: list[object] = []


def keep(ticket: Any) -> None:
    """Keep ticket, and the objects in it, until its work is over. Checks some older tickets."""
    _running[id(ticket)] = ticket
    if len(_running) > 1:
        reap(4)


def release(ticket: Any) -> None:
    """Forget a ticket whose work is over."""
    _running.pop(id(ticket), None)


# What calls use that start work, until there is a ticket for it. An entry stays for ever if Ctrl-C, or what a signal
# handler raises, comes between: nothing says then whether the work has begun, or when it is over.
_starting: dict[int, starting] = {}


class starting:
    """Keeps objects while a call starts work that uses them: a `with` around the call and the making of the ticket."""

    __slots__ = ("objects",)

    def __init__(self, objects: tuple[object, ...]) -> None:
        self.objects = objects

    def __enter__(self) -> None:
        _starting[id(self)] = self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, (Error, ValueError, TypeError)):
            _starting.pop(id(self), None)


# Further functions that reap() calls: they release what is over. They must not wait for a lock, because a garbage
# collection calls them wherever it begins.
sweeps: list[Any] = []
_turn = 0  # where the next reap() begins, so that all tickets have their turn


def reap(most: int) -> None:
    """Release up to most of the tickets whose work is over. Does not wait."""
    global _turn
    if not _own[0]:
        return
    for sweep in sweeps:
        sweep()
    keys = list(_running)
    if len(keys) > most:
        begin = _turn % len(keys)
        _turn = begin + most
        keys = (keys[begin:] + keys[:begin])[:most]
    for key in keys:
        ticket = _running.get(key)
        # The poll is first: Ctrl-C may interrupt it, and a ticket whose work runs must stay.
        if ticket is not None and ticket._poll():
            release(ticket)


def running() -> int:
    """Return how many tickets are kept because their work may not be over."""
    reap(len(_running))
    return len(_running)


def _on_collect(phase: str, _info: dict[str, int]) -> None:
    if phase == "start":
        reap(16)


def _at_exit() -> None:
    """Wait for everything that was started, as the memory that it uses goes with the interpreter."""
    while _running and _own[0]:
        reap(len(_running))
        if _running:
            time.sleep(0.001)
    for item in [item for entry in list(_starting.values()) for item in entry.objects] if _own[0] else []:
        if hasattr(item, "synchronize"):  # a stream
            try:
                item.synchronize()
            except Exception:  # the work failed, so it is over
                pass


def _in_child() -> None:
    _own[0] = False
    _running.clear()
    _starting.clear()


gc.callbacks.append(_on_collect)
atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
