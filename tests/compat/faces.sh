#!/bin/bash
# faces.sh - runs programs that were linked with the vendor's library names (face_client12.c, face_client13.c) over leat's
# libraries of these names, in the folder where they were built and in the layout of an installation. LEAT_COMMAND is
# the command; the folder of libraries is beside it.
build=$(dirname "$(realpath "${LEAT_COMMAND:-$(dirname "$0")/../../build/leat}")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
given=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LEAT_DEVICE=cpu:0
unset LEAT_CUDA_LIBRARY LD_PRELOAD LEAT_DRIVERS
failures=0

fail() {
    failures=$((failures + 1))
    printf 'FAIL  %s\n' "$*"
    sed 's/^/      | /' "$work/out"
}

# with PATH PROGRAM...: runs the program with this LD_LIBRARY_PATH. It must succeed, and the loader must not say
# anything, such as that a library has no version information.
with() {
    local path=$1
    shift
    if ! LD_LIBRARY_PATH=$path "$@" >"$work/out" 2>&1; then
        fail "LD_LIBRARY_PATH=$path $*"
    elif grep -q 'version information' "$work/out"; then
        fail "$*: symbol versions are missing"
    fi
}

for client in face_client12 face_client13; do
    with "$build/faces$given" "$build/tests/compat/$client"
done

# As installed: lib/leat/faces, and leat's libraries in lib, which no path names.
mkdir -p "$work/lib/leat"
cp -r "$build/faces" "$work/lib/leat/faces"
for library in "$build"/libleat*.so.*; do ln -s "$library" "$work/lib/"; done
for client in face_client12 face_client13; do
    with "$work/lib/leat/faces" "$build/tests/compat/$client"
done

# "leat run --device" finds the folder beside the command, and where "make install-compat" puts it.
ran() { env -u LEAT_DEVICE "$@" >"$work/out" 2>&1 || fail "$*"; }
mkdir -p "$work/bin"
cp "$build/leat" "$work/bin/"
for client in face_client12 face_client13; do
    ran "$build/leat" run --device cpu:0 -- "$build/tests/compat/$client"
    ran "$build/leat" run --device cpu:0 "$(command -v env)" LEAT_NOTHING=1 "$build/tests/compat/$client"
done
refused() {
    local status=$1 text=$2
    shift 2
    env -u LEAT_DEVICE "$@" >"$work/out" 2>&1
    [ $? -eq "$status" ] && grep -q -- "$text" "$work/out" || fail "$*: not refused with status $status and \"$text\""
}
refused 2 'only a CPU device' "$build/leat" run --device cuda:0 true
refused 2 'has no table' "$build/leat" run --device cpu:0 --log true
refused 127 'No such file' "$build/leat" run --device cpu:0 /nowhere/program
refused 126 'Permission denied' "$build/leat" run --device cpu:0 /etc/passwd

# The sonames are the file names, which NEEDED entries of programs contain.
for library in "$build"/faces/*; do
    readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p' >"$work/out"
    [ "$(cat "$work/out")" = "${library##*/}" ] || fail "$library has another soname"
done
# Programs of NVIDIA's compiler ask for these versions.
for version in 12 13; do
    nm -D --with-symbol-versions "$build/faces/libcudart.so.$version" >"$work/out" 2>&1
    grep -q " cudaMalloc@@libcudart.so.$version\$" "$work/out" || fail "libcudart.so.$version: the symbol version"
    grep -q ' T .*leat' "$work/out" && fail "libcudart.so.$version exports leat's names"
done

# leat's own driver cuda must not offer the CPU device as a GPU.
LD_LIBRARY_PATH=$build/faces$given "$build/leat" info >"$work/out" 2>&1
if grep -q 'cuda:0' "$work/out" || ! grep -q "leat's own" "$work/out"; then
    fail 'leat info takes the face of libcuda.so.1 for a driver'
fi
exit $((failures > 0))
