#!/usr/bin/env python3
"""Measures RMM's pool, arena and cuda_async resources beside the driver's own calls and, if wanted, leat.

    rmm_pool.py RECORD [--leat BUILD] [--repeat N]

It makes pairs of allocate and deallocate, 512 B to 1 GiB, with 1, 4 and 16 threads, each on its own stream. Writes
RECORD as JSON. BUILD is the folder of libleat.so. Needs the packages librmm-cu13 and rapids-logger where Python finds
them; librmm includes the CCCL headers that RMM was built with.
"""
import argparse
import importlib.util
import pathlib
import tempfile

import record


def package_folder(name):
    """Returns the folder of a package of headers and libraries. Does not import it: that would load the libraries."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise SystemExit(f"rmm_pool.py: the package {name} is missing; README.md says what to install")
    return pathlib.Path(spec.origin).parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", help="the file to write")
    parser.add_argument("--leat", metavar="BUILD", help="measure leat as well: the folder of libleat.so")
    parser.add_argument("--repeat", type=int, default=15, help="samples for each row")
    options = parser.parse_args()

    rmm, logger = package_folder("librmm"), package_folder("rapids_logger")
    versions = {"librmm": (rmm / "VERSION").read_text(encoding="utf-8").strip()}
    result = record.make("RMM's memory resources", versions, options.leat)
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "rmm_pool"
        record.build(
            "rmm_pool.cpp",
            program,
            include_folders=[rmm / "include", rmm / "include" / "rapids", logger / "include"],
            library_folders=[rmm / "lib64", logger / "lib64"],
            libraries=["rmm", "rapids_logger"],
            leat=options.leat,
        )
        result["rows"] = record.run_json([program, options.repeat])
    record.print_pairs(result["rows"])
    record.write(result, options.record)


if __name__ == "__main__":
    main()
