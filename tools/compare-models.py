#!/usr/bin/env python3
"""Compares how leat and the reference packages read files of tensors: safetensors, gguf and numpy, from PyPI.

Usage: compare-models.py [--lib build/libleat-files.so] [--rounds 2000] [--seed N]

Writes good files with the packages, and damages them at random. leat must read each good file as its package does:
names, types, shapes and the places of the data. For damaged files it counts who refuses. A file that leat opens and
the package refuses is printed, and the exit status is 1, except for checksums of data in zip files, since leat does
not read data. The other way round leat is stricter, and leat's messages are counted. The files of claims() are the
lines of the tables in docs/models.md: the package opens them, and leat refuses them. CI does not run this program.
"""
import argparse
import collections
import ctypes
import io
import json
import os
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import warnings
import zipfile

import gguf
import numpy as np
import safetensors.numpy

warnings.simplefilter("ignore")

# gguf 0.19 gives Q8_1 40 bytes, and ggml's struct has 36. ggml writes no files with it.
GGUF_TYPES = [t for t in gguf.GGMLQuantizationType if t.name != "Q8_1"]
NPY_TYPES = ["|b1", "|i1", "|u1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8", "<c8", "<c16",
             ">i2", ">u4", ">f4", ">f8", ">c16"]
NPY_NAMES = {"b1": "BOOL", "i1": "I8", "u1": "U8", "i2": "I16", "u2": "U16", "f2": "F16", "i4": "I32", "u4": "U32",
             "f4": "F32", "i8": "I64", "u8": "U64", "f8": "F64", "c8": "C64", "c16": "C128"}


class TensorInfo(ctypes.Structure):
    """leat_model_tensor_info of leat/model.h."""
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("type", ctypes.c_char_p),
                ("block_elements", ctypes.c_uint32), ("block_bytes", ctypes.c_uint32), ("dims", ctypes.c_uint32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("file", ctypes.c_size_t), ("offset", ctypes.c_uint64),
                ("bytes", ctypes.c_uint64), ("fortran_order", ctypes.c_uint8)]


class Refused(Exception):
    pass


class Leat:
    def __init__(self, path):
        self.files = ctypes.CDLL(path)
        self.leat = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(path)), "libleat.so"))
        self.leat.leat_last_error.restype = ctypes.c_char_p

    def read(self, path):
        """Returns {name: (type, shape, bytes of the data, Fortran order)}."""
        model = ctypes.c_void_p()
        paths = (ctypes.c_char_p * 1)(path.encode())
        if self.files.leat_model_open(paths, ctypes.c_size_t(1), ctypes.byref(model)):
            raise Refused(self.leat.leat_last_error().decode(errors="replace"))
        count = ctypes.c_size_t()
        self.files.leat_model_count(model, ctypes.byref(count), None)
        data = open(path, "rb").read()
        tensors = {}
        for i in range(count.value):
            info = TensorInfo(size=ctypes.sizeof(TensorInfo))
            if self.files.leat_model_get_tensor_info(model, ctypes.c_size_t(i), ctypes.byref(info)):
                sys.exit("leat_model_get_tensor_info: " + self.leat.leat_last_error().decode())
            tensors[info.name.decode()] = (info.type.decode(), tuple(info.shape[:info.dims]),
                                           data[info.offset:info.offset + info.bytes], bool(info.fortran_order))
        self.files.leat_model_close(model)
        return tensors


# ---- the packages ----

def read_safetensors(path):
    raw = safetensors.deserialize(open(path, "rb").read())
    return {name: (t["dtype"], tuple(t["shape"]), bytes(t["data"]), False) for name, t in raw}


def read_gguf(path):
    tensors = {}
    for t in gguf.GGUFReader(path).tensors:
        shape = tuple(int(n) for n in reversed(t.shape.tolist()))
        tensors[t.name] = (t.tensor_type.name, shape, t.data.tobytes(), False)
        if len(tensors[t.name][2]) != t.n_bytes:
            raise ValueError("the data is shorter than the tensor")
    return tensors


def from_array(array):
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    kind = array.dtype.str
    name = NPY_NAMES[kind[1:]] + ("_BE" if kind[0] == ">" else "")
    return name, array.shape, (array.T if fortran else array).tobytes(), fortran


def read_npy(path):
    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise ValueError("it is not an npy file")
    return {os.path.basename(path).removesuffix(".npy"): from_array(array)}


def read_npz(path):
    with np.load(path, allow_pickle=False) as archive:
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it is not an npz file")
        return {name: from_array(archive[name]) for name in archive.files}


# ---- good files ----

def shape_of(rng, most=4):
    return tuple(rng.randint(0 if rng.random() < 0.1 else 1, 6) for _ in range(rng.randint(0, most)))


def array_of(rng, descr):
    shape = shape_of(rng)
    array = np.frombuffer(rng.randbytes(int(np.prod(shape)) * np.dtype(descr).itemsize), descr).reshape(shape)
    return np.asfortranarray(array) if rng.random() < 0.4 else array


def name_of(rng, i):
    return rng.choice(["layer.%d.weight", "a%d", "x/y %d", "\u00e9%d"]) % i


def write_safetensors(rng, path):
    types = ["f4", "f8", "i8", "u1", "f2", "?"]
    arrays = {name_of(rng, i): np.ascontiguousarray(array_of(rng, rng.choice(types))) for i in range(rng.randint(0, 6))}
    safetensors.numpy.save_file(arrays, path, metadata={"format": "np"} if rng.random() < 0.5 else None)


def write_gguf(rng, path):
    writer = gguf.GGUFWriter(path, "llama")
    if rng.random() < 0.5:
        writer.add_custom_alignment(rng.choice([8, 16, 32, 64, 4096]))
    writer.add_array("tokenizer.tokens", ["x" * rng.randint(0, 9) for _ in range(rng.randint(1, 50))])
    writer.add_array("scores", [0.5, 1.5])
    writer.add_bool("flag", True)
    writer.add_float64("d", 1.0)
    for i in range(rng.randint(0, 6)):
        kind = rng.choice(GGUF_TYPES)
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = (rng.randint(1, 3),) + ((rng.randint(1, 3),) if rng.random() < 0.7 else ())
        raw = np.frombuffer(rng.randbytes(int(np.prod(blocks)) * size), np.uint8).reshape(*blocks[:-1], blocks[-1] * size)
        writer.add_tensor(name_of(rng, i), raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_npy(rng, path):
    with open(path, "wb") as file:
        np.lib.format.write_array(file, array_of(rng, rng.choice(NPY_TYPES)), version=rng.choice([None, (2, 0), (3, 0)]))


class Pipe(io.RawIOBase):
    """A file that cannot seek, so that zipfile writes data descriptors."""
    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


def write_npz(rng, path):
    arrays = {name_of(rng, i): array_of(rng, rng.choice(NPY_TYPES)) for i in range(rng.randint(0, 5))}
    if rng.random() < 0.5:
        np.savez(path, **arrays)
        return
    with open(path, "wb") as file, zipfile.ZipFile(Pipe(file) if rng.random() < 0.7 else file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(name + ".npy", "w", force_zip64=rng.random() < 0.5) as member:
                np.lib.format.write_array(member, array)


FORMATS = {"safetensors": (write_safetensors, read_safetensors), "gguf": (write_gguf, read_gguf),
           "npy": (write_npy, read_npy), "npz": (write_npz, read_npz)}


# ---- damage ----

def damage(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if not data:
            break
        at = min(int(len(data) * rng.random() ** rng.choice([1, 2])), len(data) - 1)
        kind = rng.randrange(7)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            width = rng.choice([1, 2, 4, 8])
            data[at:at + width] = struct.pack("<Q", rng.choice([0, 1, 255, 65535, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))[:width]
        elif kind == 3:
            del data[at:at + rng.randint(1, 16)]
        elif kind == 4:
            data[at:at] = data[at:at + rng.randint(1, 16)]
        elif kind == 5:
            del data[at:]
        else:
            data += bytes(rng.randint(1, 64))
    return bytes(data)


def gguf_of(pairs=(), tensors=None, alignment=32, data=bytes(32), order="<", version=3):
    """A GGUF file; its tensor is of 4 bytes (I8) unless tensors are given."""
    tensors = [text(b"x") + struct.pack("<IQIQ", 1, 4, 24, 0)] if tensors is None else tensors
    head = b"GGUF" + struct.pack(order + "IQQ", version, len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


def text(data):
    return struct.pack("<Q", len(data)) + data


def npy_of(descr="'<f4'", shape="(1,)", header=None, data=bytes(4)):
    header = (header or "{'descr': %s, 'fortran_order': False, 'shape': %s}\n" % (descr, shape)).encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def zip_of(*names, data=None, front=b"", comment=b"", **options):
    file = io.BytesIO(front)
    file.seek(0, 2)
    with zipfile.ZipFile(file, "a" if front else "w", **options) as archive:
        for name in names:
            archive.writestr(name, data or npy_of())
        archive.comment = comment
    return file.getvalue()


def safetensors_of(header, data=bytes(4)):
    return struct.pack("<Q", len(header)) + header.encode() + data


def claims():
    """Files that the packages open and leat refuses: (format, what it has, bytes)."""
    one = '"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}'
    local = bytearray(zip_of("a.npy"))
    local[18] ^= 1
    return [
        ("safetensors", "a name twice", safetensors_of("{%s,%s}" % (one, one))),
        ("safetensors", "a leading blank", safetensors_of(" {%s}" % one)),
        ("safetensors", "another field", safetensors_of('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}}')),
        ("safetensors", "a 0 in a name", safetensors_of("{%s}" % one.replace('"a"', '"\\u0000"'))),
        ("safetensors", "33 dimensions", safetensors_of("{%s}" % one.replace("[4]", "[4%s]" % (",1" * 32)))),
        ("safetensors", "a line feed at the end", safetensors_of("{%s}\n" % one)),
        ("safetensors", "a key of metadata twice", safetensors_of('{"__metadata__":{"k":"","k":""},%s}' % one)),
        ("safetensors", "metadata that is null", safetensors_of('{"__metadata__":null,%s}' % one)),
        ("safetensors", "a tensor as an array", safetensors_of('{"a":["U8",[4],[0,4]]}')),
        ("gguf", "bytes behind the data", gguf_of(data=bytes(100))),
        ("gguf", "padding that is not zero", gguf_of()[:60] + b"x" + gguf_of()[61:]),
        ("gguf", "a hole", gguf_of(tensors=[text(b"x") + struct.pack("<IQIQ", 1, 4, 24, 64)], data=bytes(96))),
        ("gguf", "an overlap", gguf_of(tensors=[text(n) + struct.pack("<IQIQ", 1, 4, 24, 0) for n in (b"x", b"y")])),
        ("gguf", "a misaligned tensor", gguf_of(tensors=[text(b"x") + struct.pack("<IQIQ", 1, 4, 24, 3)])),
        ("gguf", "a key that is not ASCII", gguf_of([text("é".encode()) + struct.pack("<IB", 0, 2)])),
        ("gguf", "an empty key", gguf_of([text(b"") + struct.pack("<IB", 0, 2)])),
        ("gguf", "a boolean of 2", gguf_of([text(b"k") + struct.pack("<IB", 7, 2)])),
        ("gguf", "an array of arrays", gguf_of([text(b"k") + struct.pack("<IIQIQB", 9, 9, 1, 0, 1, 7)])),
        ("gguf", "a name of 65 bytes", gguf_of(tensors=[text(b"x" * 65) + struct.pack("<IQIQ", 1, 4, 24, 0)])),
        ("gguf", "an empty name", gguf_of(tensors=[text(b"") + struct.pack("<IQIQ", 1, 4, 24, 0)])),
        ("gguf", "5 dimensions", gguf_of(tensors=[text(b"x") + struct.pack("<IQQQQQIQ", 5, 4, 1, 1, 1, 1, 24, 0)])),
        ("gguf", "alignment 4", gguf_of([text(b"general.alignment") + struct.pack("<II", 4, 4)], alignment=4,
                                        data=bytes(4))),
        ("gguf", "alignment 2 MiB", gguf_of([text(b"general.alignment") + struct.pack("<II", 4, 1 << 21)],
                                            alignment=1 << 21, data=bytes(4))),
        ("gguf", "big-endian numbers", gguf_of(tensors=[], order=">", data=b"")),
        ("npy", "bytes behind the data", npy_of(data=bytes(5))),
        ("npy", "no line feed", npy_of(header="{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}")),
        ("npy", "a key twice", npy_of(header="{'descr':'<f4','descr':'<f4','fortran_order':False,'shape':(1,)}\n")),
        ("npy", "a leading blank", npy_of(header=" {'descr':'<f4','fortran_order':False,'shape':(1,)}\n")),
        ("npy", "a comment", npy_of(header="{'descr':'<f4','fortran_order':False,'shape':(1,)} # x\n")),
        ("npy", "a hexadecimal size", npy_of(shape="(0x1,)")),
        ("npy", "33 dimensions", npy_of(shape="(%s)" % ("1," * 33))),
        ("npy", "a type without byte order", npy_of("'f4'")),
        ("npy", "the machine's byte order", npy_of("'=f4'")),
        ("npy", "text", npy_of("'<U1'")),
        ("npy", "bytes", npy_of("'|V4'")),
        ("npy", "dates", npy_of("'<M8[ns]'", data=bytes(8))),
        ("npy", "long double", npy_of("'<f16'", data=bytes(16))),
        ("npy", "a structure", npy_of("[('a', '<f4')]")),
        ("npz", "a comment", zip_of("a.npy", comment=b"x")),
        ("npz", "bytes in front", zip_of("a.npy", front=b"PK\3\4xxxx")),
        ("npz", "a name twice", zip_of("a.npy", "a.npy")),
        ("npz", "a name without .npy", zip_of("a")),
        ("npz", "a deflated member", zip_of("a.npy", compression=zipfile.ZIP_DEFLATED)),
        ("npz", "two sizes of a member", bytes(local)),
        ("npz", "bytes behind a member's data", zip_of("a.npy", data=npy_of(data=bytes(5)))),
    ]


def check_claims(leat, folder):
    wrong = 0
    for form, what, data in claims():
        path = os.path.join(folder, "claim." + form)
        with open(path, "wb") as file:
            file.write(data)
        ours, why = attempt(leat.read, path)
        their_why = attempt(FORMATS[form][1], path)[1]
        # read_npy() knows no names for types that leat does not read: then the package did open the file.
        if ours is not None or (their_why and not their_why.startswith("KeyError")):
            wrong += 1
            print("%s with %s: leat %s, the package %s" % (form, what, why or "opens it", their_why or "opens it"))
    print("claims: %d files, %d wrong" % (len(claims()), wrong))
    return wrong


def stop(*_):
    raise TimeoutError("it was still reading after 5 s")


def attempt(read, path):
    signal.alarm(5)
    try:
        return read(path), None
    except Refused as error:
        return None, str(error)
    except Exception as error:  # a package may fail in any way
        return None, "%s: %s" % (type(error).__name__, error)
    finally:
        signal.alarm(0)


def shorten(message, path):
    message = message.split(path + ": ")[-1]
    message = re.sub(r"'[^']*'|0x[0-9a-f]+|\d+", "~", message)
    return message[:100]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", default="build/libleat-files.so")
    parser.add_argument("--rounds", type=int, default=2000, help="damaged files of each format")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    # Hostile lengths make gguf read for ever, and allocate.
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    signal.signal(signal.SIGALRM, stop)
    leat = Leat(options.lib)
    rng = random.Random(options.seed)
    print("seed %d; numpy %s, safetensors %s" % (options.seed, np.__version__, safetensors.__version__))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        wrong += check_claims(leat, folder)
        for form, (write, read) in FORMATS.items():
            path = os.path.join(folder, "x." + form)
            counts = collections.Counter()
            stricter, looser = collections.Counter(), collections.Counter()
            for i in range(options.rounds):
                if i % 10 == 0:
                    write(rng, path)
                    good = open(path, "rb").read()
                    ours, theirs = leat.read(path), read(path)
                    counts["good"] += 1
                    if ours != theirs:
                        wrong += 1
                        print("%s: leat reads %r, the package %r" % (form, ours, theirs))
                with open(path, "wb") as file:
                    file.write(damage(rng, good))
                ours, why = attempt(leat.read, path)
                theirs, their_why = attempt(read, path)
                if ours is not None and theirs is not None:
                    counts["both open" if ours == theirs else "open, and differ"] += 1
                    if ours != theirs:
                        looser["leat %r, package %r" % (ours, theirs)] += 1
                elif ours is None and theirs is None:
                    counts["both refuse"] += 1
                elif ours is None:
                    counts["only leat refuses"] += 1
                    stricter[shorten(why, path)] += 1
                elif "Bad CRC-32" in their_why:
                    counts["only the package compares checksums"] += 1
                else:
                    counts["only the package refuses"] += 1
                    looser[their_why[:150]] += 1
            print("%s: %s" % (form, json.dumps(counts)))
            for message, count in stricter.most_common(25):
                print("    stricter %5d  %s" % (count, message))
            for message, count in looser.most_common(25):
                print("    LOOSER   %5d  %s" % (count, message[:600]))
            wrong += sum(looser.values())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
