#!/usr/bin/env python3
"""Measures PyTorch's copies between layouts, on the cases of a record of leat.

    pytorch_layout.py LEAT_RECORD RECORD [--repeat N] [--cpu]

Each case is a strided view that is copied into another one by Tensor.copy_ (what contiguous() does without the
allocation), index_select with out=, index_copy_, or, for negative strides, flip. Beside it stands copy_ of as many
contiguous bytes. RECORD is written as JSON.
"""
import argparse
import time

import torch

import layouts
import record

# Elements that PyTorch has no type for are a last dimension of smaller ones.
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
SAMPLE_SECONDS = 0.002


class Refused(Exception):
    """PyTorch has no call for this case."""


class Work:
    """A case's buffers, several pairs of them in turns so that no cache helps, and what is done with them."""

    def __init__(self, case, device):
        if case.element_bytes not in UNITS:
            raise Refused(f"no type of {case.element_bytes} bytes")
        self.case, self.device = case, device
        self.dtype, self.units = UNITS[case.element_bytes]
        self.unit_bytes = case.element_bytes // self.units
        src_bytes, dst_bytes = max(case.src.total, case.payload), case.dst.total
        count = max(1, min(64, -(-COLD_BYTES // (src_bytes + dst_bytes))))
        self.src = [self._random(src_bytes) for _ in range(count)]
        self.dst = [torch.zeros(dst_bytes // self.unit_bytes, dtype=self.dtype, device=device) for _ in range(count)]
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
        self.moves = [self._move(i) for i in range(count)]
        self.copies = [self._plain(i) for i in range(count)]

    def _random(self, size):
        """Bits of which none are a NaN, so that values can be compared."""
        words = torch.randint(0, 1 << 20, (-(-size // 4),), dtype=torch.int32, device=self.device)
        values = words.to(torch.float32) if self.dtype == torch.float32 else words
        values = values.view(torch.uint8)[: size // self.unit_bytes * self.unit_bytes]
        if self.dtype in (torch.float64, torch.complex128):
            whole = torch.arange(size // 8, dtype=torch.float64, device=self.device)
            return whole.view(self.dtype)
        return values.view(self.dtype)

    def _view(self, flat, side, sizes):
        strides = [abs(stride) // self.unit_bytes for stride in side.strides]
        offset = side.offset
        for dim in range(len(sizes)):
            if side.strides[dim] < 0:
                offset += (sizes[dim] - 1) * side.strides[dim]
        if any(stride % self.unit_bytes for stride in side.strides) or offset % self.unit_bytes:
            raise Refused("strides are no multiples of the type")
        if self.units > 1:
            sizes, strides = sizes + [self.units], strides + [1]
        return flat.as_strided(sizes, strides, offset // self.unit_bytes)

    def _sizes(self, side):
        """The sizes of the array behind a list of indices."""
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
        """Looks at some thousand elements, wherever they are."""
        case = self.case
        self.moves[0]()
        places = [torch.randint(0, size, (4096,), device=self.device) for size in case.sizes]
        offsets = []
        for side in (case.src, case.dst):
            offset = torch.full((4096,), side.offset, dtype=torch.int64, device=self.device)
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
    """Seconds of one call, of a batch that goes through the buffers in turns."""
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


def measure(case, device, repeats):
    cuda = device == "cuda"
    work = Work(case, device)
    right = work.verified()
    once = min(time_batch(work.moves, 1, i, cuda) for i in range(2))
    batch = max(1, min(1000, int(SAMPLE_SECONDS / max(once, 1e-9))))
    own, copy = [], []
    for i in range(repeats + 1):  # the first of both warms up
        own.append(time_batch(work.moves, batch, i * batch, cuda))
        copy.append(time_batch(work.copies, batch, i * batch, cuda))
    return layouts.row(case, own[1:], copy[1:], right)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leat_record", help="what leat bench layout --output wrote")
    parser.add_argument("record", help="the file to write")
    parser.add_argument("--repeat", type=int, default=15, help="samples for each row")
    parser.add_argument("--cpu", action="store_true", help="on the processor instead of the GPU")
    options = parser.parse_args()
    device = "cpu" if options.cpu else "cuda"

    result = record.make("PyTorch's copies between layouts", {"torch": torch.__version__, "cuda": torch.version.cuda})
    result["peer"], result["rows"], result["notes"] = "pytorch", [], []
    for case in layouts.read(options.leat_record):
        try:
            made = measure(case, device, options.repeat)
        except (Refused, RuntimeError) as error:
            result["notes"].append(f"{case.name}: {str(error).splitlines()[0]}")
            continue
        result["rows"].append(made)
        layouts.print_row(made)
    record.write(result, options.record)


if __name__ == "__main__":
    main()
