#!/bin/sh
# cut.sh TRACE FIRST LAST: cuts the lines FIRST to LAST out of a trace in leat's format (line 1 is the header), and
# writes them compressed to standard output. The piece is a complete trace: it first allocates the blocks that are
# live before line FIRST, in their old order; blocks that are live after LAST are never freed. Times begin at 0.
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
    # Drop lines about blocks that are not in the piece, such as "freed" of a block that was freed before it.
    known[$3] { $1 -= start; print }' | gzip -9n
