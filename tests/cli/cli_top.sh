#!/bin/sh
# cli_top.sh - "leat top": what it shows of a running program, processes that end or are killed, children, and counters
# of a hostile process.
#
# LEAT_COMMAND is the command; the program "live" lies in the tests folder beside it. LEAT_TEST_DEVICE is the device.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
export LEAT_TEST_DEVICE="$device"
live=$(dirname "$leat")/tests/live
mkfifo "$work/orders" "$work/answers" || exit 1

# begin: starts the program with LEAT_TRACE=$trace. It sets $pid.
begin() {
    LEAT_TRACE=$trace "$live" <"$work/orders" >"$work/answers" 2>"$work/said" &
    exec 3>"$work/orders" 4<"$work/answers"
    read -r pid <&4
}
# order WORD: lets the program obey, and sets $answer.
order() {
    echo "$1" >&3
    read -r answer <&4
}
# value KEY: a number of the JSON, which has each of these keys once.
value() { sed -n "s/^  \"$1\": \([^,]*\),\{0,1\}\$/\1/p" "$work/out"; }
# near KEY TEXT: the first number of a key after the line with a text.
near() { awk -v key="\"$1\":" -v text="$2" 'index($0, text) { on = 1 } on && $1 == key { sub(",", "", $2); print $2; exit }' "$work/out"; }
# at_least NUMBER LEAST: may have fractions and exponents.
at_least() { awk -v number="$1" -v least="$2" 'BEGIN { exit !(number + 0 >= least) }'; }

trace=$work/live.trace
begin
if [ -z "$pid" ]; then
    : >"$work/out"
    cp "$work/said" "$work/err"
    fail 'the program does not start'
    finish
fi

# ---- a running program ----

run 0 top && { grep -q "^ *$pid .*live.*$trace" "$work/out" || fail 'the list does not have the process'; }
run 0 top --json && { grep -q "\"process\": $pid," "$work/out" || fail 'the list in JSON does not have the process'; }
if run 0 top --once --interval 0.3 "$pid"; then
    grep -q "^Process $pid, .*/live, over 0\.[2-9]" "$work/out" || fail 'the first line is wrong'
    grep -q '^copy pageable to device .*GB/s .*us .*%' "$work/out" || fail 'there is no line of copies to the device'
    grep -q '^copy device to pageable ' "$work/out" || fail 'there is no line of copies from the device'
    grep -q '^alloc ' "$work/out" && grep -q '^free ' "$work/out" || fail 'there are no lines of allocations'
    grep -q "^$device stream " "$work/out" || fail 'there is no stream'
    grep -q "^live pool .*device .*8 MiB" "$work/out" || fail 'the pool is not there'
fi
if run 0 top --once --json --interval 0.3 "$pid"; then
    [ "$(value format) $(value process)" = "\"leat-top-1\" $pid" ] || fail 'the JSON is of something else'
    at_least "$(value seconds)" 0.1 || fail 'the interval is too short'
    calls=$(near calls '"pageable"')
    at_least "$(near calls_per_s '"copies"')" 1 && at_least "$calls" 1 || fail 'there are no copies'
    at_least "$(near bytes '"copies"')" 65536 || fail 'the copies have no bytes'
    at_least "$(near used_bytes '"pools"')" 0 || fail 'there are no pools'
    at_least "$(value trace_bytes)" 64 || fail 'nothing was written to the trace'
fi
if run 0 top --once --json --interval 0.05 "$pid"; then
    at_least "$(near calls '"pageable"')" "$calls" || fail 'the counters shrink'
fi

# Work that waits is in flight.
order hold
if run 0 top --once --json --interval 0.2 "$pid"; then
    at_least "$(value in_flight)" 2 || fail 'the work behind the host function is not in flight'
    at_least "$(value in_flight_bytes)" 3145728 || fail 'its bytes are not in flight'
fi
order release
if run 0 top --once --json --interval 0.2 "$pid"; then
    at_least "$(value in_flight_bytes)" 3145728 && fail 'bytes that are complete are still in flight'
fi

# Pictures until the program ends: as lines of JSON, and in a terminal.
: >"$work/lines"
"$leat" top --json --interval 0.05 "$pid" >"$work/lines" 2>"$work/viewer" &
viewer=$!
tries=0
while [ "$(wc -l <"$work/lines")" -lt 3 ] && [ $tries -lt 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
[ "$(grep -c "^{.*\"process\":$pid,.*}\$" "$work/lines")" -ge 3 ] || fail 'there are no lines of JSON'

# ---- children ----

order fork
child=$answer
run 1 top --once "$child" && says 'records no trace'
kill "$child"
order clone
child=$answer
# It has its parent's descriptor, which tells whose counters they are.
run 1 top --once "$child" && says 'records no trace'
run 0 top && [ "$(grep -c "$trace" "$work/out")" -eq 1 ] || fail 'a child counts as another process'
kill "$child"

# ---- the end of a trace, another trace, and the end of the program ----

order stop
wait $viewer
code=$?
cp "$work/viewer" "$work/err"
[ $code -eq 0 ] || fail "the viewer ends with $code when the trace ends"
says 'the process has ended its trace'
run 1 top --once "$pid" && says 'records no trace'
order start
run 0 top --once --interval 0.1 "$pid" && { grep -q '^Only times of the host' "$work/out" || fail 'device times?'; }
"$leat" top --interval 0.05 "$pid" >"$work/lines" 2>"$work/viewer" &
viewer=$!
order end
wait $viewer
grep -q '^leat: top: ' "$work/viewer" || fail 'the viewer does not say that the process has ended'
exec 3>&- 4<&-
wait
run 1 top --once "$pid" && says 'there is no process'

# A process that is killed leaves nothing behind; its trace goes to no file here.
trace=/dev/null
begin
run 0 top --once --interval 0.1 "$pid" && { grep -q '^Trace: /dev/null' "$work/out" || fail 'the file is wrong'; }
shared=$(find "/proc/$pid/fd" -lname '/memfd:leat-live*')
[ "$(stat -L -c '%a %U' "$shared")" = "400 $(id -un)" ] || fail 'others may read the counters'
bytes=$(stat -L -c %s "$shared")
if (printf x >"$shared") 2>/dev/null || (truncate -s 0 "$shared") 2>/dev/null; then
    fail 'a viewer can write to the counters'
fi
kill -KILL "$pid"
wait
exec 3>&- 4<&-
run 1 top --once "$pid" && says 'there is no process'
run 0 top && { grep -q "^ *$pid " "$work/out" && fail 'a killed process is still listed'; }

# ---- counters of a hostile process ----

# hostile BYTES WRITE: a process has counters of this size, which a line of Python fills.
hostile() {
    rm -f "$work/pid"
    python3 - "$1" "$2" >"$work/pid" <<'END' &
import os, struct, sys, time
size, write = int(sys.argv[1]), sys.argv[2]
fd = os.memfd_create("leat-live")
os.ftruncate(fd, size)
head = b"leatliv\n" + struct.pack("<II", 1, size)
exec(write)
print(os.getpid(), flush=True)
time.sleep(600)
END
    tries=0
    while [ ! -s "$work/pid" ] && [ $tries -lt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    read -r pid <"$work/pid"
}
if command -v python3 >/dev/null; then
    hostile 8 'os.pwrite(fd, b"leatliv\n", 0)'
    run 1 top --once "$pid" && says 'records no trace'
    kill "$pid"
    hostile 4096 'os.pwrite(fd, head, 0)'
    run 1 top --once "$pid" && says 'of version'
    kill "$pid"
    hostile "$bytes" 'os.pwrite(fd, head + struct.pack("<Q", 3), 0)'
    run 1 top --once "$pid" && says 'cannot be read'
    kill "$pid"
    # All ones, but for what the reader checks, and an escape sequence in each text.
    hostile "$bytes" 'os.pwrite(fd, b"\xff\x1b[2J" * (size // 5), 0); os.pwrite(fd, head + struct.pack("<QQ", 2, os.getpid()), 0)'
    if run 0 top --once --interval 0.05 "$pid"; then
        grep -q "$(printf '\033')" "$work/out" && fail 'an escape sequence comes through'
        # It has 64 streams and 64 pools.
        grep -q '^and 48 streams' "$work/out" && grep -q '^and 48 pools' "$work/out" || fail 'the rest is not counted'
    fi
    run 0 top --once --json --interval 0.05 "$pid"
    run 0 top
    kill "$pid"
else
    echo 'skipped: counters of a hostile process: there is no python3'
fi

# ---- wrong command lines ----

usage "'x' is no process ID" top x
usage "'0' is no process ID" top 0
usage 'is no number of seconds' top --interval 0 1
usage 'is no number of seconds' top --interval x 1
usage 'need the PID' top --once
usage 'is not an option' top 1 2
usage 'there is no option --jason' top --jason
run 0 top --help && grep -q '^Usage: leat top' "$work/out" || fail 'there is no help'
finish
