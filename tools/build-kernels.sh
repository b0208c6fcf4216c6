#!/bin/bash
# Builds the kernels that are kept in the tree: src/kernels/built/ (PTX, NVIDIA machine code and AMD code objects of
# leat's built-in kernels) and the PTX of the tests' and examples' kernels.
#
#   tools/build-kernels.sh           rebuilds them in place
#   tools/build-kernels.sh --check   rebuilds them elsewhere and compares: same bytes, or it fails
#
# clang-19 and lld-19 make PTX and code objects. CUDA's ptxas 12.9.86 makes machine code of the PTX, and fatbinary
# 13.0.88 compresses it. Both are in NVIDIA's Python packages (no GPU and no toolkit is needed):
#
#   pip install --target nvcc nvidia-cuda-nvcc-cu12==12.9.86 nvidia-cuda-nvcc==13.0.88
#   chmod +x nvcc/nvidia/cuda_nvcc/bin/ptxas nvcc/nvidia/cu13/bin/fatbinary
#   PTXAS=nvcc/nvidia/cuda_nvcc/bin/ptxas FATBINARY=nvcc/nvidia/cu13/bin/fatbinary tools/build-kernels.sh
#
# These tools are only needed for changing a kernel, not for building leat. Exits with 77 if one is missing. With
# --check ptxas and fatbinary may be missing: then the machine code is compared with the checksums that were written
# when it was made, so code of other PTX is noticed. If there is a ptxas of any version, the PTX is also assembled for
# every GPU architecture that it supports. The variables CLANG, LLD, PTXAS and FATBINARY name other programs.
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
src/kernels/convert_kernels.c src/kernels/built/convert_kernels.ptx
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

# CUDA 12's ptxas, because drivers for CUDA 12 refuse code of CUDA 13. CUDA 12's fatbinary is in no Python package.
ptxas_version=12.9.86
fatbinary_version=13.0.88
cuda_bin=${CUDA_HOME:-/usr/local/cuda}/bin
ptxas=${PTXAS:-$(command -v ptxas || echo "$cuda_bin/ptxas")}
fatbinary=${FATBINARY:-$(command -v fatbinary || echo "$cuda_bin/fatbinary")}
has_version() {
    command -v "$1" > /dev/null && [[ $("$1" --version) == *", V$2"* ]]
}
no_machine_code=
if ! has_version "$ptxas" "$ptxas_version"; then
    no_machine_code="no ptxas $ptxas_version here (see PTXAS in this script)"
elif ! has_version "$fatbinary" "$fatbinary_version"; then
    no_machine_code="no fatbinary $fatbinary_version here (see FATBINARY in this script)"
fi
if [ "$mode" = build ] && [ -n "$no_machine_code" ]; then
    echo "kernels: skipped, $no_machine_code; the kept files are used as they are"
    exit 77
fi
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
    for file in builtin_kernels convert_kernels; do
        # shellcheck disable=SC2086
        amd "$gpu" $flags -c "src/kernels/$file.c" -o "$work/kernels.o"
        link_amd "$work/kernels.o" "src/kernels/built/$file.$gpu.co"
    done
    # shellcheck disable=SC2086
    amd "$gpu" $flags -S src/kernels/layout_kernels.c -o "$work/layouts.s"
    cut_modules "$work/layouts.s"
    while read -r _ file; do
        amd "$gpu" -c "$work/$file.s" -o "$work/kernels.o"
        link_amd "$work/kernels.o" "src/kernels/built/$file.$gpu.co"
    done <<< "$modules"
done

# Machine code: each module's PTX, assembled for the architectures of LEATI_MACHINE_CODE_LIST, in one compressed fatbin.
# The record has the checksums of the PTX and of the fatbin made from it.
built_files=$(sed -n 's/^ *X(more, [A-Z0-9_]*, \([a-z0-9_]*\)).*/\1/p' "$modules_h")
code_gpus=$(sed -n 's/^#define LEATI_MACHINE_CODE_LIST //p' src/kernels/builtin.h | tr -d ',')
record=src/kernels/built/machine_code.sha256
code_bytes_max=$((3 << 20))
code_built=''

assemble() {
    local file=$1 gpu images=()

    for gpu in $code_gpus; do
        "$ptxas" -arch="sm_$gpu" "$out/src/kernels/built/$file.ptx" -o "$work/$file.sm_$gpu.cubin"
        images+=("--image3=kind=elf,sm=$gpu,file=$work/$file.sm_$gpu.cubin")
    done
    "$fatbinary" -64 --compress-all --compress-mode=size "${images[@]}" \
        --create="$out/src/kernels/built/$file.fatbin"
}

if [ -z "$no_machine_code" ]; then
    echo "kernels: machine code by ptxas $ptxas_version and fatbinary $fatbinary_version for architectures $code_gpus"
    for file in $built_files; do
        assemble "$file"
        code_built="$code_built src/kernels/built/$file.fatbin"
    done
    if [ "$mode" = build ]; then
        for file in $built_files; do
            sha256sum "src/kernels/built/$file.ptx" "src/kernels/built/$file.fatbin"
        done > "$record"
    fi
fi
built="$ptx_built$amd_built$code_built"

wrong=0
for file in $built; do
    if [ "$mode" = check ] && ! cmp "$out/$file" "$file"; then
        echo "kernels: $file is not what its source gives" >&2
        wrong=$((wrong + 1))
    fi
done

for file in $built_files; do
    if ! sha256sum --check --strict --status < <(grep "/$file\.\(ptx\|fatbin\)\$" "$record"); then
        echo "kernels: src/kernels/built/$file.fatbin is not the machine code of $file.ptx, says $record" >&2
        wrong=$((wrong + 1))
    fi
done
code_bytes=$(for file in $built_files; do cat "src/kernels/built/$file.fatbin"; done | wc -c)
echo "kernels: the machine code has $code_bytes bytes (at most $code_bytes_max)${no_machine_code:+; not rebuilt: $no_machine_code}"
if [ "$code_bytes" -gt "$code_bytes_max" ]; then
    echo "kernels: too much machine code: make kernels smaller or drop an architecture" >&2
    wrong=$((wrong + 1))
fi

if command -v "$ptxas" > /dev/null; then
    known=$("$ptxas" --help)
    assembled=
    for gpu in $nvidia_gpus; do
        grep -qw "sm_$gpu" <<< "$known" || continue
        for file in $ptx_built; do
            name=${file##*/}
            [ ! -e "$work/${name%.ptx}.sm_$gpu.cubin" ] || continue
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
