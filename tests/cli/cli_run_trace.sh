#!/bin/sh
# cli_run_trace.sh - "leat run --trace": what it records of a program for the CUDA driver (tests/dropin/traced.c), over a
# fake driver, by a CUPTI made by hand (tests/dropin/made_cupti.c), with each of its failures, and by events.
#
# LEAT_COMMAND is the command; the program is beside it, in tests/dropin/.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
build=$(dirname "$leat")
clients=$build/tests/dropin
unset LD_PRELOAD LEAT_DRIVERS LEAT_TRACE NVTX_INJECTION64_PATH

# record STATUS DRIVER CUPTI OPTIONS... -- SCENE: runs the program under leat run --trace. DRIVER: fake or names. CUPTI:
# cupti, cupti-old or none. The report is in $work/report, the trace in $work/t.
record() {
    wanted=$1 driver=$2 cupti=$3
    shift 3
    asked="$driver $cupti $* ($MADE_CUPTI)"
    rm -f "$work"/t*
    env LD_LIBRARY_PATH="$clients/$driver:$clients/$cupti:$build" LEAT_DEVICE=cpu:0 \
        ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0:handle_segv=0:$ASAN_OPTIONS" \
        LEAT_CUDA_LIBRARY="$clients/$driver/libcuda.so.1" \
        "$leat" run --least 1M --report "$work/report" --trace "$work/t" "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ $code -eq "$wanted" ] || fail "$asked: exit status $code instead of $wanted"
}

has() {
    grep -qF -- "$1" "$work/report" || {
        fail "the report of $asked lacks: $1"
        sed 's/^/      | /' "$work/report"
    }
}

# figures FILE WANTED...: the JSON of the trace has these lines.
figures() {
    file=$1
    shift
    run 0 trace --json "$file" || return
    for line; do
        grep -qF -- "$line" "$work/out" || fail "the trace of $asked lacks $line"
    done
}

traced=$clients/traced

# ---- by CUPTI -----------------------------------------------------------------------------------------------------

# 3 short copies, 1 between devices, and 2 by leat, of which CUPTI tells too; a launch with 3 kernels, as of a graph.
record 0 fake cupti -- "$traced" step
[ "$(cat "$work/out")" = 'bytes: right' ] || fail "$asked: other output"
has 'trace by CUPTI 130001, /'
figures "$work/t" '"by": "CUPTI"' '"lost": 0' '"truncated": false' '"copies": 6' '"copy_bytes": 8401408' '"kernels": 5' \
    '"number": 7,' '"number": 13,'
# Names of kernels as in the source, ranges of NVTX, calls of the runtime around those of the driver.
run 0 trace --html "$work/page" "$work/t"
for name in 'kernel(float*, int)' '"step"' '"by attributes"' '"wide ?"' '"registered"' '"cudaLaunchKernel"' \
    leat_copy_sync 'recorded by'; do
    grep -qF -- "$name" "$work/page" || fail "the page lacks $name"
done
grep -q 'before CUDA' "$work/page" && fail 'a range that began before the trace is in it'
run 0 trace "$work/t" && grep -q "^CUDA's calls and work: by CUPTI 130001, /" "$work/out" || fail 'the tables do not say CUPTI'
run 0 trace --json --range 'by attributes' "$work/t" && grep -q '"kernels": 5' "$work/out" || fail 'the range is not cut out'
run 1 trace --range nothing "$work/t" && says "it has no range 'nothing'"

# The thread of a copy by leat has ended when CUPTI tells of the calls in it.
record 0 fake cupti -- "$traced" thread
[ "$(cat "$work/out")" = 'bytes: right' ] || fail "$asked: other output"
figures "$work/t" '"by": "CUPTI"' '"copies": 6' '"copy_bytes": 8401408' '"kernels": 5'

# The constructor of a library may use CUDA while another thread begins the trace.
record 0 fake cupti -- "$traced" plugin "$build/tests/plugin.so"
[ "$(cat "$work/out")" = "$(printf 'cuInit: 0 0\nbytes: right')" ] || fail "$asked: other output"
figures "$work/t" '"by": "CUPTI"' '"kernels": 5'

# The library is found by its name, by its path, and in a process that has it loaded.
record 0 fake none --cupti "$clients/cupti/libcupti.so.13" -- "$traced" step
has 'trace by CUPTI 130001, '
# By a relative path, also if the program starts in another folder.
cupti=$(cd "$clients" && cd cupti && pwd)/libcupti.so.13
(cd / && record 0 fake none --cupti ".$cupti" -- sh -c 'cd /tmp && exec "$0" step' "$traced" && has 'trace by CUPTI 130001, '
    [ "$failures" -eq 0 ]) || fail 'a relative path of CUPTI'

# ---- CUPTI cannot record: events, and the reason ----------------------------------------------------------------------

# by_events REASON: the report and the trace name it.
by_events() {
    has 'trace by events around the calls that leat sees, and not by CUPTI: '
    has "$1"
    figures "$work/t" '"by": "events"' '"lost": 0' '"truncated": false' '"copies": 5' '"kernels": 3'
}
record 0 fake none --cupti none -- "$traced" step
by_events 'leat run --cupti none'
run 0 trace "$work/t" && grep -q 'by events around the calls that leat sees, and not by CUPTI: leat run' "$work/out" ||
    fail 'the tables do not say events'
record 0 fake none --cupti "$work/none/libcupti.so" -- "$traced" step
by_events "$work/none/libcupti.so cannot be loaded"
record 0 fake cupti-old --cupti libcupti.so.13 -- "$traced" step
by_events 'it has no function cuptiSetThreadIdType'
record 0 fake cupti --cupti libcupti.so.13 -- "$traced" tool
by_events 'another tool uses CUPTI in this process'
for version in 17 29 129999 130600; do
    MADE_CUPTI=version=$version record 0 fake cupti --cupti libcupti.so.13 -- "$traced" step
    by_events "it is of version $version, and this leat reads the records of 18 to 28"
done
MADE_CUPTI=subscribe=15 record 0 fake cupti --cupti libcupti.so.13 -- "$traced" step
by_events 'cuptiSubscribe failed with 15, MADE_NOT_INITIALIZED'
MADE_CUPTI=clock=1 record 0 fake cupti --cupti libcupti.so.13 -- "$traced" step
by_events 'cuptiActivityRegisterTimestampCallback failed with 1, MADE_RESULT'
MADE_CUPTI=enable=15 record 0 fake cupti --cupti libcupti.so.13 -- "$traced" step
by_events 'cuptiActivityEnable failed with 15'

# ---- buffers --------------------------------------------------------------------------------------------------------

MADE_CUPTI=refuses=1 record 0 fake cupti -- "$traced" step
grep -qx 'buffers end: with none' "$work/out" || fail 'leat takes memory for buffers without an end'
figures "$work/t" '"kernels": 5' '"lost": 0'
MADE_CUPTI=refuses=1,version=26 record 0 fake cupti -- "$traced" step
grep -qx 'buffers end: with a small one' "$work/out" || fail 'an old CUPTI got no buffer'
MADE_CUPTI=dropped=5 record 0 fake cupti -- "$traced" step
figures "$work/t" '"kernels": 5' '"lost": 5'
MADE_CUPTI=wrong=1 record 0 fake cupti -- "$traced" step
figures "$work/t" '"lost": 1'
MADE_CUPTI=cut=40 record 0 fake cupti -- "$traced" step
figures "$work/t" '"kernels": 5' '"truncated": false'
MADE_CUPTI=cut=100 record 0 fake cupti -- "$traced" step
figures "$work/t" '"lost": 1'

# ---- the time of a device, by events -----------------------------------------------------------------------------------

# leat's own driver on the CPU device has real times. It has no kernels of the program's.
record 0 names none --cupti none -- "$traced" step
figures "$work/t" '"by": "events"' '"copies": 5' '"lost": 0'
awk '/"copy_busy_ns":/ { found = $2 + 0 > 0; exit } END { exit !found }' "$work/out" || fail 'no times of copies'
# A capture: what is recorded must not end it.
record 0 fake none --cupti none -- "$traced" capture
[ "$(cat "$work/out")" = 'capture: 0' ] || fail 'the recorder ended the capture'
record 0 fake cupti -- "$traced" capture
[ "$(cat "$work/out")" = 'capture: 0' ] || fail 'the recorder ended the capture, by CUPTI'

# ---- processes --------------------------------------------------------------------------------------------------------

MADE_CUPTI=early=1 record 137 fake cupti -- "$traced" kill
figures "$work/t" '"truncated": true' '"kernels": 5' '"by": "CUPTI"'
record 137 fake none --cupti none -- "$traced" kill
figures "$work/t" '"truncated": true' '"kernels": 3'
# The first process with CUDA gets the name, the second adds its number.
for scene in fork exec; do
    MADE_CUPTI=early=1 record 0 fake cupti -- "$traced" $scene
    [ "$(find "$work" -name 't.[0-9]*' | wc -l)" -eq 1 ] || fail "$asked: not two files"
    for file in "$work/t" "$work"/t.[0-9]*; do
        figures "$file" '"kernels": 5' '"by": "CUPTI"'
    done
    [ "$(grep -c 'trace by CUPTI' "$work/report")" -eq 2 ] || fail "$asked: the report does not have two traces"
done
record 0 fake cupti -- "$traced" fork-after
figures "$work/t" '"kernels": 5' '"truncated": false'
(cd "$work" && record 0 fake cupti --trace 'p%p.trace' -- "$traced" fork) || fail 'a name with %p'
[ "$(find "$work" -name 'p[0-9]*.trace' | wc -l)" -eq 2 ] || fail 'a name with %p does not give two files'
[ "$(grep -c 'p[0-9][0-9]*\.trace: trace by' "$work/report")" -eq 2 ] || fail 'the report does not name the files of %p'
mkdir "$work/folder%p"
(cd "$work/folder%p" && run 1 run --trace t true && says 'the name of the current folder has %p' && [ "$failures" -eq 0 ]) ||
    fail 'a folder with %p'

# A program without CUDA leaves no trace.
record 0 fake cupti -- true
[ -e "$work/t" ] && fail 'a program without CUDA has a trace'

# ---- wrong uses ---------------------------------------------------------------------------------------------------------

record 0 fake cupti --trace "$work/none/t" -- "$traced" step
has 'no trace: leat_trace_start: '
usage 'is for --trace, which is missing' run --cupti none true
usage 'needs the name of a file' run --trace '' true
usage 'needs the name of a library' run --trace "$work/t" --cupti '' true
usage '--pool and --trace' run --device cpu:0 --trace "$work/t" true
LEAT_TRACE=$work/other usage 'LEAT_TRACE is set' run --trace "$work/t" true
export LEAT_TRACE && unset LEAT_TRACE
NVTX_INJECTION64_PATH=/none.so record 0 fake cupti -- "$traced" step
grep -q 'NVTX_INJECTION64_PATH is set, so the trace has no ranges of NVTX' "$work/err" || fail 'NVTX is taken over from a tool'
figures "$work/t" '"kernels": 5'

# ---- lookups ------------------------------------------------------------------------------------------------------------

# In a trace the functions of traced_names.h are replaced too, and those that allocate; those only for --pool are not.
here=$(cd ../dropin && pwd)
replaced=$(sed -n '/define DROPIN_POOL_LIST/,/^$/d; s/^ *X(\(cu[A-Za-z0-9_]*\),.*/ \1 /p' "$here/../../dropin/names.h" "$here/../../dropin/traced_names.h")
awk -v replaced="$replaced" '
    function where(symbol) {
        return symbol == "none" ? symbol : (index(replaced, " " symbol " ") ? "run:" : "driver:") symbol
    }
    $1 == "dlsym" { print $1, $2, where($2) }
    $1 == "v2" { print $1, $2, $3, $4, where($5) }' "$here/client_lookups.txt" >"$work/wanted"
grep -q 'run:cuLaunchKernel$' "$work/wanted" || fail 'no client looks up cuLaunchKernel'
record 0 recorded none --cupti none -- "$clients/lookups" "$here/client_lookups.txt"
cmp -s "$work/wanted" "$work/out" || {
    fail 'client lookups in a trace: not as wanted'
    diff "$work/wanted" "$work/out" | head -n 20
}

finish
