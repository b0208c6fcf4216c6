#!/bin/sh
# cli_advice.sh - the advice of "leat trace" about bench/trace_programs.c: each program that wastes time gets the advice
# of its rule, with the function and the range that waste it, and the healthy ones get none.
#
# How long work and gaps take is up to the machine, which may be busy, so each program has several tries. Where more
# threads want to run than there are processors, other advice than expected is no failure. With a sanitizer the host
# is so slow that no advice can be expected; each form is still recorded and read once.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
programs=$(dirname "$leat")/bench/trace_programs
[ -x "$programs" ] || {
    echo "skipped: $programs is not built"
    exit 77
}
tries=8

# advice NAME FORM: records a program, and writes "RULE: PLACE" for each piece of advice to $work/advice.
advice() {
    LEAT_DEVICE=$device LEAT_TRACE=$work/trace "$programs" "$1" "$2" >"$work/out" 2>"$work/err" ||
        fail "$1 $2 fails: $(cat "$work/err")"
    run 0 trace --json "$work/trace"
    sed -n -e 's/^      "rule": "\(.*\)",$/\1: /p' -e 's/^      "place": "\(.*\)",\{0,1\}$/\1/p' "$work/out" |
        paste -d '' - - >"$work/advice"
}

# is_told NAME RULE FUNCTION
is_told() {
    advice "$1" wasteful
    grep -q "^$2: .*trace_programs($3+0x[0-9a-f]*) in '$1'\$" "$work/advice"
}

is_healthy() {
    advice "$1" healthy
    [ ! -s "$work/advice" ]
}

# busy: more threads want to run than there are processors.
busy() { awk -v processors="$(nproc)" '{ exit !($1 > processors) }' /proc/loadavg; }

# differs TEXT: a failure, unless the machine is busy.
differs() { if busy; then echo "skipped: the machine is busy, and $*"; else fail "$*"; fi; }

"$programs" >"$work/list"
[ "$(wc -l <"$work/list")" -ge 12 ] || fail 'there are few programs'
while read -r name rule function; do
    try=1
    if $sanitized; then
        [ "$rule" = - ] || advice "$name" wasteful
        advice "$name" "$([ "$rule" = - ] && echo healthy || echo repaired)"
    elif [ "$rule" = - ]; then
        until is_healthy "$name" || [ $try -eq $tries ]; do try=$((try + 1)); done
        [ ! -s "$work/advice" ] || differs "$name is healthy, and is told $(cat "$work/advice")"
    else
        until is_told "$name" "$rule" "$function" || [ $try -eq $tries ]; do try=$((try + 1)); done
        grep -q "^$rule: .*($function+" "$work/advice" ||
            differs "$name is not told $rule in $function, but $(cat "$work/advice")"
    fi
done <"$work/list"
$sanitized && echo 'skipped: which advice is given: a sanitizer changes how long everything takes'
finish
