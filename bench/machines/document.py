"""Writes the blocks of docs/machines.md, and checks that the document is as the program prints it.

A block is what stands between "<!-- figures: NAME -->" and "<!-- /figures -->". Numbers in the text around the blocks
must be numbers of a block too.
"""
import functools
import os
import re

import pictures
import sentences
import tables

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n)(.*?)(<!-- /figures -->)", re.S)
NUMBER = re.compile(r"(?<![\w.#/^-])\d+(?:\.\d+)?(?![\w]|\.\d)")
RECORDED = ("full",)  # blocks that take minutes: only "machines.py full" writes them anew


@functools.lru_cache(maxsize=None)
def gather_results():
    return tables.gather_results()


@functools.lru_cache(maxsize=None)
def slow_results():
    return tables.slow_results()


# The text of each block: functions, since some of them simulate for a while.
BLOCKS = {
    "conclusions": lambda: sentences.conclusions(gather_results(), slow_results()),
    "ways": tables.ways_table,
    "sizes": tables.sizes_table,
    "rails": tables.rails_table,
    "inside": tables.inside_table,
    "chunk": tables.chunk_table,
    "window": tables.window_table,
    "ring": tables.ring_table,
    "memory": tables.memory_table,
    "cores": tables.cores_table,
    "limits": tables.limits_table,
    "small": sentences.small_machine,
    "gather": lambda: tables.gather_table(gather_results()),
    "slow": lambda: tables.slow_table(slow_results()),
    "failures": tables.failures_table,
    "repair": lambda: tables.repair_table(tables.repair_results()),
    "inputs": tables.inputs_table,
    "agreement": tables.agreement_table,
    "sensitivity": tables.sensitivity_table,
    "outside": sentences.outside,
}


def blocks(names):
    """The text of the blocks with these names."""
    return {name: BLOCKS[name]() for name in names}


def read(name):
    with open(os.path.join(DOCS, name), encoding="utf-8") as file:
        return file.read()


def write(name, text):
    with open(os.path.join(DOCS, name), "w", encoding="utf-8") as file:
        file.write(text)


def update(new_blocks):
    """Replaces the blocks of the document, and the pictures."""
    text = read("machines.md")
    contents = {name: block + "\n" for name, block in new_blocks.items()}
    write("machines.md", BLOCK.sub(lambda m: m[1] + contents.get(m[2], m[3]) + m[4], text))
    for name, draw in pictures.PICTURES.items():
        write(name, draw())


def differences(new_blocks):
    """What is not as the program prints it, as a list of texts."""
    text = read("machines.md")
    found = {match[2]: match[3].rstrip("\n") for match in BLOCK.finditer(text)}
    wrong = [f"docs/machines.md: block {name} is not what the program prints" for name in new_blocks
             if found.get(name) != new_blocks[name]]
    wrong += [f"docs/machines.md: the program has no block {name}" for name in found
              if name not in BLOCKS and name not in RECORDED]
    recorded = [row.split(" | ")[4] for row in found.get("full", "").split("\n")[2:]]
    if recorded != tables.full_on_paper():
        wrong.append("docs/machines.md: block full is of other closed forms: bench/machines/machines.py full writes it")
    known = set(NUMBER.findall(" ".join(found.values()).replace("\u00a0", "")))
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)|<!--.*?-->", " ", BLOCK.sub("", text), flags=re.S)
    prose = re.sub(r"^ {4}.*$|^\d+\. ", "", prose, flags=re.M)
    wrong += [f"docs/machines.md: {number} is in the text, but in no block" for number in
              sorted(set(NUMBER.findall(prose)) - known)]
    wrong += [f"docs/{name} is not what the program draws" for name, draw in pictures.PICTURES.items()
              if not os.path.exists(os.path.join(DOCS, name)) or read(name) != draw()]
    return wrong
