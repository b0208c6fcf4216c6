"""Shared by the scripts of this folder: build a C++ program, run it, and write the record.

A record is one JSON object: device, driver, versions, host, command, date, and what was measured.
"""
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CUDA_HOME = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))


def build(source, output, include_folders=(), library_folders=(), libraries=(), leat=None, definitions=()):
    """Compiles a program of this folder with the CUDA runtime. leat: the folder of libleat.so, or None."""
    include_folders = list(include_folders) + [CUDA_HOME / "include"]
    library_folders = list(library_folders) + [CUDA_HOME / "lib64"]
    libraries = list(libraries) + ["cudart", "dl"]
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O3", "-pthread"]
    command += [str(HERE / source), "-o", str(output)]
    command += [f"-D{word}" for word in definitions]
    if leat:
        command += ["-DWITH_LEAT", f"-I{ROOT / 'include'}"]
        library_folders.append(pathlib.Path(leat).resolve())
        libraries.append("leat")
    for folder in include_folders:
        command += ["-isystem", str(folder)]
    for folder in library_folders:
        command += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    command += [f"-l{name}" for name in libraries]
    subprocess.run(command, check=True)


def run_json(command, environment=None, given=None):
    """Runs a program and returns the JSON that it prints. Its standard error is not redirected.

    environment: variables to set, or, where the value is None, to take away. given: a file that it reads.
    """
    variables = {**os.environ, **(environment or {})}
    variables = {name: value for name, value in variables.items() if value is not None}
    words = [str(word) for word in command]
    result = subprocess.run(words, env=variables, stdin=given, stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout)


def _line_of(path, key):
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.startswith(key):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return None


def _gpu():
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        line = subprocess.run(query, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None, None
    name, driver = [word.strip() for word in line.split(",")]
    return name, driver


def make(what, versions, leat=None):
    """Returns a record without measurements. leat: as for build(); the names of its rows contain its version."""
    device, driver = _gpu()
    compiler = subprocess.run(
        [os.environ.get("CXX", "g++"), "--version"], stdout=subprocess.PIPE, text=True, check=False
    ).stdout.splitlines()
    # Keep only the last part of each path: the folders do not matter for the figures.
    words = [word.rsplit("/", 1)[-1] for word in sys.argv]
    return {
        "what": what,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "device": device,
        "driver": driver,
        "versions": {**versions, "compiler": compiler[0] if compiler else None},
        "host": {
            "cpu": _line_of("/proc/cpuinfo", "model name"),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
        },
        "command": " ".join(words),
        "with_leat": bool(leat),
    }


def write(record, path):
    """Writes the record."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=2)
        file.write("\n")


def print_pairs(rows):
    """Prints the rows as a table for the terminal: nanoseconds per pair, one column for each allocator."""
    names = list(dict.fromkeys(row["allocator"] for row in rows))
    for number, name in enumerate(names):
        print(f"({number + 1}) {name}")
    headings = "".join(f"{f'({number + 1})':>11}" for number in range(len(names)))
    print(f"{'threads':>7} {'bytes':>11}{headings}  ns a pair")
    for threads, size in dict.fromkeys((row["threads"], row["bytes"]) for row in rows):
        medians = {
            row["allocator"]: row["median"] for row in rows if (row["threads"], row["bytes"]) == (threads, size)
        }
        print(f"{threads:>7} {size:>11}" + "".join(f"{medians.get(name, float('nan')):>11.1f}" for name in names))
