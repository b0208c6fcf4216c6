#!/usr/bin/env python3
"""Measures cuTENSOR's permutations, on the cases of a record of leat that it accepts.

    cutensor_layout.py LEAT_RECORD RECORD [--repeat N] [--suite NAME,...] [--elem BYTES,...] [--seconds N]
                       [--cutensor FOLDER] [--program FILE]

Each case is compared with cudaMemcpyAsync of the same number of bytes. Writes RECORD as JSON. Needs the package
cutensor-cu13 where Python finds it, or its folder (with include/cutensor.h and lib/libcutensor.so.2) in --cutensor or
in CUTENSOR_ROOT. Cases that cuTENSOR cannot express (elements of 1, 3, 6 and 12 bytes, lists of indices, negative
strides) are left out; the record's notes list the cases that it refused.
"""
import argparse
import importlib.util
import os
import pathlib
import subprocess
import tempfile

import layouts
import record


def package_folder(given):
    folder = given or os.environ.get("CUTENSOR_ROOT")
    if folder:
        return pathlib.Path(folder).resolve()
    spec = importlib.util.find_spec("cutensor")
    if spec is None:
        raise SystemExit("cutensor_layout.py: the package cutensor-cu13 is missing; README.md says what to install")
    return pathlib.Path(list(spec.submodule_search_locations)[0])


def library_folders(package):
    """Folders in which to look for libcutensor and its libcublasLt.so.13: the toolkit, and NVIDIA's other packages."""
    spec = importlib.util.find_spec("nvidia")
    packages = [pathlib.Path(place) / "cu13" / "lib" for place in spec.submodule_search_locations] if spec else []
    return [package / "lib", record.CUDA_HOME / "lib64"] + packages


def build(program, package):
    with tempfile.TemporaryDirectory() as folder:
        # The linker wants the library's name without its version.
        (pathlib.Path(folder) / "libcutensor.so").symlink_to(package / "lib" / "libcutensor.so.2")
        record.build(
            "cutensor_layout.cpp",
            program,
            include_folders=[package / "include"],
            library_folders=[folder] + library_folders(package),
            libraries=["cutensor"],
        )


def accepted(case):
    strides = case.src.strides + case.dst.strides
    fits = all(stride % case.element_bytes == 0 and stride >= 0 for stride in strides)
    offsets_fit = (case.src.offset % case.element_bytes, case.dst.offset % case.element_bytes) == (0, 0)
    return case.element_bytes in (2, 4, 8, 16) and fits and offsets_fit and not (case.src.index or case.dst.index)


def words_of(case):
    """Returns a case as a line of numbers, the input of cutensor_layout.cpp."""
    numbers = [case.element_bytes, case.payload, case.src.total, case.dst.total, case.src.offset, case.dst.offset]
    numbers += [len(case.sizes)] + case.sizes + case.src.strides + case.dst.strides
    return " ".join(str(number) for number in numbers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    layouts.add_options(parser)
    parser.add_argument("--cutensor", metavar="FOLDER", help="the package's folder")
    parser.add_argument("--program", metavar="FILE", help="the compiled program: made and kept if it is missing")
    options = parser.parse_args()

    package = package_folder(options.cutensor)
    cases = [case for case in layouts.chosen(options) if accepted(case)]
    result = record.make("cuTENSOR's permutations", {})
    result["peer"], result["rows"], result["notes"] = "cutensor", [], []
    folders = [str(folder) for folder in library_folders(package)]
    libraries = ":".join(folders + [os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(":")
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(options.program or pathlib.Path(folder) / "cutensor_layout").resolve()
        if not program.exists():
            build(program, package)
        lines = pathlib.Path(folder) / "cases"
        lines.write_text("".join(words_of(case) + "\n" for case in cases), encoding="utf-8")
        with open(lines, encoding="utf-8") as given:
            command = [program, options.repeat, options.seconds]
            answer = record.run_json(command, environment={"LD_LIBRARY_PATH": libraries}, given=given)
    result["versions"]["cutensor"] = answer["version"]
    for case, found in zip(cases, answer["rows"], strict=True):
        if "error" in found:
            result["notes"].append(f"{case.name}: {found['error']}")
            continue
        made = layouts.row(case, found["seconds"], found["copy_seconds"], found["verified"])
        result["rows"].append(made)
        layouts.print_row(made)
    record.write(result, options.record)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"cutensor_layout.py: {error}") from None
