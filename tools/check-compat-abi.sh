#!/bin/bash
# Compares the compatibility headers with the vendor's: each constant, the size of each struct and the offset of each
# field, and each prototype. Prints "skipped" if the vendor's header is missing or has another version.
# Arguments: a C compiler (default: cc), and a layer (default: all). CUDA_HOME is the folder of CUDA.
set -euo pipefail
cd "$(dirname "$0")/.."
cc=${1:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Writes a program that prints everything that the header OURS declares and whose name starts with PREFIX.
write_program() { # ours prefix
    echo '#include <stddef.h>'
    echo '#include <stdio.h>'
    echo 'int main(void)'
    echo '{'
    sed -nE "s/^ +X\((\w+), -?[0-9]+, \".*/cudaError\1/p; s/^ +($2\w+) = .*/\1/p;
             s/^#define ($2\w+) \(?\(?(int\))?-?(0x)?[0-9a-f]+\)?\$/\1/p" "$1" |
        while read -r name; do echo "    printf(\"$name %lld\\n\", (long long)$name);"; done
    awk '/^(typedef )?struct [A-Za-z0-9_]+ \{/ { name = $1 == "typedef" ? $3 : $2; print name; next }
         /^\}/ { name = ""; inside = 0 }
         name != "" && /\{$/ { inside++; next }
         inside && /^ +\}/ { inside-- }
         name != "" && !inside && /;$/ {
             sub(/;$/, ""); gsub(/\[[^]]*\]/, ""); n = split($0, part, /[ ,*]+/)
             for (i = n; i > 1 && part[i] ~ /^[a-zA-Z_]+[A-Za-z0-9_]*$/; i = 1) print name, part[i]
         }' "$1" |
        while read -r name field; do
            if [ -n "$field" ]; then
                echo "    printf(\"$name.$field %zu\\n\", offsetof(struct $name, $field));"
            else
                echo "    printf(\"sizeof $name %zu\\n\", sizeof(struct $name));"
            fi
        done
    echo '    return 0;'
    echo '}'
}

check_cudart() {
    local vendor="-isystem ${CUDA_HOME:-/usr/local/cuda}/include" ours=include/leat/compat/driver_types.h
    # shellcheck disable=SC2086
    if ! printf '#include <cuda_runtime_api.h>\n#if CUDART_VERSION != 13000\n#error\n#endif\n' |
        $cc $vendor -fsyntax-only -x c - 2>/dev/null; then
        echo "compat-abi: cudart skipped: no cuda_runtime_api.h of CUDA 13.0 here"
        return
    fi
    write_program $ours cuda >"$work/print.c"
    $cc -Iinclude -include leat/compat/cuda_runtime_api.h "$work/print.c" -o "$work/ours"
    # shellcheck disable=SC2086
    $cc $vendor -include cuda_runtime_api.h "$work/print.c" -o "$work/theirs"
    "$work/ours" >"$work/ours.txt"
    "$work/theirs" >"$work/theirs.txt"
    diff "$work/ours.txt" "$work/theirs.txt"
    # Declare our prototypes again after the vendor's, with the vendor's types: a difference does not compile.
    # shellcheck disable=SC2086
    printf '#include <cuda_runtime_api.h>
            #include <cuda_profiler_api.h>
            #define LEAT_COMPAT_DRIVER_TYPES_H
            #include <leat/compat/cuda_runtime_api.h>\n' |
        $cc $vendor -Iinclude -Werror -fsyntax-only -x c -
    echo "compat-abi: cudart: $(wc -l <"$work/ours.txt") constants and places," \
        "$(grep -cE '^(cudaError_t|const char|struct) .*\(' include/leat/compat/cuda_runtime_api.h) prototypes agree"
}

check_cuda() {
    local vendor="-isystem ${CUDA_HOME:-/usr/local/cuda}/include" ours=include/leat/compat/leat_cuda_types.h
    # shellcheck disable=SC2086
    if ! printf '#include <cuda.h>\n#if CUDA_VERSION != 13000\n#error\n#endif\n' |
        $cc $vendor -fsyntax-only -x c - 2>/dev/null; then
        echo "compat-abi: cuda skipped: no cuda.h of CUDA 13.0 here"
        return
    fi
    # Several constants may be on one line. Fields of a nested struct are checked by the size of that struct.
    write_program $ours NOTHING | grep -vE 'Prop_st.(compressionType|gpuDirectRDMACapable|usage|reserved) ' |
        sed '$d' | sed '$d' >"$work/print.c"
    grep -oE '\bCU(DA)?_[A-Z0-9_]+ =' $ours | sed -E 's/(.*) =/    printf("\1 %lld\\n", (long long)\1);/' >>"$work/print.c"
    printf '    return 0;\n}\n' >>"$work/print.c"
    $cc -Iinclude -include leat/compat/cuda.h "$work/print.c" -o "$work/ours"
    # shellcheck disable=SC2086
    $cc $vendor -include cuda.h "$work/print.c" -o "$work/theirs"
    "$work/ours" >"$work/ours.txt"
    "$work/theirs" >"$work/theirs.txt"
    diff "$work/ours.txt" "$work/theirs.txt"
    echo "compat-abi: cuda: $(wc -l <"$work/ours.txt") constants and places agree"
}

# Our header has the declarations of HIP 6.3. Those that AMD's installed header has too must agree, except for the
# known changes of HIP 6.
check_hip() {
    local header=${HIP_HOME:-/usr}/include/hip/hip_runtime_api.h names type
    local vendor="-D__HIP_PLATFORM_AMD__ -isystem ${HIP_HOME:-/usr}/include" ours=include/leat/compat/hip/driver_types.h
    local changed='hipMemoryType\w+|hipIpcMemLazyEnablePeerAccess|hipDeviceLmemResizeToMax|hipJitOptionNumOptions|hipGraphNodeType\w+'
    local changed_structs='hipPointerAttribute_t|hipMemPoolProps|hipMemAllocationProp|HIP_MEMCPY3D'
    # shellcheck disable=SC2086
    if ! printf '#include <hip/hip_runtime_api.h>\n' | $cc $vendor -w -fsyntax-only -x c - 2>/dev/null; then
        echo "compat-abi: hip skipped: no hip/hip_runtime_api.h of AMD's here"
        return
    fi
    names=$(sed -nE 's/^ +(hip[A-Z]\w+|HIP_\w+)( = [^;]*)?,?$/\1/p; s/^#define (hip\w+|HIP_\w+) \(*-?(0x)?[0-9a-fA-F]+\)*$/\1/p' $ours |
        grep -vxE "$changed" | sort -u | while read -r name; do
            if grep -qw -- "$name" "$(dirname "$header")"/*.h; then echo "$name"; fi
        done)
    { printf '#include <stdio.h>\nint main(void)\n{\n'
      for name in $names; do printf '    printf("%s %%lld\\n", (long long)%s);\n' "$name" "$name"; done
      write_program $ours NOTHING | while read -r line; do
          name=$(sed -nE 's/.*(sizeof\(|offsetof\()struct (\w+).*/\2/p' <<<"$line")
          if [ -n "$name" ] && ! [[ $name =~ ^($changed_structs)$ ]] &&
              grep -qE "struct $name\b" "$(dirname "$header")"/*.h; then echo "    $line"; fi
      done
      printf '    return 0;\n}\n'; } | sed '1i #include <stddef.h>' >"$work/print.c"
    $cc -Iinclude -include leat/compat/hip/hip_runtime_api.h "$work/print.c" -o "$work/ours"
    # shellcheck disable=SC2086
    $cc $vendor -w -include hip/hip_runtime_api.h "$work/print.c" -o "$work/theirs"
    "$work/ours" >"$work/ours.txt"
    "$work/theirs" >"$work/theirs.txt"
    diff "$work/ours.txt" "$work/theirs.txt"
    # Declare our prototypes again after the vendor's, with its types. HIP 5 lacks some of these types.
    {
        echo '#include <hip/hip_runtime_api.h>'
        for type in hipDriverProcAddressQueryResult hipDeviceProp_tR0600 hipMemcpy3DPeerParms hipMemcpyAttributes \
            hipMemcpy3DBatchOp hipLaunchAttributeID hipLaunchAttributeValue hipStreamBatchMemOpParams \
            hipMemRangeHandleType hipStreamAttrID hipStreamAttrValue hipDriverEntryPointQueryResult hipLaunchConfig_t \
            HIP_LAUNCH_CONFIG hipFunctionLaunchParams hipLibrary_t hipLibraryOption hipKernel_t hipGraphEdgeData \
            hipGraphInstantiateParams hipGraphMemAttributeType hipUserObject_t hipBatchMemOpNodeParams \
            hipMemAllocNodeParams hipGraphNodeParams HIP_MEMSET_NODE_PARAMS; do
            grep -qw "$type" "$header" || echo "typedef int $type;"
        done
        printf '#define LEAT_COMPAT_HIP_DRIVER_TYPES_H\n#define LEAT_COMPAT_HIP_TEXTURE_TYPES_H\n#define LEAT_COMPAT_VECTOR_TYPES_H\n'
        echo '#include <leat/compat/hip/hip_runtime_api.h>'
    } >"$work/prototypes.c"
    # shellcheck disable=SC2086
    $cc $vendor -Iinclude -w -fsyntax-only "$work/prototypes.c"
    echo "compat-abi: hip: $(wc -l <"$work/ours.txt") constants and places," \
        "$(grep -cE '^hipError_t .*\(' include/leat/compat/hip/hip_runtime_api.h) prototypes agree"
}

check_cufile() {
    # cufile.h may be installed without cuda.h, which it includes: then ours takes its place.
    local vendor="-isystem ${CUDA_HOME:-/usr/local/cuda}/include -idirafter include/leat/compat"
    local ours=include/leat/compat/cufile.h prototypes
    if [ ! -e "${CUDA_HOME:-/usr/local/cuda}/include/cufile.h" ]; then
        echo "compat-abi: cufile skipped: no cufile.h of NVIDIA's here"
        return
    fi
    write_program $ours CU_FILE_ | sed '$d' | sed '$d' >"$work/print.c"
    # The last error number changes with each version.
    { grep -oE '\bCU_?FILE_[A-Z0-9_]+ =' $ours | cut -d' ' -f1
      sed -nE 's/^ +X\([0-9]+, (\w+), .*/CU_FILE_\1/p' $ours | grep -v IO_MAX_ERROR; } | sort -u |
        sed -E 's/.*/    printf("& %lld\\n", (long long)&);/' >>"$work/print.c"
    printf '    return 0;\n}\n' >>"$work/print.c"
    $cc -Iinclude -include leat/compat/cufile.h "$work/print.c" -o "$work/ours"
    # shellcheck disable=SC2086
    $cc $vendor -include cufile.h "$work/print.c" -o "$work/theirs"
    "$work/ours" >"$work/ours.txt"
    "$work/theirs" >"$work/theirs.txt"
    diff "$work/ours.txt" "$work/theirs.txt"
    # Declare our prototypes again after the vendor's, with its types.
    prototypes=$(awk '/^(CUfileError_t|void|long|ssize_t) cuFile/ { on = 1 } on { print } /;$/ { on = 0 }' $ours)
    # shellcheck disable=SC2086
    printf '#include <cufile.h>\n%s\n' "$prototypes" | $cc $vendor -w -fsyntax-only -x c -
    echo "compat-abi: cufile: $(wc -l <"$work/ours.txt") constants and places," \
        "$(grep -c ';' <<<"$prototypes") prototypes agree"
}

for layer in ${2:-cudart cuda hip cufile}; do
    if declare -F "check_$layer" >/dev/null; then "check_$layer"; fi
done
