#!/usr/bin/env python3
"""Replays allocation traces through PyTorch's caching allocator, called from C++.

    replay_pytorch.py RECORD TRACE... [--repeat N]

A trace is CSV, compressed by gzip or not, with the columns t_us, op, id, bytes and stream; op is alloc, free or freed.
Each trace runs in two processes: with PyTorch's default settings, and with expandable_segments:True. Writes RECORD as
JSON: peak bytes requested, peak bytes reserved, their ratio, and for each round the times of the calls (a pair is the
allocation and the free of one block) and how often PyTorch asked the driver for memory.

Order. The replay makes the operations in the order of the trace, without pauses. It frees a block at its "freed", the
moment when the recorded program's allocator could reuse the block. For a block that another stream used
(record_stream), that is some time after its "free". So the replay needs no work on the GPU that holds up blocks, and
runs the same every time. Blocks of stream 0 belong to the default stream, others to streams from PyTorch's own pool.
Requested bytes count from "alloc" to "free".
"""
import argparse
import csv
import gzip
import pathlib
import struct
import tempfile

import pytorch_pool
import record

RECORD_FORMAT = struct.Struct("<QQQ")  # block, bytes (0: a free), stream: the input of replay_pytorch.cpp


def open_trace(path):
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rt", encoding="utf-8") if packed else open(path, encoding="utf-8")


def read_trace(path):
    """Returns the records of a trace, and the peak of requested bytes."""
    records, sizes = [], {}
    requested = peak = 0
    with open_trace(path) as file:
        for row in csv.DictReader(file):
            block, size = int(row["id"]), int(row["bytes"])
            if row["op"] == "alloc":
                sizes[block] = size
                requested += size
                peak = max(peak, requested)
                if size:
                    records.append((block, size, int(row["stream"])))
            elif row["op"] == "free":
                requested -= sizes[block]
            elif row["op"] == "freed":
                if sizes[block]:
                    records.append((block, 0, 0))
            else:
                raise SystemExit(f"{path}: what is the operation {row['op']}?")
    return records, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", help="the file to write")
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="rounds, one after the other (3)")
    options = parser.parse_args()

    result = record.make("traces through PyTorch's caching allocator", pytorch_pool.versions())
    result["replays"] = []
    with tempfile.TemporaryDirectory() as folder:
        program, binary = pathlib.Path(folder) / "replay_pytorch", pathlib.Path(folder) / "records"
        pytorch_pool.build_with_torch("replay_pytorch.cpp", program)
        for trace in options.traces:
            records, peak = read_trace(trace)
            binary.write_bytes(b"".join(RECORD_FORMAT.pack(*words) for words in records))
            for setting in pytorch_pool.SETTINGS:
                figures = record.run_json([program, binary, options.repeat], pytorch_pool.environment(setting))
                figures = {
                    "trace": pathlib.Path(trace).name,
                    "setting": setting,
                    "peak_requested_bytes": peak,
                    **figures,
                    "ratio": round(figures["peak_reserved_bytes"] / peak, 5) if peak else None,
                }
                result["replays"].append(figures)
                print(
                    f"{figures['trace']}, {setting}: requested {peak}, "
                    f"reserved {figures['peak_reserved_bytes']}, ratio {figures['ratio']}"
                )
                for number, found in enumerate(figures["each_round"]):
                    print(
                        f"  round {number + 1}: mean pair {found['pair_ns_mean']} ns, "
                        f"p50 {found['pair_ns_p50']}, p99 {found['pair_ns_p99']}, worst {found['pair_ns_worst']}; "
                        f"{found['driver_allocations']} allocations by the driver"
                    )
    record.write(result, options.record)


if __name__ == "__main__":
    main()
