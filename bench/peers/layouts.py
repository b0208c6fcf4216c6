"""Shared by the scripts that measure copies between layouts: cases of a record of leat, and rows in leat's format.

Each row of a record of "leat bench layout --output FILE" describes its case: sizes, strides and offsets in bytes.
The scripts run the same cases, so that join_layouts.py can add their figures to leat's rows.
"""
import dataclasses
import json
import statistics

# As in cli/layout_case.c: index i of the list is i * INDEX_STEP modulo the bound.
INDEX_STEP = 2654435761


@dataclasses.dataclass
class Side:
    """One side of a copy. Strides and the offset are in bytes."""

    total: int
    offset: int
    strides: list
    index: dict  # dimension, bound and bytes of an index; or None


@dataclasses.dataclass
class Case:
    part: str
    name: str
    element_bytes: int
    sizes: list
    payload: int
    dst: Side
    src: Side


def add_options(parser):
    """Returns a parser with the arguments that these scripts have in common."""
    parser.add_argument("leat_record", help="what leat bench layout --output wrote")
    parser.add_argument("record", help="the file to write")
    parser.add_argument("--repeat", type=int, default=15, help="samples for each row (15)")
    parser.add_argument("--suite", help="only these suites of the record: transpose,permute,learning,...")
    parser.add_argument("--elem", help="only elements of so many bytes: 2,4,...")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin no further case after so long; the notes say what is missing"
    )


def chosen(options):
    """Returns the cases of the record that the options select."""
    suites = options.suite.split(",") if options.suite else None
    sizes = [int(size) for size in options.elem.split(",")] if options.elem else None
    return [
        case
        for case in read(options.leat_record)
        if (not suites or case.part.split(":")[0] in suites) and (not sizes or case.element_bytes in sizes)
    ]


def _side(row):
    strides = [int(number) for number in row["stride_bytes"].split(",")]
    return Side(row["bytes"], row["offset_bytes"], strides, row.get("index"))


def read(path):
    """Returns the cases within the device, without copies from or to the host and without single calls."""
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    return [
        Case(
            row["part"],
            row["case"],
            row["element_bytes"],
            [int(number) for number in row["size"].split(",")],
            row["bytes"],
            _side(row["dst"]),
            _side(row["src"]),
        )
        for row in rows
        if row["group"] == "layout" and "arguments" in row and row.get("copy_gb_s") and " to " not in row["case"]
    ]


def row(case, seconds, copy_seconds, verified):
    """Returns a row in leat's format. Rates count the payload twice (read and written) and use medians of the times."""
    own, copy = statistics.median(seconds), statistics.median(copy_seconds)
    return {
        "group": "layout",
        "part": case.part,
        "case": case.name,
        "bytes": case.payload,
        "unit": "GB/s",
        "value": 2 * case.payload / own / 1e9,
        "copy_gb_s": 2 * case.payload / copy / 1e9,
        "share_of_copy": copy / own,
        "median_us": own * 1e6,
        "repeats": len(seconds),
        "verified": verified,
    }


def print_row(made):
    """Prints one row for the terminal."""
    print(f"{made['value']:9.1f} GB/s {100 * made['share_of_copy']:6.1f} %  {made['case']}", flush=True)
