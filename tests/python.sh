#!/bin/bash
# Builds the wheel of the Python package pyleat, installs it into a new virtual environment, and runs its tests there:
# on the CPU device, once more with pageable copies staged as on a GPU, and on the driver cuda over leat's own names of
# CUDA. "make check-python" sets the variables.
#
# pip fetches setuptools, NumPy, pytest, ml_dtypes and mypy. Where it cannot, the exit status is 77. It also fetches
# what files are compared with: the package safetensors, and one that ships the weights of a small model.
set -u
cd "$(dirname "$0")/.." || exit 1
top=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH PYLEAT_LIBRARY_FOLDER MAKEFLAGS MAKELEVEL MFLAGS

skip() {
    echo "skipped: $*"
    exit 77
}
fail() {
    echo "python.sh: $*"
    exit 1
}

command -v python3 >/dev/null || skip "there is no python3"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "python3 is older than 3.9"
python3 -m venv "$work/build" >"$work/log" 2>&1 || skip "python3 cannot make virtual environments (python3-venv)"
# The package index may be out of reach, which is no fault of leat.
"$work/build/bin/pip" install --quiet --retries 1 --timeout 20 'setuptools>=77' wheel mypy numpy >"$work/log" 2>&1 ||
    { tail -n 2 "$work/log"; skip "pip cannot fetch setuptools, mypy and numpy"; }
python3 -m venv "$work/use" && "$work/use/bin/pip" install --quiet --retries 1 --timeout 20 numpy pytest ml_dtypes \
    >"$work/log" 2>&1 || { tail -n 2 "$work/log"; skip "pip cannot fetch numpy, pytest and ml_dtypes"; }
"$work/use/bin/pip" install --quiet --retries 1 --timeout 20 --no-deps safetensors==0.8.0 silero-vad==6.2.3 \
    >"$work/log" 2>&1 || tail -n 2 "$work/log"

"$LEAT_PYTHON_MAKE" --no-print-directory BUILD="$LEAT_PYTHON_BUILD" CC="$CC" CXX="$CXX" CFLAGS="$CFLAGS" \
    PYTHON="$work/build/bin/python" WHEEL_FLAGS=--no-build-isolation wheel || fail "the wheel cannot be built"
wheels=("$LEAT_PYTHON_BUILD"/wheel/pyleat-"$(cat VERSION)"-py3-none-manylinux_2_*.whl)
wheel=${wheels[0]}
[ -f "$wheel" ] || fail "there is no wheel with a tag for all versions of Python"
size=$(stat -c %s "$wheel")
[ "$size" -lt 5000000 ] || fail "the wheel has $size bytes, and more than 5000000"

# No compiler is needed to install it.
CC=/bin/false "$work/use/bin/pip" install --quiet --no-deps --no-index "$wheel" || fail "the wheel cannot be installed"
python="$work/use/bin/python"
status=0
(cd python && "$work/build/bin/mypy" --cache-dir "$work/mypy" --python-executable "$work/use/bin/python" src/pyleat) ||
    { echo "python.sh: mypy --strict has findings"; status=1; }
if command -v gcc >/dev/null; then
    PYLEAT_LIBRARY_FOLDER=$("$python" -c 'from pyleat import _c; print(_c.folder())') \
        "$python" tools/check-python-abi.py gcc || status=1
else
    echo "skipped: the ABI of pyleat/_c.py needs gcc"
fi

# Runs $tests with further variables, and prints the reasons of skipped ones as run.sh wants them.
run_tests() {
    local log="$work/log" name=$1
    shift
    (cd "$work" && env "$@" "$python" -m pytest -p no:cacheprovider -q -rs $tests) >"$log" 2>&1 ||
        { cat "$log"; echo "python.sh: the tests failed: $name"; return 1; }
    sed -nE 's/^SKIPPED \[([0-9]+)\] [^ ]+: (.*)/skipped: \2/p' "$log"
    echo "$name: $(tail -n 1 "$log")"
}
tests=$top/python/tests
run_tests 'on cpu:0' LEAT_DEVICE=cpu:0 || status=1
# The ends of processes, which take longest, were tested above.
tests="$tests --ignore $top/python/tests/test_process.py --ignore $top/python/tests/test_documents.py"
run_tests 'with staged copies' LEAT_DEVICE=cpu:0 LEAT_COPY_STAGE=1 LEAT_LAYOUT_AS_GPU=1 || status=1
# A second copy of leat in one process needs more static thread-local memory than glibc sets aside for dlopen().
run_tests 'on cuda:0 over libleat-cuda' LEAT_DEVICE=cuda:0 LEAT_DRIVERS=cuda,cpu \
    LEAT_CUDA_LIBRARY="$LEAT_PYTHON_BUILD/python/libcuda-alone.so" GLIBC_TUNABLES=glibc.rtld.optional_static_tls=8192 ||
    status=1
exit $status
