#!/usr/bin/env python3
"""Saves tensors of a GPU as a safetensors file while kernels run, by libleat-files and by others, and prints JSON.

Usage: save_models.py [--lib build] [--device cuda:0] [--gib 8] [--tensors 80] [--folder /dev/shm] [--repeats 3]

Needs PyTorch and safetensors. A loop launches matrix products on PyTorch's stream, and waits for each group of them.
First it runs alone, then with a save by leat_model_save_start() beside it, from the call until the file has its name;
slowdown is the mean time of a group beside the save, divided by that without. For safetensors.torch.save_file() and
torch.save(), which return when the file is written, only the time of the save is measured; they do not wait for the
disk, so durable_gb_s includes an fsync(). Every file is read again and compared with the tensors.
"""
import argparse
import ctypes
import json
import os
import statistics
import tempfile
import time

import torch
from safetensors.torch import load_file, save_file

DURABLE, FOREVER, NOT_READY = 3, (1 << 64) - 1, 1  # LEAT_COPY_POINT_DURABLE, LEAT_FOREVER, LEAT_NOT_READY


class SaveItem(ctypes.Structure):
    """leat_model_save_item of leat/model.h."""
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("type", ctypes.c_char_p),
                ("dims", ctypes.c_uint32), ("shape", ctypes.POINTER(ctypes.c_int64)), ("src", ctypes.c_void_p),
                ("src_bytes", ctypes.c_size_t)]


class Leat:
    """The calls of libleat and libleat-files that a save needs."""

    def __init__(self, folder, device):
        self.library = ctypes.CDLL(os.path.join(folder, "libleat.so"), mode=ctypes.RTLD_GLOBAL)
        self.files = ctypes.CDLL(os.path.join(folder, "libleat-files.so"))
        self.library.leat_last_error.restype = ctypes.c_char_p
        self.device, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.leat_device_open(device.encode(), ctypes.byref(self.device)))
        self.check(self.library.leat_stream_create(self.device, ctypes.byref(self.stream)))

    def check(self, status):
        if status:
            raise RuntimeError(self.library.leat_last_error().decode())

    def start(self, path, tensors):
        items, save = (SaveItem * len(tensors))(), ctypes.c_void_p()
        for item, (name, tensor) in zip(items, tensors.items()):
            shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
            item.size, item.name, item.type = ctypes.sizeof(SaveItem), name.encode(), b"I16"
            item.dims, item.shape = tensor.dim(), shape
            item.src, item.src_bytes = tensor.data_ptr(), tensor.nbytes
        self.check(self.files.leat_model_save_start(self.stream, path.encode(), items, ctypes.c_size_t(len(tensors)),
                                                    None, ctypes.byref(save)))
        return save

    def is_durable(self, save):
        """Returns whether the file has its name, without waiting."""
        status = self.files.leat_model_save_wait(save, ctypes.c_int(DURABLE), ctypes.c_uint64(0))
        if status != NOT_READY:
            self.check(status)
        return status != NOT_READY

    def end(self, save):
        self.check(self.files.leat_model_save_wait(save, ctypes.c_int(DURABLE), ctypes.c_uint64(FOREVER)))
        self.check(self.files.leat_model_save_destroy(save))


def group_of_kernels(left, right):
    """Runs 20 matrix products, and returns the seconds from the first launch until the last one has ended."""
    start = time.perf_counter()
    for _ in range(20):
        left @ right
    torch.cuda.current_stream().synchronize()
    return time.perf_counter() - start


def verify(path, tensors, device):
    saved = load_file(path, device=device)
    return saved.keys() == tensors.keys() and all(torch.equal(saved[name], tensor) for name, tensor in tensors.items())


def beside_kernels(leat, path, tensors, left, right):
    """Returns the seconds of a save, of its call, and of the groups of kernels before it and beside it."""
    alone = [group_of_kernels(left, right) for _ in range(300)]
    beside, start = [], time.perf_counter()
    save = leat.start(path, tensors)
    called = time.perf_counter() - start
    while not leat.is_durable(save):
        beside.append(group_of_kernels(left, right))
    seconds = time.perf_counter() - start
    leat.end(save)
    return seconds, called, alone, beside


def seconds_of(save, path):
    """Returns the seconds of a save that blocks, and of that and an fsync()."""
    start = time.perf_counter()
    save(path)
    saved = time.perf_counter() - start
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return saved, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", default="build", help="the folder of libleat.so and libleat-files.so")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--tensors", type=int, default=80)
    parser.add_argument("--folder", default=os.environ.get("TMPDIR", "/tmp"))
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.cuda.set_device(args.device)
    leat = Leat(args.lib, args.device)
    each = int(args.gib * (1 << 30)) // args.tensors // 2
    tensors = {f"t.{i:06}": torch.randint(-30000, 30000, (each,), dtype=torch.int16, device=args.device)
               for i in range(args.tensors)}
    size = sum(tensor.nbytes for tensor in tensors.values())
    left, right = (torch.randn(4096, 4096, device=args.device, dtype=torch.bfloat16) for _ in range(2))
    group_of_kernels(left, right)
    torch.cuda.synchronize()
    rows, peers, wrong = [], {"safetensors": [], "torch.save": []}, 0
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = os.path.join(folder, "model.safetensors")
        for _ in range(args.repeats):
            seconds, called, alone, beside = beside_kernels(leat, path, tensors, left, right)
            rows.append({"gb_s": size / seconds / 1e9, "call_ms": called * 1e3, "groups_beside": len(beside),
                         "slowdown_mean": statistics.mean(beside) / statistics.mean(alone),
                         "slowdown_p99": sorted(beside)[len(beside) * 99 // 100] / sorted(alone)[297]})
            wrong += not verify(path, tensors, args.device)
            os.unlink(path)
            peers["safetensors"].append(seconds_of(lambda name: save_file(tensors, name), path))
            wrong += not verify(path, tensors, args.device)
            os.unlink(path)
            peers["torch.save"].append(seconds_of(lambda name: torch.save(tensors, name), path))
            os.unlink(path)
    print(json.dumps({
        "device": torch.cuda.get_device_name(args.device), "torch": torch.__version__, "bytes": size,
        "tensors": args.tensors, "folder": args.folder, "repeats": args.repeats, "wrong": wrong, "leat": rows,
        "peers": {name: {"gb_s": size / statistics.median(s for s, _ in found) / 1e9,
                         "durable_gb_s": size / statistics.median(s for _, s in found) / 1e9}
                  for name, found in peers.items()}}, indent=2))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
