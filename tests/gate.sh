#!/bin/sh
# gate.sh PROGRAM...: proves the tests. With each of these faults put into every driver, at least one program must fail,
# by an assertion of its own and not by a crash or by running for ever; and without a fault all must pass.
faults="copy-short fill-off query-ready wait-nothing order-loose"
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export ORDER_MODEL_SECONDS="${ORDER_MODEL_SECONDS:-4}"
# Freed late, memory that is used out of order holds a wrong value; freed at once, it is gone and the program with it.
export ORDER_MODEL_KEEP_MEMORY=1

# Runs a program with a fault; its words go to the log.
run() {
    LEAT_FAULT=$1 LEAT_TEST_DEVICE=${LEAT_TEST_DEVICE:-cpu:0} timeout -k 5 120 "$2" >"$log" 2>&1
}

for program in "$@"; do
    run none "$program"
    code=$?
    if [ $code -eq 0 ] || [ $code -eq 77 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        cat "$log"
        printf 'FAIL  %s fails without a fault (exit status %d)\n' "${program##*/}" "$code"
    fi
done
printf 'ok    without a fault: %d of %d programs pass\n' "$passed" "$#"

for fault in $faults; do
    noticed='' wrongly=''
    for program in "$@"; do
        run "$fault" "$program"
        code=$?
        # cmocka turns a crash into a failed test and says so.
        if [ $code -eq 1 ] && ! grep -q 'Test failed with exception' "$log"; then
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
done
printf 'gate: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
