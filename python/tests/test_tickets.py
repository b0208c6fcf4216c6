"""Tickets: waits, timeouts, asyncio, cancelling, deadlines, failures."""

import asyncio
import threading
import time

import numpy as np
import pytest
from conftest import load_kernels

import pyleat

BYTES = 8 << 20


@pytest.fixture
def ends():
    x = pyleat.zeros(BYTES, "uint8")
    x.stream.synchronize()
    return x, np.full(BYTES, 3, np.uint8)


def test_wait_and_progress(gate, ends, nothing_running):
    x, source = ends
    held = gate(x.stream)
    ticket = pyleat.copy_start(x, source)
    assert not ticket.done
    assert ticket.wait(0) is False
    assert ticket.wait(0.01) is False
    assert ticket.progress.total == BYTES
    assert "running" in repr(ticket)
    held.open_later()
    assert ticket.wait(60) is True
    assert ticket.wait(point="staged") is True
    assert ticket.done
    assert ticket.staged
    assert ticket.progress == (BYTES, BYTES)
    assert "done" in repr(ticket)
    with pytest.raises(ValueError, match="point"):
        ticket.wait(point="nonsense")
    assert (x.to_host() == 3).all()


def test_await(gate, ends, nothing_running):
    x, source = ends

    async def main():
        held = gate(x.stream)
        ticket = pyleat.copy_start(x, source)
        seen = []

        async def others():
            seen.append(ticket.done)
            held.open()

        await asyncio.gather(others(), waits(ticket))
        assert seen == [False]
        return ticket.progress

    async def waits(ticket):
        await ticket

    assert asyncio.run(main()) == (BYTES, BYTES)


def test_many_awaits(ends, nothing_running):
    x, _ = ends
    parts = [np.full(BYTES // 64, i, np.uint8) for i in range(64)]

    async def main():
        tickets = [pyleat.copy_start(x[i * len(part) : (i + 1) * len(part)], part) for i, part in enumerate(parts)]
        await asyncio.gather(*(waits(ticket) for ticket in tickets))

    async def waits(ticket):
        await ticket

    asyncio.run(main())
    assert (x.to_host().reshape(64, -1) == np.arange(64, dtype=np.uint8)[:, None]).all()


def test_cancelling_a_task_cancels_its_copy(gate, ends):
    x, _ = ends
    target = np.zeros(BYTES, np.uint8)

    async def main():
        held = gate(x.stream)
        ticket = pyleat.copy_start(target, x)
        task = asyncio.ensure_future(waits(ticket))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        held.open()
        return ticket

    async def waits(ticket):
        await ticket

    ticket = asyncio.run(main())
    try:
        ticket.wait()
    except pyleat.CancelledError as problem:
        assert problem.status == pyleat.Status.CANCELLED
        with pytest.raises(pyleat.CancelledError):
            ticket.wait()
    synchronize_quietly(x.stream)


def synchronize_quietly(stream):
    """The stream reports the failure of an asynchronous copy once more."""
    try:
        stream.synchronize()
    except pyleat.Error:
        pass


def test_a_deadline_passes(gate, tmp_path):
    x = pyleat.zeros(BYTES, "uint8")
    x.stream.synchronize()
    with pyleat.File(tmp_path / "f", "w+") as file:
        held = gate(x.stream)
        ticket = file.write_start(x, deadline=0.01)
        time.sleep(0.05)
        held.open()
        with pytest.raises(pyleat.DeadlineError) as raised:
            ticket.wait()
        assert isinstance(raised.value, TimeoutError)
        assert ticket.done
    synchronize_quietly(x.stream)
    with pytest.raises(ValueError, match="deadline"):
        pyleat.copy_start(x, bytes(BYTES), deadline=0)


def test_failures_are_raised(tmp_path):
    (tmp_path / "f").write_bytes(bytes(1000))
    x = pyleat.zeros(4096, "uint8")
    with pyleat.File(tmp_path / "f", "r+") as file:
        ticket = file.read_start(x)
        with pytest.raises(pyleat.FileError) as raised:
            ticket.wait()
        assert isinstance(raised.value, OSError)
        assert raised.value.status == pyleat.Status.FILE
        assert str(raised.value)
    synchronize_quietly(x.stream)


def test_waits_release_the_interpreter(gate, ends):
    x, source = ends
    held = gate(x.stream)
    ticket = pyleat.copy_start(x, source)
    held.open_later()  # by another thread, which cannot run while this one keeps the lock
    x.stream.synchronize()
    ticket.wait()
    held = gate(x.stream)
    event = x.stream.record()
    held.open_later()
    event.synchronize()
    held = gate(x.stream)
    held.open_later()
    x.device.synchronize()


def test_a_signal_interrupts_a_wait(gate, ends):
    import signal

    x, source = ends
    held = gate(x.stream)
    ticket = pyleat.copy_start(x, source)

    def interrupt():
        time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)

    main = threading.main_thread().ident
    # A program that a shell has started in the background ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Thread(target=interrupt).start()
            ticket.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not ticket.done
    held.open()
    assert ticket.wait(60)


def test_tickets_of_copies_between_layouts(gate, nothing_running):
    x = pyleat.zeros((1000, 500), "float32")
    load_kernels(x, np.zeros((500, 1000), np.float32).T)
    held = gate(x.stream)
    ticket = pyleat.copy_start(x, np.ones((500, 1000), np.float32).T)
    assert ticket.progress == (0, 2000000)
    assert not ticket.staged
    ticket.cancel()
    assert "running" in repr(ticket)
    held.open()
    asyncio.run(waited(ticket))
    assert ticket.progress == (2000000, 2000000)
    assert (x.to_host() == 1).all()
    with pytest.raises(ValueError, match="durable"):
        ticket.wait(point="durable")


async def waited(ticket):
    await ticket


def test_infinite_times(ends):
    x, source = ends
    assert pyleat.copy_start(x, source, deadline=float("inf")).wait(float("inf"))
    assert pyleat.copy_start(x, source, deadline=1e30).wait(1e30)
    assert (x.to_host() == 3).all()
