#!/bin/bash
# Builds the kernels that are kept in the tree, with clang-19 and lld-19: src/kernels/built/ (PTX and AMD code
# objects of leat's built-in kernels) and the PTX of the tests' and examples' kernels.
#
#   tools/build-kernels.sh           rebuilds them in place
#   tools/build-kernels.sh --check   rebuilds them elsewhere and compares: same bytes, or it fails
#
# If CUDA's ptxas is installed, the PTX is also assembled for every GPU architecture that this ptxas supports. Exits
# with 77 if clang-19 or lld-19 is missing: they are only needed for changing a kernel, not for building leat. The
# variables CLANG and LLD name other programs.
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

# One line for each file of kernels: its source, then the PTX file made from it.
ptx_files="src/kernels/builtin_kernels.c src/kernels/built/builtin_kernels.ptx
tests/support/kernels_user.c tests/support/kernels_user.ptx
examples/own_kernel_device.c examples/own_kernel_device.ptx"
# layout_kernels.c is compiled to one assembly text for each target, and this text is cut into the modules that this
# header lists, because clang's output for a kernel depends on the other kernels in the file. One thing is lost:
# clang-19 has no assembler directive for gfx1100's hint how much of a kernel to prefetch.
modules_h=src/kernels/modules.h
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
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$mode" = check ]; then
    out=$work
fi
mkdir -p "$out/src/kernels/built" "$out/tests/support" "$out/examples"

# Relative names, no debug information and no compiler name, so that the files are the same on every machine.
flags="-std=c11 -O3 -ffreestanding -nogpulib -fno-ident -Iinclude -Isrc -Wall -Wextra -Wshadow -Wconversion -Werror"

# PTX 6.3 is the first version with sm_75; a newer version would require a newer driver. Loop strength reduction is
# off, since it keeps an address register for each access in a loop. Without it most kernels fit in 32 registers, so
# that a multiprocessor of a GPU reaches full occupancy.
ptx() {
    # shellcheck disable=SC2086
    "$clang" --target=nvptx64-nvidia-cuda -march=sm_75 --cuda-feature=+ptx63 $flags -mllvm -disable-lsr \
        -S "$1" -o "$2"
}

amd() {
    local gpu=$1

    shift
    "$clang" --target=amdgcn-amd-amdhsa -mcpu="$gpu" -mcode-object-version=5 "$@"
}

# The linker is given by name, because clang would use the first ld.lld that it finds, of any version.
link_amd() {
    "$lld" -shared --no-undefined -s "$1" -o "$out/$2"
    chmod 644 "$out/$2"
    amd_built="$amd_built $2"
}

kernels_of() {
    sed -n "s/^ *X($1, \(leat_[a-z0-9_]*\)).*/\1/p" "$modules_h" | tr '\n' ' '
}

# The kernels with a register limit: pairs of a name and a number.
registers=$(sed -n 's/.*X(\(leat_[a-z0-9_]*\), \([0-9]*\)).*/\1 \2/p' "$modules_h" | tr '\n' ' ')

# The modules of layout kernels: pairs of a module's name in the header and the name of its file.
modules=$(sed -n 's/^ *X(more, \([A-Z0-9_]*\), \(layout_[a-z0-9_]*\)).*/\1 \2/p' "$modules_h")

# Cuts an assembly text ($1) into one file for each module, in the same folder.
cut_modules() {
    local name file all cut=0

    while read -r name file; do
        awk -v kernels="$(kernels_of "$name")" -v registers="$registers" -f tools/cut-kernels.awk "$1" \
            > "$work/$file.${1##*.}"
        cut=$((cut + $(grep -c -e '-- Begin function' "$work/$file.${1##*.}")))
    done <<< "$modules"
    all=$(grep -c -e '-- Begin function' "$1")
    if [ "$cut" -ne "$all" ]; then
        echo "kernels: $modules_h has $cut of the $all kernels of layouts in a module" >&2
        exit 1
    fi
}

ptx_built='' amd_built=''
while read -r source file; do
    ptx "$source" "$out/$file"
    ptx_built="$ptx_built $file"
done <<< "$ptx_files"
ptx src/kernels/layout_kernels.c "$work/layouts.ptx"
cut_modules "$work/layouts.ptx"
while read -r _ file; do
    cp "$work/$file.ptx" "$out/src/kernels/built/$file.ptx"
    ptx_built="$ptx_built src/kernels/built/$file.ptx"
done <<< "$modules"

for gpu in $amd_gpus; do
    # shellcheck disable=SC2086
    amd "$gpu" $flags -c src/kernels/builtin_kernels.c -o "$work/kernels.o"
    link_amd "$work/kernels.o" "src/kernels/built/builtin_kernels.$gpu.co"
    # shellcheck disable=SC2086
    amd "$gpu" $flags -S src/kernels/layout_kernels.c -o "$work/layouts.s"
    cut_modules "$work/layouts.s"
    while read -r _ file; do
        amd "$gpu" -c "$work/$file.s" -o "$work/kernels.o"
        link_amd "$work/kernels.o" "src/kernels/built/$file.$gpu.co"
    done <<< "$modules"
done
built="$ptx_built$amd_built"

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
        for file in $ptx_built; do
            if ! "$ptxas" -arch="sm_$gpu" "$out/$file" -o /dev/null; then
                echo "kernels: ptxas refuses $file for sm_$gpu" >&2
                wrong=$((wrong + 1))
            fi
        done
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
