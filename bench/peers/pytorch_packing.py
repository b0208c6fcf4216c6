#!/usr/bin/env python3
"""Measures how densely PyTorch's caching allocator packs, by the sequences of leat bench pool --part packing, from C++.

    pytorch_packing.py RECORD [--leat COMMAND] [--leat-record FILE] [--quick] [--live BYTES]

COMMAND (leat) prints the sequences by "bench pool --part packing --list", so that PyTorch allocates the same sizes in
the same order. Each sequence runs in two processes: with PyTorch's default settings, and with
expandable_segments:True. Writes RECORD as JSON. It also has the figures of leat and of the driver if FILE is a record
of "leat bench pool --part packing --output FILE" with the same --quick and --live.

A ratio is the peak of reserved memory divided by the peak of live memory, in sizes rounded up to 512 bytes. The
number of blocks that fit in a limit counts the blocks before the first failure; PyTorch's limit is set by
torch.cuda.set_per_process_memory_fraction().
"""
import argparse
import array
import json
import pathlib
import subprocess
import tempfile

import pytorch_pool
import record

GRANULE_BYTES = 512
BANDS = [
    ("512 B to 4 KiB", 2**12),
    ("4 to 32 KiB", 2**15),
    ("32 to 256 KiB", 2**18),
    ("256 KiB to 2 MiB", 2**21),
    ("2 to 16 MiB", 2**24),
    ("16 to 128 MiB", 2**27),
    ("128 MiB to 1 GiB", 2**63),
]


def rounded(size):
    return (size + GRANULE_BYTES - 1) // GRANULE_BYTES * GRANULE_BYTES


def read_plan(options):
    command = [options.leat, "bench", "pool", "--part", "packing", "--list"]
    command += ["--quick"] if options.quick else []
    command += ["--live", options.live] if options.live else []
    plan = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    if plan["format"] != "leat-packing-1" or plan["granule_bytes"] != GRANULE_BYTES:
        raise SystemExit(f"{options.leat} prints sequences of another kind: {plan['format']}")
    return plan


def pack(plan):
    """Returns the plan in the input format of pytorch_packing.cpp."""
    numbers = array.array("q", [len(plan["sizes"])])
    for size in plan["sizes"]:
        numbers.extend([size["bytes"], size["blocks"], size["limit_bytes"]])
    numbers.append(len(plan["mixes"]))
    for mix in plan["mixes"]:
        numbers.extend([len(mix["steps"]), mix["fill_steps"]])
        numbers.extend(mix["steps"])
    return numbers.tobytes()


def add_figures(rows, plan, name, figures):
    """Adds the program's figures to the rows, as "<name>_ratio" and so on."""
    for size, found in zip(plan["sizes"], figures["sizes"], strict=True):
        row = rows["sizes"][size["bytes"]]
        possible = size["limit_bytes"] // rounded(size["bytes"])
        row[f"{name}_reserved_bytes"] = found["reserved_bytes"]
        row[f"{name}_ratio"] = round(found["reserved_bytes"] / (size["blocks"] * rounded(size["bytes"])), 5)
        row[f"{name}_fitting_blocks"] = found["fitting_blocks"]
        row[f"{name}_fitting_share"] = round(found["fitting_blocks"] / possible, 5)
    for mix, found in zip(plan["mixes"], figures["mixes"], strict=True):
        for phase in ("filled", "churned"):
            row = rows["mixes"][f"{mix['name']}, {phase}"]
            row[f"{name}_reserved_bytes"] = found[f"{phase}_reserved_bytes"]
            row[f"{name}_ratio"] = round(found[f"{phase}_reserved_bytes"] / found[f"{phase}_rounded_bytes"], 5)


def add_leat(rows, path):
    """Returns the rows of leat's record, in which keys without a prefix are leat's."""
    with open(path, encoding="utf-8") as file:
        leat_rows = [row for row in json.load(file)["rows"] if row.get("part", "").startswith("packing")]
    for leat_row in leat_rows:
        row = rows["sizes"].get(leat_row["bytes"]) if leat_row.get("detail") else rows["mixes"].get(leat_row["case"])
        if row is None:
            continue
        for prefix, name in (("", "leat"), ("still_", "leat_still"), ("tight_", "leat_tight"), ("driver_", "driver")):
            for key in ("ratio", "reserved_bytes", "fitting_blocks", "fitting_share"):
                if prefix + key in leat_row:
                    row[f"{name}_{key}"] = leat_row[prefix + key]


def cell(values, best, digits):
    values = [value for value in values if value is not None]
    return f"{best(values):>12.{digits}f}" if values else " " * 12


def print_tables(rows):
    names = ["leat", "driver", *pytorch_pool.SETTINGS]
    print("sizes: worst ratio; least share of what fits in a limit")
    print(f"{'':20}" + "".join(f"{name[:11]:>12}" for name in names) * 2)
    low = 0
    for title, high in BANDS:
        band = [row for size, row in rows["sizes"].items() if low <= size < high]
        low = high
        print(
            f"{title:20}"
            + "".join(cell([row.get(f"{name}_ratio") for row in band], max, 3) for name in names)
            + "".join(cell([row.get(f"{name}_fitting_share") for row in band], min, 3) for name in names)
        )
    names = ["leat", "leat_tight", "driver", *pytorch_pool.SETTINGS]
    print("mixes: ratio")
    print(f"{'':40}" + "".join(f"{name[:11]:>12}" for name in names))
    for title, row in rows["mixes"].items():
        print(f"{title:40}" + "".join(cell([row.get(f"{name}_ratio")], max, 3) for name in names))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", help="the file to write")
    parser.add_argument("--leat", metavar="COMMAND", default="leat", help="the command that prints the sequences")
    parser.add_argument("--leat-record", metavar="FILE", help="what leat bench pool --part packing wrote")
    parser.add_argument("--quick", action="store_true", help="the sequences of leat bench --quick")
    parser.add_argument("--live", metavar="BYTES", help="the sequences of leat bench --live BYTES")
    options = parser.parse_args()

    plan = read_plan(options)
    rows = {
        "sizes": {size["bytes"]: {"bytes": size["bytes"], "blocks": size["blocks"]} for size in plan["sizes"]},
        "mixes": {
            f"{mix['name']}, {phase}": {"case": f"{mix['name']}, {phase}", "live_bytes": mix["live_bytes"]}
            for mix in plan["mixes"]
            for phase in ("filled", "churned")
        },
    }
    if options.leat_record:
        add_leat(rows, options.leat_record)
    result = record.make("how densely PyTorch's caching allocator packs", pytorch_pool.versions())
    with tempfile.TemporaryDirectory() as folder:
        program, binary = pathlib.Path(folder) / "pytorch_packing", pathlib.Path(folder) / "sequences"
        pytorch_pool.build_with_torch("pytorch_packing.cpp", program)
        binary.write_bytes(pack(plan))
        for setting in pytorch_pool.SETTINGS:
            figures = record.run_json([program, binary], pytorch_pool.environment(setting))
            add_figures(rows, plan, setting, figures)
    print_tables(rows)
    result["quick"] = options.quick
    result["sizes"] = list(rows["sizes"].values())
    result["mixes"] = list(rows["mixes"].values())
    record.write(result, options.record)


if __name__ == "__main__":
    main()
