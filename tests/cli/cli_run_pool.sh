#!/bin/sh
# cli_run_pool.sh - "leat run --pool": a client that allocates device memory in every form (tests/dropin/memory.c) must
# print the same with and without it, over a fake driver and over leat's own driver names on the CPU device.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
. ./run_clients.sh

# pooled DRIVER WAY SCENE: the client of device memory must print the same with and without --pool, and $also.
pooled() {
    asked="--pool $also: $*"
    with "$1" env CUDA_VISIBLE_DEVICES=0 FAKE_CUDA=devices=1 "$clients/memory" "$2" "$3" >"$work/plain" 2>"$work/err" ||
        fail "$asked: failed without leat"
    with "$1" env CUDA_VISIBLE_DEVICES=0 FAKE_CUDA=devices=1 LEAT_FAULT="$fault" "$leat" run --pool $also --report "$work/report" \
        "$clients/memory" "$2" "$3" >"$work/out" 2>"$work/err" || fail "$asked: failed"
    cmp -s "$work/plain" "$work/out" || {
        fail "$asked: the output differs"
        diff "$work/plain" "$work/out" | head -n 20
    }
}

fault= also=
for driver in fake names; do
    for way in dlsym thread proc proc_thread; do
        pooled $driver $way forms
        has ' and 132 device allocations, 288.4 MiB, went through leat$'
        has '^cuMemAlloc  *12 .* leat$'
        has '^cuMemAlloc  *24 .* driver: leat had kept no memory of this size$'
        has '^cuMemAllocPitch  *12 .* leat$'
        has '^cuMemAllocAsync  *72 .* leat$'
        has '^cuMemAllocFromPoolAsync  *36 .* leat$'
        has "^cuMemAllocFromPoolAsync  *36 .* driver: a pool of the program's own$"
        has '^cuMemFree  *60 .* leat$'
        has '^cuMemFreeAsync  *72 .* leat$'
        has '^cuMemFreeAsync  *48 .* driver: memory of cuMemAlloc, which the driver frees in stream order$'
    done
    for way in dlsym proc_thread; do
        pooled $driver $way order
        has '^cuMemAllocAsync  *16 .* leat$'
        pooled $driver $way threads
        pooled $driver $way streams
    done
    pooled $driver dlsym live
    has '^cuMemFree  *100 .* leat$'
    pooled $driver dlsym capture
    has '^cuMemAllocAsync  *3 .* driver: a stream is capturing$'
    has '^cuMemAlloc  *3 .* driver: a stream is capturing$'
    pooled $driver dlsym contexts
    pooled $driver dlsym pools
    has "^cuMemAllocAsync  *1 .* driver: a pool of the program's own$"
    pooled $driver dlsym shared
    has '^cuMemFree  .* driver: the memory was shared, or has attributes of its own$'
    pooled $driver dlsym full
    has "^cuMemAllocAsync  .* driver: leat's pool could get no more memory$"
    has '^cuMemFree  .* driver: leat keeps much memory already$'
    pooled $driver dlsym processes
done
# A copy waits in its stream for a thread that first allocates. Not over the fake driver, whose host functions hold its
# lock. --least: a busy machine would leave the copies to the driver.
also='--least 1M'
pooled names dlsym beside
has '^cuMemcpyHtoDAsync  *2 .* leat$'
has '^cuMemAllocAsync  *1 .* leat$'
also=
pooled fake dlsym contexts
has "^cuMemAlloc  .* driver: the context is not the device's primary one$"
# Each call of the driver fails once.
pooled fake dlsym fails
has '^cuMemAllocAsync  .* leat$'
grep -q '^fine: 1$' "$work/out" || fail 'with a failing driver: wrong results'
# The scene of the order notices a pool that does not wait for a stream.
with names env CUDA_VISIBLE_DEVICES=0 LEAT_FAULT=cuda:query-ready "$leat" run --pool --report "$work/report" \
    "$clients/memory" dlsym order >"$work/out" 2>"$work/err" || fail 'with the fault query-ready: failed'
grep -q '^right 0$' "$work/out" || fail 'a pool that does not wait is not noticed'
# Each call of leat's to the driver fails once: the program sees nothing of it.
for entry in vm_reserve vm_create vm_map event_create event_record event_query stream_adopt; do
    for n in $($sanitized && echo 1 || echo 1 4); do
        fault="cuda:fail=$entry:$n"
        pooled names dlsym threads
    done
done
fault=
# A trace by events has the calls of the program, each once, and changes nothing for it.
also="--trace $work/t --cupti none"
for driver in fake names; do
    for scene in forms order threads live capture contexts pools shared full; do
        pooled $driver proc_thread $scene
    done
    pooled $driver dlsym forms
    has ' and 132 device allocations, 288.4 MiB, went through leat$'
    run 0 trace --html "$work/page" "$work/t"
    for name in cuMemAlloc cuMemAllocPitch cuMemFree cuMemAllocAsync cuMemAllocFromPoolAsync cuMemFreeAsync; do
        grep -qF "\"$name\"" "$work/page" || fail "$asked: the trace lacks $name"
    done
    grep -qF 'leat_pool_alloc' "$work/page" && fail "$asked: the trace has the allocation of a call, and the call"
done
# A trace by CUPTI has the allocations of leat's pool by their name there.
also="--trace $work/t --cupti $clients/cupti/libcupti.so.13"
pooled fake dlsym forms
has 'trace by CUPTI 130001, '
run 0 trace --html "$work/page" "$work/t"
grep -qF '"leat_pool_alloc"' "$work/page" || fail "$asked: the trace lacks leat_pool_alloc"
also=
# With several GPUs, other devices may be given access to memory of the default pool.
asked='--pool with several GPUs'
with fake "$leat" run --pool --report "$work/report" "$clients/memory" dlsym forms >"$work/out" 2>"$work/err" ||
    fail "$asked: failed"
has '^cuMemAllocAsync  *72 .* driver: there are several GPUs, and others may use the memory$'
has '^cuMemAlloc  *12 .* leat$'
# --log observes; without --pool nothing is replaced.
asked='--pool --log'
with fake env FAKE_CUDA=devices=1 "$leat" run --pool --log --report "$work/report" "$clients/memory" dlsym forms \
    >"$work/out" 2>"$work/err" || fail "$asked: failed"
with fake env FAKE_CUDA=devices=1 "$clients/memory" dlsym forms | cmp -s - "$work/out" || fail "$asked: other results"
has ' device allocations, .* would go through leat$'
sed 1d "$work/report" | grep -q ' leat$' && fail '--pool --log served an allocation'
with fake env FAKE_CUDA=devices=1 "$leat" run --report "$work/report" "$clients/memory" dlsym forms >"$work/out" 2>"$work/err" ||
    fail 'without --pool: failed'
grep -q -e 'device alloc' -e '^cuMemAlloc ' -e '^cuMemFree' "$work/report" && fail 'without --pool: allocations are counted'
finish
