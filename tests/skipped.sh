#!/bin/sh
# skipped.sh [LOG]: sums up what run.sh did not test: the programs and single tests that it skipped, by reason, and
# notes about the run (lines "note: ..."). Prints nothing if there is nothing to report.
awk '
function plural(number, word) { return number " " word (number == 1 ? "" : "s") }
/^skip  / { reason = $0; sub(/^skip  [^:]*: /, "", reason); programs++; skipped[reason]++ }
/^        skipped: / {
    reason = $0
    sub(/^        skipped: /, "", reason)
    number = 1
    if (match(reason, / \([0-9]+ tests\)$/)) {
        number = substr(reason, RSTART + 2) + 0
        reason = substr(reason, 1, RSTART - 1)
    }
    tests += number
    left_out[reason] += number
}
/^note: / && !seen[$0]++ { notes[++count] = substr($0, 7) }
END {
    if (programs || tests)
        printf "skipped: %s, and %s in programs that ran\n", plural(programs + 0, "program"), plural(tests + 0, "test")
    fflush()
    for (reason in skipped)
        printf "%9s  %s\n", plural(skipped[reason], "program"), reason | "sort -k1,1nr -k3"
    close("sort -k1,1nr -k3")
    for (reason in left_out)
        printf "%9s  %s\n", plural(left_out[reason], "test"), reason | "sort -k1,1nr -k3"
    close("sort -k1,1nr -k3")
    for (i = 1; i <= count; i++)
        printf "note: %s\n", notes[i]
}' "$@"
