"""pyleat with CuPy: allocators, streams, copies. Needs a GPU."""

import gc
import weakref

import pytest

import pyleat

cupy = pytest.importorskip("cupy")
np = pytest.importorskip("numpy")
BYTES = 1 << 20


def has_gpu():
    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


pytestmark = pytest.mark.skipif(not has_gpu(), reason="CuPy has no GPU")


@pytest.fixture
def plug():
    import pyleat.cupy

    yield pyleat.cupy
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    cupy.cuda.set_pinned_memory_allocator(cupy.get_default_pinned_memory_pool().malloc)


def test_arrays_take_part_in_copies(plug):
    source = np.arange(6000, dtype=np.float32).reshape(20, 300)
    there = cupy.zeros((20, 300), np.float32)
    pyleat.copy(there, source)
    assert (cupy.asnumpy(there) == source).all()
    with cupy.cuda.Stream(non_blocking=True):
        there *= 2
        back = np.zeros_like(source)
        pyleat.copy(back, there)
        assert (back == source * 2).all()
    x = pyleat.to_device(there.T)
    assert (x.to_host() == source.T * 2).all()
    shared = cupy.from_dlpack(x)
    assert shared.data.ptr == x.ptr
    assert (cupy.asnumpy(shared) == source.T * 2).all()
    again = pyleat.asarray(shared)
    assert again.ptr == x.ptr


def test_a_stream_lives_as_long_as_memory_that_it_got_by_dlpack(plug):
    alive = []
    for i in range(20):
        x = pyleat.full(100000, i, "int32")
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            shared = cupy.from_dlpack(x)
            total = shared.sum()
        alive.append(weakref.ref(stream))
        del stream
        assert int(total) == 100000 * i
        del x, shared
    gc.collect()
    pyleat.empty(1)
    gc.collect()
    assert sum(one() is not None for one in alive) <= 1


def test_arrays_are_blocks_of_the_pool(plug):
    pool = pyleat.Pool(plug.leat_device(), limit=64 << 20, name="cupy")
    plug.use_as_allocator(pool)
    x = cupy.arange(BYTES // 8)
    assert pool.stats().live_blocks == 1
    assert pool.stats().requested_bytes == BYTES
    view = x[100:200]
    del x
    assert pool.stats().live_blocks == 1
    assert int(view.sum()) == sum(range(100, 200))
    del view
    gc.collect()
    assert pool.stats().live_blocks == 0
    with pytest.raises(MemoryError, match="limit"):
        cupy.empty(128 << 20, cupy.uint8)
    assert cupy.empty(0).size == 0
    assert pool.stats().live_blocks == 0


def test_memory_is_reused_in_the_order_of_the_stream(plug):
    pool = pyleat.Pool(plug.leat_device(), name="cupy")
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with cupy.cuda.using_allocator(plug.Allocator(pool)):
        with first:
            x = cupy.empty(BYTES, cupy.uint8)
            address = x.data.ptr
            x[:] = 1
            del x
            y = cupy.empty(BYTES, cupy.uint8)
            assert y.data.ptr == address  # at once, in the order of this stream
        leat = plug.wrap_stream(first)
        assert leat is plug.wrap_stream(first)
        assert leat.native == first.ptr
        with second:
            z = cupy.zeros(BYTES, cupy.uint8)
            assert z.data.ptr != address
        del y, z
    assert pool.stats().live_blocks == 0


def test_many_arrays_have_the_right_contents(plug):
    plug.use_as_allocator()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    kept = {}
    rng = np.random.default_rng(1)
    for i in range(600):
        with streams[i % 3]:
            key = int(rng.integers(12)) * 3 + i % 3
            if key in kept:
                value, array = kept.pop(key)
                assert int(array.min()) == value == int(array.max())
            kept[key] = (i, cupy.full(int(rng.integers(1, 300000)), i, np.int32))


def test_a_stream_lives_as_long_as_its_blocks(plug):
    with cupy.cuda.using_allocator(plug.Allocator()):
        for i in range(50):
            stream = cupy.cuda.Stream(non_blocking=True)
            with stream:
                x = cupy.full(1000, i)
            del stream
            gc.collect()
            assert int(x.sum()) == 1000 * i
            del x


def test_pinned_memory(plug):
    pool = pyleat.Pool(plug.leat_device(), "pinned", name="cupy pinned")
    plug.use_as_pinned_allocator(pool)
    memory = cupy.cuda.alloc_pinned_memory(BYTES)
    assert memory.size() >= BYTES
    assert pool.stats().live_blocks == 1
    host = np.frombuffer(memory, np.uint8, BYTES)
    host[:] = 7
    assert int(cupy.asarray(host).sum()) == 7 * BYTES
    attributes = cupy.cuda.runtime.pointerGetAttributes(memory.ptr)
    assert attributes.type == cupy.cuda.runtime.memoryTypeHost
    del host, memory
    gc.collect()
    cupy.cuda.get_current_stream().synchronize()
    other = cupy.cuda.alloc_pinned_memory(64)  # CuPy lets go of what its copies have used at its next allocation
    assert pool.stats().live_blocks == 1
    del other
    assert pool.stats().live_blocks == 0
    # CuPy's own use of it: copies of arrays that are not contiguous go through pinned memory.
    there = cupy.asarray(np.arange(100000).reshape(100, 1000).T)
    assert (cupy.asnumpy(there) == np.arange(100000).reshape(100, 1000).T).all()


def test_wrong_pools(plug):
    with pytest.raises(ValueError, match="device memory"):
        plug.Allocator(pyleat.Pool(plug.leat_device(), "pinned"))
    with pytest.raises(ValueError, match="pinned memory"):
        plug.use_as_pinned_allocator(pyleat.Pool(plug.leat_device()))
