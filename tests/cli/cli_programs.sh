#!/bin/sh
# cli_programs.sh - programs that call the driver from Python, through ctypes, print and end as without "leat run":
# tools/run-programs.py with tests/dropin/programs.py. On the CPU device the driver is the fake one.
cd "$(dirname "$0")" || exit 1
. ./cli.sh
build=$(dirname "$leat")
unset LD_PRELOAD LEAT_DRIVERS
# leat run must not leave copies to the driver because this machine is busy.
echo '0.00 0.00 0.00 1/1000 1' >"$work/load"
export LEATRUN_LOADAVG="$work/load"

skip() {
    echo "skipped: $*"
    exit 77
}
command -v python3 >/dev/null || skip 'there is no python3'
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip 'python3 is older than 3.9'
grep -q -e __asan_init -e __tsan_init "$build/libleat-run-engine.so" && skip 'python3 has no runtime of the sanitizer'

set -- python3 ../../tools/run-programs.py --leat "$leat" --jobs 2 --timeout 300
case $device in
cpu*)
    fake=$build/tests/dropin/fake
    export LD_LIBRARY_PATH="$fake:$build" LEAT_DEVICE=cpu:0 LEAT_CUDA_LIBRARY="$fake/libcuda.so.1"
    for name in copies threads fork exec os_exit segfault daemon nothing; do
        set -- "$@" --only driver_$name
    done
    ;;
*) set -- "$@" --only driver_ ;;
esac
"$@" >"$work/out" 2>"$work/err" || fail 'a program differs under leat run'
cat "$work/out"

# The comparison itself: a command that changes the output, and one that makes no copies, are noticed.
wrong() {
    printf '#!/bin/sh\n%s\n' "$1" >"$work/leat" && chmod +x "$work/leat"
    LEAT_REAL=$leat python3 ../../tools/run-programs.py --leat "$work/leat" --only driver_copies >"$work/out" 2>"$work/err" &&
        fail "not noticed: $1"
    grep -q "^ .*$2" "$work/out" || fail "the reason is not named: $2"
}
wrong '"$LEAT_REAL" "$@" | sed "s/ [0-9a-f]*$/ 0/"' "leat run: status 0, alone 0; line 1: 'copy 4 4"
wrong '"$LEAT_REAL" "$@"; exit 4' 'leat run: status 4, alone 0; the same output'
wrong 'shift; "$LEAT_REAL" run --least 1G "$@"' 'no copy went through leat'
finish
