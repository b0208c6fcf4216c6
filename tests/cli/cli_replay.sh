#!/bin/sh
# cli_replay.sh - "leat replay" and "leat pool-map" as a user calls them: traces, bad traces, every allocator,
# snapshots.
#
# LEAT_COMMAND is the command, LEAT_TEST_DEVICE the device. Figures that do not depend on time are compared with
# known values; times only have to be plausible.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
cd ../traces || exit 1

replay() { run 0 replay --device "$device" "$@"; }

# value KEY: a top-level value of the JSON. inner OBJECT KEY: a value of an object in it.
value() { sed -n "s/^  \"$1\": \(.*[^,]\),\{0,1\}\$/\1/p" "$work/out"; }
inner() { sed -n "/^  \"$1\": {/,/^  }/s/^    \"$2\": \(.*[^,]\),\{0,1\}\$/\1/p" "$work/out"; }

# each N KEY: a value in the figures of round N.
each() { sed -n '/^  "each_round": \[/,/^  \]/p' "$work/out" | sed -n "s/^      \"$2\": \(.*[^,]\),\{0,1\}\$/\1/p" | sed -n "$1p"; }

# is KEY VALUE: the top-level value must be VALUE.
is() { [ "$(value "$1")" = "$2" ] || fail "$1 is $(value "$1") instead of $2"; }

# holds EXPRESSION: this awk expression over numbers must be true.
holds() { awk "BEGIN { exit !($1) }" || fail "does not hold: $1"; }

# ---- the pieces of recorded traces ----------------------------------------------------------------------------

# whole TRACE EVENTS ALLOCATIONS STREAMS PEAK RATIO: replays the trace and checks its figures. The reserved bytes
# must be at most RATIO times the peak.
whole() {
    replay --json "$1" || return
    is trace "\"$1\"" && is format '"leat"' && is allocator '"leat"' && is policy '"wait-last"'
    is events "$2" && is allocations "$3" && is streams "$4" && is peak_requested_bytes "$5" && is rounds 1
    holds "$(value peak_reserved_bytes) >= $5"
    holds "$(value ratio) >= 1 && $(value ratio) <= $6"
    holds "$(value ratio) - $(value peak_reserved_bytes) / $5 < 0.0001"
    holds "$(value peak_reserved_bytes) / $5 - $(value ratio) < 0.0001"
    for call in alloc free pair; do
        holds "$(value ${call}_ns_p50) <= $(value ${call}_ns_p99)"
        holds "$(value ${call}_ns_p99) <= $(value ${call}_ns_p999)"
        holds "$(value ${call}_ns_p999) <= $(value ${call}_ns_worst)"
        holds "0 < $(value ${call}_ns_mean) && $(value ${call}_ns_mean) <= $(value ${call}_ns_worst)"
    done
    # The mean of a pair times the pairs is the time of all calls, including the time in the driver.
    holds "$(value pair_ns_mean) * $3 < $(value total_ns) * 1.001"
    holds "$(value pair_ns_mean) * $3 > $(value total_ns) * 0.999"
    is packing '"auto"'
    [ "$(each 1 total_ns),$(each 2 total_ns)" = "$(value total_ns)," ] || fail 'the one round is not the whole'
    holds "$(value total_ns) > 0 && $(value driver_calls) > 0 && $(value stalled_ns) > 0"
    holds "$(value events_recorded) >= 0 && $(value stream_waits) >= 0"
    [ "$(inner statistics allocations)" = "$3" ] || fail "the pool counts another number of allocations"
    [ "$(inner statistics frees)" = "$3" ] || fail "not every block was freed"
    [ "$(value later)" = null ] || fail "there were no later rounds"
}

memory_bytes=$("$leat" info --json | grep -A9 "\"name\": \"$device\"" |
    sed -n 's/.*"memory_bytes": \([0-9]*\),/\1/p')
case $device in
cpu:*) memory_bytes=1000000000000 ;; # enough for each trace: the replay touches no pages
esac
if [ "$memory_bytes" -gt 28000000000 ]; then
    whole gpt2_train_cut.csv.gz 6285 2600 1 24712356640 1.03
else
    echo 'skipped: gpt2_train_cut needs 26 GiB of device memory'
fi
# A pool grows by up to 4 percent instead of stitching, and by whole driver allocations.
whole vit_checkpoint_cut.csv.gz 6015 2337 1 3507757272 1.045
whole two_stream_cut.csv.gz 7304 2784 2 5792626680 1.03

# An uncompressed trace with its columns in another order and an unknown column.
{
    printf 'stream,bytes,who,id,op,t_us\r\n0,1000,me,1,alloc,0\r\n\r\n0,500,me,2,alloc,1\r\n'
    printf '0,1000,me,1,free,2\n0,1000,me,1,freed,3'
} >"$work/small.csv"
replay --json "$work/small.csv" && is events 4 && is allocations 2 && is peak_requested_bytes 1500 &&
    is trace '"small.csv"'

# The tables show the same figures.
replay two_stream_cut.csv.gz && { grep -q '5792626680' "$work/out" || fail 'the table lacks the bytes requested'; }
replay --repeat 2 two_stream_cut.csv.gz &&
    { grep -q 'ROUND 1  *ROUND 2$' "$work/out" || fail 'two rounds are not kept apart'; }
replay --repeat 5 two_stream_cut.csv.gz && {
    grep -q 'ROUND 1  *ROUND 2  *ROUNDS 3 TO 5, MEAN$' "$work/out" || fail 'the rounds are not kept apart'
    grep -q '^Packing: auto. At the end the pool was ' "$work/out" || fail 'nothing says how the pool packed'
    grep -q '^The last round made no driver call\.' "$work/out" || fail 'the steady state calls the driver'
    for row in 'mean, ns (allocate' 'pair, ns' 'in the driver, ms' 'driver calls' 'stitched blocks'; do
        grep -q "^$row" "$work/out" || fail "the table lacks: $row"
    done
}

# ---- options --------------------------------------------------------------------------------------------------

# sum KEY: adds the value of all three rounds.
sum() { echo "$(each 1 "$1") + $(each 2 "$1") + $(each 3 "$1")"; }

replay --json --repeat 3 --trim vit_checkpoint_cut.csv.gz && {
    is rounds 3 && is peak_requested_bytes 3507757272
    [ "$(each 1 rounds),$(each 3 rounds),$(each 4 rounds),$(inner later rounds)" = 1,1,,1 ] ||
        fail 'rounds are counted wrongly'
    [ "$(inner statistics allocations)" = 7011 ] || fail 'three rounds are three times the allocations'
    for key in driver_calls total_ns stalled_ns pages_created pages_stitched pages_released stitches cache_hits; do
        holds "$(sum $key) == $(value $key)"
    done
    holds "$(each 1 peak_reserved_bytes) <= $(value peak_reserved_bytes)"
    holds "$(each 1 pages_released) > 3000000000 && $(each 3 pages_released) > 3000000000"
    holds "$(inner trim released_bytes) > 3000000000"
    [ "$(inner trim pending_bytes),$(inner trim left_bytes)" = 0,0 ] || fail 'memory stayed after the trim'
}
# A steady loop: after the first round the pool must hardly grow.
replay --json --repeat 5 two_stream_cut.csv.gz && holds "$(value ratio) <= 1.1"

# Another stream used one block: the replay tells the pool that, or with --hold keeps the block as long as the
# recorded program did.
for policy in wait-last wait wait-never; do
    replay --json --policy $policy two_stream_cut.csv.gz && is policy "\"$policy\"" && is hold false
done
is stream_waits 0
replay --json --hold two_stream_cut.csv.gz && is hold true && is peak_requested_bytes 5792626680
printf 't_us,op,id,bytes,stream\n0,alloc,1,1000,0\n1,free,1,1000,0\n2,alloc,2,3000,1\n3,freed,1,1000,0\n' \
    >"$work/held.csv"
replay --json "$work/held.csv" && is peak_requested_bytes 3000
replay --json --hold "$work/held.csv" && is peak_requested_bytes 4000

# With a plan nearly every large block gets its planned place, and later rounds make no driver call. The plan of
# another trace does no harm; a file that is no plan is refused.
run 0 plan vit_checkpoint_cut.csv.gz -o "$work/vit.plan"
replay --json --repeat 3 --plan "$work/vit.plan" vit_checkpoint_cut.csv.gz && {
    holds "$(value ratio) <= 1.01 && $(each 1 planned) > 800 && $(each 3 planned) == $(each 2 planned)"
    [ "$(each 2 driver_calls),$(each 3 driver_calls)" = 0,0 ] || fail 'a planned round calls the driver'
}
replay --json --plan "$work/vit.plan" two_stream_cut.csv.gz && is allocations 2784
run 1 replay --device "$device" --plan vit_checkpoint_cut.csv.gz vit_checkpoint_cut.csv.gz && says "plans are made by 'leat plan'"
run 1 replay --device "$device" --plan "$work/none.plan" vit_checkpoint_cut.csv.gz && says 'none.plan'
run 1 plan "$work/none.csv" -o "$work/none.plan" && says 'none.csv'
replay --json --plan - vit_checkpoint_cut.csv.gz <"$work/vit.plan" && holds "$(value ratio) <= 1.01"
run 1 replay --device "$device" --plan - vit_checkpoint_cut.csv.gz </dev/null && says 'plan of standard input'
usage 'cannot both be standard input' replay --device "$device" --plan - - </dev/null
usage 'give one TRACE' plan vit_checkpoint_cut.csv.gz

# If no idle memory fits in one piece, the pool grows (still) or stitches (tight). A limit of exactly the requested
# bytes (1x) is too low for any pool, because a pool holds whole pages.
replay --json --packing still vit_checkpoint_cut.csv.gz && is packing '"still"' && {
    is stitches 0 && is pages_stitched 0 && is packing_at_end '"still"'
    still=$(value peak_reserved_bytes)
}
replay --json --packing tight --repeat 3 vit_checkpoint_cut.csv.gz && is packing '"tight"' && {
    is packing_at_end '"tight"'
    holds "$(value stitches) > 0 && $(value pages_stitched) > 0 && $(value peak_reserved_bytes) < ${still:-0}"
    holds "$(value stitch_reuses) <= $(value stitches)"
}
replay --json --limit 1.03x vit_checkpoint_cut.csv.gz && is limit_bytes 3612989991 && holds "$(value ratio) <= 1.03"
# The environment variable counts only if there is no option.
LEAT_POOL_PACKING=tight replay --json vit_checkpoint_cut.csv.gz && is packing '"auto"' && is packing_at_end '"tight"'
LEAT_POOL_PACKING=tight replay --json --packing still vit_checkpoint_cut.csv.gz && is packing_at_end '"still"'
LEAT_POOL_PACKING=loose run 1 replay --device "$device" vit_checkpoint_cut.csv.gz &&
    says "LEAT_POOL_PACKING is set to 'loose', and takes auto, still or tight"
run 1 replay --device "$device" --packing still --limit 1x vit_checkpoint_cut.csv.gz &&
    says 'of vit_checkpoint_cut.csv.gz, in round 1 with' && says 'limit of 3507757272 bytes'

replay --json --limit 4G vit_checkpoint_cut.csv.gz && is limit_bytes 4294967296
run 1 replay --device "$device" --limit 3G vit_checkpoint_cut.csv.gz &&
    says 'line 5850 of vit_checkpoint_cut.csv.gz' && says 'limit of 3221225472 bytes' &&
    [ "$(grep -c '^Advice: ' "$work/err")" -eq 1 ] || fail 'the advice is not on a line of its own'
run 1 replay --device "$device" --json --limit 1M two_stream_cut.csv.gz && {
    [ ! -s "$work/out" ] || fail 'a replay that failed prints no figures'
}

# ---- the other allocators -------------------------------------------------------------------------------------

# other ALLOCATOR: replays the trace of two streams: two driver calls for each block; figures that are unknown are
# null.
other() {
    replay --json --allocator "$1" two_stream_cut.csv.gz || return
    is allocator "\"$1\"" && is policy null && is packing null && is statistics null && is cache_hits null
    is stitches null && is packing_at_end null
    is peak_requested_bytes 5792626680 && is driver_calls 5568
    if [ "$(value peak_reserved_bytes)" = null ]; then
        is ratio null
        [ "$(value peak_reserved_unknown)" != null ] || fail 'nothing says why the memory reserved is unknown'
    else
        holds "$(value ratio) >= 1"
    fi
}
other driver && is events_recorded 0
other driver-async && is events_recorded 1 && is stream_waits 1
case $device in
cpu:*)
    run 1 replay --device "$device" --allocator driver-async-keep two_stream_cut.csv.gz && says 'pool of its own'
    ;;
cuda:*) other driver-async-keep ;;
esac

# ---- RMM's log ------------------------------------------------------------------------------------------------

replay --json rmm_log.csv && is format '"rmm"' && is allocations 5 && is events 9 && is streams 2 &&
    is failures_recorded 1 && is peak_requested_bytes 6291556
replay --json --allocator driver-async rmm_log.csv && is driver_calls 10
run 1 replay --device "$device" --hold rmm_log.csv && says "no line 'freed'"

# The log of later RMM versions, and of older ones without 0x; CUDA's per-thread default stream, which is a
# different stream in each thread.
{
    printf 'Thread,Time,Action,Pointer,Size,Stream\n7,12:00:00:000001,allocate,0x7f00,100,0\n'
    printf '7,12:00:00:000002,allocate failure,(nil),200,0\n7,12:00:00:000003,allocate,7f0A,300,0x55aa\n'
    printf '7,12:00:00:000004,free,0x7f0a,300,55aa\n7,12:00:00:000005,allocate,0x10,400,0x2\n'
    printf '8,12:00:00:000006,allocate,0x20,500,0x2\n8,12:00:00:000007,free,0x10,400,0x2\n'
} >"$work/rmm.csv"
replay --json "$work/rmm.csv" && is format '"rmm"' && is allocations 4 && is events 6 && is streams 4 &&
    is failures_recorded 1 && is peak_requested_bytes 1000

# ---- PyTorch's snapshots --------------------------------------------------------------------------------------

# traces/make_snapshot.py made these files and says what is in them. The pickles of both protocols hold the same
# data.
for snapshot in pytorch_snapshot.pickle pytorch_snapshot_2.pickle.gz; do
    replay --json $snapshot && is format '"pytorch"' && is trace "\"$snapshot\"" && is allocations 43 &&
        is events 127 && is streams 2 && is allocated_before 2 && is failures_recorded 1 &&
        is peak_requested_bytes 11498280
    replay --json --hold --trace-device 1 $snapshot && is hold true && is peak_requested_bytes 11498280
done
replay pytorch_snapshot.pickle && {
    grep -q '2 of them were made before the recording began' "$work/out" || fail 'nothing says which are older'
}
run 1 replay --device "$device" --trace-device 0 pytorch_snapshot.pickle && says 'no allocation of device 0'
run 1 replay --device "$device" --trace-device 1 two_stream_cut.csv.gz && says 'is about snapshots of PyTorch'
run 1 replay --device "$device" --limit 6M pytorch_snapshot.pickle &&
    says 'allocating the 8000000 bytes of device_traces[1][22] of pytorch_snapshot.pickle, in round 1'
head -c 1000 pytorch_snapshot_2.pickle.gz >"$work/bad.pickle.gz"
run 1 replay "$work/bad.pickle.gz" && says 'bad.pickle.gz: the compressed file is damaged, or ends in the middle'
head -c 1000 pytorch_snapshot.pickle >"$work/bad.pickle"
run 1 replay "$work/bad.pickle" && says 'bad.pickle: byte ' && says 'the file ends within it'
printf '\200\002cos\nsystem\n(X\011\000\000\000touch bad' >"$work/bad.pickle"
run 1 replay "$work/bad.pickle" && says 'opcode GLOBAL asks for Python objects or code, and only plain data is read'

# ---- bad traces -----------------------------------------------------------------------------------------------

# bad LINES LINE TEXT: a leat trace with these lines after its header must be refused with a message that names
# line LINE.
bad() {
    printf 't_us,op,id,bytes,stream\n%b' "$1" >"$work/bad.csv"
    run 1 replay --device "$device" "$work/bad.csv" && says "bad.csv:$2: " && says "$3"
}
one='0,alloc,1,64,0\n'
bad '' 1 'the file has no allocation'
bad "${one}1,allocate,2,64,0\n" 3 "the op is 'allocate', and must be alloc, free or freed"
bad 'x,alloc,1,64,0\n' 2 "the column t_us has 'x', which is no whole number"
bad '0,alloc,-1,64,0\n' 2 "the column id has '-1'"
bad '0,alloc,1,64.5,0\n' 2 "the column bytes has '64.5'"
bad '0,alloc,1,99999999999999999999,0\n' 2 "the column bytes has '99999999999999999999'"
bad '0,alloc,1,64,\n' 2 "the column stream has ''"
bad "${one}1,alloc,2,18446744073709551615,0\n" 3 'exceed 2^64 bytes'
bad "${one}1,alloc,2,64\n" 3 'the line has 4 columns, and the header line has 5'
bad "${one}1,alloc,2,64,0,7\n" 3 'the line has 6 columns'
bad "${one}1,alloc,1,64,0\n" 3 'block 1 was allocated already, in line 2'
bad "${one}1,free,2,64,0\n" 3 'block 2 was never allocated'
bad "${one}1,free,1,65,0\n" 3 'block 1 has 65 bytes here, and was allocated with 64 in line 2'
bad "${one}1,free,1,0,0\n" 3 'block 1 has 0 bytes here'
bad "${one}1,free,1,64,3\n" 3 'block 1 is of stream 3 here, and was allocated on stream 0 in line 2'
bad "${one}1,freed,1,64,0\n" 3 "block 1 is 'freed' without having been given to 'free' before"
bad "${one}1,free,1,64,0\n2,free,1,64,0\n" 4 'block 1 was freed already, in line 3'
bad "${one}1,free,1,64,0\n2,freed,1,64,0\n3,freed,1,64,0\n" 5 "block 1 is 'freed' a second time"
bad "$one$(printf '%5000s' x)\n" 3 'the line is longer than 4094 characters'
bad "${one}1,alloc\\0,2,64,0\n" 3 'holds a zero byte'
bad "$(awk 'BEGIN { for (i = 0; i < 257; i++) printf "0,alloc,%d,64,%d\\n", i, i }')" 258 \
    'more than 256 streams'

# bad_rmm LINES LINE TEXT: the same for RMM's log.
bad_rmm() {
    printf 'Thread,Time,Action,Pointer,Size,Stream\n%b' "$1" >"$work/bad.csv"
    run 1 replay --device "$device" "$work/bad.csv" && says "bad.csv:$2: " && says "$3"
}
one='1,12:00,allocate,0x10,64,0x0\n'
bad_rmm "${one}1,12:00,allocat,0x20,64,0x0\n" 3 "the action is 'allocat'"
bad_rmm "$one$one" 3 'pointer 0x10 was allocated in line 2 and is not free yet'
bad_rmm "${one}1,12:00,free,0x20,64,0x0\n" 3 'pointer 0x20 is not allocated'
bad_rmm "${one}1,12:00,free,0x10,64,0x0\n1,12:00,free,0x10,64,0x0\n" 4 'pointer 0x10 is not allocated'
bad_rmm "${one}1,12:00,free,0xzz,64,0x0\n" 3 "the column Pointer has '0xzz'"

# Files that are no trace.
: >"$work/bad.csv"
run 1 replay "$work/bad.csv" && says 'bad.csv:1: the file is empty'
printf 'a,b,c\n1,2,3\n' >"$work/bad.csv"
run 1 replay "$work/bad.csv" && says 'bad.csv:1: this is not the header line of a trace'
head -c 9000 two_stream_cut.csv.gz >"$work/bad.csv.gz"
run 1 replay "$work/bad.csv.gz" && says 'the compressed file ends in the middle'
{
    head -c 9000 two_stream_cut.csv.gz && printf 'garbage garbage' && tail -c 20000 two_stream_cut.csv.gz
} >"$work/bad.csv.gz"
run 1 replay "$work/bad.csv.gz" && says 'bad.csv.gz:'
run 1 replay "$work/none.csv" && says 'none.csv cannot be opened: No such file or directory'
run 1 replay "$work" && says 'cannot be read: Is a directory'

# ---- bad command lines ----------------------------------------------------------------------------------------

trace=two_stream_cut.csv.gz
usage 'the file to replay is missing' replay
usage "'b' is not an option" replay a b
usage 'there is no option --nothing' replay --nothing $trace
usage '--allocator takes leat, driver, driver-async or driver-async-keep' replay --allocator malloc $trace
usage '--policy takes wait-last, wait or wait-never' replay --policy never $trace
for number in 0 101 -1 x ''; do
    usage '--repeat takes a whole number from 1 to 100' replay --repeat "$number" $trace
done
for number in 0 -1 1X 1KiB 99999999999T '' 0x 1.02xx x 0x1p3x 1e1x 101x .x nanx; do
    usage '--limit takes a size' replay --limit "$number" $trace
done
usage '--packing takes auto, still or tight' replay --packing loose $trace
for number in -1 1024 x ''; do
    usage '--trace-device takes a whole number from 0 to 1023' replay --trace-device "$number" $trace
done
for option in '--policy wait' '--packing still' '--limit 1G' '--limit 1.5x' '--trim' '--snapshot x'; do
    # shellcheck disable=SC2086
    usage 'does not go with --allocator driver' replay --allocator driver $option $trace
done
run 1 replay --device nothing:0 $trace && says 'nothing'
run 1 replay --device "$device" --snapshot "$work/none/x" $trace && says 'none/x cannot be written'
echo kept >"$work/kept"
run 1 replay --device "$device" --limit 6M --snapshot "$work/kept" pytorch_snapshot.pickle
[ "$(cat "$work/kept")" = kept ] || fail 'a replay that fails empties the file of the snapshot'
run 1 replay --device "$device" --limit 6M --snapshot "$work/unmade" pytorch_snapshot.pickle
[ -z "$(ls "$work"/unmade* "$work"/kept.* 2>/dev/null)" ] || fail 'a replay that fails leaves a file for the snapshot'
run 0 replay --help && run 0 help replay

# ---- names that are no UTF-8 ------------------------------------------------------------------------------------

# JSON must be UTF-8, whatever bytes variables and file names contain.
is_utf8() {
    iconv -f UTF-8 -t UTF-16 "$work/out" >/dev/null 2>"$work/err" || fail "$1 is no UTF-8"
    grep -qF "$2$(printf '\357\277\275')" "$work/out" || fail "$1 has no U+FFFD behind $2"
}
odd=$(printf 'odd\377\303')
LEAT_DEVICE=$odd LEAT_CUDA_LIBRARY=$odd "$leat" info --json >"$work/out" 2>"$work/err" || fail 'leat info --json fails'
is_utf8 'leat info --json' '"value": "odd'
cp two_stream_cut.csv.gz "$work/$odd.csv.gz"
replay --json "$work/$odd.csv.gz" && is_utf8 'leat replay --json' '"trace": "odd'

# ---- pool-map -------------------------------------------------------------------------------------------------

# drawn SNAPSHOT: both kinds of picture can be made from it.
drawn() {
    run 0 pool-map "$1" -o "$work/map.svg" || return
    check_xml "$work/map.svg"
    [ ! -s "$work/out" ] || fail 'with -o nothing goes to standard output'
    run 0 pool-map "$1" && { cmp -s "$work/out" "$work/map.svg" || fail 'a file and standard output differ'; }
    "$leat" pool-map - <"$1" | cmp -s - "$work/map.svg" || fail 'standard input gives another picture'
    run 0 pool-map --json "$1" && {
        for key in reserved_bytes largest_free_bytes states streams ranges; do
            grep -q "\"$key\":" "$work/out" || fail "the JSON of the map lacks $key"
        done
    }
    # On a terminal the picture is made of characters. script(1) provides a terminal.
    if command -v script >/dev/null; then
        script -qec "'$leat' pool-map '$1'" "$work/terminal" >/dev/null </dev/null
        ! grep -q '<svg' "$work/terminal" || fail 'SVG was written to a terminal'
    fi
    run 0 pool-map --text "$1"
}

replay --snapshot "$work/peak.json" --repeat 2 vit_checkpoint_cut.csv.gz && drawn "$work/peak.json" && {
    grep -q '^requested 3.3 GiB, reserved 3\.[3-6] GiB, ratio 1\.0' "$work/out" || fail 'the figures of the peak'
    grep -q '^  0x[0-9a-f]* |.*#' "$work/out" || fail 'nothing is live in the picture'
    [ "$(grep -c '~ .* of addresses without memory ~' "$work/out")" -eq 2 ] ||
        fail 'the addresses behind the last memory are left out without a mark'
    # At the peak the live blocks of the snapshot are the requested bytes.
    live=$(grep -o '"state":"live","requested_bytes":[0-9]*' "$work/peak.json" |
        awk -F: '{ sum += $3 } END { printf "%.0f", sum }')
    [ "$live" = 3507757272 ] || fail "the blocks of the snapshot have $live bytes instead of 3507757272"
}

# At the peak stitched blocks of this pool are in use: the memory of the heaps with the state "in_stitch" must be at
# least as large as the live stitched blocks.
replay --snapshot "$work/tight.json" --packing tight vit_checkpoint_cut.csv.gz && drawn "$work/tight.json" && {
    grep -q '^stitched: .*; memory of the ranges above, mapped once more$' "$work/out" || fail 'no stitched range'
    grep -q '|.*s.*|$' "$work/out" || fail 'no memory is used by stitched blocks in the picture'
    # sum RANGE STATE: adds the bytes of this state in this range.
    sum() {
        tr -d '\n' <"$work/tight.json" | sed 's/{"name":/\n&/g' | grep "^{\"name\":\"$1\"" | tr '{' '\n' |
            grep "\"state\":\"$2\"" | sed 's/.*"bytes":\([0-9]*\),"state".*/\1/' |
            awk '{ sum += $1 } END { printf "%.0f", sum }'
    }
    holds "$(sum stitched live) > 0 && $(sum large in_stitch) + $(sum small in_stitch) >= $(sum stitched live)"
    live=$(grep -o '"state":"live","requested_bytes":[0-9]*' "$work/tight.json" |
        awk -F: '{ sum += $3 } END { printf "%.0f", sum }')
    [ "$live" = 3507757272 ] || fail "the blocks of the snapshot have $live bytes instead of 3507757272"
}

# Planned blocks are shown in a range of their own.
run 0 plan vit_checkpoint_cut.csv.gz -o "$work/vit.plan"
replay --snapshot "$work/planned.json" --plan "$work/vit.plan" vit_checkpoint_cut.csv.gz && drawn "$work/planned.json" && {
    grep -q '^planned: a character is' "$work/out" || fail 'no range of planned blocks'
    live=$(grep -o '"state":"live","requested_bytes":[0-9]*' "$work/planned.json" |
        awk -F: '{ sum += $3 } END { printf "%.0f", sum }')
    [ "$live" = 3507757272 ] || fail "the blocks of the planned snapshot have $live bytes instead of 3507757272"
}

# A snapshot with every state, a tag and names that XML must escape or cannot contain, a call stack, a hole that is
# cut out, and small pages.
head='"format":"leat-pool-1","pool":"a<b>&\"c\u0001\uffff","device":"cuda:0","kind":"device"'
figures='"statistics":{"requested_bytes":5000000,"reserved_bytes":6291456}'
shares='"streams":[{"number":12,"requested_bytes":5000000,"live_blocks":1,"cached_bytes":7}],
    "tags":[{"name":"x & y","requested_bytes":5000000,"live_blocks":1}]'
live='{"offset":0,"bytes":5000192,"state":"live","requested_bytes":5000000,"stream":12,"tag":"x & y",
    "stack":["main <0x1>","f"]}'
others='{"offset":5000192,"bytes":1000,"state":"cached","stream":12},
    {"offset":5001192,"bytes":24,"state":"pending"},{"offset":5001216,"bytes":1290240,"state":"free"},
    {"offset":6291456,"bytes":1099511627776,"state":"hole"},
    {"offset":1099517919232,"bytes":2097152,"state":"stale"},{"offset":1099520016384,"bytes":4096,"state":"free"}'
snapshot() {
    printf '{%s,"page_bytes":%s,%s,%s,"ranges":[{"name":"large","base":"0x7f0000000000","bytes":2199023255552,
        "extents":[%s]}]}' "$head" "$1" "$figures" "$shares" "$2" >"$work/map.json"
}
for page in 2097152 4096 1; do
    snapshot $page "$live,$others" && drawn "$work/map.json"
    grep -q 'of addresses without memory' "$work/out" || fail 'the hole is not cut'
    grep -q 'ratio 1.2583' "$work/out" || fail 'the ratio is wrong'
    for text in 'Pool a&lt;b&gt;&amp;"c on' '<title>live' 'tag x &amp; y' 'main &lt;0x1&gt;' 'stream 12' \
        'requested 5000000 bytes' 'class="cached"' 'class="pending"' 'class="free"' \
        'class="stale"' 'prefers-color-scheme: dark'; do
        grep -qF "$text" "$work/map.svg" || fail "the picture of pages of $page bytes lacks: $text"
    done
done
snapshot 2097152 '' && drawn "$work/map.json"

# Stitched blocks come first in the list, and are drawn behind the memory that they use. A live block's pages
# extend further than the block; unused addresses are left out. Memory of stitched blocks counts as used, so a page
# that they share with free memory is partly used.
stitched='{"name":"stitched","base":"0x7e0000000000","bytes":1073741824,"extents":[
    {"offset":0,"bytes":134217728,"state":"dormant"},
    {"offset":134217728,"bytes":4194304,"state":"live","requested_bytes":4194000},
    {"offset":140509184,"bytes":2097152,"state":"cached","stream":12},
    {"offset":142606336,"bytes":67108864,"state":"dormant"}]}'
large='{"name":"large","base":"0x7f0000000000","bytes":2199023255552,"extents":[
    {"offset":0,"bytes":8000000,"state":"in_stitch"},{"offset":8000000,"bytes":388608,"state":"free"}]}'
printf '{%s,"page_bytes":2097152,%s,"streams":[],"tags":[],"ranges":[%s,%s]}' "$head" "$figures" "$stitched" \
    "$large" >"$work/map.json"
drawn "$work/map.json" && {
    grep -q '1 pages partly used, 379.5 KiB idle in them' "$work/out" || fail 'memory that a stitched block uses does not count as used'
    [ "$(grep -n '^large:' "$work/out" | cut -d: -f1)" -lt "$(grep -n '^stitched:' "$work/out" | cut -d: -f1)" ] ||
        fail 'stitched blocks come before the memory that they use'
    grep -q '~ 128 MiB of addresses not in use ~' "$work/out" || fail 'the dormant block is not left out'
    grep -q '|#.*#c*d*|$' "$work/out" || fail 'the stitched blocks are not drawn'
    for text in 'stitched, live, 6 MiB' 'requested 4194000 bytes' 'class="in_stitch"' 'class="stitched"' \
        'used by stitched blocks, 7.6 MiB' 'stitched, not in use, 192 MiB' '128 MiB of addresses not in use'; do
        grep -qF "$text" "$work/map.svg" || fail "the picture of stitched blocks lacks: $text"
    done
}

# Files must send no escape sequences to the terminal.
escape=$(printf '\033')
printf 't_us,op,id,bytes,stream\n1,\033]0;x\007,1,512,0\n' >"$work/escape.csv"
run 1 replay --device "$device" "$work/escape.csv" && says 'escape.csv:2: ' && says '?]0;x?'
! grep -q "$escape" "$work/err" || fail 'a message has an escape character of the trace'
sed 's/"name":"large"/"name":"\\u001b]0;x\\u0007"/; s/"device":"cuda:0"/"device":"\\u001b]0;x\\u0007"/' "$work/map.json" \
    >"$work/escape.json"
run 0 pool-map --text "$work/escape.json" && {
    [ "$(grep -cF '?]0;x?' "$work/out")" -eq 2 ] || fail 'the names of the pool and its range are others'
    ! grep -q "$escape" "$work/out" || fail 'the text has an escape character of the snapshot'
}

# wrong EXTENTS TEXT: the snapshot must be refused with TEXT.
wrong() {
    snapshot 2097152 "$1"
    run 1 pool-map "$work/map.json" && says "map.json: " && says "$2"
}
wrong '{"offset":0,"bytes":4096,"state":"odd"}' "ranges[0].extents[0]: there is no state 'odd'"
wrong '{"offset":512,"bytes":4096,"state":"free"}' \
    'ranges[0].extents[0]: it begins at 512, and the one before it ends at 0'
wrong '{"offset":0,"bytes":0,"state":"free"}' 'ranges[0].extents[0]: 0 bytes at 0 are nothing'
wrong '{"offset":0,"bytes":9000000000000,"state":"free"}' 'more than the 2199023255552 bytes of the range'
wrong '{"offset":0,"state":"free"}' "ranges[0].extents[0]: 'bytes' is missing or no whole number"
wrong '{"offset":0,"bytes":-1,"state":"free"}' "ranges[0].extents[0]: 'bytes' is missing or no whole number"
wrong '5' "ranges[0].extents[0]: 'offset' is missing"
wrong '{' 'line '
snapshot 0 '' && run 1 pool-map "$work/map.json" && says "'page_bytes' must be from 1"
printf '{"format":"other"}' >"$work/map.json"
run 1 pool-map "$work/map.json" && says 'this is no snapshot of a pool'
printf '[]' >"$work/map.json"
run 1 pool-map "$work/map.json" && says 'this is no snapshot of a pool'
run 1 pool-map "$work/none.json" && says 'none.json'
run 1 pool-map "$work/peak.json" -o "$work/none/x" && says 'none/x cannot be written'
usage 'the snapshot to draw is missing' pool-map
usage "'b' is not an option" pool-map a b
usage 'needs a value' pool-map a -o
usage '--text or --json, not both' pool-map --text --json a
run 0 pool-map --help && run 0 help pool-map

finish
