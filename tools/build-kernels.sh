#!/bin/bash
# Builds the kernels that are kept in the tree, with clang-19 and lld-19: src/kernels/built/ (PTX and AMD code
# objects of leat's own kernels) and the PTX of the tests' and examples' kernels.
#
#   tools/build-kernels.sh           rebuilds them in place
#   tools/build-kernels.sh --check   rebuilds them elsewhere and compares: same bytes, or it fails
#
# Where CUDA's ptxas is found, the PTX is also assembled for every GPU generation that ptxas knows. Exits 77
# where clang-19 or lld-19 is missing: building leat needs neither, only changing a kernel does. The variables
# CLANG and LLD name other ones.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=build
case ${1:-} in
'') ;;
--check) mode=check ;;
*)
    echo "usage: tools/build-kernels.sh [--check]" >&2
    exit 2
    ;;
esac

# One line a kernel file: source, then the PTX that is made of it.
ptx_files="src/kernels/builtin_kernels.c src/kernels/built/builtin_kernels.ptx
src/kernels/layout_kernels.c src/kernels/built/layout_kernels.ptx
tests/kernels_user.c tests/kernels_user.ptx
examples/own_kernel_device.c examples/own_kernel_device.ptx"
amd_gpus="gfx90a gfx942 gfx1100"
nvidia_gpus="75 80 86 89 90 100 120"

clang=${CLANG:-clang-19}
lld=${LLD:-ld.lld-19}
for tool in "$clang" "$lld"; do
    if ! command -v "$tool" > /dev/null; then
        echo "kernels: skipped, no $tool here (Debian: clang-19, lld-19); the kept files are used as they are"
        exit 77
    fi
done
echo "kernels: $("$clang" --version | head -n 1)"
echo "kernels: $("$lld" --version | head -n 1)"

out=.
if [ "$mode" = check ]; then
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
fi

# Relative names, no debug information and no compiler's name in the files: the same bytes on every machine.
flags="-std=c11 -O3 -ffreestanding -nogpulib -fno-ident -Iinclude -Isrc -Wall -Wextra -Wshadow -Wconversion -Werror"

# PTX 6.3 is the first that knows sm_75; a newer text would ask for a newer driver. Loop strength reduction keeps
# an address register for each access of a loop; without it most kernels fit in 32 registers, so that a GPU's
# multiprocessor can hold as many threads as it knows.
build_ptx() {
    # shellcheck disable=SC2086
    "$clang" --target=nvptx64-nvidia-cuda -march=sm_75 --cuda-feature=+ptx63 $flags -mllvm -disable-lsr \
        -S "$1" -o "$2"
}

# The linker is named: clang would take the first ld.lld it finds, of whatever version.
build_amd() {
    # shellcheck disable=SC2086
    "$clang" --target=amdgcn-amd-amdhsa -mcpu="$1" -mcode-object-version=5 $flags -c "$2" -o "$3.o"
    "$lld" -shared --no-undefined -s "$3.o" -o "$3"
    rm -f "$3.o"
    chmod 644 "$3"
}

built=
while read -r source ptx; do
    mkdir -p "$out/$(dirname "$ptx")"
    build_ptx "$source" "$out/$ptx"
    built="$built $ptx"
done <<< "$ptx_files"
for gpu in $amd_gpus; do
    for kernels in builtin_kernels layout_kernels; do
        object=src/kernels/built/$kernels.$gpu.co
        build_amd "$gpu" "src/kernels/$kernels.c" "$out/$object"
        built="$built $object"
    done
done

wrong=0
for file in $built; do
    if [ "$mode" = check ] && ! cmp "$out/$file" "$file"; then
        echo "kernels: $file is not what its source gives" >&2
        wrong=$((wrong + 1))
    fi
done

ptxas=$(command -v ptxas || echo "${CUDA_HOME:-/usr/local/cuda}/bin/ptxas")
if [ -x "$ptxas" ]; then
    known=$("$ptxas" --help)
    assembled=
    for gpu in $nvidia_gpus; do
        grep -qw "sm_$gpu" <<< "$known" || continue
        while read -r source ptx; do
            if ! "$ptxas" -arch="sm_$gpu" "$out/$ptx" -o /dev/null; then
                echo "kernels: ptxas refuses $ptx for sm_$gpu" >&2
                wrong=$((wrong + 1))
            fi
        done <<< "$ptx_files"
        assembled="$assembled sm_$gpu"
    done
    echo "kernels: ptxas assembled the PTX for$assembled"
else
    echo "kernels: no ptxas here, so the PTX was not assembled"
fi

if [ "$wrong" -gt 0 ]; then
    echo "kernels: $wrong wrong. After a change to a kernel, to device_code.h or to the flags, run" \
        "tools/build-kernels.sh and commit what it writes. If none of them changed, this compiler or linker is" \
        "another than the one that wrote the kept files" >&2
    exit 1
fi
if [ "$mode" = check ]; then
    echo "kernels: $(wc -w <<< "$built") files are what their sources give"
else
    echo "kernels: wrote$built"
fi
