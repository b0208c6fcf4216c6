#!/bin/sh
# suites.sh MAKE [VARIABLE=VALUE...] -- SUITE...: runs every suite, even if others fail, and sums up. A suite is a
# target of the Makefile: either programs that run.sh counts, or a check without programs, which counts as one.
#
# The last lines are: what was skipped, by reason; "FAIL SUITE: PROGRAM: REASON" for each program that failed;
# "FAIL SUITE: ..." for each suite that stopped for another reason, such as a compiler error; and "N passed, N
# failed". A rule "suite-%" in tests.mk notes that a suite ran to its end.
make=$1
shift
here=${0%/*}
TEST_RESULTS=$(mktemp)
log=$(mktemp)
export TEST_RESULTS
trap 'rm -f "$TEST_RESULTS" "$log"' EXIT

# Split the arguments: variables before "--", suites after it.
suites=''
for argument in "$@"; do
    shift
    case $suites$argument in
    --) suites=' ' ;;
    ' '*) suites="$suites $argument" ;;
    *) set -- "$@" "$argument" ;;
    esac
done
goals=''
for suite in $suites; do goals="$goals suite-$suite"; done

# shellcheck disable=SC2086
"$make" --keep-going --no-print-directory "$@" $goals 2>&1 | tee "$log"

sed -n 's/^left /        skipped: /p' "$TEST_RESULTS" | "$here/skipped.sh" "$log" -
# shellcheck disable=SC2086
awk -v suites="$suites" '
$1 == "pass" { passed++; programs[$2]++ }
$1 == "skip" { programs[$2]++ }
$1 == "fail" {
    failed++
    name = $2
    programs[name]++
    failures[name]++
    sub(/^fail [^ ]+ /, "")
    lines[failed] = name ": " $0
}
$1 == "end" { ended[$2] = 1 }
END {
    for (i = 1; i <= failed; i++)
        print "FAIL  " lines[i]
    count = split(suites, suite)
    for (i = 1; i <= count; i++) {
        name = suite[i]
        if (!ended[name] && !failures[name]) {
            failed++
            print "FAIL  " name ": stopped with an error, see its output above"
        } else if (ended[name] && !programs[name])
            passed++
    }
    printf "%d passed, %d failed\n", passed, failed
    exit(failed > 0)
}' "$TEST_RESULTS"
