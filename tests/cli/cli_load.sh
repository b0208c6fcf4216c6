#!/bin/sh
# cli_load.sh - "leat load" as a user calls it: files and indexes, patterns, verified bytes, JSON, what is refused.
#
# LEAT_COMMAND is the command, LEAT_TEST_DEVICE the device.
cd "$(dirname "$0")" || exit 1
. ./cli.sh

# has PATTERN: the output does.
has() {
    grep -q -- "$1" "$work/out" || fail "the output lacks: $1"
}

# model FILE HEADER BYTES: a safetensors file with random data. The header is shorter than 256 bytes. The last byte
# is not 0, so that a load that loses it is noticed.
model() {
    {
        printf "\\$(printf %03o ${#2})\\0\\0\\0\\0\\0\\0\\0%s" "$2"
        head -c $(($3 - 1)) /dev/urandom
        printf '\377'
    } >"$work/$1"
}

model one.safetensors '{"a.weight":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4000000]},
"a.bias":{"dtype":"U8","shape":[7],"data_offsets":[4000000,4000007]},
"none":{"dtype":"U8","shape":[0],"data_offsets":[4000007,4000007]}}' 4000007
model two.safetensors '{"b.weight":{"dtype":"F64","shape":[300,301],"data_offsets":[0,722400]}}' 722400
cat >"$work/model.safetensors.index.json" <<'INDEX'
{"metadata":{"total_size":4722407},"weight_map":{"a.weight":"one.safetensors","a.bias":"one.safetensors",
"none":"one.safetensors","b.weight":"two.safetensors"}}
INDEX

# ---- loads ----------------------------------------------------------------------------------------------------

for files in "$work/one.safetensors $work/two.safetensors" "$work/model.safetensors.index.json"; do
    # shellcheck disable=SC2086
    run 0 load --device "$device" --verify $files && {
        has '^4 of 4 tensors, 4.5 MiB to .* GB/s$'
        has '^FILE  *TENSORS  *BYTES  *CACHED  *PROTOCOL  *WHY'
        has "one.safetensors  *3  *3.8 MiB  *[0-9]* %  *[a-z]* .*system's cache: "
        has 'two.safetensors  *1  *705.5 KiB '
        has '^verified  yes'
        [ ! -s "$work/err" ] || fail 'something is printed to standard error, which is no terminal'
    }
    # shellcheck disable=SC2086
    run 0 load --json --verify --device "$device" $files && {
        has '^  "tensors": 4,'
        has '^  "bytes": 4722407,'
        has '^  "gb_s": [0-9]'
        has '^  "verified": true,'
        has "^  \"device\": \"$device\""
        [ "$(grep -c '"cached_share": [01]' "$work/out")" -eq 2 ] || fail 'there are not two cached shares'
        [ "$(grep -c '"protocol": "[a-z]*"' "$work/out")" -eq 2 ] || fail 'there are not two protocols'
        [ "$(grep -c '"path": "/' "$work/out")" -eq 2 ] || fail 'there are not two paths'
        has '"why": "[a-z]'
        has '"access": "[a-z]'
    }
done

run 0 load --device "$device" --only 'a*' --json "$work/one.safetensors" "$work/two.safetensors" && {
    has '^  "tensors": 2,'
    has '^  "bytes": 4000007,'
    has '^  "verified": null,'
    has '"protocol": null'
}
run 0 load --device "$device" --only 'a*' --verify "$work/one.safetensors" "$work/two.safetensors" && {
    has '^2 of 4 tensors, '
    has 'two.safetensors  *0  *0 B  *-  *-  *nothing of it is loaded'
}
run 0 load --device "$device" --only none --json --verify "$work/one.safetensors" && {
    has '^  "gb_s": null,'
    has '^  "bytes": 0,'
    has '^  "verified": true,'
}
run 0 load --device "$device" --only '*.bias' --json --verify "$work/one.safetensors" && has '^  "bytes": 7,'

# ---- several devices ------------------------------------------------------------------------------------------

other=${device%%:*}:1
if "$leat" info --json 2>/dev/null | grep -q "\"$other\""; then
    run 0 load --device "${device%%:*}:0,$other" --verify --json "$work/one.safetensors" "$work/two.safetensors" && {
        has '^  "bytes": 4722407,'
        has '^  "read_bytes": 4722407,'
        has '^  "delivered_bytes": 9444814,'
        has '^  "verified": true,'
        has "^  \"device\": \"${device%%:*}:0,$other\""
        has '^  "split": false,'
    }
    run 0 load --device "${device%%:*}:0,$other" --verify "$work/one.safetensors" && {
        has "^3 of 3 tensors, 3.8 MiB to ${device%%:*}:0 and $other in "
        has '^Each device has all tensors, 3.8 MiB read from the files, 7.6 MiB delivered$'
        has '^verified  yes'
    }
    run 0 load --device "${device%%:*}:0,$other" --split --verify --json "$work/model.safetensors.index.json" && {
        has '^  "delivered_bytes": 4722407,'
        has '^  "verified": true,'
        has '^  "split": true,'
    }
    LEAT_FAULT=copy-short run 1 load --device "${device%%:*}:0,$other" --split --verify "$work/two.safetensors" &&
        says "--verify: tensor 'b.weight' on the device differs from"
    run 1 load --device "$device,$device" "$work/one.safetensors" && says "--device names $device twice"
else
    echo "skipped: loads to several devices: there is no $other"
fi
run 0 load --device "$device" --split --verify --json "$work/one.safetensors" && has '^  "delivered_bytes": 4000007,'

# Copies that lose their last byte.
LEAT_FAULT=copy-short run 1 load --device "$device" --json --verify "$work/two.safetensors" && {
    says "--verify: tensor 'b.weight' on the device differs from"
    has '^  "verified": false,'
}
LEAT_FAULT=copy-short run 1 load --device "$device" --verify "$work/two.safetensors" && has '^verified  NO'

# A terminal gets a bar, or nothing if the load is short; standard output stays clean.
if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
    script -qec "'$leat' load --device $device --json '$work/one.safetensors' >'$work/out'" /dev/null \
        >"$work/err" 2>&1 ||
        fail 'a load on a terminal fails'
    has '^  "bytes": 4000007,'
else
    echo 'skipped: a load on a terminal: there is no program "script"'
fi

# ---- what is refused ------------------------------------------------------------------------------------------

usage 'which files?' load
usage 'there is no option --all' load --all x
usage 'needs a value' load x --only
run 1 load --device "$device" --only 'c*' "$work/one.safetensors" &&
    says "--only 'c*' matches none of the 3 tensors, such as 'a.weight'"
run 1 load --device "$device" "$work/missing.safetensors" && says "$work/missing.safetensors"
run 1 load --device "$device" "$work/one.safetensors" "$work/one.safetensors" && says 'two tensors have the name'
run 1 load --device nosuch:0 "$work/one.safetensors" && says 'nosuch'
printf '\200\004\225\000' >"$work/model.pt"
run 1 load --device "$device" "$work/model.pt" && says 'it is a pickle'
head -c 1000000 "$work/one.safetensors" >"$work/cut.safetensors"
run 1 load --device "$device" "$work/cut.safetensors" && says 'cut.safetensors'
run 1 load --device "$device" "$work" && says "$work"
run 0 load --help && has '--only PATTERN'
run 0 help load
"$leat" load --device "$device" "$work/one.safetensors" >/dev/full 2>"$work/err" && fail 'a full disk is success'
says 'the output could not be written'
finish
