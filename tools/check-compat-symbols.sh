#!/bin/bash
# Compares the exported functions of the compatibility libraries with the tables in docs/compatibility.md.
# Argument: the folder with the libraries.
set -euo pipefail
build=$(realpath "${1:-build}")
cd "$(dirname "$0")/.."
wrong=0 checked=0

# Prints the names in the first column of the tables under a heading.
listed() { # heading
    awk -v heading="## $1" '/^## / { on = $0 == heading } on && /^\| `/ { print }' docs/compatibility.md |
        cut -d'|' -f2 | grep -oE '`[A-Za-z0-9_]+`' | tr -d '`' | sort || :
}

check() { # library heading prefix
    local library="$build/libleat-$1.so" exported names
    [ -e "$library" ] || return 0
    if ! grep -qx "## $2" docs/compatibility.md; then
        echo "compat-symbols: docs/compatibility.md has no section \"$2\" yet"
        return 0
    fi
    exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | grep -E "^$3" | sort)
    names=$(listed "$2")
    checked=$((checked + $(echo "$exported" | wc -l)))
    while read -r line; do
        [ -z "$line" ] || { echo "compat-symbols: $1: $line"; wrong=$((wrong + 1)); }
    done < <(comm -23 <(echo "$names") <(echo "$exported") | sed 's/$/ is in the table and not in the library/'
             comm -13 <(echo "$names") <(echo "$exported") | sed 's/$/ is in the library and not in the table/'
             echo "$names" | uniq -d | sed 's/$/ is in the table twice/')
    # Other exported symbols could collide with those of a user's program.
    while read -r line; do
        [ -z "$line" ] || { echo "compat-symbols: $1 exports $line"; wrong=$((wrong + 1)); }
    done < <(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
             grep -vE "^$3|^leat_compat_names\$" || :)
}

# Each of AMD's functions in hip-names.txt must be in the library, or be documented as missing. If AMD's header is
# installed, hip-names.txt must contain each function that it declares.
check_hip_names() {
    local library="$build/libleat-hip.so" header=${HIP_HOME:-/usr}/include/hip/hip_runtime_api.h exported all absent
    [ -e "$library" ] || return 0
    exported=$(nm -D --defined-only "$library" | awk '{ sub(/@.*/, "", $3); print $3 }' | grep '^hip' | sort)
    all=$(grep -v '^#' tools/hip-names.txt | sort)
    absent=$(listed "Names of HIP that are not there")
    while read -r line; do
        [ -z "$line" ] || { echo "compat-symbols: hip: $line"; wrong=$((wrong + 1)); }
    done < <(comm -23 <(echo "$all") <(printf '%s\n' "$exported" "$absent" | sort -u) |
                 sed 's/$/ is neither in the library nor among the names that are not there/'
             comm -12 <(echo "$exported") <(echo "$absent") | sed 's/$/ is said not to be there, and it is/'
             comm -13 <(echo "$all") <(printf '%s\n' "$exported" "$absent" | sort -u) |
                 sed 's/$/ is not in tools\/hip-names.txt/'
             echo "$absent" | uniq -d | sed 's/$/ is said twice not to be there/'
             if [ -e "$header" ]; then
                 comm -13 <(echo "$all") <(grep -oE '^(hipError_t|const char\*) +hip[A-Z][A-Za-z0-9_]+\(' "$header" |
                     grep -oE 'hip[A-Z][A-Za-z0-9_]+\(' | tr -d '(' | sort -u) |
                     sed "s|\$| is in $header and not in tools/hip-names.txt|"
             fi)
    checked=$((checked + $(echo "$absent" | wc -l)))
}

# The libraries under the vendor's file names have the same names; libcudart.so.12 has the newer forms of CUDA 12 too.
names_of() { nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort; }
check_face() { # face library filter
    [ -e "$build/faces/$1" ] || return 0
    while read -r line; do
        [ -z "$line" ] || { echo "compat-symbols: faces/$1 and libleat-$2.so differ in $line"; wrong=$((wrong + 1)); }
    done < <(comm -3 <(names_of "$build/libleat-$2.so") <(names_of "$build/faces/$1") | tr -d '\t' | grep -vE "$3" || :)
}
check_face libcudart.so.13 cudart '^$'
check_face libcudart.so.12 cudart '_v[23](_ptsz)?$|^cudaGetDeviceProperties$'
check_face libcuda.so.1 cuda '^$'
check_face libcufile.so.0 cufile '^$'

check cudart "CUDA runtime" '(__)?cuda[A-Z]'
check cuda "CUDA driver" 'cu[A-Z]'
check hip "HIP" 'hip(rtc)?[A-Z]'
check cufile "cuFile" 'cuFile[A-Z]'
check_hip_names
if [ "$checked" -eq 0 ]; then
    echo "compat-symbols: found no name at all in $build; are the libraries built?" >&2
    exit 1
fi
echo "compat-symbols: $checked names, $wrong wrong"
[ "$wrong" -eq 0 ]
