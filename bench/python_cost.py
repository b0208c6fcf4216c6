#!/usr/bin/env python3
"""Measures what pyleat adds to a call of leat, and how long its import takes.

Usage: LEAT_DEVICE=cpu:0 python_cost.py [--rounds 15] [--json FILE]

"call" is the C function called through ctypes with its arguments at hand; "pyleat" is pyleat.copy() of the same bytes.
Both run in turns. "work" is the processor time of the calling thread, which other programs disturb less than the time
on the clock. Figures are the least and the median of all rounds, in microseconds; the import is in milliseconds, in
new processes.
"""
import argparse
import json
import platform
import statistics
import subprocess
import sys
import time

IMPORT = """
import time
clock, work = time.perf_counter(), time.thread_time()
import pyleat
print(time.perf_counter() - clock, time.thread_time() - work)
"""


def measure(functions, rounds, repeats):
    """Returns for each function the least and the median of clock and work, in microseconds a call."""
    found = [([], []) for _ in functions]
    for _ in range(rounds):
        for function, (clocks, works) in zip(functions, found):
            clock, work = time.perf_counter(), time.thread_time()
            for _ in range(repeats):
                function()
            works.append((time.thread_time() - work) / repeats * 1e6)
            clocks.append((time.perf_counter() - clock) / repeats * 1e6)
    return [{"clock_us": [min(c), statistics.median(c)], "work_us": [min(w), statistics.median(w)]} for c, w in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    imports = [tuple(map(float, subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True,
                                               check=True).stdout.split())) for _ in range(arguments.rounds)]
    import numpy
    import pyleat
    from pyleat import _c

    call = _c.leat.leat_copy_sync
    rows = []
    for size in (64, 4096, 65536):
        host = numpy.zeros(size, numpy.uint8)
        one, two = pyleat.zeros(size, "uint8"), pyleat.zeros(size, "uint8")
        stream, address = one.stream._handle, host.ctypes.data
        for name, c_call, python_call in (
            ("NumPy to device", lambda: call(stream, one.ptr, address, size), lambda: pyleat.copy(one, host)),
            ("device to NumPy", lambda: call(stream, address, one.ptr, size), lambda: pyleat.copy(host, one)),
            ("device to device", lambda: call(stream, one.ptr, two.ptr, size), lambda: pyleat.copy(one, two)),
        ):
            one.stream.synchronize()
            in_c, in_python = measure([c_call, python_call], arguments.rounds, 2000)
            rows.append({"copy": name, "bytes": size, "call": in_c, "pyleat": in_python})
            print(f"{name:17} {size:6} bytes: call {in_c['work_us'][0]:6.2f} us of work, pyleat "
                  f"{in_python['work_us'][0]:6.2f}, more {in_python['work_us'][0] - in_c['work_us'][0]:5.2f} "
                  f"(medians on the clock: {in_c['clock_us'][1]:.2f} and {in_python['clock_us'][1]:.2f})")
    clocks, works = zip(*imports)
    result = {"python": platform.python_version(), "leat": pyleat.__version__, "device": pyleat.device().info.name,
              "import_ms": {"clock": [min(clocks) * 1e3, statistics.median(clocks) * 1e3],
                            "work": [min(works) * 1e3, statistics.median(works) * 1e3]}, "copies": rows}
    print(f"import: {min(clocks) * 1e3:.1f} ms on the clock at least, median {statistics.median(clocks) * 1e3:.1f}; work "
          f"{min(works) * 1e3:.1f} at least, median {statistics.median(works) * 1e3:.1f}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
