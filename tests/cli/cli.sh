# shellcheck shell=sh disable=SC2034
# cli.sh - shared by the tests of the leat command: functions that run it once and check its output. A test
# includes it with "." from this folder. $device is the device to test, $work a temporary folder of the test.
leat=${LEAT_COMMAND:-$PWD/../../build/leat}
device=${LEAT_TEST_DEVICE:-cpu:0}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# true if the command was built with a sanitizer, which makes it many times slower.
sanitized=false
! grep -q -e __asan_init -e __tsan_init "$leat" || sanitized=true
export COLUMNS=100000 # wide tables, unless a test sets a line's width
failures=0

fail() {
    failures=$((failures + 1))
    printf 'FAIL  %s\n' "$*"
    head -n 60 "$work/err" "$work/out" | sed 's/^/      | /'
}

# run STATUS WORDS...: the command must exit with that status; its output goes to $work/out and $work/err.
run() {
    wanted=$1
    shift
    "$leat" "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ $code -eq "$wanted" ] && return 0
    fail "leat $*: exit status $code instead of $wanted"
    return 1
}

# says TEXT: standard error must contain TEXT, in one line that begins with "leat: ". Lines with advice may follow.
says() {
    grep -q '^leat: ' "$work/err" && grep -qF -- "$1" "$work/err" && [ "$(grep -cv '^Advice: ' "$work/err")" -eq 1 ] &&
        return
    fail "the message does not have: $1"
}

# usage TEXT WORDS...: the command line must be refused with exit status 2 and a message that contains TEXT.
usage() {
    text=$1
    shift
    run 2 "$@" && says "$text"
}

# ignoring_children WORDS...: runs a command that inherits an ignored SIGCHLD, which a shell may not pass on.
ignoring_children() {
    python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}

# check_xml FILE: the picture must be well-formed XML, checked by a tool of this machine if there is one.
if command -v xmllint >/dev/null; then
    check_xml() { xmllint --noout "$1" 2>"$work/err" || fail "$1 is not well-formed"; }
elif command -v python3 >/dev/null; then
    check_xml() {
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1" 2>"$work/err" ||
            fail "$1 is not well-formed"
    }
else
    echo 'skipped: whether pictures are well-formed XML: there is neither xmllint nor python3'
    check_xml() { [ "$(tail -n 1 "$1")" = '</svg>' ] || fail "$1 does not end"; }
fi

# finish: ends a test, with an exit status that says whether it passed.
finish() {
    [ $failures -eq 0 ] && echo 'all is well'
    exit $((failures > 0))
}
