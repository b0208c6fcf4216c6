#!/bin/sh
# limited.sh PROGRAM [ARGUMENT...]: runs a program with limits, and ends it and all processes that it started if it
# exceeds one. Exit status: that of the program, or 124; then the last line on standard error names the limit.
#
# A single limit of wall-clock time would end healthy programs on a busy machine: under a load of 10, a program
# gets a fifth of the time of two processors. So there are three limits, in seconds:
#
#   TEST_TIMEOUT (600)   processor time of all its processes together: ten times what the longest program takes.
#                        This ends endless loops. setrlimit(RLIMIT_CPU) would count each process separately.
#   TEST_STUCK (120)     wall-clock time in which they used less than half a percent of one processor. This ends
#                        programs that hang. A program that only waits for its turn gets more than that under any
#                        load that the tests are made for.
#   TEST_LONGEST         wall-clock time; 4 times TEST_TIMEOUT. This ends programs that hang but wake up now and
#                        then, and all programs if /proc does not show their processor time.
cpu_limit=${TEST_TIMEOUT:-600}
stuck_limit=${TEST_STUCK:-120}
longest=${TEST_LONGEST:-$((cpu_limit * 4))}
pause=$((stuck_limit < 50 ? 1 : 5))
ticks_per_second=$(getconf CLK_TCK)

# Prints the processor time of the program's process group in ticks, including children that have ended, and the
# number of its processes. In /proc/PID/stat the fields after the name in parentheses are: state, parent, group,
# ...; fields 12 to 15 are the times.
usage() {
    cat /proc/[0-9]*/stat 2>/dev/null |
        awk -v group="$group" '{ sub(/^.*\) /, "") } $3 == group { used += $12 + $13 + $14 + $15; count++ }
                               END { print used + 0, count + 0 }'
}

# Ends the program and then the watcher with its own exit status. The watcher ignores TERM from here on, because
# the main script sends it TERM when the program has ended.
give_up() {
    trap '' TERM
    kill -s TERM "$group"
    exit "$1"
}

# Looks at the program every few seconds. If it exceeds the first or the second limit, ends it and exits with 1 or
# 2.
watch() {
    mark_used=0 mark_age=0
    while sleep "$pause"; do
        # shellcheck disable=SC2046
        set -- $(usage)
        # The group is not visible in /proc. If limited.sh itself was killed, nobody else ends the watcher, so look
        # whether the group exists.
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
# timeout runs the program in a process group of its own and passes TERM on; 5 s after TERM it sends KILL.
timeout -k 5 "$longest" "$@" &
group=$!
watch </dev/null >/dev/null 2>&1 &
watcher=$!
trap 'kill -s TERM "$group" "$watcher"; exit 130' INT TERM HUP
wait "$group" 2>/dev/null # suppress the shell's message about a signal
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
# Kill what is left of the process group.
kill -s KILL -- "-$group" 2>/dev/null
printf 'limited.sh: %s\n' "$limit" >&2
exit 124
