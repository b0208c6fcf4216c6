#!/usr/bin/env python3
"""A model of how long data takes to reach, or leave, the GPUs of 2 to 10000 nodes (docs/machines.md).

Usage: machines.py check | compare [BLOCK...] | print [BLOCK...] | update | full

check   compares the simulation with closed forms, then does the same as compare; takes some seconds
compare compares docs/machines.md and its pictures with what the program prints, or only some blocks; the last line is
        "N passed, N failed"
print   prints all blocks of docs/machines.md, or those that are named
update  writes the blocks and the pictures of docs/machines.md anew
full    simulates 10000 nodes and as many chunks as a real broadcast has, and writes the block "full"; takes minutes

inputs.py has all figures and where they come from, paper.py the closed forms, simulation.py and incast.py the
simulations, tables.py the tables. Needs Python 3.9 and nothing else.
"""
import sys

sys.dont_write_bytecode = True

import check  # noqa: E402
import document  # noqa: E402
import tables  # noqa: E402


def run_check(checks, names):
    wrong = document.differences(document.blocks(names))
    for text in checks.failures + wrong:
        print(f"machines.py: {text}", file=sys.stderr)
    if wrong:
        print("machines.py: bench/machines/machines.py update writes the blocks and the pictures", file=sys.stderr)
    failed = len(checks.failures) + len(wrong)
    print(f"{checks.passed + (not wrong)} passed, {failed} failed")
    return failed > 0


def main(arguments):
    command, names = arguments[0] if arguments else "help", arguments[1:]
    if command in ("compare", "print"):
        unknown = [name for name in names if name not in document.BLOCKS]
        if unknown:
            there = ", ".join(document.BLOCKS)
            print(f"machines.py: there is no block {unknown[0]}; there are {there}", file=sys.stderr)
            return 2
    if command == "check" and not names:
        return run_check(check.run_checks(), document.BLOCKS)
    if command == "compare":
        return run_check(check.Checks(), names or document.BLOCKS)
    if command == "print":
        for name in names or document.BLOCKS:
            print(f"{name}:\n\n{document.BLOCKS[name]()}\n")
        return 0
    if command == "update" and not names:
        document.update(document.blocks(document.BLOCKS))
        return 0
    if command == "full" and not names:
        document.update({"full": tables.full_table()})
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
