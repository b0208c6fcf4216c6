#!/usr/bin/env python3
"""Measures transposes, images and records on processors: leat's CPU device, NumPy, OpenBLAS, HPTT, beside a copy.

    layout_cpu_cases.py RECORD --leat BUILD [--hptt LIBRARY] [--repeat N] [--cases REGEX] [--mib N]

All run in one process on the same memory, in huge pages, and take turns sample by sample. Each call takes the next
place in --mib of memory on each side, so that the bytes come from memory and not from caches; --mib 0 takes the
same place again. The bytes of each library are compared with the right ones. A case transposes `count` dense
matrices of rows x columns elements one by one: an image of pixels is a matrix with a row for each pixel. The share
of a library is the median, over all rounds, of the time of leat_copy divided by that of the library. OpenBLAS and
HPTT run with one thread and with all, and the better one counts. BUILD is the folder of libleat.so. Needs NumPy,
whose wheel has the OpenBLAS that is measured, and a C++ compiler.
"""
import argparse
import ctypes
import mmap
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import numpy

import record

PLACE_BYTES = 2 << 20  # places in the memory begin at multiples of a huge page
SAMPLE_SECONDS = 0.004  # a sample repeats its call until it takes about as long


def cases():
    """Yields name, bytes of an element, count, rows, columns."""
    for elem in (1, 2, 4, 8):
        for side in (1024, 4096):
            yield f"{side} x {side} transposed", elem, 1, side, side
        yield "4095 x 4097 transposed", elem, 1, 4095, 4097
        if elem < 8:
            yield "8191 x 8193 transposed", elem, 1, 8191, 8193
        for channels in (3, 4):
            for name, count, pixels in (("64 images 224 x 224", 64, 224 * 224), ("1080 x 1920", 1, 1080 * 1920)):
                yield f"{name} x {channels} to planes", elem, count, pixels, channels
                yield f"{name} x {channels} to pixels", elem, count, channels, pixels
        yield "64 images 223 x 225 x 3 to planes", elem, 64, 223 * 225, 3
        yield "64 images 223 x 225 x 3 to pixels", elem, 64, 3, 223 * 225
    yield "1000000 records of 16 to columns", 1, 1, 1000000, 16
    yield "16 columns to 1000000 records", 1, 1, 16, 1000000
    for elem, side in ((3, 3072), (6, 2048), (12, 2048)):
        yield f"{side} x {side} transposed", elem, 1, side, side
        yield f"{side - 1} x {side + 1} transposed", elem, 1, side - 1, side + 1
    yield "300 of 300 x 300 transposed", 3, 300, 300, 300


class Layout(ctypes.Structure):
    """leat_layout"""
    _fields_ = [("dims", ctypes.c_uint32), ("element_bytes", ctypes.c_uint32), ("offset_bytes", ctypes.c_int64),
                ("rest", ctypes.c_char * 1024)]


class Leat:
    """leat's CPU device."""

    def __init__(self, folder):
        self.lib = ctypes.CDLL(str(pathlib.Path(folder).resolve() / "libleat.so"))
        self.lib.leat_last_error.restype = ctypes.c_char_p
        self.device, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.ok(self.lib.leat_device_open(b"cpu:0", ctypes.byref(self.device)))
        self.ok(self.lib.leat_stream_create(self.device, ctypes.byref(self.stream)))

    def ok(self, status):
        """Raises an error of leat."""
        if status:
            raise RuntimeError(self.lib.leat_last_error().decode())

    def copy(self, dst, src, size):
        """Returns a call of leat_copy."""
        arguments = self.stream, ctypes.c_void_p(dst), ctypes.c_void_p(src), ctypes.c_size_t(size)

        def call():
            self.ok(self.lib.leat_copy(*arguments))
            self.ok(self.lib.leat_stream_synchronize(self.stream))
        return call

    def transpose(self, dst, src, elem, count, rows, columns):
        """Returns a call of leat_copy_layout and the kernel of its plan."""
        to, view = Layout(), Layout()
        make, size = self.lib.leat_layout_dense, ctypes.c_int64 * 3
        self.ok(make(ctypes.byref(to), 3, size(count, columns, rows), elem))
        self.ok(make(ctypes.byref(view), 3, size(count, rows, columns), elem))
        self.ok(self.lib.leat_layout_transpose(ctypes.byref(view), 1, 2))
        arguments = self.stream, ctypes.c_void_p(dst), ctypes.byref(to), ctypes.c_void_p(src), ctypes.byref(view)
        text = ctypes.create_string_buffer(4096)
        self.ok(self.lib.leat_copy_layout_explain(*arguments, text, ctypes.c_size_t(len(text))))

        def call():
            self.ok(self.lib.leat_copy_layout(*arguments))
            self.ok(self.lib.leat_stream_synchronize(self.stream))
        return call, re.search(r"^kernel: (.*)", text.value.decode(), re.MULTILINE)[1]


class Peers:
    """OpenBLAS and HPTT, by layout_cpu_cases.cpp."""

    def __init__(self, hptt, folder):
        library = pathlib.Path(folder) / "peers.so"
        command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O2", "-fPIC", "-shared", "-pthread"]
        command += ["-o", str(library), str(record.HERE / "layout_cpu_cases.cpp")]
        if hptt:
            ctypes.CDLL(str(hptt), mode=ctypes.RTLD_GLOBAL)
            command.append("-DWITH_HPTT")
        subprocess.run(command, check=True)
        self.lib = ctypes.CDLL(str(library))
        self.hptt = bool(hptt)
        numpy_folder = pathlib.Path(numpy.__file__).parent
        self.blas_path = next(numpy_folder.parent.glob("numpy.libs/libscipy_openblas64*"))
        self.blas = ctypes.CDLL(str(self.blas_path))
        self.plans = []

    def openblas_version(self):
        """Returns OpenBLAS's own words."""
        self.blas.scipy_openblas_get_config64_.restype = ctypes.c_char_p
        return self.blas.scipy_openblas_get_config64_().decode()

    def calls(self, dst, src, elem, count, rows, columns):
        """Yields names and calls for 4 and 8 bytes, with one thread and with all."""
        if elem not in (4, 8):
            return
        name = f"scipy_cblas_{'s' if elem == 4 else 'd'}omatcopy64_"
        function = ctypes.cast(getattr(self.blas, name), ctypes.c_void_p)
        numbers = [ctypes.c_int64(count), ctypes.c_int64(rows), ctypes.c_int64(columns)]
        for threads in (1, os.cpu_count()):
            arguments = function, elem, ctypes.c_void_p(dst), ctypes.c_void_p(src), *numbers, threads
            yield "OpenBLAS", threads, lambda arguments=arguments: self.lib.peer_omatcopy(*arguments)
            if self.hptt:
                self.lib.peer_hptt_plan.restype = ctypes.c_void_p
                plan = ctypes.c_void_p(self.lib.peer_hptt_plan(*arguments[1:]))
                self.plans.append(plan)
                yield "HPTT", threads, lambda plan=plan: self.lib.peer_hptt(plan)

    def free(self):
        """Frees HPTT's plans."""
        for plan in self.plans:
            self.lib.peer_hptt_free(plan)
        self.plans = []


def memory(size):
    """Returns an array of bytes in huge pages."""
    memory_map = mmap.mmap(-1, size + (2 << 20), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory_map.madvise(mmap.MADV_HUGEPAGE)
    whole = numpy.frombuffer(memory_map, dtype=numpy.uint8)
    offset = -whole.ctypes.data % (2 << 20)
    return whole[offset:offset + size]


def sample(calls, first, times):
    """Returns seconds by the clock and of the processors for one call of these, from number first on."""
    begin, processor = time.perf_counter(), time.process_time()
    for i in range(times):
        calls[(first + i) % len(calls)]()
    return (time.perf_counter() - begin) / times, (time.process_time() - processor) / times


def make_calls(case, leat, peers, src, dst):
    """Returns (library, threads, call) for one place of the memory, and the kernel of leat's plan."""
    _, elem, count, rows, columns = case
    size = elem * count * rows * columns
    kind = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}.get(elem, f"V{elem}")
    source = src[:size].view(kind).reshape(count, rows, columns).transpose(0, 2, 1)
    result = dst[:size].view(kind).reshape(count, columns, rows)
    to, from_ = dst.ctypes.data, src.ctypes.data
    by_leat, kernel = leat.transpose(to, from_, elem, count, rows, columns)
    calls = [("leat_copy", None, leat.copy(to, from_, size)), ("leat", None, by_leat)]
    if peers:
        calls.append(("NumPy", 1, lambda: numpy.copyto(result, source)))
        calls += peers.calls(to, from_, elem, count, rows, columns)
    return calls, kernel


def expected(case, src):
    """Returns the bytes that a case must write."""
    _, elem, count, rows, columns = case
    elements = src[:elem * count * rows * columns].reshape(count, rows, columns, elem)
    return numpy.ascontiguousarray(elements.transpose(0, 2, 1, 3)).reshape(-1)


def measure(case, leat, peers, repeat, src, dst, mib):
    """Returns the rows of a case. Each call takes the next place of src and dst that has room for it."""
    name, elem, count, rows, columns = case
    size = elem * count * rows * columns
    pitch = (size + PLACE_BYTES - 1) // PLACE_BYTES * PLACE_BYTES
    places, kernel = [], None
    for at in range(0, max(1, (mib << 20) // pitch) * pitch, pitch):
        calls, kernel = make_calls(case, leat, peers, src[at:], dst[at:])
        places.append(calls)
    verified, times, right = [], [], expected(case, src)
    for library, _, call in places[0]:
        dst[:size] = 0xff
        call()
        verified.append(bool(numpy.array_equal(dst[:size], src[:size] if library == "leat_copy" else right)))
        begin = time.perf_counter()
        call()
        times.append(max(1, round(SAMPLE_SECONDS / (time.perf_counter() - begin))))
    columns_of_calls = [[place[i][2] for place in places] for i in range(len(places[0]))]
    taken, turn = [[] for _ in columns_of_calls], 0
    for _ in range(repeat):
        for samples, calls, number in zip(taken, columns_of_calls, times):
            calls[turn % len(calls)]()  # brings back what the last library has left of the code and the tables
            samples.append(sample(calls, turn + 1, number))
            turn += number + 1
    if peers:
        peers.free()
    found = []
    for (library, threads, _), samples, is_right in zip(places[0], taken, verified):
        walls, processors = zip(*samples)
        row = {"case": name, "element_bytes": elem, "bytes": size, "library": library, "verified": is_right,
               "seconds": statistics.median(walls), "best_seconds": min(walls),
               "processor_seconds": statistics.median(processors), "repeats": repeat,
               "share": statistics.median(copy[0] / other[0] for copy, other in zip(taken[0], samples)),
               "processor_share": statistics.median(copy[1] / other[1] for copy, other in zip(taken[0], samples))}
        if threads:
            row["threads"] = threads
        if library == "leat":
            row["kernel"] = kernel
        found.append(row)
    return found


def shares(rows, library):
    """Returns the shares of a library's best row: by the clock, by best samples, by processor time."""
    mine = [row for row in rows if row["library"] == library]
    if not mine:
        return None
    best = max(mine, key=lambda row: row["share"])
    return [best["share"], rows[0]["best_seconds"] / best["best_seconds"], best["processor_share"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", help="the file to write")
    parser.add_argument("--leat", metavar="BUILD", required=True, help="the folder of libleat.so")
    parser.add_argument("--hptt", metavar="LIBRARY", help="a shared library with HPTT")
    parser.add_argument("--repeat", type=int, default=9, help="samples for each row")
    parser.add_argument("--cases", default="", metavar="REGEX", help="only cases whose name and bytes match")
    parser.add_argument("--mib", type=int, default=2048, help="MiB of memory on each side; 0: as a case needs")
    parser.add_argument("--without-peers", action="store_true", help="only leat and its copy")
    options = parser.parse_args()

    leat = Leat(options.leat)
    with tempfile.TemporaryDirectory() as folder:
        peers = None if options.without_peers else Peers(options.hptt, folder)
        versions = {"NumPy": numpy.__version__, "OpenBLAS": peers and peers.openblas_version(),
                    "HPTT": pathlib.Path(options.hptt).name if options.hptt else None}
        result = record.make("transposes, images and records on processors", versions, options.leat)
        result["rows"] = []
        chosen = [case for case in cases() if re.search(options.cases, f"{case[0]}, {case[1]}")]
        most = max(elem * count * rows * columns for _, elem, count, rows, columns in chosen)
        most = max(most, options.mib << 20)
        src, dst = memory(most), memory(most)
        # With these bytes all floats are normal numbers. OpenBLAS and HPTT multiply them by 1.
        some = numpy.random.default_rng(20).integers(1, 101, PLACE_BYTES - 1, dtype=numpy.uint8)
        src[:] = numpy.resize(some, most)
        dst[:] = 0
        names = ["leat", "NumPy", "OpenBLAS", "HPTT"] if peers else ["leat"]
        print("shares of leat_copy: medians of the rounds, and leat's by best samples and by processor time")
        heads = "".join(f"{name:>10}" for name in names[1:])
        print(f"{'case':<38}{'bytes':>5}{'leat':>7}{'best':>6}{'cpu':>6}{heads}")
        for case in chosen:
            rows = measure(case, leat, peers, options.repeat, src, dst, options.mib)
            result["rows"] += rows
            wrong = [row["library"] for row in rows if not row["verified"]]
            cells = "".join(f"{share:>6.2f}" for share in shares(rows, "leat"))
            others = [shares(rows, name) for name in names[1:]]
            cells += "".join(f"{share[0]:>10.2f}" if share else f"{'-':>10}" for share in others)
            kernel = next(row["kernel"] for row in rows if row["library"] == "leat")
            cells += f"  {kernel}" + (f" WRONG: {wrong}" if wrong else "")
            print(f"{case[0]:<38}{case[1]:>5} {cells}", flush=True)
    record.write(result, options.record)


if __name__ == "__main__":
    main()
