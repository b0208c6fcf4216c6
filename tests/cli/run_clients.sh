# shellcheck shell=sh disable=SC2034,SC2154
# run_clients.sh - shared by the tests of "leat run": where its clients are, and functions that run them. A test
# includes it with "." after cli.sh. LEAT_COMMAND is the command; the clients are beside it, in tests/dropin/.
build=$(dirname "$leat")
clients=$build/tests/dropin
here=$(cd ../dropin && pwd)
unset LD_PRELOAD LEAT_DRIVERS

# has PATTERN: the report has such a line.
has() {
    grep -q -- "$1" "$work/report" || {
        fail "the report of $asked lacks: $1"
        sed 's/^/      | /' "$work/report"
    }
}

# with DRIVER COMMAND...: runs a command with the driver "fake" or "names".
with() {
    driver=$1
    shift
    # Sanitizers' builds: the program has the sanitizer's runtime, and what is preloaded has none.
    env LD_LIBRARY_PATH="$clients/$driver:$build" LEAT_DEVICE=cpu:0 \
        ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0:handle_segv=0:$ASAN_OPTIONS" \
        LEAT_CUDA_LIBRARY="$clients/$driver/libcuda.so.1" "$@"
}
