"""pyleat with Numba: leat's pools as an External Memory Management plugin.

Each test is a process of its own, as a memory manager is set before Numba's first CUDA call. Needs a driver that Numba
accepts; only the tests with kernels need a GPU.
"""

import importlib.util
import os
import subprocess
import sys

import pytest

if importlib.util.find_spec("numba") is None:
    pytest.skip("there is no Numba", allow_module_level=True)

BEGIN = """
import gc
import numpy as np
import pyleat, pyleat.numba
from numba import cuda
pool = pyleat.Pool("cuda:0", name="numba")
"""


def run(code, begin=BEGIN, **environment):
    ran = subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, timeout=240,
                         env=dict(os.environ, NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS="0", **environment))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def has_driver():
    """Return True if Numba, and leat's driver cuda, find a device."""
    code = "import pyleat; from numba import cuda; cuda.current_context(); pyleat.device('cuda:0')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=240).returncode == 0


pytestmark = pytest.mark.skipif(not has_driver(), reason="Numba has no GPU")


def test_arrays_are_blocks_of_the_pool():
    run("""
pyleat.numba.use_as_memory_manager(pool)
data = np.arange(1000, dtype=np.int64)
x = cuda.to_device(data)
assert pool.stats().live_blocks == 1, pool.stats()
assert pool.stats().requested_bytes == 8000
assert (x.copy_to_host() == data).all()
y = np.zeros(1000, np.int64)
pyleat.copy(y, x)
assert (y == data).all()
pyleat.copy(x, data * 2)
assert (x[100:200].copy_to_host() == 2 * data[100:200]).all()
part = x[100:200]
del x
gc.collect()
assert pool.stats().live_blocks == 1, "a view keeps the block"
assert (part.copy_to_host() == 2 * data[100:200]).all()
del part
gc.collect()
cuda.current_context().memory_manager.deallocations.clear()
assert pool.stats().live_blocks == 0, pool.stats()
free, total = cuda.current_context().get_memory_info()
assert 0 < free <= total
""")


def test_dropped_arrays_are_collected():
    run("""
pyleat.numba.use_as_memory_manager(pool)
for i in range(200):
    x = cuda.to_device(np.full(10000, i))
    assert (x.copy_to_host() == i).all()
assert pool.stats().live_blocks <= 13, pool.stats()
with cuda.defer_cleanup():
    for i in range(40):
        x = cuda.to_device(np.full(10000, i))
    assert pool.stats().live_blocks >= 40
pool.set_limits(pool.stats().reserved_bytes + (8 << 20))
for i in range(60):  # a full pool: pending arrays are let go
    x = cuda.to_device(np.full(400000, i))
try:
    cuda.device_array(1 << 30, np.uint8)
except MemoryError as problem:
    assert "limit" in str(problem), problem
else:
    raise AssertionError("no error")
assert (x.copy_to_host() == 59).all()
""")


def test_reset_and_the_end():
    run("""
pyleat.numba.use_as_memory_manager(pool)
x = cuda.to_device(np.arange(100))
cuda.current_context().reset()
assert pool.stats().live_blocks == 0, pool.stats()
y = cuda.to_device(np.arange(100))
del x
gc.collect()
assert pool.stats().live_blocks == 1
assert (y.copy_to_host() == np.arange(100)).all()
""")


def test_the_variable_of_the_environment():
    run("""
stats = pyleat.device("cuda:0").pool().stats
before = stats().live_blocks
x = cuda.to_device(np.arange(100))
assert stats().live_blocks == before + 1, stats()
""", begin="import numpy as np\nimport pyleat\nfrom numba import cuda\n", NUMBA_CUDA_MEMORY_MANAGER="pyleat.numba")


def test_what_is_refused():
    run("""
try:
    pyleat.numba.use_as_memory_manager(pyleat.Pool("cuda:0", "pinned"))
except ValueError as problem:
    assert "device memory" in str(problem)
else:
    raise AssertionError("a pool of pinned memory")
pyleat.numba.use_as_memory_manager(pool)
try:
    cuda.to_device(np.arange(100)).get_ipc_handle()
except NotImplementedError as problem:
    assert "no IPC handle" in str(problem)
else:
    raise AssertionError("an IPC handle")
""")


def test_kernels_and_streams():
    if pyleat_driver_is_ours():
        pytest.skip("leat's names of the driver run no kernels")
    # numba-cuda imports functions of NumPy when it compiles its first kernel, which some NumPy no longer has.
    if subprocess.run([sys.executable, "-c", "import numba.cuda.np.arrayobj"], timeout=240).returncode:
        pytest.skip("Numba cannot compile kernels with this NumPy")
    run("""
pyleat.numba.use_as_memory_manager(pool)

@cuda.jit("void(int64[:], int64)")
def add(data, more):
    i = cuda.grid(1)
    if i < data.size:
        data[i] += more

streams = [cuda.stream() for _ in range(3)]
rng = np.random.default_rng(1)
for i in range(300):
    stream = streams[i % 3]
    count = int(rng.integers(1, 200000))
    x = cuda.to_device(np.full(count, i), stream=stream)
    for k in range(5):
        add[(count + 255) // 256, 256, stream](x, k)
    y = cuda.device_array(count, np.int64)     # dropped arrays of other streams must not be reused too early
    add[(count + 255) // 256, 256, streams[(i + 1) % 3]](y, 1)
    back = x.copy_to_host(stream=stream)
    stream.synchronize()
    assert (back == i + 10).all(), i
assert pool.stats().live_blocks > 0
""")


def pyleat_driver_is_ours():
    return bool(os.environ.get("LEAT_CUDA_LIBRARY"))
