"""What happens at the end of a process, in children, and on import."""

import os
import subprocess
import sys

import pytest

PRELUDE = """
import os, sys, gc, threading, ctypes, warnings
import numpy as np
import pyleat
x = pyleat.full(1 << 20, 7, "uint8", kind="pinned")
"""

ENDS = {
    "arrays": "y = x.numpy(); z = np.from_dlpack(x); p = pyleat.Pool(); q = pyleat.empty(10, pool=p)",
    "cycle": "class A: pass\na = A(); a.a = a; a.x = x; a.s = pyleat.Stream(); a.e = a.s.record(); del x",
    "view only": "y = x.numpy()[3:]; del x",
    "dlpack only": "y = np.from_dlpack(x); del x",
    "capsule": "y = x.__dlpack__()",
    "closed device": "pyleat.device().close(); y = x[5:]",
    "running copies": "a = np.ones(64 << 20, np.uint8); d = pyleat.empty(a.shape, 'uint8')\n"
    "for i in range(4): pyleat.copy_start(d, a)\n"
    "b = np.empty_like(a); pyleat.copy_start(b, d); del a, b, d",
    "sys.exit": "sys.exit(0)",
    "atexit": "import atexit; atexit.register(lambda: print(x.to_host()[0], file=open(os.devnull, 'w')))",
    "threads": "t = threading.Thread(target=lambda: pyleat.copy(pyleat.empty(x.shape, 'uint8'), x)); t.start()",
    "exception": "def f(a):\n    b = np.from_dlpack(a[1:]); c = a.__dlpack__(); raise ValueError\n"
    "try: f(x)\nexcept ValueError: pass",
}


def run(code, **variables):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PRELUDE + code],
        capture_output=True, text=True, timeout=240, env={**os.environ, **variables},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ENDS)
def test_a_process_ends_in_any_order(name):
    run(ENDS[name])


def test_a_save_is_complete_when_the_process_ends(tmp_path):
    path = tmp_path / "m.safetensors"
    run(f"pyleat.save_start({str(path)!r}, {{'x': x}})")
    import pyleat

    assert (pyleat.load(path)["x"].to_host() == 7).all()


FORK = """
warnings.simplefilter("ignore")
ticket = pyleat.copy_start(pyleat.empty(x.shape, "uint8"), x)
view, stream = np.from_dlpack(x), pyleat.Stream()
child = os.fork()
if child == 0:
    try:
        pyleat.copy(np.empty(x.shape, np.uint8), x)
    except pyleat.Error as problem:
        assert problem.status == pyleat.Status.NOT_PERMITTED, problem
    else:
        os._exit(3)
    try:
        pyleat.empty(10)
    except pyleat.Error:
        pass
    del x, ticket, view, stream
    gc.collect()
    {end}
assert os.waitpid(child, 0)[1] == 0
ticket.wait()
assert (x.to_host() == 7).all()
"""


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"])
def test_a_child_of_fork(end):
    run(FORK.format(end=end))


def test_multiprocessing_by_spawn(tmp_path):
    (tmp_path / "child.py").write_text(
        "import multiprocessing, pyleat, numpy\n"
        "def work(n):\n"
        "    return int(pyleat.full(10, n, 'uint8').to_host().sum())\n"
        "if __name__ == '__main__':\n"
        "    x = pyleat.zeros(10)\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "        assert pool.map(work, [1, 2, 3]) == [10, 20, 30]\n"
    )
    subprocess.run([sys.executable, str(tmp_path / "child.py")], check=True, timeout=240)


def test_import_loads_neither_numpy_nor_asyncio():
    code = "import sys, pyleat; print([m for m in ('numpy', 'asyncio', 'torch', 'dataclasses') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_numpy():
    code = """
import sys
sys.modules["numpy"] = None
import pyleat, asyncio
x = pyleat.to_device(bytes(range(100)))
y = pyleat.zeros((4, 5), "float32")
into = bytearray(100)
pyleat.copy(into, x[::-1].contiguous())
assert bytes(into) == bytes(range(99, -1, -1))
assert y.T.tobytes() == bytes(80)
async def main():
    await pyleat.copy_start(x, bytes(100))
asyncio.run(main())
assert x.tobytes() == bytes(100)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


def test_missing_libraries_are_named(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import pyleat"], capture_output=True, text=True,
        env={**os.environ, "PYLEAT_LIBRARY_FOLDER": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "PYLEAT_LIBRARY_FOLDER" in done.stderr.splitlines()[-1]
    assert str(tmp_path) in done.stderr.splitlines()[-1]
