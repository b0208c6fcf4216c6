#!/bin/sh
# run.sh BUILD DEVICE PROGRAM...: runs each program on DEVICE and counts. Prints the output of each program that
# fails, and at the end "N passed, N failed, N skipped"; skipped.sh sums the reasons up. limited.sh ends a program
# that hangs, which then fails.
#
# A program that can run nothing here exits with 77, and its last line is "skipped: REASON"; without a reason it
# fails. A program that runs prints such a line for each test that it skips.
#
# If TEST_RESULTS names a file, run.sh appends lines to it for suites.sh, which adds up several runs: "pass SUITE",
# "skip SUITE" or "fail SUITE PROGRAM: REASON" for each program, and "left REASON" for each test that a program
# skipped. SUITE is the value of TEST_SUITE.
build=$1
device=$2
shift 2
here=$(cd "${0%/*}" && pwd)
LSAN_OPTIONS=suppressions=$here/leaks.supp:print_suppressions=0${LSAN_OPTIONS:+:$LSAN_OPTIONS}
export LSAN_OPTIONS
passed=0 failed=0 skipped=0 left_out=0
log=$build/tests/run.$$.log # several run.sh may run at once
trap 'rm -f "$log"' EXIT

# Prints the seconds of a program that took 10 s or more.
took_long() { [ $(($(date +%s) - started)) -lt 10 ] || printf ', %d s' $(($(date +%s) - started)); }

note_result() { [ -z "$TEST_RESULTS" ] || echo "$*" >>"$TEST_RESULTS"; }

fail() {
    failed=$((failed + 1))
    cat "$log"
    printf 'FAIL  %s: %s\n' "$name" "$*"
    note_result fail "${TEST_SUITE:-$device}" "$name: $*"
}

# Reports the reasons of skipped tests: to the file of results, or as one line each.
tell_reasons() {
    if [ -n "$TEST_RESULTS" ]; then
        sed -n 's/^ *skipped: /left /p' "$log" >>"$TEST_RESULTS"
    else
        sed -n 's/^ *skipped: //p' "$log" | sort | uniq -c |
            sed -E 's/^ *1 (.*)/        skipped: \1/; s/^ *([0-9]+) (.*)/        skipped: \2 (\1 tests)/'
    fi
}

# Runs a program in its own folder, where an example finds its kernel. LEAT_DEVICE sets the device for examples,
# which open the best one. Tests open the one in LEAT_TEST_DEVICE, and some of them test what NULL opens.
run_program() {
    (
        cd "${program%/*}" || exit 1
        case $program in */examples/*) export LEAT_DEVICE="$device" ;; esac
        # TEST_UNDER: a checker such as compute-sanitizer, with its options.
        # shellcheck disable=SC2086
        LEAT_TEST_DEVICE=$device exec "$here/limited.sh" $TEST_UNDER "./$name"
    ) >"$log" 2>&1
}

# Returns true if nothing failed but LeakSanitizer, which crashed while it looked for leaks at the end of the program.
# This is a known fault (github.com/google/sanitizers, issue 1353), which comes now and then and tells nothing of the
# program. The program then runs once more.
only_leak_check_crashed() {
    grep -q 'LeakSanitizer has encountered a fatal error' "$log" &&
        ! grep -qE '^\[  (FAILED|ERROR)|^FAIL|AddressSanitizer|runtime error|Assertion' "$log"
}

for program in "$@"; do
    name=${program##*/}
    started=$(date +%s)
    run_program
    code=$?
    if [ "$code" -ne 0 ] && only_leak_check_crashed; then
        grep -E 'Tracer caught|LeakSanitizer' "$log"
        printf 'note: LeakSanitizer crashed at the end of %s, which runs once more\n' "$name"
        run_program
        code=$?
    fi
    # The number of tests that the program skipped: by its lines with reasons, and as cmocka counts them.
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
