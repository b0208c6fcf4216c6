#!/bin/bash
# Proves "make abi" (tools/abi.sh): each change of a public ABI must be noticed, with a message that names it, and what is
# private must not be. A small library is built and changed; then leat's own headers and description are.
# Arguments: a C compiler, libleat.so, its description, its headers.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
cc=$1 library=$2 description=$3
shift 3
passed=0 failed=0 soname=libsmall.so.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/small.h" <<'TEXT'
#ifndef SMALL_H
#define SMALL_H
#include <stddef.h>
#include <stdint.h>
#ifndef LEAT_API
#define LEAT_API __attribute__((visibility("default")))
#endif
typedef struct leat_small leat_small; /* a handle */
typedef enum leat_small_flags { LEAT_SMALL_READ = 1, LEAT_SMALL_WRITE = 2 } leat_small_flags;
typedef enum leat_small_state { LEAT_SMALL_IDLE = 0, LEAT_SMALL_BUSY = 1 } leat_small_state;
typedef struct leat_small_info {
    size_t size;
    uint32_t count;
    leat_small_state state;
} leat_small_info;
LEAT_API int leat_small_open(unsigned flags, leat_small **small);
LEAT_API int leat_small_query(leat_small *small,
                              leat_small_info *info);
#ifndef LEAT_NO_EXPERIMENTAL
LEAT_API int leat_small_close(leat_small *small);
#endif
#endif
TEXT
cat >"$work/small.c" <<'TEXT'
#include <leat/small.h>
struct leat_small { int private; };
int leat_small_open(unsigned flags, leat_small **small) { *small = NULL; return (int)flags; }
int leat_small_query(leat_small *small, leat_small_info *info) { (void)small; info->count = 1; return 0; }
int leat_small_close(leat_small *small) { (void)small; return 0; }
TEXT
cat >"$work/small.map" <<'TEXT'
LEAT_0.1 { global: leat_*; local: *; };
LEAT_EXPERIMENTAL { global: leat_small_close; };
TEXT

small() { # mode: builds the library of the folder "now" and runs the tool on it
    $cc -std=c11 -O2 -fPIC -shared -I"$work/now" -Wl,-soname,$soname -Wl,--version-script="$work/now/small.map" \
        "$work/now/small.c" -o "$work/now/libsmall.so" || return 99
    INCLUDE="$work/now" tools/abi.sh "$1" "$work/small.abi" "$cc" "$work/now/libsmall.so" leat/small.h
}

count() { # right name log
    if [ "$1" = yes ]; then
        passed=$((passed + 1))
        echo "ok    $2"
    else
        failed=$((failed + 1))
        sed 's/^/      | /' "$3"
        echo "FAIL  $2"
    fi
}

# change NAME WORDS FILE SED...: the tool must fail, and its message match WORDS; without WORDS it must pass.
change() {
    local name=$1 words=$2 code right=no
    rm -rf "$work/now"
    mkdir -p "$work/now/leat"
    cp "$work/small.c" "$work/small.map" "$work/now"
    cp "$work/small.h" "$work/now/leat"
    shift 2
    while [ $# -gt 0 ]; do
        cp "$work/now/$1" "$work/before"
        sed -i "$2" "$work/now/$1"
        if cmp -s "$work/now/$1" "$work/before"; then
            failed=$((failed + 1))
            echo "FAIL  $name changes nothing in $1"
        fi
        shift 2
    done
    small check >"$work/log" 2>&1
    code=$?
    if [ -z "$words" ]; then
        [ $code -ne 0 ] || right=yes
        count "$right" "accepted: $name" "$work/log"
    else
        [ $code -ne 1 ] || ! grep -qE "$words" "$work/log" || ! grep -q 'make abi-update' "$work/log" || right=yes
        count "$right" "noticed: $name" "$work/log"
    fi
}

change 'a library without a description' 'no description yet'
small update >"$work/log" 2>&1 && [ -s "$work/small.abi" ] && right=yes || right=no
count "$right" 'abi-update writes a description' "$work/log"
change 'no change' ''
change 'a handle with another struct behind it' '' small.c 's/int private;/int private, more;/'
change 'comments and lines' '' leat/small.h 's|/\* a handle \*/|/* an open one */|; s/^LEAT_API/\n&/'
change 'a field in the middle' 'leat_small_info' leat/small.h 's/uint32_t count;/uint32_t more, count;/'
change 'a field at the end' 'leat_small_info' leat/small.h 's/^    leat_small_state state;/&\n    uint64_t more;/'
change 'another type of a field' 'leat_small_info' leat/small.h 's/uint32_t count;/uint64_t count;/'
change 'another name of a field' 'leat_small_info' leat/small.h 's/uint32_t count;/uint32_t counts;/' \
    small.c 's/>count/>counts/'
change 'another value of an enumerator' 'leat_small_state' leat/small.h 's/BUSY = 1/BUSY = 2/'
change 'another value of a flag' 'LEAT_SMALL_WRITE' leat/small.h 's/WRITE = 2/WRITE = 4/'
change 'a new enumerator' 'LEAT_SMALL_LOST' leat/small.h 's/LEAT_SMALL_BUSY = 1/&, LEAT_SMALL_LOST = 2/'
change 'another argument' 'leat_small_open' leat/small.h 's/open(unsigned flags/open(uint64_t flags/' \
    small.c 's/open(unsigned flags/open(uint64_t flags/'
change 'a call that is hidden' '\[D\].*leat_small_query' small.map 's/local: /local: leat_small_query; /'
change 'a call that is gone' '\[D\].*leat_small_query' leat/small.h '/leat_small_query/,/info/d' \
    small.c '/leat_small_query/d'
change 'a new call' 'leat_small_more' \
    leat/small.h 's/^LEAT_API int leat_small_open/LEAT_API int leat_small_more(void);\n&/' \
    small.c '$a int leat_small_more(void) { return 0; }'
change 'a call with another symbol version' 'leat_small_query@@LEAT_0.1' \
    small.map 's/.*EXPERIMENTAL.*/&\nLEAT_0.2 { global: leat_small_query; } LEAT_0.1;/'
soname=libsmall.so.1
change 'another soname' 'SONAME'

# leat itself: one more field in the first struct of a header, and a call less than described.
mkdir "$work/include"
cp -r include/leat "$work/include"
header=$(grep -lE '^typedef struct leat_[a-z0-9_]+ \{' include/leat/[c-l]*.h | head -n 1)
sed -i -E '0,/^typedef struct leat_[a-z0-9_]+ \{/s//&\n    int leat_more;/' "$work/$header"
INCLUDE="$work/include" tools/abi.sh check "$description" "$cc" "$library" "$@" >"$work/log" 2>&1
[ $? -eq 1 ] && grep -q 'leat_more' "$work/log" && grep -q 'make abi-update' "$work/log" && right=yes || right=no
count "$right" "noticed: a field more in ${header##*/}" "$work/log"

call=$(tools/exports.sh "$cc" "$@" | sed -n '1s/ .*//p')
sed -E "s/'$call('|@)/'${call}_gone\1/g" "$description" >"$work/gone.abi"
tools/abi.sh check "$work/gone.abi" "$cc" "$library" "$@" >"$work/log" 2>&1
[ $? -eq 1 ] && grep -q "${call}_gone" "$work/log" && right=yes || right=no
count "$right" "noticed: a described call that libleat.so lacks" "$work/log"

printf 'abi gate: %d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
