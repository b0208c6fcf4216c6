#!/bin/sh
# cli_layout.sh - "leat layout" and "leat bench layout" as a user calls them: single copies of all kinds, every
# suite with few bytes, the ladder, records, tables and pictures, and wrong command lines.
#
# LEAT_COMMAND is the command, LEAT_TEST_DEVICE the device. The command verifies the bytes; times only have to be
# present.
cd "$(dirname "$0")" || exit 1
. ./cli.sh

# has PATTERN: standard output must match.
has() {
    grep -q -- "$1" "$work/out" || fail "the output lacks: $1"
}

# layout PAYLOAD WORDS...: the copy must be verified and have PAYLOAD bytes.
layout() {
    bytes=$1
    shift
    run 0 layout --device "$device" --repeat 2 --json "$@" || return
    has '^  "verified": true,'
    has "^  \"payload_bytes\": $bytes,"
}

# ---- one copy -------------------------------------------------------------------------------------------------

layout 1048576 --size 512,512 --perm 1,0 --elem 4 --verify && {
    for key in gb_s copy_gb_s share_of_copy median_us read_sectors written_sectors; do
        has "^  \"$key\": [0-9]"
    done
    # There is no bound if the copy was slower than the layout, as on a busy machine.
    for key in bound_gb_s share_of_bound; do
        has "^  \"$key\": \([0-9]\|null\)"
    done
    has '^  "plan": "[^"]*class: transpose'
    has '^  "class": "transpose"'
    has '^  "size": "512,512"'
    has '^    "stride_bytes": "4,2048"'
}
run 0 layout --device "$device" --repeat 2 --size 512,512 --perm 1,0 && {
    has '^4 B, 512x512, perm 1,0: 1 MiB from device to device'
    has '^  class: transpose'
    has '^  bound: '
    has '^  verified  *yes'
    has 'GB/s, .* % of a plain copy'
}
for bytes in 1 2 3 5 6 7 8 11 12 16; do
    layout $((bytes * 31 * 17 * 9)) --size 31,17,9 --perm 2,0,1 --elem $bytes
done
layout 300 --size 10,100 --slice 0:1:10:3 --slice 1:99:74:-1 --elem 4 # rows 1, 4, 7; 25 columns in reverse order
layout 12000 --size 30,100 --flip 0 --flip 1
layout 16000 --size 40,1 --broadcast 1:100
layout 12800 --size 100,64 --index 0:50
layout 12800 --size 100,64 --index 0:50:4
layout 12800 --size 50,64 --scatter 0:100:4
layout 6400 --size 40,40 --perm 1,0 --index 0:40 # the gathered columns become rows
layout 4 --size 1
layout 0 --size 4,0,4 --perm 2,1,0 && has '^  "gb_s": null' && has '^  "class": "nothing"'
layout 16777216 --size 2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2 --elem 1 \
    --perm 23,22,21,20,19,18,17,16,15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0
for kind in pinned managed pageable; do
    layout 262144 --size 256,256 --perm 1,0 --from $kind
    layout 262144 --size 256,256 --perm 1,0 --to $kind
done
layout 262144 --size 256,256 --perm 1,0 --from pageable --to pageable
run 0 layout --help && run 0 help layout

# ---- suites ---------------------------------------------------------------------------------------------------

# All suites with few bytes. The 57 permutations are measured for four sizes of elements.
run 0 bench layout --device "$device" --bytes 16K --repeat 1 --json --output "$work/record" --picture "$work/a.svg" && {
    grep -q '"verified": false' "$work/out" && fail 'bytes were not verified'
    [ "$(grep -c '"part": "permute: ' "$work/out")" -eq 228 ] || fail 'the permutations are not 4 x 57'
    for suite in transpose learning shuffle dims gather broadcast slice host call batch; do
        has "\"part\": \"$suite: "
    done
    rows=$(grep -c '"arguments": "--size ' "$work/out")
    [ "$rows" -ge 400 ] || fail "there are $rows cases only"
    has '"case": "mean of permute, 2 B"'
    run 0 bench --from "$work/record" --picture "$work/b.svg" layout && {
        cmp -s "$work/a.svg" "$work/b.svg" || fail 'the picture of the run and that of its record differ'
        has '^layout: permute: the 57 permutations'
        has '^mean of permute, 8 B .* 57 '
        has 'OF COPY'
    }
    dots=$(grep -c 'class="dot k0"><title>leat: ' "$work/a.svg")
    calls=$(grep -c '"times_empty": ' "$work/record")
    [ "$dots" -eq $((rows - calls)) ] || fail "the picture has $dots dots for $rows cases, $calls of them calls"
    check_xml "$work/a.svg"
    # A picture marks what does not fit: long names are cut with an ellipsis, and bounds above the panel are named.
    long=$(printf '%0200d' 0)
    sed -E 's/("command": ")/\1'"$long"'/; s/("bound": )[0-9.]+/\19e9/' "$work/record" >"$work/long"
    run 0 bench --from "$work/long" --picture "$work/c.svg" layout && {
        grep -q "<title>.*$long.*</title>.*0…</text>" "$work/c.svg" || fail 'a line that is too long is cut without a mark'
        grep -q '>the bound: .* above the panel</title>' "$work/c.svg" || fail 'bounds above the panel are not marked'
        check_xml "$work/c.svg"
    }
}
run 0 bench --device "$device" --quick --suite slice,call --bytes 64K --repeat 2 && has '^layout: slice: ' && has 'TIMES EMPTY'
run 0 bench layout --suite batch --device "$device" --repeat 2 --json && {
    [ "$(grep -c '"part": "batch: ' "$work/out")" -eq 5 ] || fail 'the batches have not 5 rows'
    [ "$(grep -c '"verified": true' "$work/out")" -eq 5 ] || fail 'a batch was not verified'
    has '"each_us": '
}
run 0 bench layout --ladder --device "$device" --bytes 256K --repeat 2 --json && {
    [ "$(grep -c '"part": "ladder: ' "$work/out")" -eq 5 ] || fail 'the ladder has not 5 rungs'
    [ "$(grep -c '"verified": true' "$work/out")" -eq 5 ] || fail 'a rung was not verified'
    has '"case": "a copy for each column"'
    # On the CPU device each rung uses another protocol.
    case $device in
    cpu:*)
        has '"kernel": "elements, plain C, cached '
        has '"kernel": "tiles, plain C, cached '
        [ "$(grep -c '"kernel": "tiles, ' "$work/out")" -eq 3 ] || fail 'three rungs have tiles'
        ;;
    esac
}

# ---- bad command lines ----------------------------------------------------------------------------------------

usage 'how large is the array' layout
usage 'how large is the array' layout --perm 1,0
usage '--size takes 1 to 32 whole numbers' layout --size ''
usage '--size takes 1 to 32 whole numbers' layout --size 4x4
usage '--size takes 1 to 32 whole numbers' layout --size 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
usage '--size -1,4: ' layout --size -1,4
usage '--size 4611686018427387904,4: ' layout --size 4611686018427387904,4
usage '--elem takes a whole number from 1 to 16' layout --size 4 --elem 17
usage '--elem takes a whole number from 1 to 16' layout --size 4 --elem 0
usage '--perm takes the numbers of all dimensions' layout --size 4,4 --perm 1
usage '--perm 1,1: ' layout --size 4,4 --perm 1,1
usage '--perm 0,-1: ' layout --size 4,4 --perm 0,-1
usage '--slice takes DIM:START:STOP' layout --size 4,4 --slice 0:1
usage '--slice 2:0:1: ' layout --size 4,4 --slice 2:0:1
usage '--slice 0:0:5: ' layout --size 4,4 --slice 0:0:5
usage '--slice 0:0:4:0: ' layout --size 4,4 --slice 0:0:4:0
usage '--flip 7: ' layout --size 4,4 --flip 7
usage '--broadcast 0:3: ' layout --size 4,4 --broadcast 0:3
usage '--index takes DIM:COUNT' layout --size 4,4 --index 0
usage '--index 0:2:3: ' layout --size 4,4 --index 0:2:3
usage 'a dimension with a list of indices has 1' layout --size 0,4 --index 0:2
usage '--scatter takes a dimension' layout --size 4,4 --scatter 0:3
usage '--from takes device, pinned' layout --size 4,4 --from nowhere
usage '--repeat takes a whole number' layout --size 4,4 --repeat x
usage 'is not an option' layout --size 4,4 more
usage 'there is no option --sizes' layout --sizes 4,4
usage "--suite knows no 'permutations'" bench layout --suite permutations
usage 'index_bytes of layout is 3' layout --size 4,4 --index 0:9:3
LEAT_LAYOUT_KERNEL=nothing run 1 layout --size 4,4 --device "$device" && {
    grep -q "LEAT_LAYOUT_KERNEL is set to 'nothing'" "$work/err" || fail 'the setting is not named'
}
usage 'the ladder is no suite' bench --ladder --suite permute
usage '--from measures nothing' bench --from "$work/record" --ladder
run 1 layout --device nothing:0 --size 4,4
run 1 layout --device "$device" --size 1073741824,1073741824
[ "$(grep -c '^leat: layout: ' "$work/err")" -eq 1 ] || fail 'memory that there is not: no message'

finish
