#!/usr/bin/env python3
"""Copies pageable memory with PyTorch alone, and under "leat run", and prints the rates of both and JSON.

Usage: pageable_torch.py [--leat build/leat] [--device cuda:0] [--repeats 7] [--rounds 2] [--rest-ms 0]

The program starts itself twice for each round, with and without "leat run", in turns. Each copies tensors to the GPU
and back (Tensor.cuda(), Tensor.cpu() into new memory, Tensor.copy_() into memory that exists), loads a safetensors
file, and trains a small network on batches in pageable memory. The bytes of each copy are compared with what they
should be, and the checksums of files and the losses must be the same in all runs; a wrong one is an error. Rates are
medians over all copies of a kind but the first of each run; p90_s is the time that nine of ten copies stay below.
Copies of less than 16 MiB are repeated eight times as often. --rest-ms: a rest before each copy. Without it, PyTorch's
threads still spin from the loop that filled the memory, as they do in a program that copies what it has just computed;
with 20 ms they sleep.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

SIZES = (64 << 10, 1 << 20, 4 << 20, 64 << 20, 1 << 30)


def crc(tensor):
    return zlib.crc32(tensor.cpu().contiguous().view(-1).numpy().tobytes())


def child(device, repeats, rest_ms, path):
    """Prints one line of JSON: the seconds of each kind of copy, and checksums."""
    import torch
    from safetensors.torch import load_file

    torch.manual_seed(1)
    times, sums = {}, {}

    def timed(name, work):
        torch.cuda.synchronize()
        time.sleep(rest_ms / 1e3)
        start = time.perf_counter()
        result = work()
        torch.cuda.synchronize()
        times.setdefault(name, []).append(time.perf_counter() - start)
        return result

    for size in SIZES:
        pattern = torch.arange(size // 4, dtype=torch.int32)
        for i in range(8 * repeats if size < 16 << 20 else repeats if size < 1 << 30 else 3):
            source = pattern + i
            there = timed(f"cuda {size}", lambda: source.cuda(device))
            back = timed(f"cpu {size}", lambda: there.cpu())
            timed(f"copy_ out {size}", lambda: source.copy_(there.neg()))
            timed(f"copy_ in {size}", lambda: there.copy_(source))
            expected = pattern + i
            wrong = not torch.equal(back, expected) or not torch.equal(source, -expected)
            sums[f"{size} {i}"] = "wrong" if wrong or not torch.equal(there.cpu(), -expected) else "right"
            del there, back
    for i in range(3):
        loaded = timed(f"load_file {os.path.getsize(path)}", lambda: load_file(path, device=device))
        sums[f"load {i}"] = [crc(tensor) for tensor in loaded.values()]
        del loaded
    model = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = [torch.randn(1024, 1024) for _ in range(8)]
    torch.use_deterministic_algorithms(True)
    for step in range(40):
        def train():
            optimizer.zero_grad()
            loss = model(batches[step % 8].to(device, non_blocking=True)).square().mean()
            loss.backward()
            optimizer.step()
            return loss.item()
        sums[f"loss {step}"] = timed("training step", train)
    print(json.dumps({"times": times, "sums": sums, "torch": torch.__version__,
                      "device": torch.cuda.get_device_name(device)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leat", default="build/leat")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rest-ms", type=float, default=0)
    parser.add_argument("--child", metavar="FILE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.device, args.repeats, args.rest_ms, args.child)
    import torch
    from safetensors.torch import save_file

    found, report = {"alone": [], "leat run": []}, ""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        save_file({f"t.{i}": torch.arange(i, i + (32 << 20), dtype=torch.int32) for i in range(8)}, path)
        environment = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8")
        for _ in range(args.rounds):
            for way in found:
                prefix = [args.leat, "run", "--report", os.path.join(folder, "report"), "--"] if way != "alone" else []
                ran = subprocess.run([*prefix, sys.executable, __file__, "--device", args.device, "--repeats",
                                      str(args.repeats), "--rest-ms", str(args.rest_ms), "--child", path],
                                     env=environment, check=True, capture_output=True, text=True)
                found[way].append(json.loads(ran.stdout.splitlines()[-1]))
        with open(os.path.join(folder, "report"), encoding="utf-8") as file:
            report = file.read()
    first = found["alone"][0]
    wrong = [name for way in found for one in found[way] for name in one["sums"]
             if one["sums"][name] != first["sums"][name] or one["sums"][name] == "wrong"]
    rows = {}
    for name in first["times"]:
        samples = {way: sorted(s for one in ones for s in one["times"][name][1:]) for way, ones in found.items()}
        seconds = {way: statistics.median(ones) for way, ones in samples.items()}
        rows[name] = {"alone_s": seconds["alone"], "leat_run_s": seconds["leat run"],
                      "alone_p90_s": samples["alone"][len(samples["alone"]) * 9 // 10],
                      "leat_run_p90_s": samples["leat run"][len(samples["leat run"]) * 9 // 10],
                      "times_as_fast": seconds["alone"] / seconds["leat run"]}
        if name.rpartition(" ")[2].isdigit():
            size = int(name.rpartition(" ")[2])
            rows[name].update(alone_gb_s=size / seconds["alone"] / 1e9, leat_run_gb_s=size / seconds["leat run"] / 1e9)
    print(json.dumps({"device": first["device"], "torch": first["torch"], "repeats": args.repeats,
                      "rest_ms": args.rest_ms, "rounds": args.rounds, "wrong": sorted(set(wrong)), "rows": rows, "report": report.splitlines()},
                     indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
