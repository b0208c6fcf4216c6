/*
 * leat/kernel.h - loads modules, finds kernels in them, and launches kernels.
 *
 * Model. A module is device code loaded on one device: PTX text, a cubin or a fatbin on CUDA; a shared object on
 * the CPU device. A kernel is a function in it. leat_launch() runs grid.x * grid.y * grid.z blocks of block.x *
 * block.y * block.z threads, in stream order. A kernel can be written once, in C, for all kinds of devices: see
 * leat/device_code.h. leat has some built-in kernels: leat_module_builtin().
 *
 *     leat_module_builtin(dev, &module);
 *     leat_kernel_get(module, "leat_vector_add_f32", &kernel);
 *     void *args[] = {&c, &a, &b, &n};
 *     leat_launch(stream, kernel, leat_dim(blocks, 1, 1), leat_dim(256, 1, 1), 0, args, 4);
 *
 * Call order. A kernel lives as long as its module; unload a module only when its launches are complete. Load
 * modules and get kernels before time-critical work: a driver may wait for all work of the device when it loads
 * code (CUDA's lazy loading, "Lazy Loading" in the CUDA C++ programming guide), and leat loads a kernel in
 * leat_kernel_get(), not at its first launch.
 *
 * Threads. Any thread may make any call here.
 */
#ifndef LEAT_KERNEL_H
#define LEAT_KERNEL_H

#include <leat/device.h>
#include <leat/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leat_module leat_module;
typedef struct leat_kernel leat_kernel;

/* A number of blocks or threads in three dimensions. Does not grow: it is a value. */
typedef struct leat_dim3 {
    uint32_t x, y, z;
} leat_dim3;

static inline leat_dim3 leat_dim(uint32_t x, uint32_t y, uint32_t z)
{
    leat_dim3 dim;

    dim.x = x;
    dim.y = y;
    dim.z = z;
    return dim;
}

/*
 * Loads a module from memory; the image is not needed after the call. bytes: its size; for PTX text with or
 * without a final NUL.
 *
 * On the CPU device the image is a shared object, which runs in this process: load only code that you would also
 * link with. leat checks the headers and tables of the image first, because the system's loader ends the process
 * if one of them is wrong; if they are truncated or damaged, the call returns IMAGE. No check can find damage in
 * instructions, data or names. Such damage may end the process in a kernel, or when the module's constructors or
 * destructors run (the destructors run in leat_module_unload()).
 * Errors: HANDLE, INVALID (NULL, bytes 0), IMAGE (not code for this device; the message has the vendor's compile
 * log), DEVICE_MEMORY, HOST_MEMORY, DRIVER, SYSTEM, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_module_load(leat_device *device, const void *image, size_t bytes,
                                                     leat_module **module);

/* leat_module_load() from a file of less than 512 MiB. Errors: as leat_module_load(); NOT_FOUND (no such file),
 * SYSTEM (unreadable). */
LEAT_NODISCARD LEAT_API leat_status leat_module_load_file(leat_device *device, const char *path,
                                                          leat_module **module);

struct leat_cpu_kernel; /* defined by LEAT_KERNEL on the CPU device: leat/device_code.h */

/* A kernel that is compiled into the program. Does not grow: it is an element of an array. */
typedef struct leat_embedded_kernel {
    const char *name;                   /* name for leat_kernel_get() */
    const struct leat_cpu_kernel *code; /* address of leat_cpu_kernel_NAME */
} leat_embedded_kernel;

/*
 * Creates a module from kernels that are compiled into the program or one of its libraries, instead of from a
 * file: the sources define them with LEAT_KERNEL, and kernels lists them. For the CPU device; other devices need
 * their own code. leat reads the list before the call returns; the names and the kernels must stay until the
 * module is unloaded. If a kernel was built for another version of leat, leat_kernel_get() returns IMAGE.
 * Errors: HANDLE, INVALID (NULL, count 0, a kernel without a name or code), UNSUPPORTED (not the CPU device),
 * HOST_MEMORY, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_module_load_embedded(leat_device *device,
                                                              const leat_embedded_kernel *kernels, size_t count,
                                                              leat_module **module);

/*
 * Returns the module of leat's general kernels, on any device. It belongs to the device: unloading it is INVALID.
 * All kernels use one-dimensional blocks and any grid; they loop over the elements that the grid does not cover.
 * Counts are elements.
 *
 *     leat_fill_u8, _u16, _u32, _u64   (T *dst, uint64_t count, T value)
 *     leat_fill_u128                   (void *dst, uint64_t count, uint64_t low, uint64_t high); dst is aligned
 *                                      to 8 at least, and to 16 for full speed
 *     leat_add_f32, leat_add_u32       (T *data, uint64_t count, T value): adds value to every element
 *     leat_vector_add_f32, _u32        (T *sum, const T *a, const T *b, uint64_t count)
 *     leat_square_u32                  (uint32_t *data, uint64_t count): replaces every element by its square
 *     leat_pattern_u64                 (uint64_t *dst, uint64_t count, uint64_t seed): element i becomes
 *                                      leat_pattern_value(i, seed)
 *     leat_verify_u64                  (const uint64_t *src, uint64_t count, uint64_t seed, uint64_t *wrong):
 *                                      adds the number of elements that differ from this pattern to *wrong
 *     leat_checksum_u64                (const uint64_t *src, uint64_t count, uint64_t *sum): adds
 *                                      leat_checksum_value(i, src[i]) over all i to *sum
 *
 * Errors: HANDLE, INVALID (module NULL), IMAGE, HOST_MEMORY, DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_module_builtin(leat_device *device, leat_module **module);

/*
 * Loads all kernels that copy layouts (leat/layout.h) and narrow rows of regions, and returns their module.
 * Without this call a copy loads the part that it needs at its first use on a device. The module belongs to the
 * device: unloading it is INVALID. The kernels that leat launches itself are private. leat_kernel_get() returns
 * only the following kernels, which show the steps towards a fast transpose for elements of 4 bytes:
 *
 *     leat_transpose_naive_u32    one element per thread: adjacent threads read neighbours, but write far apart
 *     leat_transpose_shared_u32   tiles of 32 x 32 in shared memory: adjacent threads write neighbours too
 *     leat_transpose_padded_u32   the same with rows of 33, so that columns of a tile lie in different banks
 *
 * All take (uint32_t *dst, const uint32_t *src, uint64_t rows, uint64_t columns), where src is a dense matrix of
 * rows by columns and dst becomes its transpose, and blocks of 256 threads in x. The naive kernel needs one block
 * for each 256 elements, the other two one block for each tile: (rows + 31) / 32 * ((columns + 31) / 32).
 * Errors: as leat_module_builtin().
 */
LEAT_NODISCARD LEAT_API leat_status leat_module_layout(leat_device *device, leat_module **module);

/* Returns a 64-bit mix of a position and a seed, the value that leat_pattern_u64 writes. It reveals misplaced,
 * repeated and missing words. The mixing is that of splitmix64 (Steele, Lea and Flood, "Fast Splittable
 * Pseudorandom Number Generators", OOPSLA 2014). */
static inline uint64_t leat_pattern_value(uint64_t index, uint64_t seed)
{
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns the value that one element adds to the sum of leat_checksum_u64. It depends on the word and on its
 * position. */
static inline uint64_t leat_checksum_value(uint64_t index, uint64_t word)
{
    return leat_pattern_value(index, word);
}

/* Unloads a module and its kernels. NULL does nothing. Errors: HANDLE, INVALID (a built-in module), NOT_PERMITTED;
 * DRIVER (the handle is gone anyway). */
LEAT_API leat_status leat_module_unload(leat_module *module);

/* Finds a kernel by its name, and loads it. Errors: HANDLE, INVALID (NULL), NOT_FOUND, IMAGE (a kernel of
 * leat_module_load_embedded() for another version of leat), HOST_MEMORY, DRIVER, NOT_PERMITTED; for a kernel of
 * leat_module_layout() also the errors of that call. */
LEAT_NODISCARD LEAT_API leat_status leat_kernel_get(leat_module *module, const char *name, leat_kernel **kernel);

/* Returns the number of parameters of a kernel, or -1 if the driver does not know it (CUDA before 12.4).
 * Errors: HANDLE, INVALID (count NULL). */
LEAT_NODISCARD LEAT_API leat_status leat_kernel_parameter_count(leat_kernel *kernel, int *count);

/* Returns the size of parameter number index, counted from 0. Errors: HANDLE, INVALID (bytes NULL; the kernel has
 * no such parameter), UNSUPPORTED (the driver does not report it: HIP, CUDA before 12.4), DRIVER. */
LEAT_NODISCARD LEAT_API leat_status leat_kernel_parameter_bytes(leat_kernel *kernel, unsigned index,
                                                                size_t *bytes);

/*
 * Runs a kernel in stream order. args: argument_count pointers, each to a value of the parameter's type; leat
 * reads the values before the call returns. shared_bytes: dynamic shared memory of each block, at most
 * leat_device_info.max_shared_bytes. leat does not check pointers among the arguments: with a wrong pointer the
 * work fails later.
 * Errors: HANDLE; INVALID (a dimension is 0 or too large; argument_count differs from the kernel's, if that is
 * known; args or an element of it is NULL; the kernel's device is not the stream's; more blocks than can run
 * concurrently, for a kernel with LEAT_CPU_KERNEL_TOGETHER); UNSUPPORTED (more shared memory than the device has),
 * HOST_MEMORY, SYSTEM (threads for the blocks of a kernel with LEAT_CPU_KERNEL_TOGETHER cannot be started),
 * DEVICE_LOST, DRIVER, NOT_PERMITTED.
 */
LEAT_NODISCARD LEAT_API leat_status leat_launch(leat_stream *stream, leat_kernel *kernel, leat_dim3 grid,
                                                leat_dim3 block, size_t shared_bytes, void *const *args,
                                                unsigned argument_count);

#ifdef __cplusplus
}
#endif

#endif
