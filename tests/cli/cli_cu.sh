#!/bin/sh
# cli_cu.sh - "leat cu" as a user calls it: programs of one file and of several, libraries of kernels, nvcc's
# options, and errors. The programs run on the CPU device. LEAT_COMMAND is the command; LEAT_TEST_CFLAGS are flags
# of the library's build that programs need as well.
# shellcheck disable=SC2086
cd "$(dirname "$0")" || exit 1
. ./cli.sh
export LEAT_DEVICE=cpu:0 TMPDIR="$work/tmp"
unset CXX CC
flags=$LEAT_TEST_CFLAGS
mkdir "$work/tmp"

# cu WORDS...: runs "leat cu" in the folder of the test; it must succeed.
cu() { (cd "$work" && "$leat" cu $flags "$@") >"$work/out" 2>"$work/err" || { fail "leat cu $*"; return 1; }; }

# prints TEXT PROGRAM: the program must run and print TEXT.
prints() {
    (cd "$work" && "./$2") >"$work/out" 2>"$work/err" || { fail "$2: exit status $?"; return 1; }
    [ "$(cat "$work/out")" = "$1" ] || fail "$2 does not print $1"
}

# has PATTERN: standard error must match.
has() { grep -q -- "$1" "$work/err" || fail "the error output lacks: $1"; }

# gone: no temporary file may be left.
gone() { [ -z "$(ls -A "$work/tmp")" ] || fail "left in TMPDIR: $(ls "$work/tmp")"; }

cat >"$work/kernel.cuh" <<'END'
#pragma once
__global__ void add(int *data, int value);
int host_value();
extern "C" int c_value(void);
END
cat >"$work/kernel.cu" <<'END'
#include "kernel.cuh"
__global__ void add(int *data, int value)
{
    __syncthreads();
    atomicAdd(data, value);
}
END
cat >"$work/main.cu" <<'END'
#include "kernel.cuh"
#include <cstdio>
int main()
{
    int *data, host = 0;
    cudaMalloc(&data, sizeof *data);
    cudaMemset(data, 0, sizeof *data);
    add<<<2, 50>>>(data, host_value() * c_value());
    cudaMemcpy(&host, data, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d\n", host);
    cudaFree(data);
    return cudaDeviceReset();
}
END
echo 'int host_value() { return 3; }' >"$work/host.cpp"
echo 'int c_value(void) { int class = 7; return class; }' >"$work/host.c" # C that is not valid C++
printf '#include "kernel.cu"\n#include "host.cpp"\nextern "C" int c_value() { return VALUE; }\n#include "main.cu"\n' >"$work/one.cu"

# ---- programs ----------------------------------------------------------------------------------------------------

cu -DVALUE=1 one.cu -o one && prints 300 one
cu -DVALUE=2 one.cu && prints 600 a.out
cu -O2 main.cu kernel.cu host.cpp host.c -o several && prints 2100 several
cu -c main.cu kernel.cu host.cpp && cu -c host.c -o c.o && cu main.o kernel.o host.o c.o -o linked && prints 2100 linked
cu -DVALUE=5 - -o piped <"$work/one.cu" && prints 1500 piped
cu -DVALUE=6 -c - -o piped.o <"$work/one.cu" && cu piped.o -o piped && prints 1800 piped
cu -x c -c - -o c.o <"$work/host.c" && cu main.o kernel.o host.o c.o -o linked && prints 2100 linked
echo 'int main() { f<<<1, 2(); }' | run 1 cu - -o "$work/wrong" && has '^<stdin>:1: error: '
usage 'only one of the sources' cu - - </dev/null
usage 'needs a name: -o FILE' cu -c - </dev/null
cp "$work/one.cu" "$work/one.txt"
cu -DVALUE=4 -x cu one.txt -o named && prints 1200 named
gone

# -E prints the generated C++. Its lines must refer to the source file.
run 0 cu -E "$work/kernel.cu" && {
    grep -q 'leat_cuda_stub<leat_kernel' "$work/out" || fail 'no kernel in the output of -E'
    grep -q '^# 1 ".*kernel.cu"' "$work/out" || fail 'no line markers in the output of -E'
}
cu -E kernel.cu -o kernel.ii && grep -q 'leat_cuda_stub' "$work/kernel.ii" || fail 'nothing in the file of -E'
cu -c -MD -MF deps kernel.cu && { grep -q 'kernel.o:' "$work/deps" && grep -q 'kernel.cuh' "$work/deps" || fail 'no dependencies'; }
mkdir "$work/objects"
cu -c -MMD -o objects/kernel.o kernel.cu && grep -q '^objects/kernel.o:' "$work/objects/kernel.d" ||
    fail 'no dependencies beside the object'

# ---- what others call it -------------------------------------------------------------------------------------------

cu -arch=sm_90 -gencode arch=compute_80,code=sm_80 --expt-relaxed-constexpr -lineinfo -rdc=true -Xptxas -v --threads 2 \
    -G -maxrregcount=32 -Xcompiler -Wall,-Wextra -Xlinker -z,now --std c++11 -DVALUE=5 one.cu -lcudart -lcuda -o nvcc &&
    prints 1500 nvcc
export CXX='c++ -DVALUE=6'
cu one.cu -o cxx && prints 1800 cxx
unset CXX
cu --default-stream per-thread -DVALUE=7 one.cu -v -o per_thread && has CUDA_API_PER_THREAD_DEFAULT_STREAM && prints 2100 per_thread

# ---- kernels for programs that load PTX ------------------------------------------------------------------------------

cat >"$work/driver.cpp" <<'END'
#include <cuda.h>
#include <cstdio>
#include <cstdint>
static const char ptx[] = ".version 7.0\n.target sm_75\n.visible .entry twice(\n.param .u64 a)\n{ret;}\n"
                          ".visible .entry _Z5mixedPii(.param .u64 a,\n.param .u32 b)\n{ret;}\n";
int main()
{
    char log[1000] = "", errors[1000] = "";
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log, errors, (void *)(uintptr_t)sizeof errors};
    CUcontext context;
    CUmodule module;
    CUfunction twice, mixed;
    CUdeviceptr data;
    int host[4] = {1, 2, 3, 4}, by = 10;
    void *args[] = {&data, &by};
    cuInit(0);
    cuCtxCreate(&context, 0, 0);
    if (cuModuleLoadDataEx(&module, ptx, 4, options, values))
        return 1;
    if (cuModuleGetFunction(&twice, module, "twice")) {
        printf("%s", log);
        return cuCtxDestroy(context);
    }
    int error = cuModuleGetFunction(&mixed, module, "_Z5mixedPii") || log[0] || cuMemAlloc(&data, sizeof host) ||
                cuMemcpyHtoD(data, host, sizeof host) || cuLaunchKernel(twice, 1, 1, 1, 4, 1, 1, 16, 0, args, 0) ||
                cuLaunchCooperativeKernel(mixed, 2, 1, 1, 2, 1, 1, 0, 0, args) || cuMemcpyDtoH(host, data, sizeof host) ||
                cuMemFree(data) || cuModuleUnload(module) || cuModuleUnload(module) != CUDA_ERROR_INVALID_HANDLE;
    printf("%d: %d %d %d %d", error, host[0], host[1], host[2], host[3]);
    return cuDevicePrimaryCtxReset(0);
}
END
cat >"$work/library.cu" <<'END'
#include <cooperative_groups.h>
extern "C" __global__ void twice(int *data)
{
    extern __shared__ int all[];
    all[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = 2 * all[3 - threadIdx.x];
}
__global__ void mixed(int *data, int by)
{
    cooperative_groups::this_grid().sync();
    data[blockIdx.x * blockDim.x + threadIdx.x] += by;
}
END
cu driver.cpp -o driver && {
    (cd "$work" && ./driver) >"$work/out" 2>"$work/err"
    grep -q 'nowhere found: twice, _Z5mixedPii.*LEAT_CPU_KERNELS' "$work/out" || fail 'the log does not say how to find kernels'
}
cu -shared library.cu -o library.so && (
    export LEAT_CPU_KERNELS="$work/library.so"
    prints '0: 18 16 14 12' driver
    exit $failures
) || failures=$((failures + 1))
cu driver.cpp library.cu -o both && prints '0: 18 16 14 12' both

# ---- what is wrong -----------------------------------------------------------------------------------------------------

printf 'int a;\n#include "wrong.cuh"\n' >"$work/wrong.cu"
printf '\nvoid f()\n{\n    k<<<1, 2>>>;\n}\n' >"$work/wrong.cuh"
run 1 cu -c "$work/wrong.cu" -o "$work/wrong.o" && has '/wrong.cuh:4: error: .*>>>('
printf 'int a;\n__global__ void k(int *p)\n{\n    *p = unknown;\n}\n' >"$work/wrong.cu"
run 1 cu -c "$work/wrong.cu" -o "$work/wrong.o" && has '/wrong.cu:4:.*error:'
run 1 cu "$work/missing.cu"
export CXX=/nonexistent/compiler
run 1 cu -c "$work/kernel.cu" -o "$work/wrong.o" && has 'or name another in CXX or CC'
unset CXX
# A signal ends the compiler too, and leaves no folder.
printf '#!/bin/sh\necho started\nexec sleep 60\n' >"$work/slow"
chmod +x "$work/slow"
for signal in TERM HUP; do
    CXX=$work/slow "$leat" cu -c "$work/kernel.cu" -o "$work/wrong.o" >"$work/out" 2>"$work/err" &
    process=$!
    until grep -q started "$work/out"; do sleep 0.05; done
    kill -$signal $process
    wait $process
    code=$?
    [ "$(kill -l $code)" = $signal ] || fail "the exit status after SIG$signal is $code"
    gone
done
# The exit status is that of the compiler also if the caller ignores SIGCHLD.
if command -v python3 >/dev/null; then
    ignoring_children "$leat" cu $flags -c "$work/kernel.cu" -o "$work/wrong.o" >"$work/out" 2>"$work/err" ||
        fail 'a build fails if SIGCHLD is ignored'
else
    echo 'skipped: an ignored SIGCHLD: there is no python3'
fi
TMPDIR=/nonexistent
run 1 cu -c "$work/kernel.cu" -o "$work/wrong.o" && says 'TMPDIR'
TMPDIR=$work/tmp
usage 'no source' cu
usage 'no source' cu -c
usage 'one file' cu -c "$work/main.cu" "$work/kernel.cu" -o "$work/both.o"
usage 'CPU device only' cu -ptx "$work/kernel.cu"
usage 'needs a value' cu "$work/kernel.cu" -o
usage 'languages' cu -x fortran "$work/kernel.cu"
run 0 cu --help && grep -q 'LEAT_CPU_KERNELS' "$work/out" || fail 'no help'
gone
finish
