#!/usr/bin/env python3
"""Runs PyTorch's CUDA memory code without a GPU, over leat's libraries under the vendor's names, and compares bytes.

Usage: run-torch.py [--faces build/faces] [--venv FOLDER] [--torch 2.15.0] [--python PYTHON] [--only NAME]

PyTorch is the stock wheel from PyPI for CUDA 12 or 13, installed without NVIDIA's packages (pip install --no-deps)
into the virtual environment FOLDER, or already there. LD_LIBRARY_PATH names leat's faces (libcudart.so.12, libcudart.so.13,
libcuda.so.1, libnvidia-ml.so.1, libcufile.so.0), and stubs in place of NVIDIA's other libraries. A function of a stub
prints its name and returns an error, so that PyTorch raises. No file of NVIDIA's is loaded; the parent checks that.

Kernels cannot run: each operation that would launch one must raise. The exit status is 1 if a test fails. Needs a C
compiler, nm and readelf. CI does not run this program.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

PURE = ["filelock", "typing-extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec", "setuptools",
        "numpy"]
OURS = re.compile(r"libcuda\.so|libcudart\.so|libnvidia-ml\.so|libcufile\.so")
VENDOR = re.compile(r"lib(cublas|cublasLt|cudnn|cufft|cupti|cusolver|cusolverMg|cusparse|cusparseLt|curand|nccl|nvrtc"
                    r"|nvshmem_host|nvJitLink|nvToolsExt)\.so\.")
# Functions whose library is not in the symbol's version.
PREFIXES = [("cublasLt", "libcublasLt"), ("cublas", "libcublas"), ("cudnn", "libcudnn"), ("cufft", "libcufft"),
            ("cupti", "libcupti"), ("cusolverMg", "libcusolverMg"), ("cusolver", "libcusolver"),
            ("cusparseLt", "libcusparseLt"), ("cusparse", "libcusparse"), ("curand", "libcurand"), ("nccl", "libnccl"),
            ("pnccl", "libnccl"), ("nvrtc", "libnvrtc"), ("nvshmem", "libnvshmem_host"), ("nvtx", "libnvToolsExt")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faces", default="build/faces", help="the folder of leat's libraries with the vendor's names")
    parser.add_argument("--venv", help="a virtual environment; made, and PyTorch installed into it, if it is not there")
    parser.add_argument("--torch", default="2.15.0", help="the version to install")
    parser.add_argument("--python", help="a Python that has torch, instead of --venv")
    parser.add_argument("--only", help="run the tests whose name contains this")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- the parent: PyTorch and the stubs ----

def install(folder, version):
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    if subprocess.run([python, "-c", "import importlib.util as u; raise SystemExit(not u.find_spec('torch'))"]).returncode:
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "torch==" + version], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PURE], check=True)
    return python


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def needs_of(torch):
    """Returns the vendor's libraries that PyTorch is linked with, and the functions of each with their versions."""
    needed, functions = {}, []
    places = [os.path.join(torch, "lib"), torch]
    for path in [os.path.join(place, name) for place in places for name in sorted(os.listdir(place)) if ".so" in name]:
        for line in lines("readelf", "-d", path):
            found = re.search(r"\(NEEDED\).*\[(.*)\]", line)
            if found and VENDOR.match(found.group(1)) and not OURS.match(found.group(1)):
                needed.setdefault(found.group(1), set())
        functions += [line.split()[-1] for line in lines("nm", "-D", "--undefined-only", path)]
    for function in set(functions):
        name, _, version = function.partition("@")
        version = version.strip("@")
        library = next((stem for prefix, stem in PREFIXES if name.startswith(prefix)), None)
        for soname in needed:
            if version == soname or (library and soname.startswith(library + ".so")):
                needed[soname].add((name, version))
                break
    return needed


def make_stub(folder, soname, functions):
    """A library whose functions print their names and return 1, which is an error in all of NVIDIA's libraries."""
    source, script = [], {}
    for name, version in sorted(functions):
        text = re.search(r"(String|ErrorName|StatusName)$", name)
        source.append(f'const void *f_{name}(void) __asm__("{name}");\n'
                      f'const void *f_{name}(void) {{ return {"text" if text else "refuse"}("{name}"); }}')
        script.setdefault(version, []).append(name)
    path = os.path.join(folder, soname + ".c")
    with open(path, "w") as file:
        file.write(f'''#include <stdio.h>
static const void *refuse(const char *name)
{{
    fprintf(stderr, "{soname} is a stub: it has no %s\\n", name);
    return (const void *)1;
}}
static const void *text(const char *name)
{{
    (void)name;
    return "{soname} is a stub";
}}
''' + "\n".join(source) + "\n")
    with open(path + ".map", "w") as file:
        for version, names in script.items():
            if version:
                file.write(version + " { global: " + " ".join(name + ";" for name in names) + " };\n")
    command = ["cc", "-shared", "-fPIC", "-O1", "-w", path, "-Wl,-soname," + soname, "-o", os.path.join(folder, soname)]
    if any(script):
        command.append("-Wl,--version-script=" + path + ".map")
    subprocess.run(command, check=True)


def run_parent(args):
    python = os.path.abspath(install(args.venv, args.torch)) if args.venv else args.python or sys.executable
    find = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    torch = lines(python, "-c", find)[0]
    if os.path.isdir(os.path.join(os.path.dirname(torch), "nvidia")):
        raise SystemExit("NVIDIA's packages are installed beside PyTorch, and it would load them: use --venv")
    with tempfile.TemporaryDirectory() as folder:
        needed = needs_of(torch)
        for soname, functions in needed.items():
            make_stub(folder, soname, functions)
        print(f"{sum(map(len, needed.values()))} functions in {len(needed)} stubs", flush=True)
        environment = dict(os.environ, LEAT_DEVICE="cpu:0", LEAT_STUBS=folder,
                           LD_LIBRARY_PATH=os.path.abspath(args.faces) + ":" + folder)
        environment.pop("LD_PRELOAD", None)
        settings = [("native", ""), ("cudaMallocAsync", "backend:cudaMallocAsync"),
                    ("expandable segments", "expandable_segments:True")]
        status = 0
        for name, setting in settings:
            print(f"---- allocator: {name}", flush=True)
            environment["PYTORCH_CUDA_ALLOC_CONF"] = environment["PYTORCH_ALLOC_CONF"] = setting
            status |= subprocess.run([python, os.path.abspath(__file__), "--child",
                                      *(["--only", args.only] if args.only else [])], env=environment).returncode
        return 1 if status else 0


# ---- the child: the tests ----

def pattern(torch, count, seed=1):
    return (torch.arange(count, dtype=torch.int64) * 2654435761 + seed) % 251


def expect(condition):
    if not condition:
        raise AssertionError("wrong bytes or a wrong state")


class Skip(Exception):
    """A test does not apply to this allocator."""


def raises(function):
    import torch
    try:
        function()
        torch.cuda.synchronize()
    except (RuntimeError, AssertionError) as error:
        return str(error).splitlines()[0]
    raise AssertionError("no error was raised")


def test_devices(torch, name):
    expect(torch.cuda.is_available() and torch.cuda.device_count() == 2)
    properties = torch.cuda.get_device_properties(0)
    expect(properties.total_memory > 0 and properties.major >= 9)
    free, total = torch.cuda.mem_get_info()
    expect(0 < free <= total)


def test_copies(torch, name):
    for count in [1, 1000, 1 << 20, (5 << 20) + 3]:
        a = pattern(torch, count)
        for pinned in [False, True]:
            source = a.pin_memory() if pinned else a
            expect(not pinned or source.is_pinned())
            b = source.to("cuda", non_blocking=pinned)
            c = torch.empty_like(a)
            c.copy_(b)
            expect(torch.equal(a, c) and torch.equal(b.cpu(), a) and b.device.index == 0)
            d = b.to("cuda:1")
            torch.cuda.synchronize(1)
            expect(torch.equal(d.cpu(), a))
            expect(torch.equal(b.clone().cpu(), a))


def test_strided(torch, name):
    a = pattern(torch, 64 * 48).reshape(64, 48)
    b = torch.empty(64, 48, dtype=torch.int64, device="cuda")
    b.copy_(a)
    expect(torch.equal(b[10:20].cpu(), a[10:20]))
    b[30:40].copy_(a[:10])
    expect(torch.equal(b[30:40].cpu(), a[:10]))


def test_streams(torch, name):
    a = pattern(torch, 4 << 20).pin_memory()
    first, second, event = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    start = torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(first):
        start.record()
        b = a.to("cuda", non_blocking=True)
        event.record()
    out = torch.empty_like(a).pin_memory()
    with torch.cuda.stream(second):
        second.wait_event(event)
        out.copy_(b, non_blocking=True)
        b.record_stream(second)
    second.synchronize()
    expect(torch.equal(a, out) and event.query() and start.elapsed_time(event) >= 0)


def test_allocator(torch, name):
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    blocks = [torch.empty(1 << (10 + i), dtype=torch.uint8, device="cuda") for i in range(12)]
    expect(torch.cuda.memory_allocated() >= before + sum(block.numel() for block in blocks))
    if name != "backend:cudaMallocAsync":
        expect(len(torch.cuda.memory_snapshot()) > 0)
    del blocks
    torch.cuda.empty_cache()
    expect(torch.cuda.memory_allocated() == before)
    raises(lambda: torch.empty(1 << 50, dtype=torch.uint8, device="cuda"))
    expect(torch.empty(100, device="cuda").numel() == 100)


def test_graph(torch, name):
    a = pattern(torch, 100000).pin_memory()
    b, out = torch.empty_like(a, device="cuda"), torch.empty_like(a).pin_memory()
    graph = torch.cuda.CUDAGraph()
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 15):
        # 2.9 launches a kernel to begin a capture, which fills the state of the random generator.
        print("        raised:", raises(lambda: graph.capture_begin()))
        raise Skip("this PyTorch launches a kernel to begin a capture")
    with torch.cuda.graph(graph):
        b.copy_(a, non_blocking=True)
        out.copy_(b, non_blocking=True)
    for seed in range(3):
        a.copy_(pattern(torch, a.numel(), seed))
        graph.replay()
        torch.cuda.synchronize()
        expect(torch.equal(a, out))


def test_memset(torch, name):
    b = torch.empty(1000, dtype=torch.uint8, device="cuda")
    b.copy_(torch.full((1000,), 7, dtype=torch.uint8))
    expect(int(b.cpu().sum()) == 7000)


def test_interface(torch, name):
    import numpy
    b = pattern(torch, 1000).to("cuda")
    description = b.__cuda_array_interface__
    expect(description["shape"] == (1000,) and description["data"][0] == b.data_ptr())
    again = torch.from_dlpack(b)
    expect(again.data_ptr() == b.data_ptr() and torch.equal(again.cpu(), b.cpu()))
    expect(numpy.array_equal(b.cpu().numpy(), pattern(torch, 1000).numpy()))


def test_pool(torch, name):
    if name == "backend:cudaMallocAsync":
        raise Skip("PyTorch's pools are those of its native allocator")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        b = pattern(torch, 3 << 20).to("cuda")
    expect(torch.equal(b.cpu(), pattern(torch, 3 << 20)))
    del b, pool
    torch.cuda.empty_cache()


def child_of_ipc(queue, back):
    import torch
    b = queue.get()
    back.put((b.device.type, b.cpu().numpy().tolist()))
    b.copy_(pattern(torch, b.numel(), 9))
    torch.cuda.synchronize()
    back.put("written")
    queue.get()


def test_ipc(torch, name):
    if name == "backend:cudaMallocAsync":
        raise Skip("PyTorch does not share memory of this allocator")
    import torch.multiprocessing as processes
    context = processes.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    child = context.Process(target=child_of_ipc, args=(queue, back))
    child.start()
    b = pattern(torch, 5000).to("cuda")
    queue.put(b)
    expect(back.get(timeout=100) == ("cuda", pattern(torch, 5000).tolist()))
    expect(back.get(timeout=100) == "written")
    expect(torch.equal(b.cpu(), pattern(torch, 5000, 9)))
    queue.put("end")
    child.join()
    expect(child.exitcode == 0)


class Numbers:
    """A data set, which workers of a DataLoader get."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        import torch
        return pattern(torch, 1000, index)


def test_loader(torch, name):
    from torch.utils.data import DataLoader
    seen = 0
    for batch in DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True):
        expect(batch.is_pinned())
        expect(torch.equal(batch.to("cuda", non_blocking=True).cpu(), batch))
        seen += len(batch)
    expect(seen == 64)


def test_kernels(torch, name):
    b = pattern(torch, 1000).to("cuda")
    for what in [lambda: b + 1, lambda: b.fill_(3), lambda: torch.ones(10, device="cuda"), lambda: b.sum()]:
        message = raises(what)
        expect("kernel image" in message)
    print("        raised:", message)
    message = raises(lambda: torch.empty(4, 4, device="cuda") @ torch.empty(4, 4, device="cuda"))
    print("        raised:", message)
    expect(torch.equal(b.cpu(), pattern(torch, 1000)))  # an error of a launch loses nothing


def check_files():
    """Fails if a file of NVIDIA's is loaded."""
    faces, stubs = os.environ["LD_LIBRARY_PATH"].split(":")
    paths = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
    for path in paths:
        name = os.path.basename(path)
        if OURS.match(name) or VENDOR.match(name):
            if os.path.dirname(path) not in (os.path.realpath(faces), os.path.realpath(stubs)):
                raise AssertionError(path + " is loaded")


def run_child(args):
    import torch
    print("PyTorch", torch.__version__, "CUDA", torch.version.cuda)
    setting = os.environ.get("PYTORCH_ALLOC_CONF", "")
    failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_") or (args.only and args.only not in name):
            continue
        try:
            test(torch, setting)
            print("ok     ", name[5:], flush=True)
        except Skip as reason:
            print("skipped", name[5:], "-", reason, flush=True)
        except Exception as error:
            failed += 1
            print("FAIL   ", name[5:], type(error).__name__, str(error)[:1000], flush=True)
    check_files()
    return 1 if failed else 0


if __name__ == "__main__":
    arguments = parse()
    sys.exit(run_child(arguments) if arguments.child else run_parent(arguments))
