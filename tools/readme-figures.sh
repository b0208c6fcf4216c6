#!/bin/bash
# Puts the table of the newest H200 record of bench/results/ between the "figures" marks of README.md.
# Arguments: the command that makes the table, and the record (default: the newest, since names begin with the date).
set -euo pipefail
cd "$(dirname "$0")/.."
leat=${1:-build/leat}
record=${2:-$(find bench/results -name '*h200*.json' | sort | tail -n 1)}
[ -n "$record" ] || { echo "readme-figures: bench/results has no record of an H200 yet" >&2; exit 1; }

table=$(mktemp)
trap 'rm -f "$table"' EXIT
"$leat" bench --from "$record" --headline --markdown >"$table"
[ -s "$table" ] || { echo "readme-figures: $leat made no table of $record" >&2; exit 1; }
grep -q ', gap 2 ms ' "$table" || {
    echo "readme-figures: $record has no copies with idle gaps (leat bench copy --part gaps)" >&2
    exit 1
}
printf '\nFrom [%s](%s).\n' "$record" "$record" >>"$table"
awk -v table="$table" '
    /^<!-- \/figures -->$/ { inside = 0 }
    !inside { print }
    /^<!-- figures -->$/ { inside = 1; while ((getline line < table) > 0) print line }' README.md >"$table.new"
cat "$table.new" >README.md
rm -f "$table.new"
echo "README.md has the figures of $record"
