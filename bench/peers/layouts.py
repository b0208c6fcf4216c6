"""What the scripts that measure copies between layouts share: the cases of a record of leat, and rows like leat's.

A record of "leat bench layout --output FILE" has in each row what the case is: sizes, strides and offsets in bytes.
The scripts run the same cases, so that their rows can stand beside leat's (join_layouts.py).
"""
import dataclasses
import json
import statistics

# leat's list of indices (cli/layout_case.c): all are different until they have been round.
INDEX_STEP = 2654435761


@dataclasses.dataclass
class Side:
    """One side of a copy. Strides and the offset are in bytes."""

    total: int
    offset: int
    strides: list
    index: dict  # dim, bound and bytes of an index, or None


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
    """The arguments that all these scripts take."""
    parser.add_argument("leat_record", help="what leat bench layout --output wrote")
    parser.add_argument("record", help="the file to write")
    parser.add_argument("--repeat", type=int, default=15, help="samples for each row (15)")
    parser.add_argument("--suite", help="only these suites of the record: transpose,permute,learning,...")
    parser.add_argument("--elem", help="only elements of so many bytes: 2,4,...")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin no further case after so long; the notes say what is missing"
    )


def chosen(options):
    """The cases of the record that the options name."""
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
    """The cases of leat's record that stay within the device; those from or to a host and single calls are left out."""
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
    """A row like leat's: rates count the payload twice, read and written; medians of both lists of seconds."""
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
    """One line for the terminal."""
    print(f"{made['value']:9.1f} GB/s {100 * made['share_of_copy']:6.1f} %  {made['case']}", flush=True)
