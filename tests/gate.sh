#!/bin/sh
# gate.sh PROGRAM...: proves the tests. With each of these faults put into every driver, at least one program must
# fail by an assertion of its own, whatever happens to it afterwards, and not by a crash or by running for ever
# alone; and without a fault all must pass. Faults of order are put in once more with pageable copies staged, which
# have waits of their own.
faults="copy-short fill-off query-ready wait-nothing order-loose"
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export ORDER_MODEL_SECONDS="${ORDER_MODEL_SECONDS:-4}"
# Freed late, memory that is used out of order holds a wrong value; freed at once, it is gone and the program with
# it.
export ORDER_MODEL_KEEP_MEMORY=1
# A fault may keep a program waiting for ever: all together they must not take too long. The gates of the tests
# open after half a minute at the latest, which is not yet for ever.
export TEST_TIMEOUT=60 TEST_STUCK=45 TEST_LONGEST=150
here=$(cd "${0%/*}" && pwd)

# Runs a program with a fault; its words go to the log.
run() {
    LEAT_FAULT=$1 LEAT_TEST_DEVICE=${LEAT_TEST_DEVICE:-cpu:0} "$here/limited.sh" "$2" >"$log" 2>&1
}

# All programs must pass.
expect_passes() {
    passes=0
    for program in "$@"; do
        run none "$program"
        code=$?
        if [ $code -eq 0 ] || [ $code -eq 77 ]; then
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

# expect_notice FAULT PROGRAM...: at least one program must fail.
expect_notice() {
    fault=$1
    shift
    noticed='' wrongly=''
    for program in "$@"; do
        run "$fault" "$program"
        code=$?
        # cmocka turns a crash into a failed test and says so. A program that has seen the fault may die of it
        # later.
        if grep -q '\[   LINE   \].*: error: Failure!' "$log" ||
            { [ $code -eq 1 ] && ! grep -q 'Test failed with exception' "$log"; }; then
            noticed="$noticed ${program##*/}"
        elif [ $code -ne 0 ] && [ $code -ne 77 ]; then
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

# Copies that are staged wait for words in memory, which on the CPU device they do only when they are told to.
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
    # Without staging this program waits for nothing that the fault takes away; so here it has noticed the words.
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
