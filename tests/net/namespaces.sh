#!/bin/sh
# namespaces.sh - links between two network namespaces, which a pair of virtual network cards joins: they stand for two
# machines. Bytes are right, with delay, loss and reordering where the kernel can (netem); and a link fails in time when
# the cable is pulled, or when the other machine is gone.
#
# LEAT_PEER is the program link_peer. Needs root and iproute2.
work=$(mktemp -d)
first='' second='' failures=0
a='' b=''
finish() {
    [ -z "$a$b" ] || kill -9 $a $b 2>/dev/null
    [ -z "$first" ] || kill $first $second 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT
fail() {
    failures=$((failures + 1))
    echo "FAIL  $*"
    head -n 20 "$work"/one.* "$work"/two.* 2>/dev/null | sed 's/^/      | /'
}
skip() {
    echo "skipped: $1"
    exit 77
}

command -v ip >/dev/null && command -v nsenter >/dev/null || skip 'links between namespaces: there is no ip or no nsenter'
unshare -n true 2>/dev/null || skip 'links between namespaces: this user may not make them'
unshare -n sleep 600 &
first=$!
unshare -n sleep 600 &
second=$!
# The processes are in their namespaces when these are others than ours.
for process in $first $second; do
    tries=0
    while [ "$(readlink /proc/$process/ns/net)" = "$(readlink /proc/self/ns/net)" ] && [ $tries -lt 500 ]; do
        tries=$((tries + 1))
        sleep 0.02
    done
done
ip link add leat1 netns $first type veth peer name leat2 netns $second 2>/dev/null ||
    skip 'links between namespaces: the kernel has no veth'
one() { nsenter -t $first -n "$@"; }
two() { nsenter -t $second -n "$@"; }
one ip addr add 10.77.0.1/24 dev leat1 && two ip addr add 10.77.0.2/24 dev leat2 &&
    one ip link set leat1 up && two ip link set leat2 up || skip 'links between namespaces: they cannot be joined'

# waits_for PATTERN FILE: for at most a minute.
waits_for() {
    tries=0
    until grep -q "$1" "$work/$2" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || { fail "nothing in $2 has: $1" && return 1; }
        sleep 0.05
    done
}

# meet BYTES ROUNDS: starts both ends. $a and $b are the processes themselves, and not shells that wait for them.
meet() {
    : >"$work/one.out" >"$work/two.out" # waits_for must not see what the former ends have said
    (exec nsenter -t $first -n "$LEAT_PEER" listen tcp:0.0.0.0:7077 "$1" "$2") >"$work/one.out" 2>"$work/one.err" &
    a=$!
    waits_for listening one.out || return
    (exec nsenter -t $second -n "$LEAT_PEER" connect tcp:10.77.0.1:7077 "$1" "$2") >"$work/two.out" 2>"$work/two.err" &
    b=$!
}

# ended WHAT STATUS STATUS: how the two ends must end.
ended() {
    wait $a
    code=$?
    [ $code -eq "$2" ] || fail "$1: the end that listens: exit status $code instead of $2"
    wait $b
    code=$?
    [ $code -eq "$3" ] || fail "$1: the end that connects: exit status $code instead of $3"
    a='' b='' # others may get their numbers
}

meet 3000001 4 && ended 'two machines' 0 0

if one tc qdisc add dev leat1 root netem delay 3ms 1ms loss 1% reorder 10% 2>/dev/null; then
    two tc qdisc add dev leat2 root netem delay 3ms 1ms loss 1% reorder 10%
    meet 1000003 3 && ended 'delay, loss and reordering' 0 0
    one tc qdisc del dev leat1 root
    two tc qdisc del dev leat2 root
else
    echo 'skipped: delay, loss and reordering: the kernel has no netem'
fi

# The cable is pulled while messages go there and back. No end is told; both notice that the other one is silent.
if meet 200000 1000000 && waits_for 'round 3' two.out; then
    one ip link set leat1 down
    ended 'a pulled cable' 3 3
    grep -q 'for 2' "$work/one.err" || fail 'a pulled cable: the message of the end that listens does not name the time'
    one ip link set leat1 up
fi

# The other machine is gone at once.
if meet 200000 1000000 && waits_for 'round 3' two.out; then
    kill -9 $b
    ended 'a killed peer' 3 137
fi

# Nobody listens.
two "$LEAT_PEER" connect tcp:10.77.0.1:7078 100 1 >"$work/two.out" 2>"$work/two.err"
[ $? -eq 3 ] || fail 'nobody listens, but the connection did not fail'
[ $failures -eq 0 ] || exit 1
echo 'all is well'
