#!/usr/bin/env python3
"""Measures PyTorch's copies between layouts, on the cases of a record of leat.

    pytorch_layout.py LEAT_RECORD RECORD [--repeat N] [--suite NAME,...] [--elem BYTES,...] [--seconds N] [--cpu]

Each case copies a strided view into another one by Tensor.copy_ (which contiguous() uses after its allocation),
index_select with out=, index_copy_, or, for negative strides, flip. It is compared with copy_ of the same number of
contiguous bytes. All cases use the same memory. Some thousand elements of each case, and its last one, are verified.
Writes RECORD as JSON.
"""
import argparse
import time

import torch

import layouts
import record

# Element sizes for which PyTorch has no type become a last dimension of smaller elements.
UNITS = {
    1: (torch.uint8, 1),
    2: (torch.int16, 1),
    3: (torch.uint8, 3),
    4: (torch.float32, 1),
    6: (torch.int16, 3),
    8: (torch.float64, 1),
    12: (torch.float32, 3),
    16: (torch.complex128, 1),
}
COLD_BYTES = 512 << 20
BUFFERS_MAX = 64
BUFFER_ALIGNMENT = 512
CHECKED_ELEMENTS = 65536
SAMPLE_SECONDS = 0.002
# An idle GPU needs this long to raise its clocks.
WARM_SECONDS = 0.3
# Integers below these limits are exact in their type, and none of them is a NaN.
TOPS = {torch.uint8: 1 << 8, torch.int16: 1 << 15, torch.float32: 1 << 24, torch.float64: 1 << 53}


class Refused(Exception):
    """PyTorch has no call for this case."""


class Shape:
    """Where a case's buffers lie in the shared memory: several pairs that take turns, so that no cache holds them."""

    def __init__(self, case):
        self.src_step = self._round_up(max(case.src.total, case.payload))
        self.dst_step = self._round_up(max(case.dst.total, case.payload))
        self.count = max(1, min(BUFFERS_MAX, -(-COLD_BYTES // (self.src_step + self.dst_step))))

    @staticmethod
    def _round_up(size):
        return -(-size // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT


class Pools:
    """The memory that all cases share: sources and destinations."""

    def __init__(self, cases, device):
        shapes = [Shape(case) for case in cases]
        src_bytes = max((shape.src_step * shape.count for shape in shapes), default=BUFFER_ALIGNMENT)
        dst_bytes = max((shape.dst_step * shape.count for shape in shapes), default=BUFFER_ALIGNMENT)
        self.src = torch.zeros(src_bytes, dtype=torch.uint8, device=device)
        self.dst = torch.zeros(dst_bytes, dtype=torch.uint8, device=device)
        self._dtype = None

    def fill(self, dtype):
        """Fills the sources with random numbers of a type."""
        dtype = torch.float64 if dtype == torch.complex128 else dtype
        if dtype != self._dtype:
            self.src.view(dtype).random_(0, TOPS[dtype])
            self._dtype = dtype

    def warm_up(self):
        size = min(len(self.src), len(self.dst))
        start = time.monotonic()
        while time.monotonic() - start < WARM_SECONDS:
            self.dst[:size].copy_(self.src[:size])
            self.dst[:1].cpu()


class Work:
    """A case's buffers and the calls that copy between them."""

    def __init__(self, case, pools, device):
        if case.element_bytes not in UNITS:
            raise Refused(f"no type of {case.element_bytes} bytes")
        self.case, self.device = case, device
        self.dtype, self.units = UNITS[case.element_bytes]
        self.unit_bytes = case.element_bytes // self.units
        pools.fill(self.dtype)
        shape = Shape(case)
        self.src = [self._buffer(pools.src, i * shape.src_step, shape.src_step) for i in range(shape.count)]
        self.dst = [self._buffer(pools.dst, i * shape.dst_step, shape.dst_step) for i in range(shape.count)]
        self.flips = [dim for dim, stride in enumerate(case.src.strides) if stride < 0]
        if self.flips and (case.src.index or case.dst.index):
            raise Refused("flipped and indexed")
        self.index = None
        for side in (case.src, case.dst):
            if side.index:
                numbers = torch.arange(case.sizes[side.index["dim"]], dtype=torch.int64, device=device)
                bound = side.index["bound"]
                numbers = (numbers % bound) * (layouts.INDEX_STEP % bound) % bound
                self.index = numbers.to(torch.int32 if side.index["bytes"] == 4 else torch.int64)
        self.moves = [self._move(i) for i in range(shape.count)]
        self.copies = [self._plain(i) for i in range(shape.count)]

    def _buffer(self, pool, offset, size):
        return pool[offset : offset + size].view(self.dtype)

    def _view(self, buffer, side, sizes):
        strides = [abs(stride) // self.unit_bytes for stride in side.strides]
        offset = side.offset
        for dim in range(len(sizes)):
            if side.strides[dim] < 0:
                offset += (sizes[dim] - 1) * side.strides[dim]
        if any(stride % self.unit_bytes for stride in side.strides) or offset % self.unit_bytes:
            raise Refused("strides are no multiples of the type")
        if self.units > 1:
            sizes, strides = sizes + [self.units], strides + [1]
        # An offset counts from the memory's beginning, not from the buffer's.
        return buffer.as_strided(sizes, strides, buffer.storage_offset() + offset // self.unit_bytes)

    def _sizes(self, side):
        """Returns the sizes of the array that the indices select from."""
        sizes = list(self.case.sizes)
        if side.index:
            sizes[side.index["dim"]] = side.index["bound"]
        return sizes

    def _move(self, i):
        case = self.case
        src = self._view(self.src[i], case.src, self._sizes(case.src))
        dst = self._view(self.dst[i], case.dst, self._sizes(case.dst))
        if case.src.index:
            dim = case.src.index["dim"]
            return lambda: torch.index_select(src, dim, self.index, out=dst)
        if case.dst.index:
            dim, index = case.dst.index["dim"], self.index.to(torch.int64)
            return lambda: dst.index_copy_(dim, index, src)
        if self.flips:
            return lambda: dst.copy_(src.flip(self.flips))
        return lambda: dst.copy_(src)

    def _plain(self, i):
        count = self.case.payload // self.unit_bytes
        src, dst = self.src[i][:count], self.dst[i][:count]
        return lambda: dst.copy_(src)

    def verified(self):
        """Verifies some thousand elements at random places."""
        case, count = self.case, CHECKED_ELEMENTS
        self.dst[0].fill_(-1 if self.dtype.is_signed else 255)
        self.moves[0]()
        places = [torch.randint(0, size, (count,), device=self.device) for size in case.sizes]
        for dim, size in enumerate(case.sizes):
            places[dim][0] = size - 1
        offsets = []
        for side in (case.src, case.dst):
            offset = torch.full((count,), side.offset, dtype=torch.int64, device=self.device)
            for dim, stride in enumerate(side.strides):
                numbers = places[dim]
                if side.index and side.index["dim"] == dim:
                    numbers = self.index.to(torch.int64)[numbers]
                offset += numbers * stride
            offsets.append(offset // self.unit_bytes)
        return all(
            torch.equal(self.src[0][offsets[0] + unit], self.dst[0][offsets[1] + unit]) for unit in range(self.units)
        )


def time_batch(calls, batch, first, cuda):
    """Returns the seconds of one call, measured over a batch that uses the buffers in turns."""
    if cuda:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
    start = time.perf_counter()
    for i in range(batch):
        calls[(first + i) % len(calls)]()
    if not cuda:
        return (time.perf_counter() - start) / batch
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / batch


def measure(case, pools, device, repeats):
    cuda = device == "cuda"
    work = Work(case, pools, device)
    right = work.verified()
    once = min(time_batch(work.moves, 1, i, cuda) for i in range(2))
    batch = max(1, min(1000, int(SAMPLE_SECONDS / max(once, 1e-9))))
    own, copy = [], []
    for i in range(repeats + 1):  # the first sample of each only warms up
        own.append(time_batch(work.moves, batch, i * batch, cuda))
        copy.append(time_batch(work.copies, batch, i * batch, cuda))
    return layouts.row(case, own[1:], copy[1:], right)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    layouts.add_options(parser)
    parser.add_argument("--cpu", action="store_true", help="on the processor instead of the GPU")
    options = parser.parse_args()
    device = "cpu" if options.cpu else "cuda"

    result = record.make("PyTorch's copies between layouts", {"torch": torch.__version__, "cuda": torch.version.cuda})
    result["peer"], result["rows"], result["notes"] = "pytorch", [], []
    cases = layouts.chosen(options)
    start = time.monotonic()
    pools = Pools(cases, device)
    pools.warm_up()
    for case in cases:
        try:
            if time.monotonic() - start > options.seconds:
                raise Refused("left out: the time was up")
            made = measure(case, pools, device, options.repeat)
        except (Refused, RuntimeError) as error:
            result["notes"].append(f"{case.name}: {str(error).splitlines()[0]}")
            continue
        result["rows"].append(made)
        layouts.print_row(made)
    record.write(result, options.record)


if __name__ == "__main__":
    main()
