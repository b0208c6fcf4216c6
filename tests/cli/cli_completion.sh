#!/bin/bash
# cli_completion.sh - bash completion (packaging/leat.bash), called as readline calls it: commands, options,
# groups, and names of devices, also if loading a driver takes long. LEAT_COMMAND is the command.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
leat=$(realpath "$leat")
export LEAT_DRIVERS=cpu
unset LEAT_CPU_DEVICES
leat() { "$leat" "$@"; }
slow=
timeout() { # timeout(1) cannot run a shell function
    [ -z "$slow" ] || return 137
    shift 3
    "$@"
}
. ../../packaging/leat.bash

# completes LINE TEXT...: completing at the end of LINE must offer exactly these texts.
completes() {
    local found wanted

    COMP_LINE=$1 COMP_POINT=${#1}
    # COMP_WORDS as readline makes them: split at blanks and around colons and equals signs.
    mapfile -t COMP_WORDS < <(sed -E 's/([:=]+)/ \1 /g' <<<"$1" | grep -oE '[^ ]+')
    case $1 in *' ' | *[:=]) COMP_WORDS+=('') ;; esac
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    shift
    : >"$work/err"
    _leat 2>"$work/err"
    found="${COMPREPLY[*]}" wanted="$*"
    echo "$found" >"$work/out"
    [ "$found" = "$wanted" ] || fail "completing '$COMP_LINE' offers '$found' instead of '$wanted'"
    [ ! -s "$work/err" ] || fail "completing '$COMP_LINE' prints"
}

completes 'leat in' info
completes 'leat pool' pool-map
completes 'leat lo' load
completes 'leat load --' --device --help --json --only --split --verify
completes 'leat load model'
completes 'leat se' send serve
completes 'leat send --' --device --encrypt --help --json --key-file
completes 'leat receive --' --device --encrypt --force --help --into --json --key-file --timeout
completes 'leat serve --' --device --encrypt --help --key-file --once --timeout
completes 'leat bench ne' net
completes 'leat receive tcp:0.0.0.0:7000 --device cpu:' 0 1
completes 'leat ru' run
completes 'leat trace --' --help --html --json --one-pass --perfetto --range --rate
completes 'leat top --' --help --interval --json --once
completes 'leat run --' --cupti --device --help --least --log --pinned --pool --report --trace
completes 'leat load --device cpu:' 0 1
completes 'leat help pl' plan
completes 'leat bench al' alloc
completes 'leat bench --pic' --picture
completes 'leat explain ' copy file
completes 'leat explain copy '
completes 'leat explain file '
completes 'leat bench --device ' cpu:0 cpu:1
completes 'leat bench --device c' cpu:0 cpu:1
completes 'leat bench --device cpu:' 0 1
completes 'leat bench --device cpu:1' 1
completes 'leat replay --device=cpu:' 0 1
completes 'leat replay --device=' cpu:0 cpu:1
completes 'leat bench --device gpu:'
export LEAT_CPU_DEVICES=3
completes 'leat bench --device cpu:' 0 1 2
COMP_WORDBREAKS=${COMP_WORDBREAKS//:} completes 'leat bench --device cpu:1' cpu:1

# If a driver takes too long to answer, completion offers names that are likely.
export LEAT_CPU_DEVICES=1
slow=1
completes 'leat bench --device cp' cpu:0 cpu:1
finish
