#!/bin/sh
# machines.sh: checks the model of several machines: the simulation against closed forms, docs/machines.md and its pictures
# against what the program prints, and that it notices a changed figure.
cd "${0%/*}/.." || exit 1
skip() {
    echo "skipped: the model of several machines: $1"
    exit 77
}
command -v python3 >/dev/null || skip 'there is no python3'
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip 'python3 is older than 3.9'
failures=0

fail() {
    failures=$((failures + 1))
    printf 'FAIL  %s\n' "$*"
}

python3 bench/machines/machines.py check || fail 'machines.py check'

# A copy of the program and its document, with one figure changed in each of two places.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bench" "$work/docs"
cp -r bench/machines "$work/bench/"
cp docs/machines*.* "$work/docs/"
sed -i 's@^| 8 | 5\.6 s @| 8 | 5.7 s @' "$work/docs/machines.md"
echo 'All of it takes 123456 s.' >>"$work/docs/machines.md"
if python3 "$work/bench/machines/machines.py" compare ways >"$work/out" 2>&1; then
    fail 'changed figures are not noticed'
fi
grep -q 'block ways is not what the program prints' "$work/out" || fail 'a changed table is not named'
grep -q '123456 is in the text, but in no block' "$work/out" || fail 'a figure without a source is not named'

python3 bench/machines/machines.py print ways >"$work/out" || fail 'machines.py print ways'
grep -q '^| 10000 |' "$work/out" || fail 'print ways prints no table'
# refuses TEXT ARGUMENT...: the program must end with 2, and print TEXT.
refuses() {
    text=$1
    shift
    python3 bench/machines/machines.py "$@" >"$work/out" 2>&1
    [ $? -eq 2 ] || fail "machines.py $* does not end with 2"
    grep -q "$text" "$work/out" || fail "machines.py $* does not print: $text"
}
refuses 'there is no block nothing; there are conclusions,' print nothing
refuses '^Usage: machines.py ' nothing
refuses '^Usage: machines.py ' check more

[ $failures -eq 0 ]
