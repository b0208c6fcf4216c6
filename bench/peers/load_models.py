#!/usr/bin/env python3
"""Loads a safetensors file to a GPU by libleat-files and by other loaders, in turns in one process, and prints JSON.

Usage: load_models.py [--lib build] [--device cuda:0] [--other cuda:1] [--gib 8] [--tensors 80]
                      [--folder /dev/shm] [--repeats 5]

Needs PyTorch and safetensors. KvikIO, fastsafetensors and InstantTensor (each of its back ends) are used if they are
there. The file has random bytes and is in the page cache; torch.load() reads the same tensors from a file of its own
format. Each loader allocates device memory, reads all tensors, and waits for the device; the time is that of all of
it. After each load every tensor is compared, on the device, with the one that safetensors has loaded first. The first
load of each loader, which makes rings, threads and pools, is told apart from the others. A loader that raises an
exception is listed with its message and takes no further turns.

With --other, a row loads half of the tensors to each device, by two leat_model_load_all() that are started one after
the other, and more rows load the same tensors to both devices: leat_model_load_replicas(), safetensors to one device
after the other, and safetensors to one device and a copy from there to the other by PyTorch. Their rates count the
bytes that reach both devices. read_share is the number of bytes that the process read by read(), pread() and the like
(rchar of /proc/self/io), divided by the size of the file; reads through a mapping do not count.
"""
import argparse
import ctypes
import functools
import importlib.util
import json
import os
import statistics
import tempfile
import time

import torch
from safetensors.torch import load_file, save_file

HALVES = "lower", "upper"  # tensors have such names
DONE, FOREVER = 2, (1 << 64) - 1  # LEAT_COPY_POINT_DONE, LEAT_FOREVER


class Leat:
    """The calls of libleat and libleat-files that a load needs."""

    def __init__(self, folder, device):
        self.library = ctypes.CDLL(os.path.join(folder, "libleat.so"), mode=ctypes.RTLD_GLOBAL)
        self.files = ctypes.CDLL(os.path.join(folder, "libleat-files.so"))
        self.library.leat_last_error.restype = ctypes.c_char_p
        self.files.leat_model_set_get_load.restype = ctypes.c_void_p
        self.device, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.leat_device_open(device.encode(), ctypes.byref(self.device)))
        self.check(self.library.leat_stream_create(self.device, ctypes.byref(self.stream)))

    def check(self, status):
        if status:
            raise RuntimeError(self.library.leat_last_error().decode())

    def load(self, path):
        model, loaded = ctypes.c_void_p(), ctypes.c_void_p()
        paths = (ctypes.c_char_p * 1)(path.encode())
        self.check(self.files.leat_model_open(paths, ctypes.c_size_t(1), ctypes.byref(model)))
        self.check(self.files.leat_model_load_all(self.stream, model, None, None, ctypes.byref(loaded)))
        load = ctypes.c_void_p(self.files.leat_model_set_get_load(loaded))
        self.check(self.files.leat_model_load_wait(load, ctypes.c_int(DONE), ctypes.c_uint64(FOREVER)))
        return model, loaded

    def pointer(self, model, loaded, name):
        index, pointer = ctypes.c_size_t(), ctypes.c_void_p()
        self.check(self.files.leat_model_find(model, name.encode(), ctypes.byref(index)))
        self.check(self.files.leat_model_set_get_pointer(loaded, index, ctypes.byref(pointer)))
        return pointer.value

    def open_other(self, device):
        self.other, self.other_stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.leat_device_open(device.encode(), ctypes.byref(self.other)))
        self.check(self.library.leat_stream_create(self.other, ctypes.byref(self.other_stream)))

    def load_replicas(self, path):
        model, sets = ctypes.c_void_p(), (ctypes.c_void_p * 2)()
        paths = (ctypes.c_char_p * 1)(path.encode())
        streams = (ctypes.c_void_p * 2)(self.stream, self.other_stream)
        self.check(self.files.leat_model_open(paths, ctypes.c_size_t(1), ctypes.byref(model)))
        self.check(self.files.leat_model_load_replicas(streams, ctypes.c_size_t(2), model, None, None, sets))
        sets = [ctypes.c_void_p(one) for one in sets]
        load = ctypes.c_void_p(self.files.leat_model_set_get_load(sets[0]))
        self.check(self.files.leat_model_load_wait(load, ctypes.c_int(DONE), ctypes.c_uint64(FOREVER)))
        return model, sets

    def load_halves(self, path):
        """Loads the lower half of the tensors to the one device and the upper half to the other, both at once."""
        model, sets = ctypes.c_void_p(), [ctypes.c_void_p(), ctypes.c_void_p()]
        paths = (ctypes.c_char_p * 1)(path.encode())
        self.check(self.files.leat_model_open(paths, ctypes.c_size_t(1), ctypes.byref(model)))
        for stream, half, loaded in zip((self.stream, self.other_stream), HALVES, sets):
            self.check(self.files.leat_model_load_all(stream, model, f"{half}.*".encode(), None, ctypes.byref(loaded)))
        for loaded in sets:
            load = ctypes.c_void_p(self.files.leat_model_set_get_load(loaded))
            self.check(self.files.leat_model_load_wait(load, ctypes.c_int(DONE), ctypes.c_uint64(FOREVER)))
        return model, sets

    def free(self, model, loaded):
        self.check(self.files.leat_model_set_destroy(loaded))
        self.check(self.files.leat_model_close(model))


class View:
    """Bytes in device memory, for torch.as_tensor()."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def same(tensor, view):
    return torch.equal(tensor.view(torch.uint8).flatten(), torch.as_tensor(view, device=tensor.device))


def by_leat(leat, path, wanted):
    start = time.perf_counter()
    model, loaded = leat.load(path)
    seconds = time.perf_counter() - start
    right = all(same(tensor, View(leat.pointer(model, loaded, name), tensor.nbytes))
                for name, tensor in wanted.items())
    leat.free(model, loaded)
    return seconds, right


def by_leat_to_two(leat, path, wanted):
    start = time.perf_counter()
    model, sets = leat.load_replicas(path)
    seconds = time.perf_counter() - start
    right = all(same(tensor, View(leat.pointer(model, one, name), tensor.nbytes))
                for one, tensors in zip(sets, wanted) for name, tensor in tensors.items())
    leat.check(leat.files.leat_model_set_destroy(sets[1]))
    leat.free(model, sets[0])
    return seconds, right


def by_leat_halves(leat, path, wanted):
    start = time.perf_counter()
    model, sets = leat.load_halves(path)
    seconds = time.perf_counter() - start
    right = all(same(tensor, View(leat.pointer(model, one, name), tensor.nbytes))
                for one, half, tensors in zip(sets, HALVES, wanted) for name, tensor in tensors.items()
                if name.startswith(half))
    leat.check(leat.files.leat_model_set_destroy(sets[1]))
    leat.free(model, sets[0])
    return seconds, right


def by_safetensors_to_two(path, devices, wanted):
    torch.cuda.empty_cache()
    start = time.perf_counter()
    loaded = [load_file(path, device=device) for device in devices]
    for device in devices:
        torch.cuda.synchronize(device)
    seconds = time.perf_counter() - start
    return seconds, all(torch.equal(found[name], tensor) for found, tensors in zip(loaded, wanted)
                        for name, tensor in tensors.items())


def by_safetensors_and_copy(path, devices, wanted):
    torch.cuda.empty_cache()
    start = time.perf_counter()
    first = load_file(path, device=devices[0])
    second = {name: tensor.to(devices[1], non_blocking=True) for name, tensor in first.items()}
    for device in devices:
        torch.cuda.synchronize(device)
    seconds = time.perf_counter() - start
    return seconds, all(torch.equal(found[name], tensor) for found, tensors in zip((first, second), wanted)
                        for name, tensor in tensors.items())


def bytes_read():
    """The bytes that this process has asked read(), pread() and the like for, and got."""
    with open("/proc/self/io", encoding="ascii") as lines:
        return int(dict(line.split(": ") for line in lines)["rchar"])


def by_safetensors(path, device, wanted):
    torch.cuda.empty_cache()
    start = time.perf_counter()
    tensors = load_file(path, device=device)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return seconds, all(torch.equal(tensors[name], tensor) for name, tensor in wanted.items())


def by_mapping(path, device, wanted):
    """All bytes of the file through a mapping, as one copy of pageable memory."""
    torch.cuda.empty_cache()
    start = time.perf_counter()
    mapped = torch.from_file(path, shared=False, size=os.path.getsize(path), dtype=torch.uint8)
    copied = mapped.to(device)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return seconds, int(copied[-4096:].to(torch.int64).sum()) == int(mapped[-4096:].to(torch.int64).sum())


def by_kvikio(path, device, wanted):
    """All bytes of the file by one pread() of KvikIO in its own way, with 16 threads."""
    import kvikio
    import kvikio.defaults

    torch.cuda.empty_cache()
    kvikio.defaults.set({"num_threads": 16})
    start = time.perf_counter()
    copied = torch.empty(os.path.getsize(path), dtype=torch.uint8, device=device)
    with kvikio.CuFile(path, "r") as file:
        moved = file.pread(copied).get()
    seconds = time.perf_counter() - start
    return seconds, moved == copied.numel()


def by_torch_load(path, device, wanted):
    """The same tensors, as torch.save() has written them."""
    torch.cuda.empty_cache()
    start = time.perf_counter()
    tensors = torch.load(path + ".pt", map_location=device, weights_only=True)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return seconds, all(torch.equal(tensors[name], tensor) for name, tensor in wanted.items())


def by_fastsafetensors(path, device, wanted):
    """Without GPUDirect Storage, with its own number of threads."""
    from fastsafetensors import fastsafe_open

    torch.cuda.empty_cache()
    start = time.perf_counter()
    with fastsafe_open([path], device=device, nogds=True) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    return seconds, all(torch.equal(tensors[name], tensor) for name, tensor in wanted.items())


def by_instanttensor(backend, path, device, wanted):
    from instanttensor import safe_open

    torch.cuda.empty_cache()
    start = time.perf_counter()
    with safe_open(path, framework="pt", device=torch.device(device).index or 0, backend=backend) as file:
        tensors = dict(file.tensors())
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return seconds, all(torch.equal(tensors[name], tensor) for name, tensor in wanted.items())


def installed_loaders():
    """Returns the loaders of packages that need not be installed, by name."""
    found = {}
    if importlib.util.find_spec("kvikio"):
        found["kvikio"] = by_kvikio
    if importlib.util.find_spec("fastsafetensors"):
        found["fastsafetensors"] = by_fastsafetensors
    if importlib.util.find_spec("instanttensor"):
        from instanttensor import Backend

        found["instanttensor"] = functools.partial(by_instanttensor, None)
        for name in ("MMAP", "URING_BUFFERED", "AIO_BUFFERED", "URING", "AIO"):
            found[f"instanttensor {name}"] = functools.partial(by_instanttensor, getattr(Backend, name))
    return found


def measure(loaders, path, device, wanted, repeats):
    """Returns the seconds of each loader's loads, the bytes that it read as a share of the file, the messages of
    those that failed, and the number of wrong loads."""
    times, shares, failed, wrong = {name: [] for name in loaders}, {name: [] for name in loaders}, {}, 0
    for _ in range(repeats + 1):
        for name, loader in loaders.items():
            if name in failed:
                continue
            before = bytes_read()
            try:
                seconds, right = loader(path, device, wanted)
            except Exception as error:  # a peer may refuse the file system or the machine
                if name.startswith("leat"):
                    raise
                failed[name] = f"{type(error).__name__}: {error}"[:300]
                continue
            shares[name].append((bytes_read() - before) / os.path.getsize(path))
            times[name].append(seconds)
            wrong += not right
    return {name: found for name, found in times.items() if name not in failed}, shares, failed, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", default="build", help="the folder of libleat.so and libleat-files.so")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--other", help="a second device, for the rows that load the tensors to both")
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--tensors", type=int, default=80)
    parser.add_argument("--folder", default=os.environ.get("TMPDIR", "/tmp"))
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    each = int(args.gib * (1 << 30)) // args.tensors // 2
    leat = Leat(args.lib, args.device)
    loaders = {"leat": lambda *given: by_leat(leat, given[0], given[2]), "safetensors": by_safetensors,
               "mapping": by_mapping, "torch.load": by_torch_load, **installed_loaders()}
    to_two, halves = {}, {}
    if args.other:
        leat.open_other(args.other)
        halves = {"leat_halves": lambda path, _, wanted: by_leat_halves(leat, path, wanted)}
        to_two = {"leat_to_two": lambda path, _, wanted: by_leat_to_two(leat, path, wanted),
                  "safetensors_to_two": by_safetensors_to_two, "safetensors_and_copy": by_safetensors_and_copy}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = os.path.join(folder, "model.safetensors")
        tensors = {f"{HALVES[2 * i // args.tensors]}.{i}": torch.randint(-30000, 30000, (each,), dtype=torch.int16)
                   for i in range(args.tensors)}
        save_file(tensors, path)
        torch.save(tensors, path + ".pt")
        del tensors
        wanted, size = load_file(path, device=args.device), os.path.getsize(path)
        times, shares, failed, wrong = measure(loaders, path, args.device, wanted, args.repeats)
        if args.other:
            both = [args.device, args.other]
            there = load_file(path, device=args.other)
            found = measure({**halves, **to_two}, path, both, [wanted, there], args.repeats)
            for known, more in zip((times, shares, failed), found):
                known.update(more)
            wrong += found[3]
    rates = {}
    for name, found in times.items():
        delivered = size * (2 if name in to_two else 1)
        rates[name] = {"first_gb_s": delivered / found[0] / 1e9,
                       "median_gb_s": delivered / statistics.median(found[1:]) / 1e9,
                       "worst_gb_s": delivered / max(found[1:]) / 1e9, "read_share": max(shares[name])}
    print(json.dumps({"device": torch.cuda.get_device_name(args.device), "other": args.other, "torch": torch.__version__,
                      "bytes": size, "tensors": args.tensors, "folder": args.folder, "repeats": args.repeats,
                      "wrong": wrong, "loaders": rates, "failed": failed}, indent=2))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
