#!/usr/bin/env python3
"""Programs of PyTorch, CuPy, Numba, CUDA Python, JAX and of the bare driver, which print checksums of what they copied.

Usage: programs.py NAME        tools/run-programs.py runs them with and without "leat run", and compares.
       programs.py --list      prints the names with what the caller must know, as JSON

The programs contain nothing about leat. Each prints the same each time it runs on one machine. SIZE is above the 8 MiB
from which on "leat run" makes copies; the other sizes are odd ones below.
"""
import ctypes
import json
import os
import signal
import sys
import tempfile
import threading
import time
import zlib

SIZE = (24 << 20) + 52
SIZES = (4, 4096, (1 << 20) + 12, SIZE)
PROGRAMS = {}


def program(serves=True, environment=None, needs=()):
    """Register a program. serves: leat must have made copies of it; None: it is unknown. needs: modules."""

    def add(function):
        PROGRAMS[function.__name__] = {"run": function, "serves": serves, "environment": environment or {},
                                       "needs": list(needs)}
        return function

    return add


def show(what, data):
    """Print a checksum of an array of NumPy, or of anything with a buffer."""
    if hasattr(data, "tobytes"):
        data = data.tobytes()
    print(what, len(data), f"{zlib.crc32(data):08x}", flush=True)


def pattern(size, seed=0):
    """Return size bytes as an array of uint32."""
    import numpy as np

    return np.arange(size // 4, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed)


# ---- the driver through ctypes; needs Python only


class Driver:
    """The functions of libcuda.so.1 that the programs call."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxPushCurrent_v2", self.context)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            raise SystemExit(f"{name} returned {code}")

    def alloc(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def stream(self, flags):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), flags)
        return stream


def text(size, seed=0):
    return (bytes((7 * i + seed) % 251 for i in range(241)) * (size // 241 + 1))[:size]


def round_trip(driver, name, size=SIZE, seed=0):
    """Copy there and back, synchronously and in a stream, and print the checksums."""
    there, number = driver.alloc(size), ctypes.c_size_t(size)
    source, back = ctypes.create_string_buffer(text(size, seed), size), ctypes.create_string_buffer(size)
    driver.call("cuMemcpyHtoD_v2", there, source, number)
    driver.call("cuMemcpyDtoH_v2", back, there, number)
    show(f"{name} {size}", back.raw)
    for flags in (0, 1):
        stream = driver.stream(flags)
        source.raw = text(size, seed + 1 + flags)
        driver.call("cuMemcpyHtoDAsync_v2", there, source, number, stream)
        source.raw = bytes(size)  # the call has returned, so the source may change
        driver.call("cuMemcpyDtoHAsync_v2", back, there, number, stream)
        driver.call("cuStreamSynchronize", stream)
        show(f"{name} in a stream {size}", back.raw)
        driver.call("cuStreamDestroy_v2", stream)
    driver.call("cuMemFree_v2", there)


@program()
def driver_copies():
    driver = Driver()
    for size in SIZES:
        round_trip(driver, "copy", size)


@program()
def driver_threads():
    driver, lines = Driver(), {}

    def work(seed):
        driver.call("cuCtxPushCurrent_v2", driver.context)
        there, size = driver.alloc(SIZE), ctypes.c_size_t(SIZE)
        back, stream = ctypes.create_string_buffer(SIZE), driver.stream(1)
        for i in range(3):
            source = ctypes.create_string_buffer(text(SIZE, 10 * seed + i), SIZE)
            driver.call("cuMemcpyHtoDAsync_v2", there, source, size, stream)
            driver.call("cuMemcpyDtoHAsync_v2", back, there, size, stream)
            driver.call("cuStreamSynchronize", stream)
            lines[seed, i] = zlib.crc32(back.raw)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for key in sorted(lines):
        print(key, f"{lines[key]:08x}")


@program()
def driver_fork():
    sys.stdout.flush()
    child = os.fork()
    if not child:
        round_trip(Driver(), "child")
        os._exit(3)
    _, status = os.waitpid(child, 0)
    print("child's status", os.waitstatus_to_exitcode(status), flush=True)
    round_trip(Driver(), "parent")


@program()
def driver_exec():
    round_trip(Driver(), "before")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, __file__, "driver_copies"])


@program()
def driver_os_exit():
    round_trip(Driver(), "copy")
    sys.stdout.flush()
    os._exit(5)


@program()
def driver_segfault():
    round_trip(Driver(), "copy")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)


@program()
def driver_abort():
    round_trip(Driver(), "copy")
    sys.stdout.flush()
    os.abort()


@program()
def driver_terminate():
    round_trip(Driver(), "copy")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


@program()
def driver_daemon():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out")
        sys.stdout.flush()
        child = os.fork()
        if not child:
            os.setsid()
            if os.fork():
                os._exit(0)
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 2):
                os.dup2(null, number)
            os.dup2(os.open(path + ".new", os.O_WRONLY | os.O_CREAT, 0o600), 1)
            round_trip(Driver(), "daemon")
            sys.stdout.flush()
            os.rename(path + ".new", path)
            os._exit(0)
        os.waitpid(child, 0)
        for _ in range(600):
            if os.path.exists(path):
                break
            time.sleep(0.1)
        with open(path) as file:
            print(file.read(), end="")


@program(serves=False)
def driver_nothing():
    print("no CUDA")


# ---- PyTorch


def torch_module():
    import torch

    print("version torch", torch.__version__)
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    return torch


def show_tensor(torch, what, tensor):
    show(what, tensor.detach().cpu().contiguous().view(torch.uint8).numpy())


def torch_forms_body():
    torch = torch_module()
    for size in SIZES:
        source = torch.from_numpy(pattern(size)).view(torch.float32)
        one = source.cuda()
        show_tensor(torch, f"cuda {size}", one)
        two = source.to("cuda", non_blocking=True)
        source = torch.from_numpy(pattern(size, 1)).view(torch.float32)
        show_tensor(torch, f"to {size}", two)
        one.copy_(source)
        show_tensor(torch, f"copy_ in {size}", one)
        back = torch.empty_like(source)
        back.copy_(two)
        show_tensor(torch, f"copy_ out {size}", back)
        later = one.to("cpu", non_blocking=True)
        torch.cuda.synchronize()
        show_tensor(torch, f"to cpu, non_blocking {size}", later)
        show_tensor(torch, f"to half {size}", source.nan_to_num().to("cuda", torch.float16))
    rows = torch.from_numpy(pattern(2048 * 8192 * 4, 2)).view(torch.int32).reshape(2048, 8192)
    there = rows.cuda()
    show_tensor(torch, "rows", there[100:1900])
    there[100:1900].copy_(rows[:1800])
    show_tensor(torch, "rows in", there)
    part = torch.zeros(2048, 8192, dtype=torch.int32)
    part[:, 1000:7000].copy_(there[:, 1000:7000])
    show_tensor(torch, "columns out", part)
    there[:, 5:8000].copy_(rows[:, 1:7996])
    show_tensor(torch, "columns in", there)
    show_tensor(torch, "transposed", rows.T.cuda())
    there.T[:4096].copy_(rows[:, :4096].T)
    show_tensor(torch, "transposed in", there)
    show_tensor(torch, "expanded", rows[:1].expand(2048, 8192).cuda())


@program(needs=["torch"])
def torch_forms():
    torch_forms_body()


@program(needs=["torch"], environment={"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}, serves=None)
def torch_forms_malloc_async():
    torch_forms_body()


@program(needs=["torch"], environment={"PYTORCH_ALLOC_CONF": "expandable_segments:True"}, serves=None)
def torch_forms_expandable():
    torch_forms_body()


@program(needs=["torch"])
def torch_pinned():
    torch = torch_module()
    runtime = torch.cuda.cudart()
    for seed in range(3):
        source = torch.from_numpy(pattern(SIZE, seed)).view(torch.int32)
        pinned = source.pin_memory()
        there = pinned.to("cuda", non_blocking=True)
        out = torch.empty_like(source).pin_memory()
        out.copy_(there, non_blocking=True)
        torch.cuda.synchronize()
        print(pinned.is_pinned(), out.is_pinned())
        show_tensor(torch, "pinned", out)
        # Registered, and then no more.
        print(runtime.cudaHostRegister(source.data_ptr(), SIZE, 0), source.is_pinned())
        show_tensor(torch, "registered", source.cuda(non_blocking=True))
        print(runtime.cudaHostUnregister(source.data_ptr()), source.is_pinned())
        source += 1
        show_tensor(torch, "no longer registered", source.cuda())


def torch_streams_body():
    torch = torch_module()
    first, second = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    outs = []
    for i in range(6):
        source = torch.from_numpy(pattern(SIZE, i)).view(torch.int32)
        with torch.cuda.stream(first):
            torch.cuda._sleep(10_000_000)
            there = source.to("cuda", non_blocking=True)
            source.zero_()  # pageable: the call has returned, so the source may change
            ready = first.record_event()
        with torch.cuda.stream(second):
            second.wait_event(ready)
            changed = there * 3 + i
            there.record_stream(second)
            outs.append(torch.empty(changed.shape, dtype=changed.dtype))
            outs[-1].copy_(changed, non_blocking=True)
    torch.cuda.synchronize()
    for out in outs:
        show_tensor(torch, "streams", out)
    # The default stream waits for nothing of a stream of PyTorch's, which is non-blocking, but for its own work.
    there = torch.zeros(SIZE // 4, dtype=torch.int32, device="cuda")
    torch.cuda._sleep(50_000_000)
    there += 7
    show_tensor(torch, "behind a kernel", there.cpu())


@program(needs=["torch"])
def torch_streams():
    torch_streams_body()


# Each tensor is an allocation of the driver's, or of its pool.
NO_CACHING = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
MALLOC_ASYNC = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}


@program(needs=["torch"], environment=NO_CACHING)
def torch_streams_no_caching():
    torch_streams_body()


@program(needs=["torch"], environment=MALLOC_ASYNC)
def torch_streams_malloc_async():
    torch_streams_body()


def torch_graph_body():
    torch = torch_module()
    count = SIZE // 4
    static, out = torch.zeros(count, dtype=torch.int32).pin_memory(), torch.zeros(count, dtype=torch.int32).pin_memory()
    there = torch.zeros(count, dtype=torch.int32, device="cuda")
    other, changed = torch.zeros_like(there), torch.zeros_like(there)
    meanwhile = torch.from_numpy(pattern(SIZE, 50)).view(torch.int32)
    side = torch.cuda.Stream()

    def copy_meanwhile():
        with torch.cuda.stream(side):
            other.copy_(meanwhile)
            side.synchronize()

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        there.copy_(static, non_blocking=True)
        thread = threading.Thread(target=copy_meanwhile)
        thread.start()
        thread.join()
        torch.add(there, other, out=changed)
        out.copy_(changed, non_blocking=True)
    for seed in range(4):
        static.copy_(torch.from_numpy(pattern(SIZE, seed)).view(torch.int32))
        other.copy_(torch.from_numpy(pattern(SIZE, 9 * seed)).view(torch.int32))
        graph.replay()
        torch.cuda.synchronize()
        show_tensor(torch, "replay", out)


@program(needs=["torch"])
def torch_graph():
    torch_graph_body()


@program(needs=["torch"], environment=MALLOC_ASYNC)
def torch_graph_malloc_async():
    torch_graph_body()


def torch_ipc_child(queue, back):
    import torch

    there = queue.get()
    back.put(zlib.crc32(there.cpu().numpy().tobytes()))
    there.copy_(torch.from_numpy(pattern(SIZE, 5)).view(torch.int32))
    torch.cuda.synchronize()
    back.put("written")
    queue.get()


@program(needs=["torch"])
def torch_ipc():
    torch = torch_module()
    context = torch.multiprocessing.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    child = context.Process(target=torch_ipc_child, args=(queue, back))
    child.start()
    there = torch.from_numpy(pattern(SIZE, 4)).view(torch.int32).cuda()
    show_tensor(torch, "here", there)
    queue.put(there)
    print("there", f"{back.get(timeout=100):08x}", back.get(timeout=100))
    show_tensor(torch, "changed there", there)
    queue.put("end")
    child.join()
    print("child's status", child.exitcode)


class Numbers:
    """A data set of 24 items of 3 MiB."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        import torch

        return torch.from_numpy(pattern(3 << 20, index)).view(torch.int32)


@program(needs=["torch"])
def torch_loader():
    torch = torch_module()
    for pin in (True, False):
        for method in ("fork", "spawn"):
            loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=pin,
                                                 multiprocessing_context=method)
            for batch in loader:
                show_tensor(torch, f"batch, {method}, {'pinned' if batch.is_pinned() else 'pageable'}",
                            batch.to("cuda", non_blocking=True))


@program(needs=["torch"])
def torch_train():
    torch_train_body()


@program(needs=["torch"], environment=NO_CACHING)
def torch_train_no_caching():
    torch_train_body()


@program(needs=["torch"], environment=MALLOC_ASYNC)
def torch_train_malloc_async():
    torch_train_body()


@program(needs=["torch"], environment=NO_CACHING)
def torch_forms_no_caching():
    torch_forms_body()


def torch_train_body():
    torch = torch_module()
    model = torch.nn.Sequential(torch.nn.Linear(1024, 512), torch.nn.GELU(), torch.nn.LayerNorm(512),
                                torch.nn.Linear(512, 16)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = [torch.randn(6144, 1024) for _ in range(4)]
    wanted = [torch.randint(16, (6144,)) for _ in range(4)]
    for step in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batches[step % 4].cuda(non_blocking=True)),
                                                 wanted[step % 4].cuda())
        loss.backward()
        optimizer.step()
        print("loss", loss.item().hex())
    for name, value in model.state_dict().items():
        show_tensor(torch, name, value)


@program(needs=["torch"])
def torch_profiler():
    torch = torch_module()
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        there = torch.from_numpy(pattern(SIZE)).view(torch.int32).cuda()
        back = (there * 2).cpu()
        torch.cuda.synchronize()
    show_tensor(torch, "profiled", back)
    names = {event.name for event in found.events()}
    print("copies seen", any("Memcpy" in name for name in names), "calls seen", any("cudaMemcpy" in n for n in names))


@program(needs=["torch", "safetensors"], serves=None)
def torch_safetensors():
    torch = torch_module()
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        save_file({f"t{i}": torch.from_numpy(pattern(SIZE, i)).view(torch.int32) for i in range(4)}, path)
        loaded = load_file(path, device="cuda")
        for name in sorted(loaded):
            show_tensor(torch, name, loaded[name])
        with safe_open(path, "pt", device="cuda") as file:
            show_tensor(torch, "slice", file.get_slice("t1")[100:-100])
        save_file(loaded, path + "2")
        with open(path, "rb") as a, open(path + "2", "rb") as b:
            print("the same file", a.read() == b.read())


@program(needs=["torch"])
def torch_numpy():
    torch = torch_module()
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data")
        pattern(2 * SIZE, 3).tofile(path)
        mapped = np.memmap(path, np.int32, "c")
        there = torch.from_numpy(mapped).cuda()
        show_tensor(torch, "mapped", there)
        shared = np.memmap(path, np.int32, "r+")
        torch.from_numpy(shared)[1000:].copy_(there[:-1000])
        shared.flush()
        show("file", np.fromfile(path, np.int32))
    grown = torch.empty(SIZE // 4, dtype=torch.int32)  # memory that no page was touched of
    grown.copy_(there[: SIZE // 4])
    show("new", grown.numpy())
    show("list", np.asarray((there[:5000] % 1000).tolist(), np.int32))
    print("item", there[77].item())


@program(needs=["torch"])
def torch_threads():
    torch = torch_module()
    lines = {}

    def work(seed):
        with torch.cuda.stream(torch.cuda.Stream()):
            for i in range(4):
                source = torch.from_numpy(pattern(SIZE, 10 * seed + i)).view(torch.int32)
                back = (source.to("cuda", non_blocking=True) + seed).cpu()
                lines[seed, i] = zlib.crc32(back.numpy().tobytes())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for key in sorted(lines):
        print(key, f"{lines[key]:08x}")


# ---- CuPy, Numba, CUDA Python, JAX


@program(needs=["cupy"])
def cupy_copies():
    import cupy
    import numpy as np

    print("version cupy", cupy.__version__)
    for size in SIZES:
        source = pattern(size)
        there = cupy.asarray(source)
        show(f"asarray {size}", cupy.asnumpy(there))
        back = np.empty_like(source)
        (there ^ np.uint32(5)).get(out=back)
        show(f"get {size}", back)
        there.set(pattern(size, 1))
        show(f"set {size}", there.get())
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            there.set(pattern(size, 2), stream=stream)
            later = (there + np.uint32(1)).get(stream=stream, blocking=False)
        stream.synchronize()
        show(f"stream {size}", later)
    rows = pattern(SIZE // 4096 * 4096).reshape(-1, 1024)
    there = cupy.asarray(rows)
    show("columns", cupy.asnumpy(there[:, 10:1000]))
    show("transposed", cupy.asnumpy(cupy.asarray(rows.T)))
    # Pinned memory of CuPy's pool.
    memory = cupy.cuda.alloc_pinned_memory(rows.nbytes)
    pinned = np.frombuffer(memory, rows.dtype, rows.size).reshape(rows.shape)
    pinned[...] = rows + np.uint32(9)
    show("pinned", cupy.asnumpy(cupy.asarray(pinned)))
    cupy.get_default_memory_pool().free_all_blocks()
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
        show("cudaMallocAsync", cupy.asnumpy(cupy.asarray(rows) * np.uint32(3)))
    with cupy.cuda.using_allocator(cupy.cuda.malloc_managed):
        show("managed", cupy.asnumpy(cupy.asarray(rows) * np.uint32(3)))


@program(needs=["cupy"])
def cupy_rows():
    import cupy
    import numpy as np

    rows, runtime = pattern(4096 * 8192).reshape(4096, 2048), cupy.cuda.runtime
    there, back = cupy.zeros((4096, 3000), np.uint32), np.zeros((4096, 5000), np.uint32)
    runtime.memcpy2D(there.data.ptr, 12000, rows.ctypes.data, 8192, 8000, 4096, runtime.memcpyHostToDevice)
    show("memcpy2D in", cupy.asnumpy(there))
    runtime.memcpy2D(back.ctypes.data, 20000, there.data.ptr, 12000, 8000, 4096, runtime.memcpyDeviceToHost)
    show("memcpy2D out", back)
    stream = cupy.cuda.Stream()
    runtime.memcpy2DAsync(there.data.ptr, 12000, back.ctypes.data, 20000, 8192, 4096, runtime.memcpyDefault, stream.ptr)
    stream.synchronize()
    show("memcpy2DAsync", cupy.asnumpy(there))


@program(needs=["numba", "numba.cuda"])
def numba_copies():
    import numba
    import numpy as np
    from numba import cuda

    print("version numba", numba.__version__)

    @cuda.jit("void(uint32[:], uint32)")
    def change(data, more):
        i = cuda.grid(1)
        if i < data.size:
            data[i] += more

    for size in SIZES:
        source = pattern(size)
        there = cuda.to_device(source)
        change[(source.size + 255) // 256, 256](there, 3)
        show(f"to_device {size}", there.copy_to_host())
        stream = cuda.stream()
        there.copy_to_device(pattern(size, 1), stream=stream)
        change[(source.size + 255) // 256, 256, stream](there, 4)
        back = np.zeros_like(source)
        there.copy_to_host(back, stream=stream)
        stream.synchronize()
        show(f"stream {size}", back)
        change[(source.size + 255) // 256, 256](back, 5)  # an array of the host goes there and back
        show(f"argument {size}", back)
        pinned = cuda.pinned_array(source.shape, np.uint32)
        pinned[...] = source
        show(f"pinned {size}", cuda.to_device(pinned).copy_to_host())
        with cuda.pinned(source):
            show(f"registered {size}", cuda.to_device(source).copy_to_host())


@program(needs=["cuda.bindings"])
def bindings_copies():
    import numpy as np
    from cuda import bindings
    from cuda.bindings import driver, runtime

    def call(result):
        if int(result[0]):
            raise SystemExit(str(result[0]))
        return result[1] if len(result) > 1 else None

    print("version cuda-bindings", bindings.__version__)
    call(driver.cuInit(0))
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))))
    for size in SIZES:
        source, back = pattern(size), np.empty(size // 4, np.uint32)
        there = call(driver.cuMemAlloc(size))
        call(driver.cuMemcpyHtoD(there, source.ctypes.data, size))
        call(driver.cuMemcpyDtoH(back.ctypes.data, there, size))
        show(f"driver {size}", back)
        stream = call(driver.cuStreamCreate(1))
        source += np.uint32(1)
        call(driver.cuMemcpyHtoDAsync(there, source.ctypes.data, size, stream))
        source[...] = 0
        call(driver.cuMemcpyDtoHAsync(back.ctypes.data, there, size, stream))
        call(driver.cuStreamSynchronize(stream))
        show(f"driver, stream {size}", back)
        call(driver.cuMemFree(there))
        there = call(runtime.cudaMalloc(size))
        source = pattern(size, 2)
        kinds = runtime.cudaMemcpyKind
        call(runtime.cudaMemcpy(there, source.ctypes.data, size, kinds.cudaMemcpyHostToDevice))
        call(runtime.cudaMemcpyAsync(back.ctypes.data, there, size, kinds.cudaMemcpyDeviceToHost, 0))
        call(runtime.cudaDeviceSynchronize())
        show(f"runtime {size}", back)
        call(runtime.cudaFree(there))


@program(needs=["jax"], serves=None, environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
def jax_copies():
    import jax
    import numpy as np

    print("version jax", jax.__version__, jax.devices()[0].platform)
    for size in SIZES:
        there = jax.device_put(pattern(size))
        show(f"device_put {size}", np.asarray(there))
        show(f"sum {size}", np.asarray(there + np.uint32(3)))


def main():
    if sys.argv[1:] == ["--list"]:
        print(json.dumps({name: {key: value for key, value in one.items() if key != "run"}
                          for name, one in PROGRAMS.items()}))
        return
    PROGRAMS[sys.argv[1]]["run"]()


if __name__ == "__main__":
    main()
