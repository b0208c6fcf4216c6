#!/usr/bin/env python3
"""Measures permutations on processors: leat's CPU device beside OpenBLAS's omatcopy and, if wanted, HPTT.

    layout_cpu.py RECORD --leat BUILD [--hptt LIBRARY] [--threads N] [--repeat N] [--scale X] [--elem 4|8]

Runs the 57 cases of TTC, HPTT and cuTT, each of about 200 MiB of floats. Writes RECORD as JSON. BUILD is the folder
of libleat.so, LIBRARY a shared library that contains HPTT. Needs OpenBLAS (on Debian libopenblas-dev).
"""
import argparse
import os
import pathlib
import subprocess
import tempfile

import record


def build(program, leat, hptt):
    """Compiles layout_cpu.cpp; no CUDA is needed."""
    leat = pathlib.Path(leat).resolve()
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O3", "-pthread", str(record.HERE / "layout_cpu.cpp")]
    command += ["-o", str(program), f"-I{record.ROOT / 'include'}", f"-L{leat}", f"-Wl,-rpath,{leat}"]
    command += ["-lleat", "-lopenblas"]
    if hptt:
        # HPTT built for Python refers to symbols of the Python interpreter, which this program never calls.
        hptt = pathlib.Path(hptt).resolve()
        command += ["-DWITH_HPTT", str(hptt), f"-Wl,-rpath,{hptt.parent}", "-Wl,--unresolved-symbols=ignore-all"]
    subprocess.run(command, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", help="the file to write")
    parser.add_argument("--leat", metavar="BUILD", required=True, help="the folder of libleat.so")
    parser.add_argument("--hptt", metavar="LIBRARY", help="a shared library with HPTT")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of OpenBLAS and HPTT; leat takes all")
    parser.add_argument("--repeat", type=int, default=7, help="samples for each row")
    parser.add_argument("--scale", type=float, default=1.0, help="of the slowest dimension of each result")
    parser.add_argument("--elem", type=int, choices=(4, 8), default=4, help="bytes of an element")
    options = parser.parse_args()

    versions = {"HPTT": pathlib.Path(options.hptt).name if options.hptt else None}
    result = record.make("permutations on processors", versions, options.leat)
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "layout_cpu"
        build(program, options.leat, options.hptt)
        command = [program, options.threads, options.repeat, options.scale, options.elem]
        result["rows"] = record.run_json(command)
    rows = {}
    for row in result["rows"]:
        rows.setdefault(row["case"], {})[row["library"]] = row
    names = [name for name in ("leat", "OpenBLAS omatcopy", "HPTT") if any(name in row for row in rows.values())]
    print("shares of leat_copy: by the clock, and by processor time")
    print(f"{'case':<34}" + "".join(f"{name:>20}" for name in names))
    for case, row in rows.items():
        cells = ""
        for name in names:
            shares = [row["leat_copy"][key] / row[name][key] for key in ("seconds", "processor_seconds")]
            wrong = "" if row[name]["verified"] else " WRONG"
            cells += f"{shares[0]:>12.2f} {shares[1]:>7.2f}{wrong}"
        print(f"{case:<34}{cells}")
    record.write(result, options.record)


if __name__ == "__main__":
    main()
