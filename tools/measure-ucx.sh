#!/bin/sh
# measure-ucx.sh [ROUNDS] [MIB] - measures UCX as links use it, between two processes of this machine, beside plain
# sockets and UCX's own ucx_perftest (Debian: ucx-utils), all in turns. Prints the median and the range of each, in MB/s.
# Needs build/tests/measure_ucx ("make build/tests/measure_ucx").
set -eu
rounds=${1:-9}
mib=${2:-256}
program=${MEASURE_UCX:-build/tests/measure_ucx}
results=$(mktemp)
trap 'rm -f "$results"' EXIT

# perftest NAME ARGUMENT...: one-way transfers of 1 MiB blocks with tags, receives posted in advance.
perftest() {
    name=$1
    shift
    port=$((20000 + $$ % 20000))
    timeout 60 ucx_perftest -p $port "$@" >/dev/null 2>&1 &
    server=$!
    sleep 0.5
    timeout 60 ucx_perftest localhost -p $port -t tag_bw -s 1048576 -n "$mib" -w 8 -f "$@" 2>/dev/null |
        awk -v name="$name" '/^ *[0-9]/ { last = $0 } END { n = split(last, field, " "); if (n > 6) print name, field[n - 2] * 1.048576 }' \
        >>"$results"
    wait $server || true
}

for round in $(seq "$rounds"); do
    for mode in unix tcp ucx-sleep ucx-poll; do
        timeout 120 "$program" $mode "$mib" | awk '{ print $1, $2 }' >>"$results"
    done
    for mode in ucx-sleep ucx-poll; do
        UCX_TLS=tcp timeout 120 "$program" $mode "$mib" | awk '{ print $1 ",tcp-only", $2 }' >>"$results"
    done
    if command -v ucx_perftest >/dev/null; then
        UCX_TLS=tcp perftest perftest-poll,tcp-only
        UCX_TLS=tcp perftest perftest-sleep,tcp-only -E sleep
        perftest perftest-sleep -E sleep
    fi
done
sort -k1,1 -k2,2n "$results" | awk '
    function show() { if (count) printf "%-26s median %6.0f MB/s  (%.0f to %.0f, %d runs)\n", name, value[int((count + 1) / 2)], value[1], value[count], count }
    $1 != name { show(); name = $1; count = 0 }
    { value[++count] = $2 }
    END { show() }'
