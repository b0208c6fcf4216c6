#!/bin/sh
# run.sh BUILD DEVICE PROGRAM...: runs each program on DEVICE and counts. A program exits with 77 when it has
# nothing to run here; its last line is then "skipped: REASON". A program that runs prints such a line for each
# test that it skips. Without a reason the program fails. Prints what failed in full, and "N passed, N failed, N
# skipped" at the end; skipped.sh sums the reasons up. limited.sh ends a program that does not end by itself; that
# one fails.
#
# Where TEST_RESULTS names a file, each program adds a line to it, with the name of the suite (TEST_SUITE): "pass
# SUITE", "skip SUITE" or "fail SUITE PROGRAM: REASON", and "left REASON" for each of its tests that it skips.
# suites.sh counts those of several runs together, and gives each reason once.
build=$1
device=$2
shift 2
here=$(cd "${0%/*}" && pwd)
LSAN_OPTIONS=suppressions=$here/leaks.supp:print_suppressions=0${LSAN_OPTIONS:+:$LSAN_OPTIONS}
export LSAN_OPTIONS
passed=0 failed=0 skipped=0 left_out=0
log=$build/tests/run.$$.log # several may run at once
trap 'rm -f "$log"' EXIT

# " 12 s" for what took long enough to be asked why.
took_long() { [ $(($(date +%s) - started)) -lt 10 ] || printf ', %d s' $(($(date +%s) - started)); }

note_result() { [ -z "$TEST_RESULTS" ] || echo "$*" >>"$TEST_RESULTS"; }

fail() {
    failed=$((failed + 1))
    cat "$log"
    printf 'FAIL  %s: %s\n' "$name" "$*"
    note_result fail "${TEST_SUITE:-$device}" "$name: $*"
}

# The reasons of the tests that the program left out: to the file of results, or here, one line each.
tell_reasons() {
    if [ -n "$TEST_RESULTS" ]; then
        sed -n 's/^ *skipped: /left /p' "$log" >>"$TEST_RESULTS"
    else
        sed -n 's/^ *skipped: //p' "$log" | sort | uniq -c |
            sed -E 's/^ *1 (.*)/        skipped: \1/; s/^ *([0-9]+) (.*)/        skipped: \2 (\1 tests)/'
    fi
}

for program in "$@"; do
    name=${program##*/}
    started=$(date +%s)
    # In its own folder: an example looks for its kernel where it is started. Examples take the best device there
    # is, so they are told which; tests open the one of LEAT_TEST_DEVICE, and some try what NULL gives.
    (
        cd "${program%/*}" || exit 1
        case $program in */examples/*) export LEAT_DEVICE="$device" ;; esac
        # TEST_UNDER: a checker and its options, in words.
        # shellcheck disable=SC2086
        LEAT_TEST_DEVICE=$device exec "$here/limited.sh" $TEST_UNDER "./$name"
    ) >"$log" 2>&1
    code=$?
    # Tests that were skipped inside a program, with the reasons that it gave, and as cmocka counts them.
    inside=$(grep -c '^ *skipped: ' "$log")
    counted=$(awk '/^\[  SKIPPED \] [0-9]+ test\(s\), listed below:$/ { n += $4 } END { print n + 0 }' "$log")
    case $code in
    0)
        if [ "$counted" -gt "$inside" ]; then
            fail "$counted of its tests were skipped, and $inside reasons are given"
            continue
        fi
        left_out=$((left_out + inside))
        passed=$((passed + 1))
        note_result pass "${TEST_SUITE:-$device}"
        if [ "$inside" -gt 0 ]; then
            printf 'ok    %s (%d of its tests skipped)%s\n' "$name" "$inside" "$(took_long)"
            tell_reasons
        else
            printf 'ok    %s%s\n' "$name" "$(took_long)"
        fi
        ;;
    77)
        reason=$(tail -n 1 "$log" | sed -n 's/^ *skipped: //p')
        if [ -z "$reason" ]; then
            fail "exit status 77, and its last line is not \"skipped: REASON\""
            continue
        fi
        skipped=$((skipped + 1))
        printf 'skip  %s: %s\n' "$name" "$reason"
        note_result skip "${TEST_SUITE:-$device}"
        [ -z "$LEAT_REQUIRE" ] || fail "skipped, but LEAT_REQUIRE=$LEAT_REQUIRE"
        ;;
    *)
        reason=$(tail -n 1 "$log" | sed -n 's/^limited\.sh: //p')
        fail "${reason:-exit status $code}"
        ;;
    esac
done
[ $((passed + failed)) -gt 0 ] || printf 'note: nothing ran on %s: all %d programs were skipped\n' "$device" "$skipped"
printf 'on %s: %d passed, %d failed, %d skipped; %d tests left out inside programs\n' \
    "$device" "$passed" "$failed" "$skipped" "$left_out"
[ "$failed" -eq 0 ]
