#!/bin/sh
# limited.sh PROGRAM [ARGUMENT...]: runs a program and ends it, with all that it started, when it does not end in
# time. Exit status: that of the program, or 124 with the limit that it passed as the last line on standard error.
#
# A plain limit of wall-clock time would end sound programs where others use the machine: under a load of 10 two
# processors give a program a fifth of what it has alone. So there are three limits, in seconds:
#
#   TEST_TIMEOUT (600)   processor time of all its processes together: ten times what the longest program takes.
#                        This ends endless loops. setrlimit(RLIMIT_CPU) would count each process by itself.
#   TEST_STUCK (120)     wall-clock time in which they used less than half a percent of one processor. This ends
#                        programs that wait for ever. A program that only waits for its turn gets more than that
#                        under any load that the tests are made for.
#   TEST_LONGEST         wall-clock time; 4 times TEST_TIMEOUT. This ends programs that wait for ever and look
#                        around now and then, and those of a machine that does not show their processor time in
#                        /proc.
cpu_limit=${TEST_TIMEOUT:-600}
stuck_limit=${TEST_STUCK:-120}
longest=${TEST_LONGEST:-$((cpu_limit * 4))}
pause=$((stuck_limit < 50 ? 1 : 5))
ticks_per_second=$(getconf CLK_TCK)

# Prints the processor time of the program's process group, in ticks and with that of children that have ended, and
# the number of its processes. After the name in parentheses the fields of /proc/PID/stat are: state, parent,
# group, ... and 12 to 15 are the times.
usage() {
    cat /proc/[0-9]*/stat 2>/dev/null |
        awk -v group="$group" '{ sub(/^.*\) /, "") } $3 == group { used += $12 + $13 + $14 + $15; count++ }
                               END { print used + 0, count + 0 }'
}

# From here on the watcher must come to its own exit status, although it is told to end when the program has ended.
give_up() {
    trap '' TERM
    kill -s TERM "$group"
    exit "$1"
}

# Looks at the program every few seconds. Ends it and exits with 1 or 2 when it passes one of the first two limits.
watch() {
    mark_used=0 mark_age=0
    while sleep "$pause"; do
        # shellcheck disable=SC2046
        set -- $(usage)
        # Not shown in /proc. Without limited.sh to wait for it, as after a SIGKILL of that, it is gone some day.
        if [ "$2" -eq 0 ]; then
            kill -0 "$group" || exit 0
            continue
        fi
        if [ "$1" -gt $((cpu_limit * ticks_per_second)) ]; then
            give_up 1
        fi
        mark_age=$((mark_age + pause))
        used=$(($1 - mark_used))
        if [ $used -lt 0 ] || [ $((used * 200)) -gt $((stuck_limit * ticks_per_second)) ]; then
            mark_used=$1 mark_age=0
        elif [ $mark_age -ge "$stuck_limit" ]; then
            give_up 2
        fi
    done
}

started=$(date +%s)
# timeout puts the program into a process group of its own, and passes TERM on: a killed program has 5 s to end.
timeout -k 5 "$longest" "$@" &
group=$!
watch </dev/null >/dev/null 2>&1 &
watcher=$!
trap 'kill -s TERM "$group" "$watcher"; exit 130' INT TERM HUP
wait "$group" 2>/dev/null # no word from the shell about its signal
code=$?
kill "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null
case $? in
1) limit="more than $cpu_limit s of processor time" ;;
2) limit="stuck: no processor time to speak of in $stuck_limit s" ;;
*)
    limit="still running after $longest s"
    case $code in
    124 | 137) [ $(($(date +%s) - started)) -ge "$longest" ] || exit $code ;;
    *) exit $code ;;
    esac
    ;;
esac
# What is left of the group.
kill -s KILL -- "-$group" 2>/dev/null
printf 'limited.sh: %s\n' "$limit" >&2
exit 124
