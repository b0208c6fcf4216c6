#!/bin/sh
# cli_net.sh - "leat send", "leat receive", "leat serve" and "leat bench net" as a user calls them: over unix sockets
# and TCP on this machine, with the memory of the host and of a device; keys, names, files that exist, a full disk,
# processes that end in the middle.
#
# LEAT_COMMAND is the command, LEAT_TEST_DEVICE the device.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
unset LEAT_LINK_KEY_FILE
name="leat-test-$$"

# has PATTERN: the output does.
has() {
    grep -q -- "$1" "$work/out" || fail "the output lacks: $1"
}

# tells FILE TEXT: the messages in FILE contain TEXT.
tells() {
    grep -qF -- "$2" "$work/$1" && return
    cp "$work/$1" "$work/out"
    fail "the messages lack: $2"
}

# waits_for PATTERN FILE: until FILE has it, for at most a minute.
waits_for() {
    tries=0
    until grep -q "$1" "$work/$2" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || { fail "nothing in $2 has: $1" && return 1; }
        sleep 0.05
    done
}

# listens COMMAND WORDS...: starts "leat COMMAND WORDS..." in the background, with its output in peer.out and peer.err,
# and waits until it listens. $peer is its process, $address what it listens at.
listens() {
    : >"$work/peer.err" # the command appends, and the file of an earlier one must not be seen
    "$leat" "$@" >"$work/peer.out" 2>>"$work/peer.err" &
    peer=$!
    waits_for '^leat: listening at ' peer.err || return
    address=$(sed -n 's/^leat: listening at //p' "$work/peer.err")
}

# ends STATUS: the process in the background ends with it.
ends() {
    wait "$peer"
    code=$?
    [ $code -eq "$1" ] && return
    cp "$work/peer.err" "$work/err"
    cp "$work/peer.out" "$work/out"
    fail "the process in the background: exit status $code instead of $1"
}

mkdir "$work/in"
head -c 32 /dev/urandom >"$work/key"
head -c 32 /dev/urandom >"$work/other-key"
head -c 15 /dev/urandom >"$work/short-key"
chmod 600 "$work/key" "$work/other-key" "$work/short-key"
head -c 40000003 /dev/urandom >"$work/big file"
head -c 8388608 /dev/urandom >"$work/piece"
echo short >"$work/small"
: >"$work/empty"

# ---- files arrive ---------------------------------------------------------------------------------------------

for to in "unix:@$name" "unix:$work/socket" tcp:127.0.0.1:0 "tcp:[::1]:0"; do
    case $to in
    'tcp:[::1]:0') grep -q '^0\{31\}1 ' /proc/net/if_inet6 2>/dev/null || continue ;;
    esac
    listens receive "$to" --into "$work/in" --key-file "$work/key" --json || continue
    run 0 send "$address" "$work/big file" "$work/piece" "$work/small" "$work/empty" --key-file "$work/key" && {
        has '^sent 4 files, .* GB/s, verified$'
        [ ! -s "$work/err" ] || fail 'something is printed to standard error, which is no terminal'
    }
    ends 0
    for file in 'big file' piece small empty; do
        cmp -s "$work/$file" "$work/in/$file" || fail "$to: $file differs"
        rm -f "$work/in/$file"
    done
    cp "$work/peer.out" "$work/out"
    has '^  "bytes": 48388617,'
    has '^  "gb_s": [0-9]'
    has '^  "cpu_seconds": [0-9]'
    has '^  "verified": true,'
    has "^  \"transport\": \"${to%%:*}\""
    has '^  "device": "host"'
    [ "$(grep -c '"crc32": "[0-9a-f]\{8\}"' "$work/out")" -eq 4 ] || fail 'there are not four checksums'
    [ "$(grep -c '"problem": null' "$work/out")" -eq 4 ] || fail 'there are not four files without a problem'
    has '"name": "big file"'
    grep -qF "\"path\": \"$work/in/small\"" "$work/out" || fail 'the path is missing'
done

# Through the memory of a device, into memory only, and under another name. The key's file comes from the environment.
LEAT_LINK_KEY_FILE=$work/key
export LEAT_LINK_KEY_FILE
if listens receive tcp:127.0.0.1:0 --device "$device"; then
    run 0 send "$address" "$work/big file" --device "$device" --json && {
        has "^  \"device\": \"$device\""
        has '^  "bytes": 40000003,'
        has '^  "verified": true,'
        has '^  "transport": "tcp"'
    }
    ends 0
    grep -q '^received 1 file, 38.1 MiB, from .* GB/s, verified$' "$work/peer.out" || fail 'the receiver prints no line'
    [ -z "$(ls "$work/in")" ] || fail 'a measurement stores a file'
fi
unset LEAT_LINK_KEY_FILE
if listens receive "unix:@$name" --device "$device" --into "$work/in/other name"; then
    run 1 send "unix:@$name" "$work/piece" "$work/small" && {
        says 'small: the receiver refuses it: the receiver stores one file only'
        has '^sent 1 file, 8 MiB,'
    }
    ends 1
    cmp -s "$work/piece" "$work/in/other name" || fail 'the file under another name differs'
    rm -f "$work/in/other name"
fi

# ---- what the receiver refuses --------------------------------------------------------------------------------

echo old >"$work/in/small"
control=$(printf 'a\033[2Jb')
echo x >"$work/$control"
echo x >"$work/.hidden"
if listens receive "unix:@$name" --into "$work/in" --json; then
    run 1 send "unix:@$name" "$work/small" "$work/$control" "$work/.hidden" "$work/piece" "$work/missing" --json && {
        grep -qF 'small: the receiver refuses it: there is a file of this name' "$work/err" || fail 'small is not refused'
        grep -qF 'a?[2Jb: the receiver refuses it: the name has a control character' "$work/err" ||
            fail 'a control character is not refused'
        grep -qF '.hidden: the receiver refuses it: names that begin with a dot' "$work/err" || fail 'a dot is not refused'
        grep -qF "missing" "$work/err" || fail 'a missing file is not reported'
        has '^  "bytes": 8388608,'
        has '^  "verified": false,'
        has '"problem": "the receiver refuses it: there is a file of this name'
    }
    ends 1
    [ "$(cat "$work/in/small")" = old ] || fail 'a file was overwritten'
    [ "$(ls -A "$work/in" | wc -l)" -eq 2 ] || fail 'more than the accepted file was stored'
    rm -f "$work/in/piece"
fi
if listens receive "unix:@$name" --into "$work/in" --force; then
    run 0 send "unix:@$name" "$work/small"
    ends 0
    cmp -s "$work/small" "$work/in/small" || fail '--force does not replace a file'
    rm -f "$work/in/small"
fi
if truncate -s 15T "$work/huge" 2>/dev/null; then
    if listens receive "unix:@$name" --into "$work/in"; then
        run 1 send "unix:@$name" "$work/huge" && says 'the disk of the receiver has too little room'
        ends 1
    fi
else
    echo 'skipped: a file that does not fit: the file system has no file of 15 TiB'
fi

# A disk that is full in the middle: the limit for files ends the writes.
if (
    trap '' XFSZ
    ulimit -f 20000
    listens receive "unix:@$name" --into "$work/in" &&
        { run 1 send "unix:@$name" "$work/big file" && says 'big file: the receiver gave up: '; ends 1; tells peer.err 'File too large'; }
    exit $((failures > 0))
); then
    [ -z "$(ls -A "$work/in")" ] || fail 'a part of a file is left'
else
    failures=$((failures + 1))
fi

# ---- processes that end in the middle -------------------------------------------------------------------------

truncate -s 64G "$work/sparse"
if listens receive "unix:@$name"; then
    "$leat" send "unix:@$name" "$work/sparse" >"$work/out" 2>"$work/err" &
    sender=$!
    waits_for ' has connected' peer.err
    kill -KILL $sender
    ends 1
    wait $sender
    tells peer.err 'leat: receive: '
fi
if listens receive tcp:127.0.0.1:0 --key-file "$work/key"; then
    "$leat" send "$address" "$work/sparse" --key-file "$work/key" >"$work/out" 2>"$work/err" &
    sender=$!
    waits_for ' has connected' peer.err
    kill -KILL "$peer"
    wait "$peer"
    wait $sender && fail 'a send to a process that has ended is success'
    grep -q '^leat: send: ' "$work/err" || fail 'the sender says nothing'
fi

# ---- encryption -------------------------------------------------------------------------------------------------

# One end that asks for it is enough.
if listens receive tcp:127.0.0.1:0 --into "$work/in" --key-file "$work/key"; then
    run 0 send "$address" "$work/piece" --key-file "$work/key" --encrypt
    ends 0
    cmp -s "$work/piece" "$work/in/piece" || fail 'encrypted: piece differs'
    rm -f "$work/in/piece"
fi
if listens serve tcp:127.0.0.1:0 --device "$device" --key-file "$work/key" --encrypt --once; then
    run 0 bench net --device "$device" --to "$address" --key-file "$work/key" --sizes 64K --kinds pinned --repeat 3 &&
        has 'over encrypted tcp;'
    ends 0
fi
run 1 receive "unix:@$name" --encrypt && says 'needs a key that both ends know'
run 1 receive ucx:127.0.0.1:0 --key-file "$work/key" --encrypt && says 'UCX does not encrypt'

# ---- keys -----------------------------------------------------------------------------------------------------

run 1 receive tcp:127.0.0.1:0 && says 'needs a key that both ends know' && says 'head -c 32 /dev/urandom > FILE; chmod 600 FILE'
run 1 send tcp:127.0.0.1:1 "$work/small" && says 'needs a key'
run 1 serve tcp:127.0.0.1:0 --key-file "$work/short-key" && says 'has 15 bytes, and a key has at least 16'
run 1 serve tcp:127.0.0.1:0 --key-file "$work/in" && says 'neither a file nor a pipe'
run 1 serve tcp:127.0.0.1:0 --key-file "$work/none" && says 'No such file'
chmod 640 "$work/short-key"
run 1 send tcp:127.0.0.1:1 "$work/small" --key-file "$work/short-key" && says 'other users can access the key file'
if listens receive tcp:127.0.0.1:0 --key-file "$work/key" --into "$work/in"; then
    run 1 send "$address" "$work/small" --key-file "$work/other-key" && says 'keys of the two ends differ'
    run 0 send "$address" "$work/small" --key-file "$work/key"
    ends 0
    rm -f "$work/in/small"
fi

# ---- the measurement ------------------------------------------------------------------------------------------

for to in tcp unix; do
    run 0 bench net --device "$device" --to $to --bytes 5,100001 --gaps 0,1 --repeat 3 --json && {
        has '"transport": "'$to'"'
        # 2 sizes, 3 kinds of memory, and for each: out, in, both, and twice there and back
        [ "$(grep -c '"verified": true' "$work/out")" -eq 30 ] || fail 'there are not 30 verified rows'
        for key in socket_value ratio_to_socket socket_mean p99 cpu_s_per_gb socket_cpu_s_per_gb; do
            [ "$(grep -c "\"$key\": [0-9]" "$work/out")" -eq 30 ] || fail "there are not 30 figures $key"
        done
        has 'net: the other end is '
    }
    # ucx_perftest has no figures where it is not installed; then a note says so.
    grep -q '"ucx_value": [0-9]' "$work/out" || has 'no figures of UCX'
done
if listens serve tcp:127.0.0.1:0 --device "$device" --key-file "$work/key"; then
    for size in 4K 64K; do
        run 0 bench net --device "$device" --to "$address" --key-file "$work/key" --sizes $size --kinds pinned --repeat 3 \
            --gaps 0 && {
            has '^net: one after the other'
            has '^to the other end, pinned '
            has '^there and back, pinned '
            has 'SOCKET GB/s .*LEAT / SOCKET '
        }
    done
    run 1 bench net --device "$device" --to "$address" --key-file "$work/other-key" && tells err 'keys of the two ends differ'
    run 1 send "$address" "$work/small" --key-file "$work/key"
    waits_for 'serve: .* after 0 commands: ' peer.err # else the interrupt ends this client
    kill -INT "$peer"
    ends 0
    [ "$(grep -c ' has ended after ' "$work/peer.err")" -eq 2 ] || fail 'the server does not name its clients'
fi
run 1 serve "unix:@$name" --device "$device" --timeout 0.2 && tells err 'no client has come for 0.2 s'
run 1 receive "unix:@$name" --timeout 0.2 && tells err 'nobody has connected in 0.2 s'

# ---- the programs of docs/links.md ----------------------------------------------------------------------------

build=$(dirname "$leat")
mkdir "$work/programs"
awk -v to="$work/programs" '
    /^<!-- ci: .* -->$/ { file = to "/" $3 }
    /^```$/ { inside = 0; file = "" }
    inside { print >file }
    /^```c$/ && file != "" { inside = 1 }' ../../docs/links.md
for program in listen connect; do
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror $LEAT_TEST_CFLAGS -I../../include "$work/programs/$program.c" \
        -o "$work/$program" -L"$build" -Wl,-rpath,"$build" -lleat-net -lleat -pthread >"$work/out" 2>"$work/err" ||
        fail "$program.c does not compile"
done
if [ -x "$work/listen" ] && [ -x "$work/connect" ]; then
    LEAT_DEVICE=$device "$work/listen" "unix:@$name" >"$work/peer.out" 2>"$work/peer.err" &
    peer=$!
    waits_for listening peer.out
    LEAT_DEVICE=$device "$work/connect" "unix:@$name" >"$work/out" 2>"$work/err" || fail 'connect.c fails'
    ends 0
    grep -q '^the first weight is 42$' "$work/peer.out" || fail 'listen.c receives something else'
fi

# ---- what is refused ------------------------------------------------------------------------------------------

usage 'where to, and which files?' send "unix:@$name"
usage 'at which address?' receive
usage 'at which address?' serve
usage '--force needs --into' receive "unix:@$name" --force
usage '--timeout takes' receive "unix:@$name" --timeout -1
usage 'there is no option --all' send --all x
usage '--kinds knows no' bench net --kinds paged
run 1 send "unix:@$name" "$work/small" && says "$name"
run 1 receive nowhere:1 && says 'nowhere'
run 1 receive "unix:@$name" --into "$work/none/" && says 'there is no such folder'
for command in send receive serve; do
    run 0 help $command && has '--key-file FILE'
done
finish
