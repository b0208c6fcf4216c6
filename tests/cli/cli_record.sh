#!/bin/sh
# cli_record.sh - LEAT_RECORD_ALLOCATIONS: records programs, and checks that "leat replay" repeats from the trace
# what they did.
#
# LEAT_COMMAND is the command; the recorded programs lie in the tests folder beside it. LEAT_TEST_DEVICE is the
# device.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
programs=$(dirname "$leat")/tests
export LEAT_TEST_DEVICE="$device" LEAT_DEVICE="$device"
trace=$work/trace.csv

# record PROGRAM...: runs the program and records to $trace. It must succeed and print nothing on standard error.
record() {
    rm -f "$trace"
    LEAT_RECORD_ALLOCATIONS=$trace "$@" >"$work/said" 2>"$work/err" || fail "$* failed"
    [ ! -s "$work/err" ] || fail "$* says something"
    : >"$work/out"
}

# sound FILE [wraps]: checks the trace: whole lines, times that never decrease, blocks that are allocated once,
# then used, then freed once, pools that exist, and events that are recorded before a wait, unless the program
# wraps events of its own ("wraps").
sound() {
    awk -F, -v wraps="$2" '
        NR == 1 { if ($0 != "t_us,op,id,bytes,stream,pool,event,align,kind,device,name") bad("the header line"); next }
        NF != 11 { bad("number of columns") }
        $1 < time { bad("time") }
        { time = $1 }
        $2 == "pool_create" { pools[$6] = 1 }
        $2 == "pool_destroy" { if (!($6 in pools)) bad("a pool that is not there"); delete pools[$6] }
        $2 == "alloc" { if ($3 in live || $3 in gone) bad("a block twice")
                        if ($6 != "" && !($6 in pools)) bad("a block of no pool")
                        live[$3] = $4 }
        $2 ~ /^(free|use|use_until)$/ { if (!($3 in live)) bad("a block that is not live") }
        $2 == "free" { if (live[$3] != $4) bad("a size"); delete live[$3]; gone[$3] = 1 }
        $2 == "record" { events[$7] = 1 }
        $2 == "wait" { if (!($7 in events) && !wraps) bad("an event that was not recorded") }
        $2 !~ /^(pool_create|pool_destroy|alloc|alloc_failed|free|use|use_until|record|wait|sync|event_destroy|stream_destroy)$/ { bad("op") }
        function bad(what) { print "line " NR ": " what ": " $0; wrong = 1; exit }
        END { exit wrong }' "$1" >"$work/out" || fail "the trace $1 is not sound"
    [ "$(tail -c 1 "$1" | wc -l)" -eq 1 ] || fail "the last line of $1 is not whole"
}

# value KEY: a top-level value of the JSON. inner OBJECT KEY: a value of an object in it.
value() { sed -n "s/^  \"$1\": \(.*[^,]\),\{0,1\}\$/\1/p" "$work/out"; }
inner() { sed -n "/^  \"$1\": {/,/^  }/s/^    \"$2\": \(.*[^,]\),\{0,1\}\$/\1/p" "$work/out"; }

# replayed: the replay must have the allocations and the peak that the program printed.
replayed() {
    run 0 replay --device "$device" --json "$trace" || return
    said="allocations $(inner statistics allocations) peak $(value peak_requested_bytes)"
    [ "$said" = "$(tail -n 1 "$work/said")" ] || fail "the replay has $said, and the program $(tail -n 1 "$work/said")"
    [ "$(inner statistics frees)" = "$(inner statistics allocations)" ] || fail 'not every block was freed'
}

# ops FILE: the operations on blocks and those that order them, without ids and times.
ops() { awk -F, '$2 ~ /^(alloc|free|use|use_until|record|wait|sync)$/ { print $2, $4, $8, $5 == "host" }' "$1"; }

# again: the replay must make the recorded calls in the recorded order; the test records the replay to see that.
again() {
    mv "$trace" "$work/first.csv"
    record "$leat" replay --device "$device" "$work/first.csv" && sound "$trace"
    # The replay leaves out pinned memory: here the blocks of 1000 bytes.
    ops "$work/first.csv" | grep -v ' 1000 ' >"$work/first" && ops "$trace" >"$work/second"
    [ -s "$work/first" ] || fail 'there is nothing to compare'
    diff "$work/first" "$work/second" >"$work/out" || fail 'the replay makes other calls than the program did'
}

# ---- every call that a trace can have ---------------------------------------------------------------------------

record "$programs/recorded" scene && sound "$trace" && replayed
cut -d, -f2,4,8,9 "$trace" >"$work/lines"
diff - "$work/lines" >"$work/out" <<'LINES' || fail 'the trace has other lines than the program made calls'
op,bytes,align,kind
pool_create,,,device
pool_create,,,device
alloc,3145728,,
pool_create,,,pinned
alloc,1000,,
free,1000,,
alloc,5000,,
free,5000,,
record,,,
use,,,
use_until,,,
free,3145728,,
wait,,,
alloc,700,4096,
alloc,8388608,,
record,,,
wait,,,
free,8388608,,
alloc_failed,17825792,,
sync,,,
sync,,,
sync,,,
free,700,,
alloc,4096,,
free,4096,,
stream_destroy,,,
pool_create,,,device
alloc,2097152,,
free,2097152,,
pool_destroy,,,
event_destroy,,,
alloc,4194304,,
stream_destroy,,,
stream_destroy,,,
event_destroy,,,
pool_destroy,,,
pool_destroy,,,
free,4194304,,
pool_destroy,,,
pool_create,,,device
alloc,9437184,,
free,9437184,,
pool_destroy,,,
LINES
# The lines must name the streams, the host, the pools and the events of the calls.
awk -F, '$2 == "alloc" && $4 == 3145728 { first = $5; id = $3 }
    $2 == "use" { second = $5; used = $3 == id && second != first }
    $2 == "use_until" { until = $3 == id && $7 == event }
    $2 == "record" { event = $7 }
    $2 == "alloc" && $4 == 8388608 { far = $3 }
    $2 == "free" && $3 == far { crossed = $5 == second }
    $2 == "alloc" && $4 == 5000 { host = $5 == "host" }
    $2 == "alloc" && $4 == 4096 { plain = $6 == "" }
    END { exit !(used && until && crossed && host && plain) }' "$trace" || fail 'a line names others than the call did'
grep -q ',pool_create,.*,own_ _quoted_$' "$trace" || fail 'the name of a pool is not what a cell can have'
run 0 replay --device "$device" --json "$trace" && {
    [ "$(value left_out),$(value failures_recorded)" = 1,1 ] || fail 'pinned memory and failures are not left out'
}
run 0 replay --device "$device" --json --kind pinned "$trace" && {
    [ "$(value kind),$(value allocations),$(value left_out)" = '"pinned",1,8' ] || fail 'not the pinned memory'
}
run 0 replay --device "$device" --json --pool brief "$trace" && {
    [ "$(value allocations),$(value peak_requested_bytes)" = 1,2097152 ] || fail 'not the pool of that name'
}
run 0 replay --device "$device" --json --repeat 3 "$trace"
for allocator in driver driver-async; do
    run 0 replay --device "$device" --json --allocator $allocator "$trace"
done
run 1 replay --device "$device" --kind managed "$trace" && says 'there is no allocation of managed memory; there are 1 of device'
run 1 replay --device "$device" --pool none "$trace" && says "from pools called 'none'; there are"
run 1 replay --device "$device" --hold "$trace" && says "no line 'freed'"
run 0 plan -o "$work/plan" "$trace"
again

# ---- many calls, many threads -----------------------------------------------------------------------------------

record "$programs/recorded" loop && sound "$trace" && replayed
again

# crowded PROGRAM...: records a program with several threads, whose peak is not known.
crowded() {
    record "$@" && sound "$trace" && run 0 replay --device "$device" --json "$trace" || return
    [ "allocations $(inner statistics allocations) peak 0" = "$(cat "$work/said")" ] || fail "$*: allocations are missing"
    [ "$(ops "$trace" | grep -c free)" = "$(inner statistics allocations)" ] || fail "$*: frees are missing"
}
crowded "$programs/recorded" threads
crowded "$programs/recorded" crowd
# Not with AddressSanitizer, whose runtime must be the first library.
if ! grep -q __asan_init "$programs/recorded"; then
    crowded env LD_PRELOAD="$programs/jitter.so" "$programs/recorded" crowd
fi

# Random programs; and guard mode, where allocations do not take the fast path.
record "$programs/pool_model" --graphs 20 && sound "$trace" wraps
run 0 replay --device "$device" --json "$trace"
LEAT_POOL_GUARD=1 record "$programs/recorded" loop && sound "$trace" && replayed

# A program that uses the CUDA runtime's compatibility library.
if [ -x "$programs/compat/recorded_cudart" ]; then
    record "$programs/compat/recorded_cudart" && sound "$trace" && replayed
    for op in record wait sync event_destroy stream_destroy; do
        grep -q ",$op," "$trace" || fail "names of the CUDA runtime: there is no $op"
    done
else
    echo 'skipped: names of the CUDA runtime, which were not built'
fi

# ---- how programs end -------------------------------------------------------------------------------------------

# Some of these programs leave objects open on purpose.
export ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
# leave: closes nothing, and frees in atexit() handlers.
record "$programs/recorded" leave && sound "$trace" && replayed
[ "$(grep -c ',free,' "$trace")" = 2 ] || fail 'what is freed while the program ends is not recorded'
# vanish: calls _exit(); the trace must hold everything that was written until the device was closed.
record "$programs/recorded" vanish && sound "$trace" && cp "$trace" "$work/cut.csv"
head -n 1 "$work/said" >"$work/said.1" && mv "$work/said.1" "$work/said" && replayed
# split: children of fork(), which use a device of their own or only end.
record "$programs/recorded" split && sound "$trace" && replayed
# start: the recorded program starts another one, which must report that the file is taken. With %p in the name
# each has a file of its own.
rm -f "$trace"
LEAT_RECORD_ALLOCATIONS=$trace "$programs/recorded" start >"$work/said" 2>"$work/err" || fail 'recorded start failed'
says 'another process is recording to it; with %p in the name each process has a file of its own'
sound "$trace" && replayed
LEAT_RECORD_ALLOCATIONS=$work/own.%p.csv "$programs/recorded" start >"$work/said" 2>"$work/err" || fail 'with %p it failed'
[ ! -s "$work/err" ] || fail 'with %p something is said'
for file in "$work"/own.[0-9]*.csv; do sound "$file"; done
[ "$(ls "$work"/own.*.csv | wc -l)" -eq 2 ] || fail 'with %p there are not two files'

# ---- files that cannot be written ---------------------------------------------------------------------------------

# refused FILE TEXT: the program must work, and one line must say why nothing is recorded.
refused() {
    LEAT_RECORD_ALLOCATIONS=$1 "$programs/recorded" loop >"$work/said" 2>"$work/err" || fail "recording to $1 broke the program"
    says "LEAT_RECORD_ALLOCATIONS: $1" && says "$2"
}
refused "$work/none/x" 'No such file or directory; nothing is recorded'
refused "$work" 'cannot be written'
mkfifo "$work/pipe" && refused "$work/pipe" 'nothing is recorded'
[ ! -c /dev/full ] || refused /dev/full 'cannot be written: No space left on device; it ends after 0 lines'
# fill: the disk is full in the middle; only whole lines remain.
rm -f "$trace"
LEAT_RECORD_ALLOCATIONS=$trace "$programs/recorded" fill >"$work/said" 2>"$work/err" ||
    fail 'a file that may not grow broke the program'
says 'cannot be written: File too large; it ends after ' && sound "$trace"
[ "$(wc -l <"$trace")" = "$(sed 's/.*it ends after \([0-9]*\) lines/\1/' "$work/err")" ] || fail 'the lines are counted wrongly'
run 0 replay --device "$device" --json "$trace"

# ---- without the variable -------------------------------------------------------------------------------------

: >"$work/before" && ls "$work" >"$work/before"
(cd "$work" && "$programs/recorded" loop >"$work/said" 2>"$work/err") || fail 'recorded loop failed'
(cd "$work" && LEAT_RECORD_ALLOCATIONS='' "$programs/recorded" loop >"$work/said" 2>"$work/err") || fail 'an empty name'
ls "$work" | diff - "$work/before" >"$work/out" || fail 'something is written without the variable'
[ ! -s "$work/err" ] || fail 'something is said without the variable'
run 0 info && grep -q LEAT_RECORD_ALLOCATIONS "$work/out" || fail 'leat info does not list the variable'

# ---- bad traces -----------------------------------------------------------------------------------------------

# bad LINES LINE TEXT: the trace must be refused with a message that names this line and contains TEXT.
bad() {
    printf 't_us,op,id,bytes,stream,pool,event,align,kind,device,name\n%b' "$1" >"$work/bad.csv"
    run 1 replay --device "$device" "$work/bad.csv" && says "bad.csv:$2: " && says "$3"
}
pool='0,pool_create,,,,1,,,device,cpu:0,x\n'
one="${pool}1,alloc,1,64,host,1,,,,,\n"
bad '' 1 'the file has no allocation'
bad "${one}2,move,1,64,0,,,,,,\n" 4 "there is no op 'move'; a newer leat may have written this trace"
bad '1,alloc,1,64,1,2,,,,,\n' 2 'pool 2 was not created'
bad '1,pool_create,,,,2,,,paged,,\n' 2 "the column kind has 'paged'"
bad '1,pool_create,,,,,,,device,,\n' 2 "the column pool has ''"
bad "${one}2,alloc,1,64,1,,,,,,\n" 4 'block 1 was allocated already'
bad "${one}2,alloc,2,64,x,,,,,,\n" 4 "the column stream has 'x'"
bad "${one}2,alloc,2,64,1,,,48,,,\n" 4 "the column align has '48', which is no power of two"
bad "${one}2,alloc,4611686018427387904,64,1,,,,,,\n" 4 'is too large'
bad "${one}2,free,2,64,1,,,,,,\n" 4 'block 2 was never allocated'
bad "${one}2,free,1,64,1,,,,,,\n3,use,1,,1,,,,,,\n" 5 'block 1 was freed already, in line 4'
bad "${one}2,use,1,,host,,,,,,\n" 4 "the column stream has 'host'"
bad "${one}2,use_until,1,,,,,,,,\n" 4 "the column event has ''"
# Waits for events that were never recorded and ends of unknown streams are ignored.
printf 't_us,op,id,bytes,stream,pool,event,align,kind,device,name\n%b' "${one}2,wait,,,7,,9,,,,\n3,use_until,1,,,,9,,,,\n4,event_destroy,,,,,9,,,,\n5,stream_destroy,,,8,,,,,,\n6,sync,,,,,9,,,,\n" >"$work/odd.csv"
run 0 replay --device "$device" --json "$work/odd.csv"
# More streams than a trace can have at the same time, but one after the other.
{
    printf 't_us,op,id,bytes,stream,pool,event,align,kind,device,name\n'
    awk 'BEGIN { for (i = 1; i <= 600; i++) printf "0,alloc,%d,64,%d,,,,,,\n0,free,%d,64,%d,,,,,,\n0,stream_destroy,,,%d,,,,,,\n", i, i, i, i, i }'
} >"$work/streams.csv"
run 0 replay --device "$device" --json "$work/streams.csv" && {
    [ "$(value streams),$(value allocations)" = 1,600 ] || fail 'streams that ended are not forgotten'
}
usage '--kind takes pinned, device or managed' replay --kind paged "$trace"
usage 'does not go with --allocator driver' replay --allocator driver --kind pinned "$trace"

finish
