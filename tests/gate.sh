#!/bin/sh
# gate.sh PROGRAM...: tests the tests, two programs for each processor at a time. For each fault below, which
# LEAT_FAULT puts into every driver, at least one program must notice it by a failing assertion; a crash or a hang
# alone does not count. Without a fault all must pass. The faults of order are tested once more with staged pageable
# copies, which use other waits.
faults="copy-short fill-off query-ready wait-nothing order-loose"
passed=0 failed=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export logs
export ORDER_MODEL_SECONDS="${ORDER_MODEL_SECONDS:-4}"
# Keep freed memory mapped: then a use after free reads a wrong value, which an assertion notices, instead of
# crashing.
export ORDER_MODEL_KEEP_MEMORY=1
# With a fault a program may hang, so end programs sooner than usual. The limits are above the 30 seconds after
# which the tests' gates open.
export TEST_TIMEOUT=60 TEST_STUCK=45 TEST_LONGEST=150
here=$(cd "${0%/*}" && pwd)

# run_all FAULT PROGRAM...: runs the programs with the fault. Writes the output and the exit status of each to files,
# whose names begin with the program's.
run_all() {
    export LEAT_FAULT=$1
    shift
    # shellcheck disable=SC2016
    printf '%s\n' "$@" | LEAT_TEST_DEVICE=${LEAT_TEST_DEVICE:-cpu:0} xargs -P $((2 * $(nproc))) -I '{}' \
        sh -c '"$0" "$1" >"$logs/${1##*/}.log" 2>&1; echo $? >"$logs/${1##*/}.code"' "$here/limited.sh" '{}'
}

# expect_passes PROGRAM...: all programs must pass without a fault.
expect_passes() {
    passes=0
    run_all none "$@"
    for program in "$@"; do
        log=$logs/${program##*/}.log
        code=$(cat "$logs/${program##*/}.code")
        if [ "$code" -eq 0 ] || [ "$code" -eq 77 ]; then
            passed=$((passed + 1))
            passes=$((passes + 1))
        else
            failed=$((failed + 1))
            cat "$log"
            printf 'FAIL  %s fails without a fault (exit status %d)\n' "${program##*/}" "$code"
        fi
    done
    printf 'ok    without a fault: %d of %d programs pass\n' "$passes" "$#"
}

# expect_notice FAULT PROGRAM...: at least one program must fail by an assertion.
expect_notice() {
    fault=$1
    shift
    noticed='' wrongly=''
    run_all "$fault" "$@"
    for program in "$@"; do
        log=$logs/${program##*/}.log
        code=$(cat "$logs/${program##*/}.code")
        # cmocka reports a crash as a failed test, which does not count. But a program that failed an assertion may
        # crash later.
        if grep -q '\[   LINE   \].*: error: Failure!' "$log" ||
            { [ "$code" -eq 1 ] && ! grep -q 'Test failed with exception' "$log"; }; then
            noticed="$noticed ${program##*/}"
        elif [ "$code" -ne 0 ] && [ "$code" -ne 77 ]; then
            wrongly="$wrongly ${program##*/}($code)"
        fi
    done
    if [ -n "$noticed" ]; then
        passed=$((passed + 1))
        printf 'ok    %s is noticed by%s\n' "$fault" "$noticed"
    else
        failed=$((failed + 1))
        printf 'FAIL  %s is noticed by nobody\n' "$fault"
    fi
    if [ -n "$wrongly" ]; then
        printf '      %s makes others crash or hang:%s\n' "$fault" "$wrongly"
    fi
}

expect_passes "$@"
for fault in $faults; do
    expect_notice "$fault" "$@"
done

# Staged copies wait for flags in memory. On the CPU device copies are staged only with this setting.
export LEAT_COPY_STAGE=1 LEAT_COPY_RING=1M LEAT_COPY_WORKERS=3
echo 'with pageable copies staged (LEAT_COPY_STAGE=1):'
staged=''
for program in "$@"; do
    case ${program##*/} in
    test_copy | test_copy_async | test_copy_lifetime | order_model) staged="$staged $program" ;;
    esac
done
# shellcheck disable=SC2086
expect_passes $staged
for fault in wait-nothing order-loose; do
    # shellcheck disable=SC2086
    expect_notice "$fault" $staged
    # Unstaged, test_copy does not use the waits that this fault removes, so here it must notice missing waits for
    # flags.
    case "$fault$noticed " in
    "wait-nothing"*" test_copy "* | order-loose*) ;;
    *)
        failed=$((failed + 1))
        printf 'FAIL  %s: the words are not missed by test_copy\n' "$fault"
        ;;
    esac
done
printf 'gate: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
