#!/usr/bin/env python3
"""Puts other programs' figures into the rows of a record of "leat bench layout".

    join_layouts.py LEAT_RECORD OUTPUT PEER_RECORD...

PEER_RECORDs are records of pytorch_layout.py, cutensor_layout.py and similar scripts. OUTPUT is leat's record with the
keys NAME_gb_s and NAME_share_of_copy in each row that a peer has too, and a description of the peers under "peers".
"leat bench --from OUTPUT --picture FILE layout" draws it. Prints leat's speedup over each peer, by suite.
"""
import argparse
import collections
import json
import math


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def join(ours, peer):
    """Adds one peer's figures. Returns leat's rate divided by the peer's, in lists by suite and element size."""
    name, ratios = peer["peer"], collections.defaultdict(list)
    theirs = {(row["part"], row["case"]): row for row in peer["rows"] if row["verified"]}
    for row in ours["rows"]:
        found = theirs.get((row.get("part"), row.get("case")))
        if found is None or "arguments" not in row:
            continue
        row[f"{name}_gb_s"] = round(found["value"], 3)
        row[f"{name}_share_of_copy"] = round(found["share_of_copy"], 5)
        ratios[row["part"].split(":")[0], row["element_bytes"]].append(row["value"] / found["value"])
    kept = ("peer", "what", "date", "device", "driver", "versions", "host", "command", "notes")
    ours.setdefault("peers", []).append({key: peer.get(key) for key in kept})
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leat_record", help="what leat bench layout --output wrote")
    parser.add_argument("output", help="the file to write")
    parser.add_argument("peer_record", nargs="+", help="what a script of this folder wrote")
    options = parser.parse_args()

    ours = load(options.leat_record)
    for path in options.peer_record:
        peer = load(path)
        ratios = join(ours, peer)
        wrong = [row["case"] for row in peer["rows"] if not row["verified"]]
        print(f"leat over {peer['peer']}: geometric mean, lowest, cases")
        for (suite, element_bytes), values in ratios.items():
            mean = math.exp(sum(map(math.log, values)) / len(values))
            print(f"  {suite + ',':<11}{element_bytes:3} B {mean:9.2f} {min(values):9.2f} {len(values):6}")
        if wrong:
            print(f"  left out, since their bytes were wrong: {', '.join(wrong)}")
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(ours, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
