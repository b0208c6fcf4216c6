#!/usr/bin/env python3
"""Compares the structs, enumerators and prototypes of pyleat/_c.py with leat's headers.

Usage: check-python-abi.py CC. Needs gcc or clang for a program that prints sizes and offsets, and gcc's -aux-info for the
prototypes. PYLEAT_LIBRARY_FOLDER names the folder of the libraries.
"""
import ctypes
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "python", "src"))
from pyleat import _c  # noqa: E402

SCALARS = {"int": ctypes.c_int, "unsigned int": ctypes.c_uint32, "uint32_t": ctypes.c_uint32,
           "size_t": ctypes.c_size_t, "uint64_t": ctypes.c_uint64, "leat_kind": ctypes.c_int,
           "leat_status": ctypes.c_int, "leat_copy_point": ctypes.c_int, "unsigned": ctypes.c_uint32}


def c_name(field):
    """Returns the field's name in C. ctypes itself uses the name "size" of a layout."""
    return "size" if field == "sizes" else field


def numbers(compiler, folder):
    """Runs a C program and returns what it prints, and what ctypes has for the same."""
    lines, ours = [], []
    for name, struct in _c.STRUCTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        ours.append(f"{name} {ctypes.sizeof(struct)}")
        for field in struct._fields_:
            member = getattr(struct, field[0])
            lines.append(f'printf("{name}.{field[0]} %zu %zu\\n", offsetof({name}, {c_name(field[0])}), '
                         f"sizeof((({name} *)0)->{c_name(field[0])}));")
            ours.append(f"{name}.{field[0]} {member.offset} {member.size}")
    for name, value in _c.CONSTANTS.items():
        lines.append(f'printf("{name} %d\\n", (int){name});')
        ours.append(f"{name} {value}")
    source, program = os.path.join(folder, "sizes.c"), os.path.join(folder, "sizes")
    with open(source, "w") as file:
        file.write("#include <leat/leat.h>\n#include <leat/model.h>\n#include <stdio.h>\n"
                   "int main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
    subprocess.run([*compiler, "-std=c11", "-I" + os.path.join(TOP, "include"), source, "-o", program], check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines(), ours


def kind_of(text):
    """Returns the ctypes type for a C type, with all pointers but strings as c_void_p."""
    text = re.sub(r"\bconst\b", "", text).strip()
    if text.endswith("*") or "(*)" in text:
        return ctypes.c_char_p if re.fullmatch(r"char\s*\*", text) else ctypes.c_void_p
    return SCALARS[text]


def prototypes(compiler, folder):
    """Returns the parameters and the result of each call of the headers."""
    source, listed = os.path.join(folder, "calls.c"), os.path.join(folder, "calls.txt")
    with open(source, "w") as file:
        file.write("#include <leat/leat.h>\n#include <leat/model.h>\n")
    subprocess.run([*compiler, "-std=c11", "-I" + os.path.join(TOP, "include"), "-fsyntax-only", "-aux-info", listed,
                    source], check=True)
    found = {}
    with open(listed) as file:
        for line in file:
            match = re.search(r"extern (.*?)\b(leat_\w+) \((.*)\);", line)
            if not match:
                continue
            depth, parameters, piece = 0, [], ""
            for letter in match[3]:
                depth += (letter == "(") - (letter == ")")
                if letter == "," and not depth:
                    parameters.append(piece)
                    piece = ""
                else:
                    piece += letter
            parameters.append(piece)
            found[match[2]] = (match[1], [] if parameters == ["void"] else parameters)
    return found


def main():
    compiler = sys.argv[1].split() if len(sys.argv) > 1 else ["gcc"]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = numbers(compiler, folder)
        for there, here in zip(theirs, ours):
            if there != here:
                print(f"the headers have {there}, pyleat/_c.py has {here}")
                wrong += 1
        calls = prototypes(compiler, folder)
    for name, types in {**_c.CORE, **_c.FILES}.items():
        result, parameters = calls[name]
        want = [kind_of(parameter) for parameter in parameters]
        # pyleat passes text buffers as addresses.
        same = len(want) == len(types) and all(
            one is two or {one, two} == {ctypes.c_char_p, ctypes.c_void_p} for one, two in zip(want, types))
        if not same:
            print(f"{name}: the headers have ({', '.join(parameters)}), pyleat/_c.py has {types}")
            wrong += 1
        if kind_of(result) is not _c.RESULTS.get(name, ctypes.c_int):
            print(f"{name} returns {result}, and pyleat/_c.py has {_c.RESULTS.get(name)}")
            wrong += 1
    print(f"pyleat/_c.py: {len(ours)} sizes, offsets and values, {len(_c.CORE) + len(_c.FILES)} calls, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
