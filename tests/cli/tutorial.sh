#!/bin/sh
# tutorial.sh - builds the programs of docs/tutorial.md with the commands of the tutorial, against the library of
# this tree, and runs them. "<!-- ci: NAME -->" stands before each program; NAME_device.c is device code.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
build=$(dirname "$leat")
include=$PWD/../../include
mkdir "$work/steps"
awk -v to="$work/steps" '
    /^<!-- ci: .* -->$/ { file = to "/" $3 }
    /^```$/ { inside = 0; file = "" }
    inside { print >file }
    /^```c$/ && file != "" { inside = 1 }' ../../docs/tutorial.md
cd "$work/steps" || exit 1
for source in *_device.c; do
    # shellcheck disable=SC2086
    ${CC:-cc} -O2 -Wall -Wextra -Werror -fPIC -shared $LEAT_TEST_CFLAGS -I"$include" "$source" -o "${source%.c}.so" \
        >"$work/out" 2>"$work/err" || fail "$source does not compile"
done
for source in step?.c; do
    # shellcheck disable=SC2086
    if ${CC:-cc} -std=c11 -Wall -Wextra -Werror $LEAT_TEST_CFLAGS -I"$include" "$source" -o "${source%.c}" -L"$build" \
        -Wl,-rpath,"$build" -lleat -pthread >"$work/out" 2>"$work/err"; then
        LEAT_DEVICE=$device "./${source%.c}" >"$work/out" 2>"$work/err" || fail "${source%.c} failed"
        grep -q "^step [1-6]: " "$work/out" || fail "${source%.c} says nothing"
    else
        fail "$source does not compile"
    fi
done
[ "$(find . -name 'step?.c' | wc -l)" -eq 6 ] || fail 'the tutorial has not six steps'
finish
