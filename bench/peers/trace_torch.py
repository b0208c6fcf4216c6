"""trace_torch.py - a training program of about 1000 operations a step, to compare recorders.

    python3 trace_torch.py                                   # alone
    leat run --trace step.trace python3 trace_torch.py       # recorded by leat
    python3 trace_torch.py --profiler step.json              # recorded by PyTorch's profiler

Each step copies a batch from pinned and one from pageable memory, runs a transformer forward and backward and a plain
optimizer, and reads the loss. "steady" is the range (of NVTX and of the profiler) with the steps that count: --steps of
a large batch, in which the GPU is busy, and then as many ranges "small" of a small one, in which the host is the limit.
The last line of the output is the median step of both in milliseconds, as JSON.
"""
import argparse
import json
import statistics
import time

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--profiler", help="records by PyTorch's profiler to this file")
    options = parser.parse_args()
    torch.manual_seed(1)
    profiler = None
    if options.profiler:
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        profiler = torch.profiler.profile(activities=activities)
        profiler.start()
    layers = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True), 12,
        enable_nested_tensor=False).cuda()
    optimizer = torch.optim.SGD(layers.parameters(), lr=1e-4, momentum=0.9, foreach=False)
    result = {}
    for name, batch in (("steady", 48), ("small", 1)):
        pinned = torch.randn(batch, 256, 512).pin_memory()
        pageable = torch.randn(batch, 256, 512)
        target = torch.zeros(batch, 256, 512, device="cuda")

        def step():
            given = pinned.cuda(non_blocking=True)
            wanted = target + pageable.cuda()
            loss = torch.nn.functional.mse_loss(layers(given), wanted)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.item()

        for _ in range(5):
            step()
        torch.cuda.synchronize()
        times = []
        torch.cuda.nvtx.range_push(name)
        with torch.profiler.record_function(name):
            for _ in range(options.steps):
                begin = time.perf_counter()
                step()
                times.append((time.perf_counter() - begin) * 1e3)
            torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
        result[name + "_ms"] = round(statistics.median(times), 3)
    if profiler:
        profiler.stop()
        profiler.export_chrome_trace(options.profiler)
    print(json.dumps(result))


main()
