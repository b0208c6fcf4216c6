"""Work that runs, and the objects whose memory it uses: both are kept until the work is over."""

from __future__ import annotations

import atexit
import gc
import os
import threading
import time
from typing import Any

# Tickets whose work may not be over, in the order in which they are checked. They keep their objects alive.
_running: dict[int, Any] = {}
# Guards _running. Reentrant, because a garbage collection inside the lock may run a finalizer that calls release().
_lock = threading.RLock()
# False in a child of fork(): handles are the parent's, and finalizers must not use them.
_own = [True]


def is_own() -> bool:
    """Return False in a child of fork(), which cannot use its parent's handles."""
    return _own[0]


def keep(ticket: Any) -> None:
    """Keep ticket, and the objects in it, until its work is over. Checks some older tickets."""
    with _lock:
        _running[id(ticket)] = ticket
        if len(_running) > 1:
            reap(4)


def release(ticket: Any) -> None:
    """Forget a ticket whose work is over."""
    with _lock:
        _running.pop(id(ticket), None)


# Further functions that reap() calls: they release what is over.
sweeps: list[Any] = []


def reap(most: int) -> None:
    """Release up to most of the tickets whose work is over. Does not wait."""
    if _own[0]:
        for sweep in sweeps:
            sweep()
    if not _running or not _own[0]:
        return
    with _lock:
        for key in list(_running)[:most] if len(_running) > most else list(_running):
            ticket = _running.pop(key, None)
            if ticket is not None and not ticket._poll():
                _running[key] = ticket  # to the end, so that others are checked next


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


def _in_child() -> None:
    global _lock
    _own[0] = False
    _lock = threading.RLock()
    _running.clear()


gc.callbacks.append(_on_collect)
atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
