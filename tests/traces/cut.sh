#!/bin/sh
# cut.sh TRACE FIRST LAST: writes a piece of a trace in leat's format to standard output, compressed. The piece is
# whole by itself: the blocks that are live before line FIRST are allocated at its beginning, in their old order, and
# what is still live after line LAST is never freed. The header is line 1. Times begin at 0; lines that only go with
# what lies outside of the piece are left out.
[ $# -eq 3 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
gzip -dcf "$1" | awk -F, -v OFS=, -v first="$2" -v last="$3" '
    NR == 1 { print; next }
    NR < first && $2 == "alloc" { live[$3] = $0; order[++count] = $3 }
    NR < first && $2 == "free" { delete live[$3] }
    NR < first { next }
    NR == first || !begun {
        begun = 1
        start = $1
        for (i = 1; i <= count; i++)
            if (order[i] in live) {
                split(live[order[i]], old, ",")
                print 0, "alloc", old[3], old[4], old[5]
                known[old[3]] = 1
            }
    }
    NR > last { exit }
    $2 == "alloc" { known[$3] = 1 }
    # A block that was let go of before the piece begins is not in it, so its "freed" is not either.
    known[$3] { $1 -= start; print }' | gzip -9n
