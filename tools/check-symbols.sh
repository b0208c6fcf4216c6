#!/bin/bash
# Compares the symbols that libleat.so and libleat-files.so export with the functions that the public headers declare.
# leat/model.h belongs to libleat-files, all other headers to libleat. Arguments: the two libraries.
set -euo pipefail
library=$(realpath "${1:-build/libleat.so}")
files_library=$(realpath "${2:-build/libleat-files.so}")
cd "$(dirname "$0")/.."
wrong=0

check() { # library header...
    local library=$1 declared exported missing extra
    shift
    declared=$(cat "$@" | tr '\n' ' ' | sed 's|/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/||g' |
               grep -oE 'LEAT_API [^;(]*\(' | grep -oE 'leat_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u)
    exported=$(nm -D --defined-only "$library" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | sort -u)
    if [ -z "$declared" ] || [ -z "$exported" ]; then
        echo "check-symbols: found nothing declared or nothing exported; that cannot be right" >&2
        exit 1
    fi
    missing=$(comm -23 <(echo "$declared") <(echo "$exported"))
    extra=$(comm -13 <(echo "$declared") <(echo "$exported"))
    [ -z "$missing" ] || printf 'declared, but not exported: %s\n' $missing
    [ -z "$extra" ] || printf 'exported, but not declared: %s\n' $extra
    echo "symbols: $(echo "$exported" | wc -l) exported by ${library##*/}"
    [ -z "$missing$extra" ] || wrong=1
}

mapfile -t headers < <(printf '%s\n' include/leat/*.h | grep -v '/model\.h$')
check "$library" "${headers[@]}"
check "$files_library" include/leat/model.h
[ $wrong -eq 0 ]
