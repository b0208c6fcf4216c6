#!/usr/bin/env python3
"""Compares what the advice of "leat trace" promises with what it saves.

Usage: LEAT_DEVICE=cpu:0 trace_savings.py TRACE_PROGRAMS LEAT [--traces 3] [--rounds 5] [--only NAME,...] [--keep FOLDER]
       [--json FILE]

For each program of bench/trace_programs.c: records its wasteful form by LEAT_TRACE and takes the forecast of the
program's rule from "leat trace --json"; then runs both forms in turns without a trace, each in a new process. The
forecast is the median of the traces, the saving the difference of the medians. Healthy programs are recorded, and must
get no advice. --keep keeps the traces. Times are milliseconds.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile


class Problem(Exception):
    """A program failed, or a trace is wrong."""


def run(command, **more):
    """Runs a command with more environment variables. Returns its output."""
    done = subprocess.run(command, env=os.environ | more, capture_output=True, text=True)
    if done.returncode:
        raise Problem(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def record(options, folder, name, form, number):
    """Records a form of a program. Returns the report of "leat trace"."""
    trace = os.path.join(folder, f"{name}-{number}.trace")
    run([options.programs, name, form], LEAT_TRACE=trace)
    report = json.loads(run([options.leat, "trace", "--json", trace]))
    parts = sum(report[part] for part in ("idle_ns", "copy_ns", "compute_ns", "overlap_ns"))
    if parts != report["span_ns"] or report["lost"] or report["truncated"]:
        raise Problem(f"{trace}: the parts sum to {parts} of {report['span_ns']}, lost {report['lost']}, "
                      f"truncated {report['truncated']}")
    if not options.keep:
        os.unlink(trace)
    return report


def measure(options, folder, name, rule):
    """Measures a program that wastes time. Returns its row of the table."""
    forecasts, other = [], set()
    found = {}
    for number in range(options.traces):
        for advice in record(options, folder, name, "wasteful", number)["advice"]:
            if advice["rule"] == rule:
                found = advice
                forecasts.append(advice["saving_ns"] / 1e6)
            else:
                other.add(f"{advice['rule']} {advice['saving_ns'] / 1e6:.2f}")
    times = [[int(run([options.programs, name, form])) / 1e6 for form in ("wasteful", "repaired")]
             for _ in range(options.rounds)]
    wasteful, repaired = (statistics.median(column) for column in zip(*times))
    forecast = statistics.median(forecasts) if forecasts else 0
    return {"program": name, "rule": rule, "place": found.get("place", ""), "traces_with_rule": len(forecasts),
            "forecasts_ms": forecasts, "forecast_ms": forecast, "wasteful_ms": wasteful, "repaired_ms": repaired,
            "saving_ms": wasteful - repaired, "error": forecast / (wasteful - repaired) - 1, "other": sorted(other),
            "times_ms": times}


def check(options, folder, name):
    """Records a healthy program. Returns its row."""
    advice = [found for number in range(options.traces)
              for found in record(options, folder, name, "healthy", number)["advice"]]
    return {"program": name, "advice": advice}


def tell(row):
    """Prints a row of the table."""
    if "rule" not in row:
        told = ", ".join(f"{found['rule']} {found['saving_ns'] / 1e6:.2f} ms" for found in row["advice"])
        print(f"{row['program']}: {told or 'no advice'}", flush=True)
        return
    print(f"{row['program']:11} {row['rule']:17} {row['wasteful_ms']:9.2f} {row['repaired_ms']:9.2f} "
          f"{row['saving_ms']:9.2f} {row['forecast_ms']:9.2f} {row['error']:+7.0%}  {'; '.join(row['other'])}",
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs")
    parser.add_argument("leat")
    parser.add_argument("--traces", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only")
    parser.add_argument("--keep")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.programs, options.leat = map(os.path.abspath, (options.programs, options.leat))
    rows, status = [], 0
    print(f"{'program':11} {'rule':17} {'wasteful':>9} {'repaired':>9} {'saving':>9} {'forecast':>9} {'error':>7}"
          "  other advice")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        for line in run([options.programs]).splitlines():
            name, rule = line.split()[:2]
            if options.only and name not in options.only.split(","):
                continue
            try:
                rows.append(check(options, folder, name) if rule == "-" else measure(options, folder, name, rule))
                tell(rows[-1])
            except Problem as problem:
                print(f"{name}: {problem}", flush=True)
                status = 1
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return status


sys.exit(main())
