#!/usr/bin/env python3
"""Runs programs with and without "leat run", and compares what they print and how they end.

Usage: run-programs.py [--leat build/leat] [--only TEXT] [--way WAY] [--jobs 8] [--timeout 120] [--json FILE] [--no-nvcc]

The programs are those of tests/dropin/programs.py, for PyTorch, CuPy, Numba, CUDA Python and JAX as far as they are
installed, and tests/dropin/runtime.cu, which is built by nvcc with the static and the shared runtime. They print
checksums of all that they copy. Each runs alone, under "leat run", under "leat run --least 64K", where leat also makes
their short copies, under "leat run --pool", and under "leat run --log". The exit status is 1 if an output or an exit status differs, if leat
made no copy in a program with long copies of pageable memory, or if it made one under --log. Needs a GPU, but for
--only driver_, which also runs over a fake driver (tests/cli/cli_run.sh).
"""
import argparse
import concurrent.futures
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(os.path.dirname(HERE), "tests", "dropin")
PROGRAMS = os.path.join(FOLDER, "programs.py")
WAYS = {"alone": None, "leat run": [], "--least 64K": ["--least", "64K"],
        "--pool": ["--pool"], "--log": ["--log"]}
TITLE = re.compile(r"^leat: run: (\d+) process(?:es)? with CUDA; (\d+) cop(?:y|ies), ([^,]*),(.*) (?:went|would go) through "
                   "leat$", re.M)
DEVICE = re.compile(r" (\d+) device allocations?, ([^,]*),")
BUSY = "driver: most processors were busy"  # leat run leaves copies of less than 128 MiB to the driver then
LINKS = {"nvcc_static": ["-cudart", "static"], "nvcc_shared": ["-cudart", "shared"],
         "nvcc_per_thread": ["-cudart", "static", "--default-stream", "per-thread"]}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leat", default="build/leat")
    parser.add_argument("--only", action="append", help="programs whose name contains this; several are allowed")
    parser.add_argument("--way", action="append", choices=[way for way in WAYS if way != "alone"],
                        help="only this way, beside alone; several are allowed")
    parser.add_argument("--jobs", type=int, default=8, help="programs that run at the same time")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for each run")
    parser.add_argument("--no-nvcc", action="store_true", help="leave out the programs that nvcc builds")
    parser.add_argument("--json", help="a file for the record")
    parser.add_argument("--reports", help="a folder for what leat run printed")
    args = parser.parse_args()
    args.ways = [way for way in WAYS if way == "alone" or not args.way or way in args.way]
    return args


def is_there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def build(folder, name, link):
    """Build runtime.cu; return the command, or None."""
    path = os.path.join(folder, name)
    made = subprocess.run(["nvcc", "-O2", "-std=c++17", *link, os.path.join(FOLDER, "runtime.cu"), "-o", path],
                          capture_output=True, text=True, check=False)
    if made.returncode:
        print(f"FAIL    {name}: nvcc: {made.stderr or made.stdout}", flush=True)
        return None
    return [path]


def find_programs(args, folder):
    """Return the programs by name, and the number that could not be built."""
    found, failed = {}, 0
    listed = json.loads(subprocess.run([sys.executable, PROGRAMS, "--list"], check=True, capture_output=True,
                                       text=True).stdout)

    def wanted(name):
        return not args.only or any(part in name for part in args.only)

    for name, one in listed.items():
        missing = [module for module in one["needs"] if wanted(name) and not is_there(module)]
        if missing:
            print(f"skipped {name}: there is no module {missing[0]}", flush=True)
        elif wanted(name):
            found[name] = dict(one, command=[sys.executable, PROGRAMS, name])
    names = [name for name in LINKS if wanted(name) and not args.no_nvcc]
    if names and not shutil.which("nvcc"):
        print("skipped nvcc_*: there is no nvcc", flush=True)
        names = []
    with concurrent.futures.ThreadPoolExecutor(len(LINKS)) as pool:
        for name, command in zip(names, pool.map(lambda name: build(folder, name, LINKS[name]), names)):
            if command:
                found[name] = {"command": command, "serves": True, "environment": {}}
            else:
                failed += 1
    return found, failed


def run(args, folder, name, one, way):
    """Run a program in one way. Returns its output, its exit status as a shell has it, and leat's report."""
    report = os.path.join(folder, f"{name} {way}.txt")
    environment = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", PYTHONUNBUFFERED="1", **one["environment"])
    prefix = []
    if WAYS[way] is not None:
        prefix = [os.path.abspath(args.leat), "run", *WAYS[way], "--report", report, "--"]
    errors = os.path.join(folder, f"{name} {way}.err")
    with open(errors, "w", encoding="utf-8") as file:
        try:
            ran = subprocess.run([*prefix, *one["command"]], env=environment, stdout=subprocess.PIPE, stderr=file,
                                 stdin=subprocess.DEVNULL, timeout=args.timeout, check=False)
            output, status = ran.stdout.decode("utf-8", "replace"), ran.returncode
        except subprocess.TimeoutExpired as late:
            output, status = (late.stdout or b"").decode("utf-8", "replace"), "timeout"
    text = ""
    if os.path.exists(report):
        with open(report, encoding="utf-8") as file:
            text = file.read()
    with open(errors, encoding="utf-8", errors="replace") as file:
        return output, 128 - status if isinstance(status, int) and status < 0 else status, text, file.read()[-3000:]


def first_difference(one, other):
    for number, (a, b) in enumerate(zip(one.splitlines() + ["(end)"], other.splitlines() + ["(end)"])):
        if a != b:
            return f"line {number + 1}: {a!r} alone, {b!r}"
    return "the same output"


def judge(name, one, results):
    """Return what is wrong with a program's results, and a record of them."""
    wrong, alone = [], results["alone"]
    record = {"versions": re.findall(r"^version (.*)$", alone[0], re.M), "status": alone[1],
              "lines": len(alone[0].splitlines()), "ways": {}}
    lines = len([line for line in alone[0].splitlines() if not line.startswith("version ")])
    if alone[1] == "timeout" or "Traceback" in alone[3] or not lines:
        wrong.append(f"alone: status {alone[1]}, {lines} lines; {alone[3][-600:]}")
    for way, (output, status, report, errors) in results.items():
        if WAYS[way] is None:
            continue
        title = TITLE.search(report)
        processes, copies, size = (int(title[1]), int(title[2]), title[3]) if title else (0, 0, "0 B")
        same = output == alone[0] and status == alone[1]
        device = DEVICE.search(title[4]) if title else None
        record["ways"][way] = {"same": same, "processes": processes, "copies": copies, "bytes": size,
                               "device": f"{device[1]} device allocations, {device[2]}" if device else "",
                               "report": report.splitlines()}
        if not same:
            wrong.append(f"{way}: status {status}, alone {alone[1]}; {first_difference(alone[0], output)}; "
                         f"{errors[-600:]}")
        if not copies and one["serves"] and not wrong and BUSY not in report:
            wrong.append(f"{way}: no copy went through leat: {report}")
        if copies and one["serves"] is False:
            wrong.append(f"{way}: {copies} copies went through leat")
        if way == "--log" and re.search(r"^cuMem.* leat$", report, re.M):
            wrong.append(f"{way}: leat made a copy")
    return wrong, record


def write_record(path, records):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"python": sys.version.split()[0], "programs": records}, file, indent=1)
        file.write("\n")


def main():
    args = parse()
    if not os.access(args.leat, os.X_OK):
        sys.exit(f"run-programs.py: there is no program {args.leat}: build leat, or pass --leat")
    with tempfile.TemporaryDirectory() as folder:
        programs, failed = find_programs(args, folder)
        records = {}
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            runs = {(name, way): pool.submit(run, args, folder, name, one, way)
                    for name, one in programs.items() for way in args.ways}
            for name, one in programs.items():
                results = {way: runs[name, way].result() for way in args.ways}
                wrong, records[name] = judge(name, one, results)
                failed += bool(wrong)
                counts = ", ".join(f"{way}: {one['copies']} copies, {one['bytes']}"
                                   + (", " + one["device"] if one["device"] else "") for way, one in records[name]["ways"].items())
                print(f"{'FAIL   ' if wrong else 'ok     '} {name}: {counts}", flush=True)
                if args.json:
                    write_record(args.json, records)
                for line in wrong:
                    print("        " + line.replace("\n", "\n        "), flush=True)
        if args.reports:
            os.makedirs(args.reports, exist_ok=True)
            for name in os.listdir(folder):
                if name.endswith(".txt"):
                    shutil.copy(os.path.join(folder, name), args.reports)
    print(f"{len(programs)} programs, {failed} failed")
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
