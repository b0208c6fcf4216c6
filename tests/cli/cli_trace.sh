#!/bin/sh
# cli_trace.sh - "leat trace": traces of other tools, tables, JSON, the page in a browser, the timeline as Perfetto's own definitions read it,
# two runs beside each other, and wrong files.
#
# LEAT_COMMAND is the command; the recorded example lies in the examples folder beside it. LEAT_TEST_DEVICE is the
# device.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
kineto=../traces/kineto_small.json
nsys=../traces/nsys_small.sqlite

# value KEY: a top-level value of the JSON. device KEY: one of the first device.
value() { sed -n "s/^  \"$1\": \(.*[^,]\),\{0,1\}\$/\1/p" "$work/out" | head -n 1; }
of_device() { sed -n "s/^      \"$1\": \(.*[^,]\),\{0,1\}\$/\1/p" "$work/out" | head -n 1; }
rules() { sed -n 's/^      "rule": "\(.*\)",$/\1/p' "$work/out" | sort | tr '\n' ' '; }

# sums: the parts of the whole and of the first device sum to the span.
sums() {
    span=$(value span_ns)
    for of in value of_device; do
        sum=$(($($of idle_ns) + $($of copy_ns) + $($of compute_ns) + $($of overlap_ns)))
        [ "$span" -gt 0 ] && [ "$sum" -eq "$span" ] || fail "the parts sum to $sum, and the span is $span"
    done
}

# ---- a trace of PyTorch's profiler, the figures of which are known ----

if run 0 trace --json "$kineto"; then
    sums
    [ "$(value source)" = '"Kineto"' ] || fail 'the source is not Kineto'
    [ "$(value span_ns) $(value idle_ns) $(value copy_ns) $(value compute_ns)" = '9000000 4500000 3300000 1200000' ] ||
        fail 'the figures of the trace are others'
    [ "$(rules)" = 'alloc-in-loop no-overlap pageable-copies ' ] || fail "the rules are $(rules)"
fi
gzip -c "$kineto" >"$work/small.gz"
cp "$work/out" "$work/plain"
run 0 trace --json - <"$work/small.gz" && {
    grep -v '"file"' "$work/plain" >"$work/a"
    grep -v '"file"' "$work/out" | cmp -s - "$work/a" || fail 'a compressed trace from standard input reads differently'
}
if COLUMNS=100 run 0 trace "$kineto"; then
    [ "$(awk '{ if (length > most) most = length } END { print most }' "$work/out")" -le 100 ] ||
        fail 'the tables are wider than 100 columns'
    grep -q '^cuda:0 .*50 %.*37 %.*0 %.*13 %' "$work/out" || fail 'the table does not have the shares'
    grep -q 'cudaMalloc in ' "$work/out" || fail 'the advice does not name the call'
fi
run 0 trace "$kineto" "$kineto" && [ "$(grep -c ' 0 %$' "$work/out")" -ge 5 ] || fail 'a run differs from itself'
run 0 trace --json "$kineto" "$kineto" && [ "$(grep -c '"span_ns": 9000000' "$work/out")" -eq 2 ] ||
    fail 'the comparison does not have both runs'
run 0 trace --json --rate 20 "$kineto"

# ---- an export of nsys ----

if run 0 trace --json "$nsys"; then
    sums
    [ "$(value source)" = '"nsys"' ] || fail 'the source is not nsys'
    [ "$(value span_ns) $(value idle_ns) $(value copy_ns) $(value compute_ns)" = '3000 800 200 2000' ] ||
        fail 'the figures of the export are others'
fi
cp "$nsys" "$work/name with ?immutable=0&x#%41"
run 0 trace "$work/name with ?immutable=0&x#%41"
run 1 trace - <"$nsys" && says 'not from standard input'
mkfifo "$work/pipe"
cat "$nsys" >"$work/pipe" &
run 1 trace "$work/pipe" && says 'a regular file and not a pipe'
wait
gzip -c "$nsys" >"$work/nsys.gz"
run 1 trace "$work/nsys.gz" && says 'not compressed'
# sql FILE STATEMENTS: changes a copy of the export.
sql() {
    cp "$nsys" "$1" && python3 -c 'import sqlite3, sys
file = sqlite3.connect(sys.argv[1])
file.executescript(sys.argv[2])' "$1" "$2"
}
if python3 -c 'import sqlite3' 2>"$work/err"; then
    for change in \
        'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 3|end is not a time at or after start' \
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'|row 1: start is not a time" \
        'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = -1|start is not a time' \
        'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = -5|deviceId is not the number of a device' \
        'UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = 1.5|bytes is not a number of bytes' \
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = 'x'|nameId is not the number of a name" \
        'ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN copyKind|has no column copyKind' \
        'DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME; DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;
            DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY; DROP TABLE NVTX_EVENTS|no activity with a time'; do
        sql "$work/changed" "${change%|*}" && run 1 trace "$work/changed" && says "${change##*|}"
    done
    # Pages that move because of faults, at a tenth of the rate of a large copy; those that a call moves are fine.
    for cause in 2 1; do
        sql "$work/changed" "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN migrationCause INTEGER;
            INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (5000, 105000, 0, 1, 3, NULL, 1 << 48, 2000000, 1, 1, 2, NULL);
            WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20)
            INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY SELECT 200000 + x * 20000, 210000 + x * 20000, 0, 1, 3, NULL, 1 << 48,
            20000, 11, 4, 4, $cause FROM n" && run 0 trace --json "$work/changed"
        wanted='managed-faults '
        [ $cause -eq 2 ] || wanted=
        [ "$(rules)" = "$wanted" ] || fail "the rules of moved pages are $(rules)"
    done
    # A view is no table: its rows could be made without end.
    sql "$work/changed" 'DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS start, x AS end, 0 AS deviceId, 0 AS
        streamId FROM n' && run 0 trace --json "$work/changed" && [ "$(value kernels)" -eq 0 ] || fail 'a view is read'
    # A second process has devices of its own, and the same correlation numbers.
    sql "$work/changed" 'INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1480, 3480, 0, 1, NULL, 3, 5,
        (1 << 48) | (4712 << 24), 6, 5, NULL)' && run 0 trace --json "$work/changed" &&
        [ "$(grep -c '"name": "cuda:0 of process 4712"' "$work/out")" -eq 1 ] || fail 'the processes are one'
    python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript("CREATE TABLE a(b)")' "$work/foreign"
    run 1 trace "$work/foreign" && says 'no export of nsys'
else
    echo 'skipped: changed exports of nsys: python3 has no sqlite3'
fi

# ---- a recorded program: the columns of a matrix, copied one by one and as one ----

example=$(dirname "$leat")/examples/transpose_columns
if [ -x "$example" ]; then
    for way in columns once; do
        LEAT_TRACE=$work/$way.trace "$example" "$device" $way >"$work/out" 2>"$work/err" || fail "$way fails"
        run 0 trace --json "$work/$way.trace" && sums
        [ "$(value source) $(value lost) $(value truncated)" = '"leat" 0 false' ] || fail "$way is not whole"
        cp "$work/out" "$work/$way.json"
    done
    run 0 trace "$work/columns.trace" && { grep -q '^the pinned pool on ' "$work/out" || fail 'there is no table of pools'; }
    run 0 trace --json "$work/columns.trace" && [ "$(grep -c '"reserved_peak_bytes"' "$work/out")" -ge 1 ] ||
        fail 'the JSON has no pools'
    run 0 trace --perfetto "$work/columns.timeline" --html "$work/columns.html" "$work/columns.trace"
    run 0 trace --one-pass --perfetto "$work/columns.pass" "$work/columns.trace"
    grep -q 'the pinned pool on .*: reserved' "$work/columns.timeline" || fail 'the timeline has no counters of pools'
    grep -q '"charts":\[{"name"' "$work/columns.html" || fail 'the page has no charts of pools'
    run 0 trace "$work/columns.trace" "$work/once.trace"
    # How long the copies take is up to the machine, but their pattern is not.
    run 0 trace --json "$work/columns.trace"
    case $(rules) in
    *copies-transpose*) grep -q 'leat_copy_layout()' "$work/out" || fail 'the advice does not name the call' ;;
    *) [ "$(value copies)" -ge 768 ] || fail 'the trace does not have the copies of the columns' ;;
    esac
    run 0 trace --json "$work/once.trace"
    case $(rules) in *copies-transpose*) fail 'one copy is taken for the columns of a matrix' ;; esac
else
    echo "skipped: a recorded example: $example is not built"
fi

# ---- the page ----

if run 0 trace --html "$work/page.html" "$kineto"; then
    [ ! -s "$work/out" ] || fail 'leat trace --html prints'
    size=$(wc -c <"$work/page.html")
    [ "$size" -gt 10000 ] && [ "$size" -lt 1000000 ] || fail "the page has $size bytes"
fi
browser=
for name in chromium chromium-browser google-chrome; do
    command -v $name >/dev/null && browser=$name && break
done
# browse WORDS...: opens the page without a window and without a network.
browse() {
    timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
        --enable-logging=stderr --window-size=1200,1500 --host-resolver-rules='MAP * ~NOTFOUND' "$@" \
        "file://$work/page.html" 2>"$work/err"
}
if [ -z "$browser" ]; then
    echo 'skipped: the page in a browser: there is no chromium'
elif ! browse --version >"$work/out"; then
    echo "skipped: the page in a browser: $browser does not start"
else
    browse --dump-dom >"$work/out" || fail 'the browser fails'
    grep -q 'CONSOLE' "$work/err" && fail 'the page prints an error'
    grep -q '<b>Saves about ' "$work/out" || fail 'the page has no advice'
    grep -q 'aria-label="cuda:0: copy only 3.3 ms (36.7 %)' "$work/out" || fail 'the page has no breakdown'
    [ "$(grep -o '<td' "$work/out" | wc -l)" -ge 40 ] || fail 'the page has no tables'
    for scheme in 0 1; do
        browse --blink-settings=preferredColorScheme=$scheme --screenshot="$work/$scheme.png" >"$work/out"
        [ -s "$work/$scheme.png" ] || fail 'there is no screenshot'
    done
    cmp -s "$work/0.png" "$work/1.png" && fail 'light and dark look the same'
fi

# ---- the timeline ----

run 0 trace --perfetto "$work/timeline" "$kineto"
both=
[ ! -s "$work/columns.pass" ] || both="$work/columns.timeline $work/columns.pass"
if ! command -v python3 >/dev/null || ! python3 -m venv "$work/venv" >"$work/log" 2>&1; then
    echo 'skipped: the timeline by the definitions of Perfetto: python3 cannot make virtual environments'
elif ! "$work/venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 perfetto \
    >"$work/log" 2>&1; then
    echo 'skipped: the timeline by the definitions of Perfetto: pip cannot fetch the package perfetto'
else
    PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python "$work/venv/bin/python" perfetto_check.py "$work/timeline" \
        $both >"$work/out" 2>"$work/err" || fail 'Perfetto reads something else'
    grep '^skipped' "$work/out"
fi

# A long trace needs no more memory than a short one: here half of what keeping it would need.
large=$(dirname "$leat")/tests/large_trace
[ -n "$LEAT_TEST_CFLAGS" ] || ulimit -S -v 150000
"$large" 1000000 2>"$work/has" | "$leat" trace --one-pass --perfetto "$work/large" - >"$work/out" 2>"$work/err" ||
    fail 'a long trace is not written'
ulimit -S -v unlimited
size=$(wc -c <"$work/large")
read -r _ slices _ counts <"$work/has"
[ "$size" -gt $((20 * (slices + counts))) ] && [ "$size" -le $((50 * (slices + counts))) ] ||
    fail "$slices slices and $counts counts take $size bytes"
rm -f "$work/large"

# ---- wrong files and command lines ----

: >"$work/empty"
run 1 trace "$work/empty" && says 'the file is empty'
run 1 trace "$leat" && says 'neither a trace of leat'
run 1 trace "$work/nowhere" && says 'cannot be opened'
head -c 3000 "$kineto" >"$work/cut"
run 1 trace "$work/cut" && says 'is damaged'
run 1 trace --html "$work/nowhere/page" "$kineto" && says 'cannot be written'
run 1 trace "$kineto" "$work/empty" && says 'the file is empty'
if [ -w /dev/full ]; then
    run 1 trace --perfetto /dev/full "$kineto" && says 'cannot be written'
    [ ! -s "$work/columns.trace" ] || { run 1 trace --one-pass --perfetto /dev/full "$work/columns.trace" && says 'cannot be written'; }
    run 1 trace --html /dev/full "$kineto" && says 'cannot be written'
fi
usage 'the trace to show is missing' trace
usage '--html and --perfetto take one trace' trace --html "$work/x" "$kineto" "$kineto"
usage '--one-pass goes with --perfetto' trace --one-pass "$kineto"
usage 'takes no --range' trace --one-pass --perfetto "$work/x" --range step "$kineto"
usage '--one-pass goes with --perfetto' trace --one-pass --json --perfetto "$work/x" "$kineto"
run 1 trace --one-pass --perfetto "$work/x" "$kineto" && says 'traces of leat'
echo kept >"$work/x"
run 1 trace --one-pass --perfetto "$work/x" "$work/none.trace" && says 'cannot be opened'
[ "$(cat "$work/x")" = kept ] || fail 'a trace that is not there empties the output'
run 1 trace --one-pass --perfetto "$work/x" "$work/empty" && says 'reads traces of leat'
[ "$(cat "$work/x")" = kept ] || fail 'a trace that is refused empties the output'
run 1 trace --one-pass --perfetto "$work/new" "$work/empty"
[ -z "$(ls "$work"/new* "$work"/x.* 2>/dev/null)" ] || fail 'a trace that is refused leaves a part of the output'
mkfifo "$work/fifo"
"$leat" trace --one-pass --perfetto "$work/new" - <"$work/fifo" >"$work/out" 2>"$work/err" &
process=$!
exec 3>"$work/fifo"
until ls "$work"/new.* >/dev/null 2>&1; do sleep 0.05; done
kill -TERM $process
wait $process
[ $? -eq 143 ] && [ -z "$(ls "$work"/new* 2>/dev/null)" ] || fail 'a signal leaves a part of the output'
exec 3>&-
cp "$kineto" "$work/own"
ln "$work/own" "$work/own2"
for option in --html --perfetto '--one-pass --perfetto'; do
    # shellcheck disable=SC2086
    run 1 trace $option "$work/own2" "$work/own" && says 'is the trace itself'
    # shellcheck disable=SC2086
    run 1 trace $option "$work/own" - <"$work/own" && says 'is the trace itself'
done
cmp -s "$work/own" "$kineto" || fail 'the trace was destroyed'
ln -s x "$work/link"
chmod 640 "$work/x"
run 0 trace --html "$work/link" "$kineto" && [ -L "$work/link" ] && [ "$(wc -c <"$work/x")" -gt 1000 ] &&
    [ "$(stat -c %a "$work/x")" = 640 ] || fail 'the output behind a link is not replaced'
run 0 trace --perfetto /dev/stdout "$kineto" && [ -s "$work/out" ] || fail 'nothing on standard output'
usage 'is no number of GB/s' trace --rate 0 "$kineto"
usage 'is no number of GB/s' trace --rate 1e-300 "$kineto"
usage 'is no number of GB/s' trace --rate fast "$kineto"
usage 'there is no option --jason' trace --jason "$kineto"
usage 'is not an option' trace "$kineto" "$kineto" "$kineto"
run 0 trace --help && grep -q '^Usage: leat trace' "$work/out" || fail 'there is no help'
finish
