#!/usr/bin/env python3
"""Measures cuTENSOR's permutations, on the cases of a record of leat that it accepts.

    cutensor_layout.py LEAT_RECORD RECORD [--repeat N]

Beside each stands cudaMemcpyAsync of as many bytes. RECORD is written as JSON. Needs the package cutensor-cu13 where
Python finds it, or its folder in CUTENSOR_ROOT. What cuTENSOR cannot say (elements of 1, 3, 6 and 12 bytes, lists of
indices, negative strides) is left out; its notes say what it refused.
"""
import argparse
import importlib.util
import os
import pathlib
import subprocess
import tempfile

import layouts
import record


def package_folder():
    if os.environ.get("CUTENSOR_ROOT"):
        return pathlib.Path(os.environ["CUTENSOR_ROOT"])
    spec = importlib.util.find_spec("cutensor")
    if spec is None:
        raise SystemExit("cutensor_layout.py: the package cutensor-cu13 is missing; README.md says what to install")
    return pathlib.Path(list(spec.submodule_search_locations)[0])


def accepted(case):
    strides = case.src.strides + case.dst.strides
    fits = all(stride % case.element_bytes == 0 and stride >= 0 for stride in strides)
    offsets_fit = (case.src.offset % case.element_bytes, case.dst.offset % case.element_bytes) == (0, 0)
    return case.element_bytes in (2, 4, 8, 16) and fits and offsets_fit and not (case.src.index or case.dst.index)


def words_of(case):
    """A case as a line of numbers: what cutensor_layout.cpp reads."""
    numbers = [case.element_bytes, case.payload, case.src.total, case.dst.total, case.src.offset, case.dst.offset]
    numbers += [len(case.sizes)] + case.sizes + case.src.strides + case.dst.strides
    return " ".join(str(number) for number in numbers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leat_record", help="what leat bench layout --output wrote")
    parser.add_argument("record", help="the file to write")
    parser.add_argument("--repeat", type=int, default=15, help="samples for each row")
    options = parser.parse_args()

    package = package_folder()
    cases = [case for case in layouts.read(options.leat_record) if accepted(case)]
    result = record.make("cuTENSOR's permutations", {})
    result["peer"], result["rows"], result["notes"] = "cutensor", [], []
    with tempfile.TemporaryDirectory() as folder:
        program, lines = pathlib.Path(folder) / "cutensor_layout", pathlib.Path(folder) / "cases"
        # The linker wants the library's name without its version.
        (pathlib.Path(folder) / "libcutensor.so").symlink_to((package / "lib" / "libcutensor.so.2").resolve())
        record.build(
            "cutensor_layout.cpp",
            program,
            include_folders=[package / "include"],
            library_folders=[folder, (package / "lib").resolve()],
            libraries=["cutensor"],
        )
        lines.write_text("".join(words_of(case) + "\n" for case in cases), encoding="utf-8")
        with open(lines, encoding="utf-8") as given:
            answer = record.run_json([program, options.repeat], given=given)
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
