#!/usr/bin/env python3
"""Trains two models in PyTorch with its own allocator and with leat's. The allocators take turns, run by run.

    pytorch_programs.py RECORD --leat BUILD [--repeat 5] [--steps 60] [--programs resnet50,gpt2]

resnet50: torchvision's, batches of 32, 40, 48, 56 and 64 images of 224 by 224 in turns, bf16 (autocast), SGD with
momentum. gpt2: 124 million parameters, 8 sequences of 256, 352, 448, 544 and 640 tokens in turns, bf16 (autocast),
AdamW.

Each run is a process: 10 steps to warm up, then --steps steps, which are timed together and one by one, without waits
for the GPU in between. The memory in use is how much less free memory the driver reports than before the process
began, which includes the context and the libraries' own memory. It is read after each step, and the maximum counts:
allocators keep their memory, so that is their peak.

Allocators: PyTorch's with its default settings, PyTorch's with expandable_segments:True, leat's default pool through
torch_allocator.c, and the same with a plan, which "leat plan" makes from a first run recorded by
LEAT_RECORD_ALLOCATIONS. BUILD is the folder of libleat.so and the command leat. The losses must be the same with
every allocator; the first ten are compared. Needs torch, torchvision and transformers.
"""
import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import traceback

# Without this, torch.cuda.is_available() initializes CUDA, and a forked process could not use it.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"

import torch
import torchvision
import transformers

import record

ALLOCATORS = ["native", "expandable", "leat", "leat, planned"]
WARM_UP_STEPS, COMPARED_STEPS = 10, 10
MIB = 1 << 20


def resnet50():
    """Returns a function that runs the training step of a given number."""
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = [32, 40, 48, 56, 64]
    data = torch.randn(max(batches), 3, 224, 224).pin_memory()
    labels = torch.randint(0, 1000, (max(batches),)).pin_memory()

    def step(number):
        count = batches[number % len(batches)]
        images = data[:count].cuda(non_blocking=True).to(memory_format=torch.channels_last)
        wanted = labels[:count].cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def gpt2():
    """The same for GPT-2; see resnet50()."""
    config = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    model = transformers.GPT2LMHeadModel(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    lengths = [256, 352, 448, 544, 640]
    data = torch.randint(0, config.vocab_size, (8, max(lengths))).pin_memory()

    def step(number):
        tokens = data[:, : lengths[number % len(lengths)]].cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens, labels=tokens).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


PROGRAMS = {"resnet50": resnet50, "gpt2": gpt2}


def use_leat(library):
    """Makes torch_allocator.c PyTorch's allocator. Returns the library, which has functions for statistics."""
    allocator = torch.cuda.memory.CUDAPluggableAllocator(str(library), "leat_torch_alloc", "leat_torch_free")
    functions = ctypes.CDLL(str(library))
    use = ctypes.cast(functions.leat_torch_use, ctypes.c_void_p).value
    allocator.allocator().set_record_stream_fn(use)
    torch.cuda.memory.change_current_allocator(allocator)
    return functions


def leat_statistics(functions):
    """Returns the default pool's statistics as a dictionary; {} without leat."""
    if not functions:
        return {}
    text = ctypes.create_string_buffer(4096)
    functions.leat_torch_statistics(0, text, ctypes.c_size_t(len(text)))
    return json.loads(text.value)


def measure(program, allocator, library, steps):
    """Executes one run in the calling process."""
    functions = None
    if allocator == "expandable":
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    elif allocator.startswith("leat"):
        functions = use_leat(library)
    torch.manual_seed(1)
    step = PROGRAMS[program]()
    total = torch.cuda.mem_get_info()[1]
    used, losses, ends = 0, [], []

    for number in range(WARM_UP_STEPS):
        losses.append(step(number))
        used = max(used, total - torch.cuda.mem_get_info()[0])
    torch.cuda.synchronize()
    before = leat_statistics(functions)
    begun = time.perf_counter()
    for number in range(steps):
        losses.append(step(WARM_UP_STEPS + number))
        ends.append(time.perf_counter())
    torch.cuda.synchronize()
    whole = time.perf_counter() - begun
    used = max(used, total - torch.cuda.mem_get_info()[0])
    if allocator == "expandable" and not any(s["is_expandable"] for s in torch.cuda.memory_snapshot()):
        raise RuntimeError("the setting expandable_segments:True was not followed")
    after = leat_statistics(functions)
    each = [(end - begin) * 1e3 for begin, end in zip([begun] + ends, ends)]
    result = {
        "ms_a_step": whole / steps * 1e3,
        "host_ms_median": statistics.median(each),
        "host_ms_worst": max(each),
        "used_bytes": used,
        "losses": [loss.item() for loss in losses[:COMPARED_STEPS]],
    }
    if functions:
        result["leat"] = after
        result["leat_while_timed"] = {
            name: after[name] - before[name]
            for name in ("allocations", "cache_hits", "driver_calls", "driver_ns", "pages_stitched_bytes",
                         "events", "queries", "stream_waits", "host_waits", "stitches", "planned")
        }  # fmt: skip
        functions.leat_torch_close()
    return result


def run(program, allocator, library, steps, variables):
    """Executes one run in a forked process, so that PyTorch is loaded only once."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            try:
                os.close(reading)
                os.environ.update(variables)
                result = measure(program, allocator, library, steps)
                with os.fdopen(writing, "w", encoding="utf-8") as file:
                    json.dump(result, file)
                status = 0
            except BaseException:
                traceback.print_exc()
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as file:
        text = file.read()
    status = os.waitpid(child, 0)[1]
    if status or not text:
        raise RuntimeError(f"{program} on {allocator}: the process ended with {status}")
    return json.loads(text)


def make_plan(program, library, leat, steps, folder):
    """Records a run and plans it. Returns the plan's path and the result of the recorded run."""
    trace, plan = folder / f"{program}.csv", folder / f"{program}.plan"
    recorded = run(program, "leat", library, steps, {"LEAT_RECORD_ALLOCATIONS": str(trace)})
    subprocess.run([str(leat / "leat"), "plan", str(trace), "-o", str(plan)], check=True)
    return plan, recorded


def agree(first, other):
    """Returns True if the losses of two runs agree, up to differences from the order of additions."""
    return all(abs(a - b) <= 0.02 * max(abs(a), abs(b)) for a, b in zip(first, other))


def build_library(folder, leat):
    """Compiles torch_allocator.c and returns the library's path."""
    library = folder / "libtorch_allocator.so"
    subprocess.run(
        [os.environ.get("CC", "cc"), "-std=c11", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", "-pthread",
         str(record.HERE / "torch_allocator.c"), "-o", str(library), f"-I{record.ROOT / 'include'}",
         "-isystem", str(record.CUDA_HOME / "include"), f"-L{leat}", f"-Wl,-rpath,{leat}", "-lleat"],
        check=True,
    )  # fmt: skip
    return library


def summarize(runs):
    """Prints a line for each program and allocator."""
    rows = []
    for program, allocator in dict.fromkeys((one["program"], one["allocator"]) for one in runs):
        of_it = [one for one in runs if (one["program"], one["allocator"]) == (program, allocator)]
        rows.append(
            {
                "program": program,
                "allocator": allocator,
                "ms_a_step": sorted(round(one["ms_a_step"], 2) for one in of_it),
                "ms_a_step_median": round(statistics.median(one["ms_a_step"] for one in of_it), 2),
                "used_mib": max(one["used_bytes"] for one in of_it) // MIB,
            }
        )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", help="the file to write")
    parser.add_argument("--leat", metavar="BUILD", type=pathlib.Path, required=True, help="where libleat.so and leat are")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each allocator")
    parser.add_argument("--steps", type=int, default=60, help="timed steps of a run")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    options = parser.parse_args()
    leat = options.leat.resolve()
    transformers.GPT2LMHeadModel  # loaded here, once for all runs

    versions = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "torchvision": torchvision.__version__,
        "transformers": transformers.__version__,
    }
    result = record.make("training in PyTorch on its own allocator and on leat's", versions, leat)
    result.update(steps=options.steps, repeat=options.repeat, runs=[], failures=[])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        library = build_library(folder, leat)
        for program in options.programs.split(","):
            plan, recorded = make_plan(program, library, leat, options.steps, folder)
            result["runs"].append({"program": program, "allocator": "leat, recorded", **recorded})
            for _ in range(options.repeat):
                for allocator in ALLOCATORS:
                    variables = {"LEAT_POOL_PLAN": str(plan)} if allocator == "leat, planned" else {}
                    try:
                        one = run(program, allocator, library, options.steps, variables)
                        if not agree(recorded["losses"], one["losses"]):
                            raise RuntimeError(f"{program} on {allocator}: other losses: {one['losses']}")
                    except RuntimeError as error:
                        print(error, flush=True)
                        result["failures"].append(str(error))
                        continue
                    result["runs"].append({"program": program, "allocator": allocator, **one})
                    print(
                        f"{program:<9} {allocator:<14} {one['ms_a_step']:7.2f} ms a step (host: median "
                        f"{one['host_ms_median']:.2f}, worst {one['host_ms_worst']:.2f}), {one['used_bytes'] // MIB} MiB"
                        + (f", {one['leat_while_timed']['driver_calls']} driver calls" if "leat" in one else ""),
                        flush=True,
                    )
            record.write(result, options.record)
    result["summary"] = summarize(result["runs"])
    record.write(result, options.record)
    for row in result["summary"]:
        print(f"{row['program']:<9} {row['allocator']:<15} {row['ms_a_step_median']:7.2f} ms a step, {row['used_mib']} MiB")
    if result["failures"]:
        raise SystemExit(f"{len(result['failures'])} of the runs failed")


if __name__ == "__main__":
    main()
