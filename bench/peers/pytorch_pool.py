#!/usr/bin/env python3
"""Measures PyTorch's caching allocator, called from C++, beside the driver's own calls and, if wanted, leat.

    pytorch_pool.py RECORD [--leat BUILD] [--repeat N]

It makes pairs of raw_alloc_with_stream and raw_delete, 512 B to 1 GiB, with 1, 4 and 16 threads, each on its own
stream, in one process with PyTorch's default settings and in another with expandable_segments:True. Writes RECORD as
JSON. BUILD is the folder of libleat.so.
"""
import argparse
import pathlib
import tempfile

import torch
from torch.utils import cpp_extension

import record

SETTINGS = {"default": None, "expandable_segments": "expandable_segments:True"}


def build_with_torch(source, output, leat=None):
    """Builds a program with the c10 libraries of the installed PyTorch."""
    record.build(
        source,
        output,
        include_folders=cpp_extension.include_paths(),
        library_folders=[pathlib.Path(torch.__file__).parent / "lib"],
        libraries=["c10_cuda", "c10"],
        leat=leat,
        definitions=[f"_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"],
    )


def environment(setting):
    """Returns both names of the variable: PyTorch's version decides which one it reads."""
    return {"PYTORCH_ALLOC_CONF": SETTINGS[setting], "PYTORCH_CUDA_ALLOC_CONF": SETTINGS[setting]}


def versions():
    return {"torch": torch.__version__, "cuda": torch.version.cuda}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", help="the file to write")
    parser.add_argument("--leat", metavar="BUILD", help="measure leat as well: the folder of libleat.so")
    parser.add_argument("--repeat", type=int, default=15, help="samples for each row")
    options = parser.parse_args()

    result = record.make("PyTorch's caching allocator, from C++", versions(), options.leat)
    result["runs"] = []
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "pytorch_pool"
        build_with_torch("pytorch_pool.cpp", program, options.leat)
        for setting in SETTINGS:
            rows = record.run_json([program, options.repeat], environment(setting))
            result["runs"].append({"setting": setting, "rows": rows})
            print(f"PyTorch {torch.__version__}, {setting}")
            record.print_pairs(rows)
    record.write(result, options.record)


if __name__ == "__main__":
    main()
