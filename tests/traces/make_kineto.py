#!/usr/bin/env python3
"""Writes kineto_small.json: a made trace in the form of PyTorch's profiler, with a loop that allocates, copies
pageable memory, computes, waits and frees. Its figures are known, since all lengths are given here."""
import json
import sys

events, correlation = [], 1
now = device_free = 1000.0  # microseconds


def call(name, length):
    global now
    events.append({"ph": "X", "cat": "cuda_runtime", "name": name, "ts": now, "dur": length, "pid": 1, "tid": 7,
                   "args": {"correlation": correlation}})
    now += length


def work(category, name, length, **args):
    """Begins 2 us after its call, and behind the work before it."""
    global device_free
    begin = max(device_free, now) + 2.0
    events.append({"ph": "X", "cat": category, "name": name, "ts": begin, "dur": length, "pid": 0, "tid": 7,
                   "args": {"device": 0, "stream": 7, "correlation": correlation, **args}})
    device_free = begin + length


events.append({"ph": "X", "cat": "user_annotation", "name": "step <1>", "ts": 1000.0, "dur": 9000.0, "pid": 1, "tid": 7})
call("cudaMemcpyAsync", 5)
work("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 100, bytes=5000000)
correlation += 1
for _ in range(40):
    call("cudaMalloc", 60)
    correlation += 1
    call("cudaMemcpyAsync", 5)
    work("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 80, bytes=400000)
    correlation += 1
    call("cudaLaunchKernel", 6)
    work("kernel", "void gemm<float>(int)", 30)
    correlation += 1
    call("cudaDeviceSynchronize", max(0, device_free - now) + 3)
    correlation += 1
    call("cudaFree", 20)
    correlation += 1
json.dump({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "made"}], "traceEvents": events}, sys.stdout)
