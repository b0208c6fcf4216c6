#!/bin/sh
# cli_bench.sh - "leat bench copy", "leat bench memory" and "leat explain" as a user calls them: runs of small sizes,
# their records, tables and pictures, plans in words, and command lines that make no sense.
#
# LEAT_COMMAND is the command, LEAT_TEST_DEVICE the device. Times only have to be there.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
export TMPDIR="$work" # for the files that are mapped

# count NUMBER PATTERN FILE
count() {
    found=$(grep -c -- "$2" "$3")
    [ "$found" -eq "$1" ] || fail "$found lines instead of $1 have: $2"
}

bench() { run 0 bench copy --device "$device" --repeat 2 "$@"; }

# ---- sizes ----------------------------------------------------------------------------------------------------

# Main kinds of memory have three directions and the others two; fresh pages are targets only.
bench --part sizes --memory pinned,pageable,huge,registered,file,fresh --bytes 4K,64K,1M --json --output "$work/record" \
    --picture "$work/a.svg" && {
    cmp -s "$work/out" "$work/record" || { echo >>"$work/record" && cmp -s "$work/out" "$work/record"; } ||
        fail 'the record on standard output is not that of the file'
    ! grep -q '"verified": false' "$work/out" || fail 'bytes were not verified'
    for kind in pinned pageable; do
        for direction in 'host to device' 'device to host' 'both directions'; do
            count 3 "\"case\": \"$direction, $kind\"" "$work/out"
        done
    done
    for kind in registered file; do
        count 3 "\"case\": \"host to device, $kind\"" "$work/out"
        count 3 "\"case\": \"device to host, $kind\"" "$work/out"
    done
    count 3 '"case": "device to host, pageable, fresh"' "$work/out"
    rows=$(grep -c '"case": ' "$work/out")
    for key in value p99 call_us cpu_s_per_gb bytes; do
        count "$rows" "\"$key\": [0-9]" "$work/out"
    done
    check_xml "$work/a.svg"
    # leat's lines: pinned and pageable in three panels, files and, where there are any, huge pages in two.
    lines=$(grep -c '<path .*class="curve k' "$work/a.svg")
    wanted=8
    grep -q 'huge pages"' "$work/record" && wanted=10
    [ "$lines" -eq $wanted ] || fail "the picture has $lines lines of leat's instead of $wanted"
    for text in 'Host to device' 'Device to host' 'Both directions' 'GB/s' '4 KiB' 'prefers-color-scheme: dark'; do
        grep -qF "$text" "$work/a.svg" || fail "the picture lacks: $text"
    done
    run 0 bench --from "$work/record" --picture "$work/b.svg" && {
        cmp -s "$work/a.svg" "$work/b.svg" || fail 'the picture of the run and that of its record differ'
        grep -q '^copy: pinned memory' "$work/out" || fail 'there is no table of pinned memory'
        grep -q 'CPU s/GB' "$work/out" || fail 'the tables lack the processor time'
    }
    run 0 bench --from "$work/record" --headline --markdown &&
        { grep -q '^| copy | host to device, pageable | 1 MiB' "$work/out" || fail 'the headline lacks a row'; }
}
bench --part sizes --memory file-cold --bytes 64K &&
    { grep -q 'cold file\|no rows of cold files' "$work/out" || fail 'cold files are neither there nor left out'; }
[ -z "$(find "$work" -name 'leat-bench-*')" ] || fail 'a temporary file was left'

# ---- the other parts ------------------------------------------------------------------------------------------

# On GPUs other processes take a second each to start.
bench --part workers --bytes 64K --json && {
    count 3 '"workers": 1' "$work/out"
    count 1 '"case": "host to device, pageable, 1 thread"' "$work/out"
}
bench --part beside --bytes 1M --json && {
    count 2 '"slowdown": [0-9]' "$work/out"
    count 2 '"verified": true' "$work/out"
}
bench --part many --json && {
    count 5 '"each_us": [0-9]' "$work/out"
    count 5 '"verified": true' "$work/out"
    for case in 'in, pinned' 'out, pinned' 'in, pageable' 'out, pageable' 'on the device'; do
        count 1 "\"case\": \"4096 copies $case\"" "$work/out"
    done
}

# ---- ways of reading, and levels of memory --------------------------------------------------------------------

run 0 bench memory --quick --bytes 2M --repeat 2 --device "$device" --json --output "$work/memory" \
    --picture "$work/m.svg" && {
    ! grep -q '"verified": false' "$work/out" || fail 'bytes were not verified'
    for way in 'copied from pageable memory' 'copied from pinned memory' 'read in place (mapped)' managed \
        'managed, prefetched'; do
        count 1 "\"case\": \"$way, all of it\"" "$work/out"
        count 1 "\"case\": \"$way, every 512th page\"" "$work/out"
    done
    count 5 'the fastest is' "$work/out"
    for level in 'registers' 'local memory of a thread' 'device memory, 16 KiB' 'host memory, in place'; do
        grep -q "\"case\": \"$level" "$work/out" || fail "there is no level: $level"
    done
    check_xml "$work/m.svg"
    count 30 '<rect .*class="k' "$work/m.svg" # 25 bars, and the legend
    run 0 bench --from "$work/memory" --picture "$work/n.svg" memory && {
        cmp -s "$work/m.svg" "$work/n.svg" || fail 'the picture of the run and that of its record differ'
        grep -q '^memory: levels of memory: reading' "$work/out" || fail 'there is no table of levels'
    }
}

# ---- plans in words -------------------------------------------------------------------------------------------

for place in pageable file registered pinned managed device; do
    run 0 explain copy --device "$device" --from $place --bytes 4M && {
        grep -q '^4 MiB from ' "$work/out" || fail "the plan of $place does not begin with what is copied"
        for line in path why bound; do
            grep -q "^  $line  *[^ ]" "$work/out" || fail "the plan of $place has no $line"
        done
    }
done
run 0 explain copy --device "$device" --from device --to device && {
    grep -q "^64 MiB from $device to $device" "$work/out" || fail 'the plan within the device'
}
run 0 explain copy --device "$device" --from pinned --bytes 4K --count 100
run 0 explain copy --device "$device" --bytes 40 --rows 1000 && {
    grep -q '^1000 rows of 40 B, 39 KiB from ' "$work/out" || fail 'the plan of rows'
}
run 1 explain copy --device "$device" --from nonsense && says "'nonsense' is not a device name"
usage 'what is to be explained' explain
usage 'what is to be explained' explain fill
usage '--bytes takes a number of bytes above 0' explain copy --bytes 4KiB
usage '--count takes a whole number' explain copy --count 0
usage '--rows takes a whole number' explain copy --rows x
usage '--count or --rows, not both' explain copy --rows 1 --count 1
usage 'so many bytes there are nowhere' explain copy --bytes 10000000T --count 1000000
run 0 explain --help && run 0 help explain

# ---- bad command lines ----------------------------------------------------------------------------------------

for sizes in 0 x '' '4K,' ',4K' 4KiB -1 99999999999T; do
    usage '--bytes takes at most' bench copy --bytes "$sizes"
done
usage "there is no group 'copies'" bench copies
usage "--memory knows no 'warm'" bench copy --memory pinned,warm
usage '--memory needs a name' bench copy --memory ''
usage "--part knows no 'size'" bench copy --part size
usage '--quick and --full are opposites' bench --quick --full
usage '--from measures nothing' bench --from "$work/record" --bytes 4K
usage '--json prints no tables' bench --json --headline
run 1 bench copy --device "$device" --picture "$work/none/x" && says 'none/x cannot be written'
run 1 bench --from "$work/none" --picture "$work/c.svg" && says 'cannot be read as a record'
printf '{"rows":[]}' >"$work/empty"
run 1 bench --from "$work/empty" --picture "$work/c.svg" && says 'there is nothing to draw'
run 1 bench --from "$work/empty" --picture "$work/c.svg" memory && says 'there is nothing to draw'
run 1 bench --from "$work/empty" --picture "$work/c.svg" alloc && says 'there is no picture'
run 1 bench copy --device nothing:0 && says 'nothing'

finish
