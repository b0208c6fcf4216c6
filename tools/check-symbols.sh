#!/bin/bash
# Compares the symbols that a library exports with the calls that its headers declare: the same names, the experimental
# ones under the symbol version LEAT_EXPERIMENTAL, the others under a numbered one (LEAT_0.1).
# Arguments: a C compiler, the library, its headers (leat/copy.h ...).
set -euo pipefail
library=$(realpath "$2")
cd "$(dirname "$0")/.."
name=${2##*/} wrong=0

declared=$(tools/exports.sh "$1" "${@:3}" | sort)
# "leat_copy stable" and so on, by the version in "leat_copy@@LEAT_0.1".
exported=$(nm -D --defined-only --with-symbol-versions "$library" | awk '$2 != "A" {
               split($3, part, /@+/)
               print part[1], part[2] == "LEAT_EXPERIMENTAL" ? "experimental" : \
                              part[2] ~ /^LEAT_((FILES|NET)_)?[0-9]+[.][0-9]+$/ ? "stable" : "without a version"
           }' | sort)
if [ -z "$declared" ] || [ -z "$exported" ]; then
    echo "check-symbols: found nothing declared or nothing exported by $name; that cannot be right" >&2
    exit 1
fi
# Both lists differ in lines, and a call in the wrong half is in both.
while read -r call half; do
    [ -n "$call" ] || continue
    wrong=1
    if found=$(grep -E "^$call " <<<"$exported"); then
        echo "$name: $call is $half in its header, and exported as ${found#* }"
    else
        echo "$name: $call is declared, but not exported"
    fi
done <<<"$(comm -23 <(echo "$declared") <(echo "$exported"))"
extra=$(comm -13 <(cut -d' ' -f1 <<<"$declared" | sort) <(cut -d' ' -f1 <<<"$exported" | sort))
for call in $extra; do
    wrong=1
    echo "$name: $call is exported, but not declared"
done
experimental=$(grep -c ' experimental$' <<<"$exported" || :)
echo "symbols: $(wc -l <<<"$exported") exported by $name, $experimental of them experimental"
[ $wrong -eq 0 ]
