#!/bin/sh
# cli_run.sh - "leat run" as a user calls it. Clients of the driver API (tests/dropin/) run with and without it, over a
# fake driver and over leat's own driver names on the CPU device, and must print the same. cli_run_pool.sh tests --pool.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
. ./run_clients.sh

# both STATUS DRIVER CLIENT WAY SCENE: the client must print the same with and without "leat run" and end with the
# same status. The report is in $work/report.
both() {
    asked="$2 $3 $4 $5"
    wanted=$1
    driver=$2
    client=$clients/$3
    shift 3
    with "$driver" "$client" "$@" >"$work/plain" 2>"$work/err"
    code=$?
    [ $code -eq "$wanted" ] || fail "$asked without leat: exit status $code instead of $wanted"
    with "$driver" "$leat" run --least 1M --pinned --report "$work/report" -- "$client" "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ $code -eq "$wanted" ] || fail "$asked: exit status $code instead of $wanted"
    cmp -s "$work/plain" "$work/out" || {
        fail "$asked: the output differs"
        diff "$work/plain" "$work/out" | head -n 20
    }
}

# ---- programs without CUDA ------------------------------------------------------------------------------------

none='leat: run: no CUDA call was made'
run 0 run true && [ "$(cat "$work/err")" = "$none" ] || fail 'true prints more'
[ -s "$work/out" ] && fail 'something went to standard output'
run 3 run -- sh -c 'echo "$1 $2"; exit 3' sh -x --report && [ "$(cat "$work/out")" = '-x --report' ] ||
    fail 'the arguments of the program are not its own'
run 0 run --report "$work/report" sh -c 'true; true' && [ "$(cat "$work/report")" = "$none" ] || fail 'two children'
[ -s "$work/err" ] && fail 'the report went to standard error too'
run 143 run sh -c 'kill -TERM $$' && grep -q '^leat: run: signal 15 (Terminated) ended the program$' "$work/err" ||
    fail 'the signal is not named'
run 130 run sh -c 'exit 130' && [ "$(cat "$work/err")" = "$none" ] || fail 'an exit status is taken for a signal'
if command -v python3 >/dev/null; then
    # The program inherits that SIGCHLD is ignored, and its exit status is known anyway.
    ignoring_children "$leat" run python3 -c 'import signal, sys
sys.exit(3 if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN else 4)' >"$work/out" 2>"$work/err"
    code=$?
    [ $code -eq 3 ] || fail "the exit status is $code if SIGCHLD is ignored"
else
    echo 'skipped: an ignored SIGCHLD: there is no python3'
fi
run 127 run "$work/nothing" && says 'nothing: No such file'
run 127 run leat-has-no-such-program && says 'No such file'
: >"$work/plain.txt"
run 126 run "$work/plain.txt" && says 'Permission denied'
usage 'no program is given' run
usage 'no program is given' run --log
usage 'there is no option --nothing' run --nothing true
usage 'needs a value' run --report
run 1 run --report "$work/none/there" true && says 'none/there: No such file'

# leat in the program must not take what the command passes on for options of its own.
env -i PATH="$PATH" "$leat" run --least 1M --pinned --pool --log --trace "$work/t" --cupti none --report "$work/report" env \
    >"$work/out" 2>"$work/err" || fail 'env does not run'
grep -q '^LEAT_' "$work/out" && fail 'the command sets a variable whose name begins as those of options'

# A signal to the command reaches the program, which ends by it; the report comes all the same.
"$leat" run --least 1M --report "$work/report" sh -c 'trap "exit 9" TERM; echo ready; while :; do sleep 0.05; done' \
    >"$work/out" 2>"$work/err" &
process=$!
until grep -q ready "$work/out"; do sleep 0.05; done
kill -TERM $process
wait $process
[ $? -eq 9 ] || fail 'a signal did not reach the program'
[ "$(cat "$work/report")" = "$none" ] || fail 'no report after a signal'

# What else is preloaded stays.
ASAN_OPTIONS="verify_asan_link_order=0:$ASAN_OPTIONS" LD_PRELOAD=libm.so.6 "$leat" run sh -c 'echo "$LD_PRELOAD"' 2>"$work/err" >"$work/out"
grep -q '^libm.so.6:/.*/libleat-run.so$' "$work/out" || fail 'LD_PRELOAD was replaced'

run 4 run "$clients/client_static" &&
    { grep -q 'client_static is statically linked.*; it ran as without leat$' "$work/err" || fail 'static: not said'; }
printf '\177ELF\001\001\001\000' >"$work/short"
head -c 200 /dev/zero >>"$work/short"
chmod +x "$work/short"
# execvp() gives such a file to the shell, where the system cannot run it.
run 127 run "$work/short" && { grep -q 'short is a 32-bit program' "$work/err" || fail '32 bits: not said'; }
if [ "$(id -u)" = 0 ]; then
    cp "$clients/client_static" "$work/true" && chown 65534 "$work/true" && chmod 4755 "$work/true"
    run 126 run "$work/true" && says 'is setuid'
    printf '#!%s\n' "$(command -v sh)" >"$work/script" && chmod 755 "$work/script"
    run 0 run "$work/script"
else
    echo 'skipped: a setuid program is refused: only root can make one of another user'
fi

# ---- lookups --------------------------------------------------------------------------------------------------

with fake "$leat" run --least 1M --report "$work/report" "$clients/lookups" >"$work/out" 2>"$work/err" ||
    fail 'lookups: failed'
cmp "$here/lookups.txt" "$work/out" || diff "$here/lookups.txt" "$work/out" | head -n 20
cmp -s "$here/lookups.txt" "$work/out" || fail 'lookups: not as in tests/dropin/lookups.txt'
with fake "$clients/lookups" >"$work/plain" 2>"$work/err"
sed 's/run:/driver:/g' "$here/lookups.txt" | cmp -s - "$work/plain" || fail 'lookups: not those of the driver'
# A driver with one function for both kinds of default streams keeps it.
with fake env FAKE_CUDA=one=1 "$clients/lookups" >"$work/plain" 2>"$work/err"
with fake env FAKE_CUDA=one=1 "$leat" run --least 1M --report "$work/report" "$clients/lookups" >"$work/out" 2>"$work/err"
sed 's/run:/driver:/g' "$work/out" | cmp -s - "$work/plain" || fail 'lookups: another kind of default stream'
# cuGetProcAddress() may return other addresses than dlsym().
with fake env FAKE_CUDA=thunks=1 "$leat" run --least 1M --report "$work/report" "$clients/lookups" >"$work/out" 2>"$work/err"
cmp -s "$here/lookups.txt" "$work/out" || fail 'lookups: thunks are not replaced'

# The lookups of real clients: each must find the function that the driver has returned, or its replacement if it is
# in the list of replaced functions.
# Those of device memory are replaced only with --pool.
replaced=$(sed -n '/define DROPIN_MEMORY_LIST/q; s/^ *X(\(cu[A-Za-z0-9_]*\),.*/ \1 /p' "$here/../../dropin/names.h")
with_pool=$(sed -n 's/^ *X(\(cu[A-Za-z0-9_]*\),.*/ \1 /p' "$here/../../dropin/names.h")
[ "$(echo "$replaced" | wc -l)" -ge 26 ] || fail 'client lookups: names.h lists fewer functions than it did'
lookups_with() {
    awk -v replaced="$1" '
        function where(symbol) {
            return symbol == "none" ? symbol : (index(replaced, " " symbol " ") ? "run:" : "driver:") symbol
        }
        $1 == "dlsym" { print $1, $2, where($2) }
        $1 == "v2" { print $1, $2, $3, $4, where($5) }' "$here/client_lookups.txt"
}
lookups_with "$replaced" >"$work/wanted"
lookups_with "$with_pool" >"$work/wanted.pool"
with recorded "$clients/lookups" "$here/client_lookups.txt" >"$work/plain" 2>"$work/err" || fail 'client lookups: failed'
sed 's/run:/driver:/' "$work/wanted" | cmp -s - "$work/plain" || fail 'client lookups: the made driver answers otherwise'
with recorded "$leat" run --report "$work/report" "$clients/lookups" "$here/client_lookups.txt" >"$work/out" \
    2>"$work/err" || fail 'client lookups: failed under leat run'
cmp -s "$work/wanted" "$work/out" || {
    fail 'client lookups: not as wanted'
    diff "$work/wanted" "$work/out" | head -n 20
}
with recorded "$leat" run --pool --report "$work/report" "$clients/lookups" "$here/client_lookups.txt" >"$work/out" \
    2>"$work/err" || fail 'client lookups: failed with --pool'
cmp -s "$work/wanted.pool" "$work/out" || {
    fail 'client lookups: not as wanted with --pool'
    diff "$work/wanted.pool" "$work/out" | head -n 20
}
# The recorder writes what client_lookups.txt has.
with recorded env LD_AUDIT="$clients/record_lookups.so" RECORD_LOOKUPS="$work/record" "$clients/lookups" \
    "$here/client_lookups.txt" >"$work/out" 2>"$work/err" || fail 'client lookups: failed under the recorder'
sed -n '/^#/d; s/ [^ ]*$//p' "$here/client_lookups.txt" | sort -u >"$work/wanted"
sort -u "$work/record" | cmp -s - "$work/wanted" || {
    fail 'client lookups: the recorder writes another record'
    sort -u "$work/record" | diff "$work/wanted" - | head -n 20
}

# ---- the same bytes, the same order -----------------------------------------------------------------------------

# Each way to the driver's functions.
for way in dlsym old global thread proc1 proc2 proc2_thread; do
    both 0 fake client $way copies
    has '; 96 copies, 408.0 MiB, went through leat$'
done
both 0 fake client_linked linked copies
has '; 96 copies, 408.0 MiB, went through leat$'
with fake env FAKE_CUDA=thunks=1 "$leat" run --least 1M --report "$work/report" "$clients/client" proc2 copies >"$work/out"
has '; 96 copies, 408.0 MiB, went through leat$'

for driver in fake names; do
    both 0 $driver client dlsym copies
    has '^leat: run: 1 process with CUDA; 96 copies, 408.0 MiB, went through leat$'
    has '^cuMemcpyHtoD  *12  *51.0 MiB  *[0-9.]*  *[0-9.]* leat$'
    has '^cuMemcpyHtoD  *12  *3.0 MiB  *-  *- driver: too short for leat'
    has '^cuMemcpyDtoHAsync  *12  *51.0 MiB  *[0-9.]*  *[0-9.]* leat$'
    both 0 $driver client_linked linked order
    has '; 36 copies, 324.0 MiB, and 1 pinned allocation, 9.0 MiB, went through leat$'
    both 0 $driver client proc2_thread copies
    both 0 $driver client dlsym rows
    has '^cuMemcpy2D  .* leat$'
    has '^cuMemcpy2DUnaligned  .* leat$'
    has '^cuMemcpy2DAsync  .* leat$'
    has '^cuMemcpy2D  .* driver: a side is an array, or the rows are short'
    both 0 $driver client dlsym others
    has '^cuMemcpyHtoD  .* driver: the host side is pinned or registered$'
    has '^cuMemcpyDtoH  .* driver: the host side is pinned or registered$'
    has '^cuMemcpy  .* driver: managed memory$'
    has '^cuMemcpy  .* driver: both sides are on a device$'
    has '^cuMemcpyHtoD  *1 .* driver: leat could not make the copy$'
    has '^leat: process [0-9]*: leat_copy_sync .* go past the end of the device allocation'
    both 0 $driver client dlsym pinned
    has ', and 6 pinned allocations, .* MiB, went through leat$'
    has '^cuMemHostAlloc  *5 .* leat$'
    has '^cuMemAllocHost  *1 .* leat$'
    has '^cuMemFreeHost  *6 .* leat$'
    has '^cuMemHostAlloc  *1 .* driver: too short for leat'
    has '^cuMemHostAlloc  *1 .* driver: write-combined memory$'
    has '^cuMemHostAlloc  *1 .* driver: no context is current$'
    has '^cuMemHostAlloc  .* driver: leat could not make the allocation$'
    both 0 $driver client dlsym pinned-ends
    for way in dlsym proc2 proc2_thread; do
        both 0 $driver client $way batches
        has '; 4 copies, .* MiB, went through leat$'
        has '^cuMemcpyBatchAsync  *4 .* leat$'
        has '^cuMemcpyBatchAsync .* driver: a batch with a mistake, or of copies in both directions$'
        has '^cuMemcpyBatchAsync .* driver: too short for leat'
    done
    both 0 $driver client dlsym capture
    has '; 3 copies, 27.0 MiB, went through leat$'
    has '^cuMemcpyHtoDAsync  *1 .* driver: a stream is capturing$'
    both 0 $driver client dlsym contexts
    has '; 8 copies, 72.0 MiB, went through leat$'
    both 0 $driver client dlsym threads
    has '; 48 copies, 432.0 MiB, went through leat$'

    # Processes, and their ends.
    both 0 $driver client dlsym nothing
    [ "$(cat "$work/report")" = "$none" ] || fail 'a program that makes no CUDA call'
    both 0 $driver client dlsym init
    has '^leat: run: 1 process with CUDA; 0 copies, 0 B, went through leat$'
    both 0 $driver client dlsym fork-before
    has '^leat: run: 2 processes with CUDA; 4 copies, 36.0 MiB, went through leat$'
    both 0 $driver client dlsym fork-after
    has '; 4 copies, 36.0 MiB, went through leat$'
    both 0 $driver client dlsym exec
    has '^leat: run: 2 processes with CUDA; 98 copies, 426.0 MiB, went through leat$'
    both 0 $driver client dlsym close
    has '; 6 copies, 54.0 MiB, went through leat$'
    both 3 $driver client dlsym exit-thread
    both 139 $driver client dlsym crash
    has '^leat: run: signal 11 (Segmentation fault) ended the program$'
    has '; 2 copies, 18.0 MiB, went through leat$'

    # --log observes: the driver makes all copies.
    with $driver "$leat" run --least 1M --log --report "$work/report" "$clients/client" dlsym copies >"$work/out"
    asked='--log'
    has '^leat: run: 1 process with CUDA; 96 copies, 408.0 MiB, would go through leat$'
    has '^cuMemcpyHtoD  *12  *3.0 MiB  *[0-9.]*  *[0-9.]* driver: too short for leat'
    grep -q ' leat$' "$work/report" && sed 1d "$work/report" | grep -q ' leat$' && fail '--log served a copy'
done
# A fake driver works in a child of fork(); leat does not take part there.
both 0 fake client dlsym fork-after
has '^cuMemcpyHtoD  *1 .* driver: the process was forked'
both 0 fake client dlsym pinned-fails
has '^cuMemHostAlloc .* driver: leat could not make the allocation$'
has '^leat: process .*: the driver could not register memory: error 2 of cuMemHostRegister$'
# A context of the program's own.
both 0 fake client dlsym contexts
has '^cuMemcpyHtoD  .* driver: the context is not the device.s primary one$'

# Without --pinned the driver allocates pinned memory.
asked='without --pinned'
with fake "$leat" run --report "$work/report" "$clients/client" dlsym pinned >"$work/out" 2>"$work/err" ||
    fail 'without --pinned: failed'
with fake "$clients/client" dlsym pinned | cmp -s - "$work/out" || fail 'without --pinned: other results'
has '^cuMemHostAlloc  .* driver: leat run was called without --pinned$'
grep -q 'pinned alloc' "$work/report" && fail 'without --pinned: leat served an allocation'

# Without --least copies of 8 MiB and more are leat's, and the client's other copies are too short.
asked='the default of --least'
echo '0.00 0.00 0.00 1/2000000 1' >"$work/load"
with fake env LEATRUN_LOADAVG="$work/load" "$leat" run --report "$work/report" "$clients/client" dlsym copies \
    >"$work/out" 2>"$work/err" || fail 'without --least: failed'
has '; 24 copies, 216.0 MiB, went through leat$'
has '^cuMemcpyHtoD  *3  *27.0 MiB .* leat$'
has '^cuMemcpyHtoD  *[0-9]*  *27.0 MiB .* driver: too short for leat'
# Where most processors are busy, the driver makes copies of less than 64 MiB, unless --least is given.
for busy in 1000000 1; do
    asked="$busy threads that run"
    echo "0.00 0.00 0.00 $busy/2000000 1" >"$work/load"
    with names env LEATRUN_LOADAVG="$work/load" "$leat" run --report "$work/report" "$clients/client" dlsym long \
        >"$work/out" 2>"$work/err" || fail "$asked: failed"
    if [ $busy = 1 ]; then
        has '; 4 copies, 176 MiB, went through leat$'
    else
        has '; 2 copies, 128 MiB, went through leat$'
        has '^cuMemcpyHtoD  *1 *24 MiB .* driver: most processors were busy'
        has '^cuMemcpyDtoH  *1 *24 MiB .* driver: most processors were busy'
    fi
done
for size in 0 4X ''; do
    "$leat" run --least "$size" true 2>"$work/err" && fail "--least '$size' is accepted"
    grep -q 'is no size from 1 byte on' "$work/err" || fail "--least '$size': the message"
done

# ---- leat cannot take part --------------------------------------------------------------------------------------

# leat's own driver names are no driver, unless the option says so.
asked='names as a driver'
env LD_LIBRARY_PATH="$clients/names:$build" LEAT_DEVICE=cpu:0 ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 \
    "$leat" run --least 1M --report "$work/report" "$clients/client" dlsym copies >"$work/out" 2>"$work/err" ||
    fail 'names as a driver: failed'
has '; 0 copies, 0 B, went through leat$'
has '^cuMemcpyHtoD .* driver: leat did not start$'
has "is leat's own compatibility library"
with names "$clients/client" dlsym copies | cmp -s - "$work/out" || fail 'names as a driver: other bytes'

# Without its engine leat passes everything on.
asked='without the engine'
mkdir "$work/alone" && cp "$build/libleat-run.so" "$work/alone"
with fake env LD_PRELOAD="$work/alone/libleat-run.so" "$leat" run --least 1M --report "$work/report" "$clients/client" dlsym copies \
    >"$work/out" 2>"$work/err" || fail 'without the engine: failed'
with fake "$clients/client" dlsym copies | cmp -s - "$work/out" || fail 'without the engine: other bytes'
has 'libleat-run-engine.so cannot be loaded'

# Each call that leat's driver makes fails once: the program sees nothing of it.
for n in 1 2 3 5 8 13; do
    with fake env LEAT_FAULT="cuda:fail=copy:$n" "$leat" run --least 1M --report "$work/report" "$clients/client" dlsym copies \
        >"$work/out" 2>"$work/err" || fail "with fault $n: failed"
    with fake "$clients/client" dlsym copies | cmp -s - "$work/out" || fail "with fault $n: other bytes"
    has 'driver: leat could not make the copy$'
done

# Nothing is linked with a CUDA library or with leat.
if command -v readelf >/dev/null; then
    readelf -d "$build/libleat-run.so" | grep NEEDED | grep -v -e libc.so -e ld-linux -e libdl -e libpthread &&
        fail 'libleat-run.so needs other libraries'
    readelf -d "$build/libleat-run-engine.so" | grep NEEDED | grep -i -e cuda -e nv && fail 'the engine needs CUDA'
fi
finish
