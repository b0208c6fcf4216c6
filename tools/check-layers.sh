#!/bin/bash
# Reads every #include line and names those that a file's layer must not have. docs/architecture.md has the
# picture; the rules are here. Quoted and leat/ names are judged by allowed(), other headers by system_allowed().
set -euo pipefail
cd "$(dirname "$0")/.."

# One extended regular expression: the headers of leat's own that a file may include.
allowed() {
    local driver name
    case $1 in
    include/leat/device_code.h) echo '^$' ;;
    # Compatibility libraries: headers in place of a vendor's, each library over the engine,
    # the engine over the public headers.
    include/leat/compat/hip/*) echo '^[a-z_]+\.h$|^leat/(compat/)?[a-z_]+\.h$' ;;
    include/leat/compat/*) echo '^leat/(compat/)?[a-z_]+\.h$' ;;
    # What compiled kernels call is in the engine. Its tables of handles are base's, compiled once more, as are locks and
    # assertions.
    compat/engine/inside.h) echo '^engine/engine\.h$|^base/(handles|lock|assert)\.h$' ;;
    compat/engine/*) echo '^engine/[a-z_]+\.h$|^base/(lock|assert)\.h$|^leat/[a-z_]+\.h$|^leat/compat/kernel_support\.h$' ;;
    compat/*/*)
        name=${1#compat/}
        echo "^engine/engine\.h\$|^${name%%/*}/[a-z_]+\.h\$|^leat/(compat/([a-z]+/)?)?[a-z_]+\.h\$" ;;
    tests/compat/*) echo '^leat/(compat/([a-z]+/)?)?[a-z_]+\.h$|^(\.\./support/(seed|model)|[a-z_]+)\.h$' ;;
    include/leat/*) echo '^leat/[a-z_]+\.h$' ;;
    src/base/*) echo '^(base|leat)/[a-z_]+\.h$' ;;
    src/layout/*) echo '^(layout|base|leat)/[a-z_]+\.h$|^kernels/(layout_task|modules)\.h$' ;;
    src/kernels/*) echo '^kernels/[a-z_]+\.h$|^leat/device_code\.h$' ;;
    src/driver/driver.h) echo '^kernels/modules\.h$|^leat/[a-z_]+\.h$' ;;
    # The registry is the one place that knows which drivers there are; fault is what it may put around them.
    src/driver/registry.[ch]) echo '^driver/(driver|registry|fault/fault)\.h$|^(base|leat)/[a-z_]+\.h$' ;;
    # What the drivers for GPUs share, which knows no vendor: only these two use it.
    src/driver/gpu/*) echo '^driver/(driver|gpu/[a-z_]+)\.h$|^(base|leat)/[a-z_]+\.h$' ;;
    src/driver/cuda/*|src/driver/hip/*)
        driver=${1#src/driver/}
        echo "^driver/(driver|gpu/[a-z_]+|${driver%%/*}/[a-z_]+)\.h\$|^kernels/builtin\.h\$|^(base|leat)/[a-z_]+\.h\$" ;;
    src/driver/*/*)
        driver=${1#src/driver/}
        echo "^driver/(driver|${driver%%/*}/[a-z_]+)\.h\$|^kernels/builtin\.h\$|^(base|leat)/[a-z_]+\.h\$" ;;
    src/core/*) echo '^driver/(driver|registry)\.h$|^(core|base|leat)/[a-z_]+\.h$' ;;
    src/pool/*) echo '^driver/driver\.h$|^(pool|core|base|leat)/[a-z_]+\.h$' ;;
    # Knows no device and no pool: what it needs of them comes by hooks.
    src/staging/*) echo '^driver/driver\.h$|^staging/[a-z_]+\.h$|^base/[a-z_]+\.h$|^leat/status\.h$' ;;
    src/copy/*) echo '^driver/driver\.h$|^(copy|staging|layout|pool|core|base|leat)/[a-z_]+\.h$' ;;
    cli/*) echo '^(leat/)?[a-z_]+\.h$' ;;
    examples/compat/*) echo '^leat/[a-z_]+\.h$|^kernel\.h$' ;;
    examples/*) echo '^leat/([a-z]+/)?[a-z_]+\.h$' ;;
    tests/*) echo '^leat/([a-z]+/)?[a-z_]+\.h$|^[a-z_]+\.h$' ;;
    *) echo '^$' ;;
    esac
}

# Tests that include private headers are in unit/; all others see what a user sees.
inside='^tests/(fake/|unit/|support/(held|canonical_cases)\.)'

# The rest of the headers: only these files know a vendor's SDK, and the public headers need plain C only.
system_allowed() {
    case $1 in
    include/leat/interop/cuda.h|examples/interop_cuda.c|tests/unit/test_cuda_abi.c|tests/unit/test_cuda_names.c|tests/unit/test_hip_abi.c) return 0 ;;
    # What a vendor's header is called is leat's own here: include/leat/compat/.
    tests/compat/*|examples/compat/*) return 0 ;;
    # What a C++ kernel is made with.
    include/leat/compat/*_functions.h) [[ $2 =~ ^(limits|tuple|type_traits|utility|(math|stdio|stdlib|string|time)\.h)$ ]] ;;
    include/leat/compat/hip/hip_runtime.h) [ "$2" = sched.h ] ;;
    include/leat/compat/cuda_runtime.h) [ "$2" = assert.h ] ;;
    include/*) [[ $2 =~ ^std(arg|bool|def|int)\.h$ ]] ;;
    *) ! [[ $2 =~ ^(cuda|nvml|hip/|hsa/|rocm) ]] ;;
    esac
}

checked=0 wrong=0
while IFS=: read -r file line header; do
    checked=$((checked + 1))
    name=${header:1:-1}
    if [[ $header == '"'* || $name == leat/* ]]; then
        [[ $name =~ $(allowed "$file") ]] && continue
        [[ $file =~ $inside && $name =~ ^(driver|core|pool|staging|copy|layout|kernels|base|\.\./\.\./cli)/ ]] && continue
    else
        system_allowed "$file" "$name" && continue
    fi
    echo "$file:$line: $header does not belong in this layer"
    wrong=$((wrong + 1))
done < <(find include src compat cli examples tests -name '*.[ch]' -print0 | sort -z |
         xargs -0 awk 'match($0, /^[ \t]*#[ \t]*include[ \t]*/) {
             rest = substr($0, RLENGTH + 1)
             if (match(rest, /^("[^"]+"|<[^>]+>)/)) print FILENAME ":" FNR ":" substr(rest, 1, RLENGTH)
         }')

# A check that reads nothing would always be content.
if [ "$checked" -eq 0 ]; then
    echo "check-layers: found no #include line at all; is this the top of the tree?" >&2
    exit 1
fi
echo "layers: $checked includes, $wrong wrong"
[ "$wrong" -eq 0 ]
