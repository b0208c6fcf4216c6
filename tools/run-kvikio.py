#!/usr/bin/env python3
"""Reads and writes files by KvikIO over libleat-cufile, and compares the bytes. KvikIO is unmodified, from PyPI.

Usage: run-kvikio.py [--lib build] [--device cpu:0] [--rounds 200] [--seed N] [--rate MIB]

Each round reads or writes a random range by one of KvikIO's calls: read, pread, raw_read, raw_read_async, and the same
for writing. On the CPU device libleat-cuda stands in for libcuda.so.1; on a GPU (--device cuda:0) KvikIO and this
program use NVIDIA's. The exit status is 1 if a byte differs. --rate also reads a file of this size by pread(), in turns
with libleat-cufile and in KvikIO's own way (KVIKIO_COMPAT_MODE=ON), and prints GB/s. CI does not run this program.
"""
import argparse
import ctypes
import os
import random
import subprocess
import sys
import tempfile
import time

MOST = 20 << 20


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", default="build", help="the folder of libleat-cufile.so")
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--rate", type=int, default=0, metavar="MIB")
    parser.add_argument("--child", choices=["rounds", "rate"], help=argparse.SUPPRESS)
    return parser.parse_args()


def start_child(args, folder, what, mode):
    """Runs this program again, so that the loader finds leat's libraries under the vendor's names."""
    environment = dict(os.environ, KVIKIO_COMPAT_MODE=mode, CUFILE_ENV_PATH_JSON=folder + "/cufile.json",
                       LEAT_DEVICE=args.device, TMPDIR=os.environ.get("TMPDIR", folder))
    paths = [folder] + [path for path in [os.environ.get("LD_LIBRARY_PATH")] if path]
    environment["LD_LIBRARY_PATH"] = ":".join(paths)
    # KvikIO's wheels load NVIDIA's library by its path, unless one of this name is loaded.
    if mode == "OFF":
        environment["LD_PRELOAD"] = "libcufile.so.0"
    return subprocess.run([sys.executable, __file__, *sys.argv[1:], "--seed", str(args.seed), "--child", what],
                          env=environment).returncode


def run_parent(args):
    print("seed", args.seed, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.abspath(args.lib)
        for name in os.listdir(library):
            if name.startswith("libleat") and ".so" in name:
                os.symlink(os.path.join(library, name), os.path.join(folder, name))
        os.symlink("libleat-cufile.so.0", folder + "/libcufile.so.0")
        if args.device.startswith("cpu"):
            os.symlink("libleat-cuda.so.0", folder + "/libcuda.so.1")
        # KvikIO wants to see that there is one.
        with open(folder + "/cufile.json", "w") as file:
            file.write("{}\n")
        status = start_child(args, folder, "rounds", "OFF")
        for mode in ["OFF", "ON"] * 3 if args.rate and not status else []:
            status |= start_child(args, folder, "rate", mode)
        return status


class Driver:
    """The few calls of the CUDA driver that the rounds need."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result:
            raise RuntimeError(f"{name} gave {result}")

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value


class Array:
    """An array of bytes in device memory."""

    def __init__(self, driver, size):
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.driver, self.address, self.size = driver, address.value, size

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.size,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def get(self):
        import numpy
        out = numpy.empty(self.size, numpy.uint8)
        self.driver.call("cuMemcpyDtoH_v2", ctypes.c_void_p(out.ctypes.data), ctypes.c_uint64(self.address),
                         ctypes.c_size_t(self.size))
        return out

    def set(self, data):
        self.driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), ctypes.c_void_p(data.ctypes.data),
                         ctypes.c_size_t(self.size))
        self.driver.call("cuCtxSynchronize")

    def free(self):
        self.driver.call("cuMemFree_v2", ctypes.c_uint64(self.address))


def move(file, how, write, array, size, offset, stream):
    name = "write" if write else "read"
    if how == "pread":
        return getattr(file, "p" + name)(array, size, offset).get()
    if how == "async":
        return getattr(file, f"raw_{name}_async")(array, stream, size, offset, 0).check_bytes_done()
    return getattr(file, how + name)(array, size, offset)


def run_rounds(args):
    import kvikio
    import kvikio.cufile_driver
    import numpy

    rng, driver, wrong = random.Random(args.seed), Driver(), 0
    data = numpy.random.default_rng(args.seed).integers(0, 256, MOST, dtype=numpy.uint8)
    stream = driver.stream()
    kvikio.stream_register(stream, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/data"
        data.tofile(path)
        for number in range(args.rounds):
            how, write = rng.choice(["", "pread", "raw_", "async"]), rng.random() < 0.5
            size, offset = rng.choice([1, 4096, 100001, 3 << 20, rng.randrange(1, MOST)]), rng.choice([0, 4096, 7])
            size = min(size, MOST - offset)
            new = data[rng.randrange(MOST - size + 1):][:size].copy()
            array = Array(driver, size)
            array.set(new if write else numpy.zeros(size, numpy.uint8))
            if rng.random() < 0.3:
                kvikio.memory_register(array)
            with kvikio.CuFile(path, "r+" if write else "r") as file:
                moved = move(file, how, write, array, size, offset, stream)
            if write:
                data[offset:offset + size] = new
                good = numpy.array_equal(numpy.fromfile(path, numpy.uint8), data)
            else:
                good = numpy.array_equal(array.get(), data[offset:offset + size])
            if moved != size or not good:
                print(f"round {number}: {how or 'plain'} {'write' if write else 'read'} of {size} bytes at {offset}:",
                      f"{moved} bytes, {'right' if good else 'wrong'}")
                wrong += 1
            try:
                kvikio.memory_deregister(array)
            except RuntimeError:
                pass  # it was not registered
            array.free()
    kvikio.stream_deregister(stream)
    print(f"KvikIO {kvikio.__version__}, cuFile {kvikio.cufile_driver.libcufile_version()}, {args.device}:",
          f"{args.rounds} rounds, {wrong} wrong")
    return 1 if wrong else 0


def run_rate(args):
    import kvikio
    import kvikio.defaults
    import numpy

    driver, size = Driver(), args.rate << 20
    array, best = Array(driver, size), 0
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/data"
        numpy.zeros(size, numpy.uint8).tofile(path)
        with kvikio.CuFile(path, "r") as file:
            for _ in range(5):
                start = time.perf_counter()
                moved = file.pread(array).get()
                best = max(best, moved / (time.perf_counter() - start) / 1e9)
    own = os.environ["KVIKIO_COMPAT_MODE"] == "ON"
    print(f"pread of {args.rate} MiB, {kvikio.defaults.get('num_threads')} threads,",
          f"{'own way' if own else 'libleat-cufile'}: {best:.2f} GB/s")
    return 0


def main():
    args = parse()
    if not args.child:
        return run_parent(args)
    return run_rounds(args) if args.child == "rounds" else run_rate(args)


if __name__ == "__main__":
    sys.exit(main())
