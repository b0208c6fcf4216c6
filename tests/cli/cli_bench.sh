#!/bin/sh
# cli_bench.sh - "leat bench copy", "leat bench memory", "leat bench pool", "leat bench file" and "leat explain" as a
# user calls them: short runs with their records, tables and pictures, how much memory pools hold, plans as text, and
# wrong command lines.
#
# LEAT_COMMAND is the command, LEAT_TEST_DEVICE the device. Times only have to be present; counts, and the bytes of
# the packing, must stay within bounds.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
export TMPDIR="$work" # for mapped files

# count NUMBER PATTERN FILE: exactly NUMBER lines of the file must match.
count() {
    found=$(grep -c -- "$2" "$3")
    [ "$found" -eq "$1" ] || fail "$found lines instead of $1 have: $2"
}

bench() { run 0 bench copy --device "$device" --repeat 2 "$@"; }

# ---- one screen --------------------------------------------------------------------------------------------------

# The summary has at most 80 columns and 24 lines; its last line says whether all bytes were verified. The full
# tables are in the file.
COLUMNS='' run 0 bench alloc copy --device "$device" --quick --repeat 2 --bytes 64K,1M --memory pinned,pageable \
    --part sizes --summary "$work/tables" && {
    [ "$(wc -l <"$work/out")" -le 24 ] || fail 'the summary is longer than a screen'
    ! sed '/^\(Device\|Host\|All tables.*\): /d' "$work/out" | grep -q '.\{81\}' || fail 'the summary is wider than 80 columns'
    tail -n 1 "$work/out" | grep -q '^main job: [1-9][0-9]* rows, all verified, in [0-9]* s$' || fail 'how it ended is not said'
    grep -qF "$work/tables" "$work/out" || fail 'the file of the tables is not named'
    grep -q '^copy: pinned memory' "$work/tables" && grep -q '^alloc: ' "$work/tables" || fail 'the file lacks tables'
}

# Tables must fit the line: a table that is too wide is split, and each part repeats the first columns. No figure
# may exceed its bound.
run 0 bench copy --device "$device" --quick --repeat 2 --bytes 4K,64K,1M --memory pinned,pageable --part sizes \
    --output "$work/narrow" && {
    awk '{ for (i = 2; i <= NF; i++) if ($i == "%" && $(i - 1) > 100) exit 1 }' "$work/out" ||
        fail 'a figure is above its bound'
    awk -F: '/"ratio_to_bound": [0-9]/ && $2 + 0 > 1.0005 { exit 1 }' "$work/narrow" || fail 'a row is above its bound'
}
for width in '' 100; do
    COLUMNS=$width run 0 bench --from "$work/narrow" copy && {
        longest=$(sed '/^\(Device\|Host\|Run\|Note\): /d' "$work/out" | awk 'length > n { n = length } END { print n }')
        [ "$longest" -le "${width:-80}" ] || fail "tables of ${width:-80} columns have lines of $longest"
        [ "$(grep -c '^CASE  *SIZE' "$work/out")" -gt "$(grep -c '^copy: ' "$work/out")" ] || fail 'no table was split'
    }
done
# The report must say that other processes used the processors before the run and during it.
for i in 1 2 3 4; do while :; do :; done & spinning="$spinning $!"; done
sleep 0.2
run 0 bench latency --device "$device" --quick --repeat 2 --json
# shellcheck disable=SC2086
kill $spinning
for text in 'the machine was busy before the run' "others used .* of the processors' time during the run"; do
    grep -q "$text" "$work/out" || [ "$(nproc)" -gt 16 ] || fail "a busy machine is not noticed: $text"
done
usage '--summary does not go with --from' bench --summary "$work/tables" --json

# ---- sizes ----------------------------------------------------------------------------------------------------

# The main kinds of memory have three directions, the others two. Fresh pages are only destinations.
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
    # Curves of leat: pinned and pageable in three panels each; files, and huge pages if there are any, in two.
    lines=$(grep -c '<path .*class="curve k' "$work/a.svg")
    wanted=8
    grep -q 'huge pages"' "$work/record" && wanted=10
    [ "$lines" -eq $wanted ] || fail "the picture has $lines lines of leat's instead of $wanted"
    for text in 'Host to device' 'Device to host' 'Both directions' 'GB/s' '4 KiB' 'prefers-color-scheme: dark' \
        'not drawn: registered and pageable, fresh'; do
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

# On GPUs each process of this part takes a second to start, so keep it short.
bench --part workers --bytes 64K --json && {
    count 3 '"workers": 1' "$work/out"
    count 1 '"case": "host to device, pageable, 1 thread"' "$work/out"
}
bench --part beside --bytes 1M --json && {
    count 2 '"slowdown": [0-9]' "$work/out"
    count 2 '"verified": true' "$work/out"
}
bench --part batch --json && {
    count 5 '"each_us": [0-9]' "$work/out"
    count 5 '"verified": true' "$work/out"
    for case in 'in, pinned' 'out, pinned' 'in, pageable' 'out, pageable' 'on the device'; do
        count 1 "\"case\": \"4096 copies $case\"" "$work/out"
    done
}

# ---- copies with idle gaps --------------------------------------------------------------------------------------

# gap_rows SIZES GAPS: checks the number of rows in $work/out for each timing, direction and state of the caches.
# Rows that take turns with the driver's own calls exist only if the record compares with them.
gap_rows() {
    each=$(($1 * $2 * 2))
    with=$(grep -c '"compared_with": "' "$work/out")
    for direction in in out; do
        count $((each * (3 + with) / 2)) "\"direction\": \"$direction\"" "$work/out"
    done
    count $((each * 2)) '"timing": "done"' "$work/out"
    count $each '"timing": "sync"' "$work/out"
    count $((each * with)) '"timing": "turns"' "$work/out"
    count $each '"cache": "cold"' "$work/out"
    for key in gap_ms mean p99 value; do
        count $((each * (3 + with))) "\"$key\": [0-9]" "$work/out"
    done
    for key in driver_mean driver_p99 driver_value; do
        count $((each * 4 * with)) "\"$key\": [0-9]" "$work/out"
    done
    count $((each * (3 + with))) '"verified": true' "$work/out"
}
for stage in 0 1; do
    export LEAT_COPY_STAGE=$stage
    run 0 bench copy --device "$device" --repeat 5 --part gaps --gaps 0,0.2 --bytes 4,4097,1M --json --output "$work/gaps" &&
        gap_rows 3 2
done
unset LEAT_COPY_STAGE
tables=$((2 * (3 + with)))
count $((tables * 6)) '"repeats": 5' "$work/gaps"
run 0 bench --from "$work/gaps" copy && {
    count $tables '^copy: pageable, idle gaps: .*, medians in us$' "$work/out"
    count $tables '^copy: pageable, idle gaps: .*, p99 in us$' "$work/out"
    count $((tables * 2)) '^  *SIZE  *NO GAP  *GAP 0.2 ms$' "$work/out"
    count $((tables * 2 * with)) '^  *4 B  *[0-9.]* ([0-9.]* / [0-9.]*)  *[0-9.]* ([0-9.]* / [0-9.]*)$' "$work/out"
}
sed 's/"verified": true/"verified": false/' "$work/gaps" >"$work/wrong"
run 0 bench --from "$work/wrong" copy && count $((tables * 6)) ' NOT VERIFIED .* NOT VERIFIED$' "$work/out"
run 0 bench --device "$device" --repeat 3 --gaps 1 --spin --direction in --timing sync --cache warm --bytes 64K --json && {
    count 1 '"group": ' "$work/out"
    count 1 '"case": "host to device, pageable, gap 1 ms, sync"' "$work/out"
}
run 0 bench copy --device "$device" --timing first --bytes 4K --repeat 2 --json && {
    count 1 '"case": "first copy of a process, in"' "$work/out"
    count 1 '"case": "first copy of a process, out"' "$work/out"
    count 2 '"verified": true' "$work/out"
    count 2 '"repeats": 2' "$work/out"
}
words='in,leat out,leat'
[ "$with" -eq 0 ] || words="$words in,driver out,driver"
for words in $words; do
    run 0 bench copy --device "$device" --first $words --bytes 5000 && {
        grep -q '^{"seconds": 0\.[0-9]*, "verified": true}$' "$work/out" || fail "the first copy, $words"
    }
done

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
    count 30 '<rect .*class="k' "$work/m.svg" # 25 bars, and 5 marks of the legend
    run 0 bench --from "$work/memory" --picture "$work/n.svg" memory && {
        cmp -s "$work/m.svg" "$work/n.svg" || fail 'the picture of the run and that of its record differ'
        grep -q '^memory: levels of memory: reading' "$work/out" || fail 'there is no table of levels'
    }
}

# ---- parts of the group pool -----------------------------------------------------------------------------------

# These parts hardly touch their blocks, and telling AddressSanitizer which memory is idle would take minutes.
usual_options=${ASAN_OPTIONS-}
export ASAN_OPTIONS="$usual_options${usual_options:+:}allow_user_poisoning=0"
run 0 bench --part streams --quick --repeat 2 --device "$device" --json && {
    count 2 '"group": "pool"' "$work/out"
    count 2 '"part": "blocks that pass from stream to stream"' "$work/out"
}
# Thousands of blocks of up to 256 MiB, of which a sanitizer marks each byte; and thousands of allocations for each of
# 200 sizes, of which unit_packing tests some under sanitizers.
$sanitized && echo 'skipped: pairs and the packing of pools: a sanitizer makes them take many minutes'
pairs() { ! $sanitized && run 0 bench pool --part pairs --quick --repeat 2 "$@" --json; }
packing() { ! $sanitized && run 0 bench pool --part packing --quick "$@"; }

pairs --device "$device" && {
    rows=$(grep -c '"case": "pair"\|"case": "pair, [0-9,]* live blocks"' "$work/out")
    [ "$rows" -ge 4 ] || fail "there are only $rows rows of pairs"
    for key in first mean call_p99 p999 longest driver_calls; do
        found=$(grep -c "^      \"$key\": [0-9]" "$work/out")
        [ "$found" -ge "$rows" ] || fail "$found of $rows rows of pairs have: $key"
    done
    ! grep -q '"verified": false' "$work/out" || fail 'a pair was not verified'
}
run 0 bench pool --part growth --quick --repeat 2 --device "$device" --json && {
    count 1 '"case": "a block stitched from idle pages"' "$work/out"
    count 0 '"part": "pairs of allocating' "$work/out"
    ! grep -q '"verified": false' "$work/out" || fail 'a step of growing was not verified'
}

packing --device "$device" --output "$work/packing" && {
    ! grep -q '"verified": false' "$work/packing" || fail 'the pool counts otherwise than the sequence does'
    grep -q '^pool: packing: blocks of one size.*within a limit$' "$work/out" || fail 'there is no table of sizes'
    grep -q '^128 MiB to 1 GiB  *29 ' "$work/out" || fail 'the table of sizes lacks its last row'
    grep -q '^6 MB and 10 MB in turns, churned ' "$work/out" || fail 'the table of mixes lacks its last row'
    ! grep -q 'one size  ' "$work/out" || fail 'the tables have all 200 sizes'
    sed 1,5d "$work/out" >"$work/tables"
    run 0 bench --from "$work/packing" pool && { sed 1,5d "$work/out" | cmp -s - "$work/tables" || fail 'the tables differ'; }

    # Each value of the record is a line of its own: "KEY": VALUE.
    awk -F '": ' '
        /^    {/ { split("", row) }
        /^      "/ { key = $1; sub(/^ *"/, "", key); value = $2; sub(/,$/, "", value); row[key] = value }
        /^    }/ && row["detail"] == "true" { sizes++; check_size() }
        /^    }/ && "stitches" in row { mixes++; check_mix() }
        function wrong(text) { printf "%s bytes of %s: %s\n", row["bytes"], row["case"], text; failed = 1 }
        function n(key) { return row[key] + 0 }
        # Bounds for blocks of one size: the pool may hold 2 percent more than the blocks, and a page in each heap.
        # With a limit, blocks must fill 97 percent of it; blocks above 32 MiB must fill it as far as possible.
        function check_size(  rounded, possible) {
            rounded = int((n("bytes") + 511) / 512) * 512
            possible = int(n("limit_bytes") / rounded)
            multiples += n("bytes") % 512 == 0
            if (n("bytes") <= last) wrong("sizes do not grow")
            last = n("bytes")
            if (n("rounded_bytes") != n("blocks") * rounded) wrong("rounded_bytes " n("rounded_bytes"))
            if (n("reserved_bytes") > 1.02 * n("rounded_bytes") + 2 * 2097152)
                wrong("holds " n("reserved_bytes") " for " n("rounded_bytes"))
            if (n("reserved_bytes") < n("rounded_bytes")) wrong("holds too little")
            if (n("fitting_blocks") < possible &&
                (n("bytes") > 33554432 || n("fitting_blocks") * rounded < 0.97 * n("limit_bytes")))
                wrong(n("fitting_blocks") " blocks of " possible " fit in " n("limit_bytes"))
        }
        # leat promises no bound for mixes. These are the values that were measured, so that a change is noticed.
        function check_mix(  most) {
            most = row["case"] ~ /, filled"/ ? 1.05 : row["case"] ~ /in turns/ ? 1.45 : 1.15
            if (n("ratio") > most || n("tight_ratio") > most) wrong("ratio " n("ratio") ", " n("tight_ratio"))
            if (n("ratio") > n("still_ratio") + 0.01) wrong("the packing auto holds more than still")
            if (n("allocations") < 20 || n("driver_calls") <= 0) wrong("it did not run")
        }
        END {
            if (sizes != 200 || mixes != 16) { print sizes " sizes, " mixes " rows of mixes"; failed = 1 }
            if (multiples < 50 || multiples > 150) { print multiples " multiples of 512"; failed = 1 }
            exit failed
        }' "$work/packing" >"$work/out" || fail 'the packing'
}

# Compare with a driver's own pools. Here the driver is leat's own compatibility library for the CUDA driver, whose
# pools are leat's pools, so both must hold the same.
names=$(dirname "$leat")/libleat-cuda.so
case $device in
cpu:*)
    export LEAT_CUDA_LIBRARY="$names" LEAT_DRIVERS=cuda,cpu
    packing --live 4M --device cuda:0 --output "$work/packing" && awk -F '": ' '
        /^    {/ { split("", row) }
        /^      "/ { key = $1; sub(/^ *"/, "", key); value = $2; sub(/,$/, "", value); row[key] = value }
        /^    }/ && row["detail"] == "true" {
            sizes++
            if (row["driver_fitting_blocks"] != row["fitting_blocks"]) other = 1
        }
        /^    }/ && ("rounded_bytes" in row) {
            rows++
            if (row["driver_reserved_bytes"] != row["reserved_bytes"]) other = 1
        }
        END { exit sizes != 200 || rows != 216 || other }' "$work/packing" || $sanitized ||
        fail 'leat beside itself holds another number of bytes or blocks'
    run 0 bench copy --gaps 0,1 --bytes 4,100K --repeat 4 --device cuda:0 --json && gap_rows 2 2
    run 0 bench copy --timing first --bytes 100K --repeat 1 --device cuda:0 --json &&
        count 2 '"verified": true' "$work/out"
    pairs --device cuda:0 && {
        rows=$(grep -c '"case": "pair"\|"case": "pair, [0-9,]* live blocks"' "$work/out")
        [ "$rows" -ge 4 ] || fail "there are only $rows rows of pairs"
        for key in first mean call_p99 p999 longest driver_calls driver_first driver_mean driver_longest; do
            found=$(grep -c "^      \"$key\": [0-9]" "$work/out")
            [ "$found" -ge "$rows" ] || fail "$found of $rows rows of pairs have: $key"
        done
        ! grep -q '"verified": false' "$work/out" || fail 'a pair was not verified'
    }
    unset LEAT_CUDA_LIBRARY LEAT_DRIVERS
    ;;
esac
export ASAN_OPTIONS="$usual_options"

# Lists of the packing's sequences, for other programs.
run 0 bench pool --part packing --list --quick && {
    grep -q '^{"format":"leat-packing-1",.*}$' "$work/out" || fail 'the sequences are no JSON'
    cp "$work/out" "$work/list"
    run 0 bench --list --part packing --quick && { cmp -s "$work/out" "$work/list" || fail 'the sequences change'; }
    run 0 bench --list --part packing --quick --live 1G &&
        { ! cmp -s "$work/out" "$work/list" || fail '--live changes nothing'; }
}
run 0 bench --list --part pairs && { grep -q '^pool  *what pools cost' "$work/out" || fail 'the groups are not listed'; }
for live in 0 x '' 2T 1KiB; do
    usage '--live takes a number of bytes from 1 to 1T' bench pool --part packing --live "$live"
done

# ---- plans in words -------------------------------------------------------------------------------------------

for place in pageable file registered pinned managed device; do
    run 0 explain copy --device "$device" --from $place --bytes 4M && {
        grep -q '^4 MiB from ' "$work/out" || fail "the plan of $place does not begin with what is copied"
        for line in protocol why others bound; do
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
# The JSON has a member for each line of the text.
run 0 explain copy --device "$device" --bytes 40 --rows 1000 --json && {
    for key in copy name protocol why others bound; do
        count 1 "^  \"$key\": " "$work/out"
    done
}
"$leat" bench --from - copy <"$work/record" >"$work/piped" && run 0 bench --from "$work/record" copy &&
    { cmp -s "$work/out" "$work/piped" || fail 'a record from standard input has other tables'; }
usage 'what is to be explained' explain
usage 'what is to be explained' explain fill
usage '--bytes takes a size above 0' explain copy --bytes 4KiB
usage '--count takes a whole number' explain copy --count 0
usage '--rows takes a whole number' explain copy --rows x
usage '--count or --rows, not both' explain copy --rows 1 --count 1
usage 'are more than can be addressed' explain copy --bytes 10000000T --count 1000000
run 0 explain --help && run 0 help explain

head -c 3000000 /dev/zero >"$work/file"
run 0 explain file "$work/file" --device "$device" && {
    grep -q '^2[.0-9]* MiB from a file to ' "$work/out" || fail 'the size of the file is not in the first line'
    grep -q '^  file  *[0-9]* % of the range is in the system' "$work/out" || fail 'nothing about the cache'
    grep -q '^  writes  *\(by pwrite(): \|through a shared mapping\)' "$work/out" || fail 'nothing about writes'
}
LEAT_IO_CACHE=cached LEAT_IO_MAP=never run 0 explain file "$work/file" --device "$device" && {
    grep -q 'read through it: LEAT_IO_CACHE is cached' "$work/out" || fail 'LEAT_IO_CACHE is not named'
    grep -q '^  writes  *by pwrite(): LEAT_IO_MAP is never' "$work/out" || fail 'LEAT_IO_MAP is not named'
}
LEAT_IO_CACHE=often run 1 explain file "$work/file" --device "$device" && says 'takes auto, cached or direct'
unset LEAT_IO_CACHE LEAT_IO_MAP
run 0 explain file "$work/file" --offset 1M --bytes 4K --to pageable --device "$device" --json && {
    grep -q '"file": "[0-9]* % of the range' "$work/out" || fail 'the JSON lacks the cache'
    grep -q '"writes": ".*pwrite()\|"writes": "through' "$work/out" || fail 'the JSON lacks the writes'
}
run 1 explain file "$work/file" --offset 4M --device "$device" && says 'is beyond the end of'
run 1 explain file "$work/file" --bytes 4M --device "$device" && says 'is beyond the end of'
run 1 explain file "$work/nothing" --device "$device" && says 'No such file or directory'
run 1 explain file "$work" --device "$device" && says 'not a regular file'
: >"$work/empty"
run 0 explain file "$work/empty" --device "$device"

# What libcufile says is asked in a child process, which may hang or crash. A made library stands for NVIDIA's.
vendor=$work/vendor
mkdir "$vendor" "$work/no_log"
cp "$(dirname "$leat")/tests/fake/fake_cufile.so" "$vendor/libcufile.so.0"
# gds MODE TEXT: the line about GPUDirect Storage must begin so, and the log of libcufile must not appear.
gds() {
    (cd "$work/no_log" && FAKE_CUFILE=$1 LD_LIBRARY_PATH=$vendor${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$leat" explain \
        file ../file --device "$device") >"$work/out" 2>"$work/err" || fail "explain with libcufile that is to $1"
    grep -qF "  gds       not used by leat; $2" "$work/out" || fail "the line about libcufile lacks: $2"
    [ -z "$(ls "$work/no_log")" ] || fail 'libcufile has left a file behind'
}
gds direct 'libcufile 1.14 reads NFS, NVMe directly here, and accepts this file'
gds refuse 'libcufile 1.14 reads NFS, NVMe directly here, but refuses this file with 5008'
gds stage 'libcufile 1.14 finds no storage that a GPU here reads directly'
gds fail 'cuFileDriverOpen returned 5010'
gds hang 'libcufile.so.0 did not answer within 5 s'
gds crash 'libcufile.so.0 ended the process that asked it, by signal 6'
cp "$(dirname "$leat")/tests/fake/fake_cuda.so" "$vendor/libcufile.so.0"
gds direct 'libcufile.so.0 lacks a function'
echo >"$vendor/libcufile.so.0"
gds direct 'libcufile.so.0 cannot be loaded: '
vendor=$(dirname "$leat")/faces
LEAT_DRIVERS=cpu gds direct "the libcufile.so.0 that programs find here is leat's own"
usage 'which file' explain file
usage 'do not go with a file' explain file x --from pinned
usage 'goes only with a file' explain copy --offset 1
usage '--offset takes bytes' explain file x --offset -1

# ---- the group file --------------------------------------------------------------------------------------------

run 0 bench file --quick --repeat 3 --bytes 70001,16M --device "$device" --json && {
    ! grep -q '"verified": false' "$work/out" || fail 'a file was read or written wrong'
    count 2 '"case": "read, in the page cache"' "$work/out"
    count 2 '"case": "write, to the page cache"' "$work/out"
    count 2 '"case": "read, in the page cache, after 20 ms"' "$work/out"
    for key in threads_gb_s ratio_to_threads cpu_s_per_gb threads_cpu_s_per_gb; do
        [ "$(grep -c "^      \"$key\": [0-9]" "$work/out")" -ge 4 ] || fail "rows of files have no $key"
    done
    rows=$(grep -c '"case": "\(read\|write\), ' "$work/out")
    count "$rows" '^      "protocol": "\(host\|staged\): ' "$work/out"
    count "$rows" '^      "access": "\(by pwrite(): \|through a shared mapping\|read through it: \|read past it: \|parts of which \)' \
        "$work/out"
    # fio measures files of 16 MiB or more on the disk: reads, writes, and writes past the cache.
    if command -v fio >/dev/null && grep -q '"case": "write, to the disk, past the cache"' "$work/out"; then
        for key in fio_gb_s ratio_to_fio fio_cpu_s_per_gb; do
            count 3 "^      \"$key\": [0-9]" "$work/out"
        done
        count 3 '"fio_engine": "\(io_uring\|libaio\|psync\)"' "$work/out"
    fi
}
# Where the system refuses io_uring, fio uses another engine, and the record names it.
if command -v fio >/dev/null; then
    mkdir "$work/bin"
    printf '#!/bin/sh\ncase "$*" in *io_uring*) exit 1 ;; esac\nexec %s "$@"\n' "$(command -v fio)" >"$work/bin/fio"
    chmod +x "$work/bin/fio"
    path=$PATH
    PATH=$work/bin:$PATH
    run 0 bench file --quick --repeat 1 --bytes 16M --device "$device" --json && {
        ! grep -q '"fio_engine": "io_uring"' "$work/out" || fail 'an engine that was refused is named'
        ! grep -q '"case": "write, to the disk, past the cache"' "$work/out" ||
            count 3 '"fio_engine": "\(libaio\|psync\)"' "$work/out"
    }
    PATH=$path
fi
# A folder that cannot be written: a note and no rows, not a failure.
export TMPDIR="$work/nothing"
run 0 bench file --quick --repeat 3 --bytes 4K --device "$device" --json && {
    grep -q 'a file of 4096 bytes cannot be made in' "$work/out" || fail 'no note of the missing folder'
}
export TMPDIR="$work"

# ---- bad command lines ----------------------------------------------------------------------------------------

for sizes in 0 x '' '4K,' ',4K' 4KiB -1 99999999999T; do
    usage '--bytes takes up to' bench copy --bytes "$sizes"
done
usage "there is no group 'copies'" bench copies
usage "--memory knows no 'warm'" bench copy --memory pinned,warm
usage '--memory needs a name' bench copy --memory ''
usage "--part knows no 'size'" bench copy --part size
for gaps in x '' 0, ,0 -1 1ms 2000 1,2,3,4,5,6,7,8,9; do
    usage '--gaps takes at most 8 numbers' bench copy --gaps "$gaps"
done
for seconds in 0 x '' -1 1s 4000; do
    usage '--seconds takes a number' bench copy --seconds "$seconds"
done
usage "--timing knows no 'last'" bench copy --timing done,last
usage "--cache knows no 'hot'" bench copy --cache hot
usage "--direction knows no 'both'" bench copy --direction both
usage '--first takes in,leat' bench copy --first in --bytes 4K
usage '--first takes in,leat' bench copy --first in,leat
usage '--from measures nothing' bench --from "$work/record" --gaps 0
usage '--quick and --full are opposites' bench --quick --full
usage "--part knows no 'pair'" bench pool --part pair
usage '--from measures nothing' bench --from "$work/record" --bytes 4K
usage '--from measures nothing' bench --from "$work/record" --part packing
usage '--json prints no tables' bench --json --headline
run 1 bench copy --device "$device" --picture "$work/none/x" && says 'none/x cannot be written'
run 1 bench --from "$work/none" --picture "$work/c.svg" && says 'cannot be read as a record'
printf '{"rows":[]}' >"$work/empty"
run 1 bench --from "$work/empty" --picture "$work/c.svg" && says 'there is nothing to draw'
run 1 bench --from "$work/empty" --picture "$work/c.svg" memory && says 'there is nothing to draw'
run 1 bench --from "$work/empty" --picture "$work/c.svg" alloc && says 'there is no picture'
run 1 bench copy --device nothing:0 && says 'nothing'

# A run that cannot begin leaves no empty files.
run 1 bench copy --device cpu:99 --output "$work/unmade" --picture "$work/unmade.svg"
[ -z "$(ls "$work"/unmade* 2>/dev/null)" ] || fail 'a run that does not begin leaves empty files'

finish
