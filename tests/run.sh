#!/bin/sh
# run.sh BUILD DEVICE PROGRAM...: runs each program on DEVICE and counts. A program says 77 when it has nothing to run
# here. Prints what failed in full, and "N passed, N failed, N skipped" at the end.
build=$1
device=$2
shift 2
LSAN_OPTIONS=suppressions=$(cd "${0%/*}" && pwd)/leaks.supp:print_suppressions=0${LSAN_OPTIONS:+:$LSAN_OPTIONS}
export LSAN_OPTIONS
passed=0 failed=0 skipped=0 left_out=0
log=$build/tests/run.$$.log # several may run at once
trap 'rm -f "$log"' EXIT

# " 12 s" for what took long enough to be asked why.
took_long() { [ $(($(date +%s) - started)) -lt 10 ] || printf ', %d s' $(($(date +%s) - started)); }

for program in "$@"; do
    name=${program##*/}
    started=$(date +%s)
    # In its own folder: an example looks for its kernel where it is started. Examples take the best device there is, so
    # they are told which; tests open the one of LEAT_TEST_DEVICE, and some try what NULL gives.
    (
        cd "${program%/*}" || exit 1
        case $program in */examples/*) export LEAT_DEVICE="$device" ;; esac
        # TEST_UNDER: a checker and its options, in words.
        # shellcheck disable=SC2086
        LEAT_TEST_DEVICE=$device exec timeout -k 5 "${TEST_TIMEOUT:-300}" $TEST_UNDER "./$name"
    ) >"$log" 2>&1
    code=$?
    # A test that cmocka skipped inside a program, with its reason in the line above.
    inside=$(grep -c '^ *skipped: ' "$log")
    left_out=$((left_out + inside))
    case $code in
    0)
        passed=$((passed + 1))
        if [ "$inside" -gt 0 ]; then
            printf 'ok    %s (%d of its tests skipped)%s\n' "$name" "$inside" "$(took_long)"
            sed -n 's/^ *skipped: /        skipped: /p' "$log"
        else
            printf 'ok    %s%s\n' "$name" "$(took_long)"
        fi
        ;;
    77)
        skipped=$((skipped + 1))
        printf 'skip  %s: %s\n' "$name" "$(tail -n 1 "$log")"
        if [ -n "$LEAT_REQUIRE" ]; then
            failed=$((failed + 1))
            printf 'FAIL  %s: skipped, but LEAT_REQUIRE=%s\n' "$name" "$LEAT_REQUIRE"
        fi
        ;;
    *)
        failed=$((failed + 1))
        cat "$log"
        case $code in
        124 | 137) printf 'FAIL  %s: still running after %s s\n' "$name" "${TEST_TIMEOUT:-300}" ;;
        *) printf 'FAIL  %s: exit status %d\n' "$name" "$code" ;;
        esac
        ;;
    esac
done
printf 'on %s: %d passed, %d failed, %d skipped; %d tests left out inside programs\n' \
    "$device" "$passed" "$failed" "$skipped" "$left_out"
[ "$failed" -eq 0 ]
