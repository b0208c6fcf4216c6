#!/bin/bash
# Compares the public ABI of a library with its description in tools/abi/, or writes that anew.
#     tools/abi.sh check|update DESCRIPTION CC LIBRARY HEADER...
# Headers are relative to include/, or to the folder in INCLUDE, as for tools/exports.sh.
#
# The calls and their symbol versions are those that the built library exports; their types are those that the public
# headers give them, which every source includes, so that the compiler has checked the definitions. abidw reads both from
# a library of empty functions that is made here: the library itself would have the structs behind its handles in it,
# and what libabigail (2.2) finds there depends on the compiler and its flags. All public types are described, those too
# that no call takes, such as flags.
set -euo pipefail
mode=$1 description=$(realpath -m "$2") cc=$3 library=$(realpath "$4") name=${4##*/}
shift 4
cd "$(dirname "$0")/.."
for tool in abidw abidiff; do
    command -v $tool >/dev/null || { echo "abi: there is no $tool here; Debian's package is abigail-tools" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints "leat_copy LEAT_0.1" for each call that a library exports.
exports() {
    nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" { sub(/@+/, " ", $3); print $3 }' | sort
}
exports "$library" >"$work/exports"
# Declared calls that the library exports get an empty body; LEAT_API goes away.
tools/exports.sh --source "$cc" "$@" | awk '
    FILENAME != "-" { exported[$1] = 1; next }
    { text = text "\n" $0 }
    END {
        while (match(text, /[^A-Za-z0-9_]LEAT_API[^A-Za-z0-9_]/)) {
            printf "%s", substr(text, 1, RSTART)
            text = substr(text, RSTART + RLENGTH)
            end = index(text, ";")
            call = substr(text, 1, end - 1)
            text = substr(text, end + 1)
            found = match(call, /leat_[a-z0-9_]+ *\(/)
            called = substr(call, RSTART, RLENGTH)
            sub(/ *\(/, "", called)
            print call (found && called in exported ? " { __builtin_trap(); }" : ";")
        }
        print text
    }' "$work/exports" - >"$work/${name%%.so*}.c"
awk '$2 != "" { calls[$2] = calls[$2] " " $1 ";" }
     END {
         for (node in calls)
             printf "%s { global:%s%s };\n", node, calls[node], others++ ? "" : " local: *;"
     }' "$work/exports" >"$work/map"
soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]$/\1/p')
(cd "$work" && $cc -std=c11 -g -gdwarf-4 -O0 -fno-eliminate-unused-debug-types -fPIC -shared -Wl,--version-script=map \
    ${soname:+-Wl,-soname,$soname} "${name%%.so*}.c" -o library.so)
exports "$work/library.so" | comm -23 "$work/exports" - >"$work/missing"
if [ -s "$work/missing" ] || ! [ -s "$work/exports" ]; then
    echo "abi: $name exports calls without a declaration or a symbol version (make symbols), or nothing:" >&2
    cat "$work/missing" >&2
    exit 1
fi
abidw --no-architecture --no-corpus-path --no-show-locs --no-comp-dir-path --no-elf-needed --no-parameter-names \
    --no-write-default-sizes --type-id-style hash --load-all-types --out-file "$work/all.abi" "$work/library.so"
# Types of the system that nothing public uses are left out, round by round until nothing is left to drop.
cp "$work/all.abi" "$work/new.abi"
while :; do
    awk 'function attribute(key) {
             if (!match($0, "[ ]" key "=\047[^\047]*\047"))
                 return ""
             return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 4)
         }
         function system_type() { return attribute("name") !~ /^(leat_|__anonymous_)/ }
         NR == FNR { used[attribute("type-id")] = used[attribute("naming-typedef-id")] = 1; next }
         /^    <class-decl .* is-non-reachable=.*[^\/]>$/ && system_type() { dropping = 1 }
         dropping { if (/^    <\/class-decl>/) dropping = 0; next }
         /^    <(typedef-decl|type-decl|pointer-type-def|qualified-type-def) .*\/>$/ &&
             system_type() && !(attribute("id") in used) { next }
         { print }' "$work/new.abi" "$work/new.abi" >"$work/less.abi"
    cmp -s "$work/new.abi" "$work/less.abi" && break
    mv "$work/less.abi" "$work/new.abi"
done
calls=$(wc -l <"$work/exports")

# Prints the differences; fails if there are some.
compare() {
    [ -e "$description" ] || { echo "there is no description yet"; return 1; }
    cmp -s "$description" "$work/new.abi" ||
        abidiff --harmless --non-reachable-types --no-show-locs "$description" "$work/new.abi"
}

if difference=$(compare 2>&1); then
    echo "abi: $name is as described, $calls calls"
elif [ "$mode" = update ]; then
    mkdir -p "${description%/*}"
    cp "$work/new.abi" "$description"
    echo "abi: described $name anew, $calls calls: ${description#"$PWD"/}"
else
    sed 's/^\(.\)/    \1/' <<<"$difference"
    echo "abi: error: $name differs from its description in ${description#"$PWD"/}, as shown above."
    echo "If that is meant and this version is not released: 'make abi-update' and commit the description."
    echo "After a release, calls and structs of a released symbol version stay as they are, and new calls get a new one:"
    echo "CONTRIBUTING.md, \"Versions and experimental calls\"."
    exit 1
fi
