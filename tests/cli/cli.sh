# shellcheck shell=sh disable=SC2034
# cli.sh - what the tests of the command share: one call of it, and what is to be found afterwards. For the shell's
# "." from this folder; $device is the device, $work a folder that goes with the test.
leat=${LEAT_COMMAND:-$PWD/../../build/leat}
device=${LEAT_TEST_DEVICE:-cpu:0}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export COLUMNS=100000 # tables with all columns beside one another, unless a test wants them to fit a line
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

# says TEXT: standard error has it, in one line that begins with the command's name; advice is a line of its own.
says() {
    grep -q '^leat: ' "$work/err" && grep -qF -- "$1" "$work/err" && [ "$(grep -cv '^Advice: ' "$work/err")" -eq 1 ] &&
        return
    fail "the message does not have: $1"
}

# usage TEXT WORDS...: such a command line is refused.
usage() {
    text=$1
    shift
    run 2 "$@" && says "$text"
}

# Whether a picture is well-formed XML, as far as there is something here to tell.
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

# The last line of a test.
finish() {
    [ $failures -eq 0 ] && echo 'all is well'
    exit $((failures > 0))
}
