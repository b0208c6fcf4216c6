#!/bin/bash
# Compares the symbols that libleat.so exports with the functions that the public headers declare. Argument: the
# library.
set -euo pipefail
library=$(realpath "${1:-build/libleat.so}")
cd "$(dirname "$0")/.."

declared=$(cat include/leat/*.h | tr '\n' ' ' | sed 's|/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/||g' |
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
echo "symbols: $(echo "$exported" | wc -l) exported"
[ -z "$missing$extra" ]
