#!/usr/bin/env python3
"""Measures leat_copy_convert() beside PyTorch: numbers converted, images normalized, bytes reversed, with any strides.

    pytorch_convert.py RECORD [--repeat N] [--mib N,...] [--cases WORD,...]

Both convert the same tensors in the same process, in alternating samples. PyTorch's way is the one of most programs:
permute, to(), and sub_() and div_() for a normalization; for types alone, Tensor.copy_. The bound is a plain copy of as
many bytes as are read and written together: half of them copied. The first result of each case is compared with
PyTorch's arithmetic in float32. Buffers take turns, so that no cache holds them. Needs pyleat (PYTHONPATH=python/src and
PYLEAT_LIBRARY_FOLDER). Writes RECORD as JSON.
"""
import argparse
import ctypes
import statistics
import time

import torch

import pyleat
import record
from pyleat import _c, _copy
from pyleat._operand import operand

COLD_BYTES = 512 << 20
BUFFERS_MAX = 16
SAMPLE_SECONDS = 0.002
WARM_SECONDS = 0.3
MEAN, DEVIATION = (0.485, 0.456, 0.406, 0.5), (0.229, 0.224, 0.225, 0.25)


class Case:
    """Sizes of the source, the order in which the destination has its dimensions, and the types."""

    def __init__(self, name, sizes, src, dst, order=None, channel=None, rows=None):
        self.name, self.sizes, self.src, self.dst = name, list(sizes), src, dst
        self.order = order or range(len(sizes))
        self.channel = channel  # the dimension of dst that counts channels, for a normalization
        self.rows = rows  # the sizes that remain of a larger array: a crop

    def sized(self, mib):
        """Returns the case with its slowest dimension such that the source has about this size."""
        rest = self.src.itemsize
        for size in self.sizes[1:]:
            rest *= size
        made = Case(self.name, [max(1, round((mib << 20) / rest)), *self.sizes[1:]], self.src, self.dst, self.order,
                    self.channel, self.rows)
        return made


HALF, BF16, SINGLE, BYTE = torch.float16, torch.bfloat16, torch.float32, torch.uint8
PLANES = (0, 3, 1, 2)
CASES = [
    Case("images 224 x 224 x 3 to planes, normalized", (64, 224, 224, 3), BYTE, HALF, PLANES, 1),
    Case("images 1080 x 1920 x 3 to planes, normalized", (8, 1080, 1920, 3), BYTE, HALF, PLANES, 1),
    Case("images 1080 x 1920 x 4 to planes, normalized", (8, 1080, 1920, 4), BYTE, HALF, PLANES, 1),
    Case("images 224 x 224 x 3 to planes, normalized", (64, 224, 224, 3), BYTE, BF16, PLANES, 1),
    Case("images 224 x 224 x 3 to planes, normalized", (64, 224, 224, 3), BYTE, SINGLE, PLANES, 1),
    Case("images 299 x 299 x 3 to planes, normalized", (64, 299, 299, 3), BYTE, HALF, PLANES, 1),
    Case("224 x 224 cut from images 256 x 256 x 3, normalized", (64, 256, 256, 3), BYTE, HALF, PLANES, 1, (224, 224)),
    Case("images 224 x 224 x 3, pixels kept, normalized", (64, 224, 224, 3), BYTE, HALF, None, 3),
    Case("images 224 x 224 x 3 to planes", (64, 224, 224, 3), SINGLE, HALF, PLANES),
    Case("planes 3 x 224 x 224 to pixels", (64, 3, 224, 224), HALF, SINGLE, (0, 2, 3, 1)),
    Case("in a row", (8192, 8192), SINGLE, HALF),
    Case("in a row", (8192, 8192), SINGLE, BF16),
    Case("in a row", (8192, 8192), HALF, SINGLE),
    Case("in a row", (8192, 8192), BF16, SINGLE),
    Case("in a row", (8192, 8192), BF16, HALF),
    Case("in a row", (8192, 8192), BYTE, HALF),
    Case("transposed", (8192, 8192), SINGLE, BF16, (1, 0)),
    Case("transposed", (8192, 8192), BF16, SINGLE, (1, 0)),
    Case("transposed", (8192, 8192), BYTE, HALF, (1, 0)),
]
SWAPS = [("bytes reversed", 4, SINGLE), ("bytes reversed", 2, HALF), ("bytes reversed", 8, torch.float64)]


class Work:
    """The buffers of a case, and the calls on them."""

    def __init__(self, case, swaps=False):
        self.case, self.swaps = case, swaps
        src_bytes = torch.Size(case.sizes).numel() * case.src.itemsize
        view = self._view(torch.empty(case.sizes, dtype=case.src, device="cuda"))
        self.read = view.numel() * case.src.itemsize
        self.written = view.numel() * case.dst.itemsize
        count = max(2, min(BUFFERS_MAX, -(-COLD_BYTES // (src_bytes + self.written))))
        self.src = [self._numbers(case) for _ in range(count)]
        self.dst = [torch.empty(view.shape, dtype=case.dst, device="cuda") for _ in range(count)]
        channels = view.shape[case.channel] if case.channel is not None else 0
        shape = [channels if dim == case.channel else 1 for dim in range(view.dim())]
        half = (self.read + self.written) // 2
        self.copies = [torch.empty(2, half, dtype=BYTE, device="cuda") for _ in range(count)]
        if channels:
            mean, deviation = torch.tensor(MEAN[:channels]), torch.tensor(DEVIATION[:channels])
            self.scale, self.bias = 1 / (255 * deviation), -mean / deviation
            self.mean = (mean * 255).to(case.dst).cuda().view(shape)
            self.deviation = (deviation * 255).to(case.dst).cuda().view(shape)
            self.factors = [x.cuda().view(shape) for x in (self.scale, self.bias)]
        self.calls = [self._call(i) for i in range(count)]

    @staticmethod
    def _numbers(case):
        if case.src is BYTE:
            return torch.randint(0, 256, case.sizes, dtype=BYTE, device="cuda")
        return torch.randn(case.sizes, device="cuda").to(case.src)

    def _view(self, tensor):
        if self.case.rows:
            tensor = tensor[:, 16 : 16 + self.case.rows[0], 16 : 16 + self.case.rows[1]]
        return tensor.permute(*self.case.order)

    def _call(self, i):
        """Returns leat's call, with its arguments made once, as a program in C has them."""
        dst, src = self.dst[i], self._view(self.src[i])
        stream = _copy._stream_of(dst, src)
        d, s = operand(dst, True, stream), operand(src, False, stream)
        to, of = _copy._layouts(d, s)
        conversion = _copy._conversion(d.dtype, s.dtype)
        if self.swaps:
            conversion.dst = conversion.src = _c.NUMBER_BITS
            conversion.flags = _c.CONVERT_SWAP_SRC
        kept = []
        if self.case.channel is not None:
            conversion.channels, conversion.channel_dim = len(self.scale), self.case.channel
            for name in ("scale", "bias"):
                numbers = (ctypes.c_float * len(self.scale))(*getattr(self, name).tolist())
                setattr(conversion, name, ctypes.cast(numbers, ctypes.c_void_p))
                kept.append(numbers)
        call, check = _c.leat.leat_copy_convert, pyleat._copy.check
        arguments = (stream._handle, d.ptr, ctypes.byref(to), s.ptr, ctypes.byref(of), ctypes.byref(conversion))
        self.explain = (stream, d, s, to, of, conversion)

        def convert(kept=(kept, d, s, to, of, conversion, stream)):
            status = call(*arguments)
            if status:
                check(status)

        return convert

    def peer(self, i):
        view = self._view(self.src[i])
        if self.case.channel is not None:
            return view.to(self.case.dst, memory_format=torch.contiguous_format).sub_(self.mean).div_(self.deviation)
        return self.dst[i].copy_(view)

    def copy(self, i):
        self.copies[i][0].copy_(self.copies[i][1])

    def kernel(self):
        stream, d, s, to, of, conversion = self.explain
        text = ctypes.create_string_buffer(4096)
        call = _c.leat.leat_copy_convert_explain
        call.argtypes = [ctypes.c_void_p] * 7 + [ctypes.c_size_t]
        call(stream._handle, d.ptr, ctypes.byref(to), s.ptr, ctypes.byref(of), ctypes.byref(conversion), text, 4096)
        for line in text.value.decode().splitlines():
            if line.startswith("kernel: "):
                return line[8:]
        return ""

    def verified(self):
        self.dst[0].zero_()
        self.calls[0]()
        if self.swaps:
            wanted = self.src[0].contiguous().view(BYTE).view(-1, self.case.src.itemsize).flip(1).reshape(-1)
            return torch.equal(self.dst[0].view(BYTE).view(-1), wanted)
        view = self._view(self.src[0]).to(SINGLE)
        if self.case.channel is not None:
            view = (view * self.factors[0]).add_(self.factors[1])
        return torch.equal(self.dst[0], view.to(self.case.dst))


def time_batch(call, batch, first, count):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for i in range(batch):
        call((first + i) % count)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / batch


def measure(work, repeats):
    count = len(work.calls)
    right = work.verified()
    ways = {"leat": lambda i: work.calls[i](), "copy": work.copy}
    if not work.swaps:
        ways["pytorch"] = work.peer
    samples, batches = {name: [] for name in ways}, {}
    for name, call in ways.items():
        once = min(time_batch(call, 2, i, count) for i in range(3))
        batches[name] = max(1, min(200, int(SAMPLE_SECONDS / once)))
    for number in range(repeats + 1):  # the first sample of each only warms up
        for name, call in ways.items():
            seconds = time_batch(call, batches[name], number * batches[name], count)
            if number:
                samples[name].append(seconds)
    return right, samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record")
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--mib", default="48,256", help="sizes of the source in MiB")
    parser.add_argument("--cases", default="", help="only cases whose names have one of these words")
    options = parser.parse_args()
    result = record.make("Conversions", {"torch": torch.__version__, "leat": pyleat.__version__})
    result["rows"] = []
    cases = [(case, False) for case in CASES] + [(Case(name, (8192, 8192), kind, kind), True) for name, _, kind in SWAPS]
    words = [word for word in options.cases.split(",") if word]
    warm = torch.empty(1 << 28, dtype=BYTE, device="cuda")
    start = time.monotonic()
    while time.monotonic() - start < WARM_SECONDS:
        warm.fill_(1)
        torch.cuda.synchronize()
    for case, swaps in cases:
        if words and not any(word in case.name for word in words):
            continue
        for mib in map(int, options.mib.split(",")):
            work = Work(case.sized(mib), swaps)
            right, samples = measure(work, options.repeat)
            median = {name: statistics.median(times) for name, times in samples.items()}
            row = {"case": case.name, "src": str(case.src)[6:], "dst": str(case.dst)[6:], "sizes": work.case.sizes,
                   "read_bytes": work.read, "written_bytes": work.written, "verified": right, "kernel": work.kernel(),
                   "buffers": len(work.calls), "repeats": options.repeat,
                   "us": {name: {"median": value * 1e6, "best": min(samples[name]) * 1e6}
                          for name, value in median.items()},
                   "gbps": (work.read + work.written) / median["leat"] / 1e9,
                   "share_of_copy": median["copy"] / median["leat"],
                   "times_as_fast_as_pytorch": median["pytorch"] / median["leat"] if "pytorch" in median else None}
            result["rows"].append(row)
            peer = f"{row['times_as_fast_as_pytorch']:6.2f} x PyTorch" if "pytorch" in median else " " * 14
            print(f"{case.name:52} {row['src']:>8} {row['dst']:>8} {mib:4} MiB {row['gbps']:6.0f} GB/s "
                  f"{row['share_of_copy']:5.2f} of a copy {peer}  {row['kernel'].split(',')[0]}"
                  f"{'' if right else '  WRONG'}", flush=True)
            del work
            torch.cuda.empty_cache()
    record.write(result, options.record)


if __name__ == "__main__":
    main()
