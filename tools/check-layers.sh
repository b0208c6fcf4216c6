#!/bin/bash
# Reads every #include line and prints those that the layer of the file must not have. The rules are here;
# docs/architecture.md draws them. allowed() checks quoted names and names in leat/, system_allowed() other headers.
set -euo pipefail
cd "$(dirname "$0")/.."

# Prints the headers of leat that a file may include, as one extended regular expression.
allowed() {
    local driver name
    case $1 in
    include/leat/device_code.h) echo '^$' ;;
    # Compatibility libraries: each library includes the headers that replace a vendor's and the engine's, the engine
    # includes the public headers.
    include/leat/compat/hip/*) echo '^[a-z_]+\.h$|^leat/(compat/)?[a-z_]+\.h$' ;;
    include/leat/compat/*) echo '^leat/(compat/)?[a-z_]+\.h$' ;;
    # The engine implements the functions that compiled kernels call. It compiles the handle tables, locks and
    # assertions of base once more.
    compat/engine/inside.h) echo '^engine/engine\.h$|^base/(handles|lock|assert)\.h$' ;;
    compat/engine/*) echo '^engine/[a-z_]+\.h$|^base/(lock|assert)\.h$|^leat/[a-z_]+\.h$|^leat/compat/kernel_support\.h$' ;;
    # libcudart.so.12 is libleat-cudart with some functions in the form of CUDA 12.
    compat/faces/*) echo '^(cudart|engine|faces)/[a-z0-9_]+\.h$|^leat/(compat/)?[a-z_]+\.h$' ;;
    compat/*/*)
        name=${1#compat/}
        echo "^engine/engine\.h\$|^${name%%/*}/[a-z_]+\.h\$|^leat/(compat/([a-z]+/)?)?[a-z_]+\.h\$" ;;
    tests/compat/*) echo '^leat/(compat/([a-z]+/)?)?[a-z_]+\.h$|^(\.\./support/(seed|model|temporary|bad_disk)|[a-z_]+)\.h$' ;;
    include/leat/*) echo '^leat/[a-z_]+\.h$' ;;
    src/base/*) echo '^(base|leat)/[a-z_]+\.h$' ;;
    src/layout/*) echo '^(layout|base|leat)/[a-z_]+\.h$|^kernels/(layout_task|convert_task|convert_numbers|modules)\.h$' ;;
    src/kernels/*) echo '^kernels/[a-z_]+\.h$|^leat/device_code\.h$' ;;
    src/driver/driver.h) echo '^kernels/modules\.h$|^leat/[a-z_]+\.h$' ;;
    # Only the registry knows all drivers; it may wrap each of them in the fault driver.
    src/driver/registry.[ch]) echo '^driver/(driver|registry|fault/fault)\.h$|^(base|leat)/[a-z_]+\.h$' ;;
    # The shared code of the CUDA and the HIP driver.
    src/driver/gpu/*) echo '^driver/(driver|gpu/[a-z_]+)\.h$|^(base|leat)/[a-z_]+\.h$' ;;
    src/driver/cuda/*|src/driver/hip/*)
        driver=${1#src/driver/}
        echo "^driver/(driver|gpu/[a-z_]+|${driver%%/*}/[a-z_]+)\.h\$|^kernels/builtin\.h\$|^(base|leat)/[a-z_]+\.h\$" ;;
    src/driver/*/*)
        driver=${1#src/driver/}
        echo "^driver/(driver|${driver%%/*}/[a-z_]+)\.h\$|^kernels/builtin\.h\$|^(base|leat)/[a-z_]+\.h\$" ;;
    # A copy of trace_file.h is all that a reader needs.
    src/trace/trace_file.h) echo '^$' ;;
    src/trace/live_file.h) echo '^trace_file\.h$' ;;
    src/trace/*) echo '^driver/driver\.h$|^(trace|base|leat)/[a-z_]+\.h$' ;;
    src/core/*) echo '^driver/(driver|registry)\.h$|^trace/(span|recorder)\.h$|^(core|base|leat)/[a-z_]+\.h$' ;;
    src/pool/*) echo '^driver/driver\.h$|^(pool|core|base|leat)/[a-z_]+\.h$' ;;
    # The staging layer does not include devices or pools, and reaches them by hooks.
    src/staging/*) echo '^driver/driver\.h$|^staging/[a-z_]+\.h$|^base/[a-z_]+\.h$|^leat/status\.h$' ;;
    src/copy/*) echo '^driver/driver\.h$|^(copy|staging|layout|pool|core|base|leat)/[a-z_]+\.h$' ;;
    # libleat-files and libleat-net include the public headers, what both share, and their own.
    common/*) echo '^report\.h$|^leat/[a-z_]+\.h$' ;;
    files/*) echo '^(report|model_files|model_load|json_scan)\.h$|^leat/[a-z_]+\.h$' ;;
    net/*) echo '^(report|net|net_socket|address|handshake|loop|frame|net_link|message|ucx|ucx_api|ucx_load|carrier|cipher|crypto)\.h$|^leat/[a-z_]+\.h$' ;;
    # What is preloaded knows nothing of leat; only its engine does. It needs fresh pages without a device, adds what
    # CUPTI tells to the trace, and numbers streams as CUPTI does.
    dropin/engine*.[ch]) echo '^(engine[a-z_]*|cupti_records)\.h$|^leat/leat\.h$|^base/(clock|error|fresh_pages|lock|thread)\.h$|^trace/[a-z_]+\.h$|^core/core\.h$' ;;
    dropin/*) echo '^(dropin|engine|names|nvtx|pool|run_table|traced_names|wrappers)\.h$' ;;
    cli/*) echo '^(leat/)?[a-z_]+\.h$' ;;
    examples/compat/*) echo '^leat/[a-z_]+\.h$|^kernel\.h$' ;;
    examples/*) echo '^leat/([a-z]+/)?[a-z_]+\.h$' ;;
    tests/*) echo '^leat/([a-z]+/)?[a-z_]+\.h$|^[a-z_]+\.h$' ;;
    *) echo '^$' ;;
    esac
}

# Only tests in unit/ may include private headers; all others include what a user can.
inside='^tests/(fake/|unit/|support/(held|canonical_cases|trace_reader)\.)'

# Prints the system headers that a file may include: only a few files may include a vendor's SDK, and public headers
# only headers of standard C.
system_allowed() {
    case $1 in
    include/leat/interop/cuda.h|examples/interop_cuda.c|tests/unit/test_cuda_abi.c|tests/unit/test_cuda_names.c|tests/unit/test_hip_abi.c) return 0 ;;
    # Here a header with a vendor's name is leat's replacement in include/leat/compat/.
    tests/compat/*|examples/compat/*) return 0 ;;
    # The headers that kernels in C++ need.
    include/leat/compat/*_functions.h) [[ $2 =~ ^(limits|tuple|type_traits|utility|(math|stdio|stdlib|string|time)\.h)$ ]] ;;
    include/leat/compat/hip/hip_runtime.h) [ "$2" = sched.h ] ;;
    include/leat/compat/cuda_runtime.h) [ "$2" = assert.h ] ;;
    # ssize_t and off_t are in the names of cuFile.
    include/leat/compat/cufile.h) [[ $2 =~ ^(std(bool|def)|sys/types)\.h$ ]] ;;
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
        [[ $file =~ $inside && $name =~ ^(driver|trace|core|pool|staging|copy|layout|kernels|base|\.\./\.\./cli)/ ]] && continue
    else
        system_allowed "$file" "$name" && continue
    fi
    echo "$file:$line: $header does not belong in this layer"
    wrong=$((wrong + 1))
done < <(find include src compat common files net dropin cli examples tests -name '*.[ch]' -print0 | sort -z |
         xargs -0 awk 'match($0, /^[ \t]*#[ \t]*include[ \t]*/) {
             rest = substr($0, RLENGTH + 1)
             if (match(rest, /^("[^"]+"|<[^>]+>)/)) print FILENAME ":" FNR ":" substr(rest, 1, RLENGTH)
         }')

# A check that found no files would succeed too, so fail.
if [ "$checked" -eq 0 ]; then
    echo "check-layers: found no #include line at all; is this the top of the tree?" >&2
    exit 1
fi
echo "layers: $checked includes, $wrong wrong"
[ "$wrong" -eq 0 ]
