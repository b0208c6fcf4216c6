/*
 * builtin.h - declares the built-in kernels for the drivers: machine code and PTX text for cuda, code objects for
 * hip, and tables of functions for cpu.
 */
#ifndef LEATI_KERNELS_BUILTIN_H
#define LEATI_KERNELS_BUILTIN_H

#include "kernels/modules.h"

#include <leat/device_code.h>

/* X(name) for each kernel of builtin_kernels.c that all devices have. */
#define LEATI_KERNEL_LIST(X)                                                                                      \
    X(leat_fill_u8)                                                                                               \
    X(leat_fill_u16)                                                                                              \
    X(leat_fill_u32)                                                                                              \
    X(leat_fill_u64)                                                                                              \
    X(leat_fill_u128)                                                                                             \
    X(leat_add_f32)                                                                                               \
    X(leat_add_u32)                                                                                               \
    X(leat_vector_add_f32)                                                                                        \
    X(leat_vector_add_u32)                                                                                        \
    X(leat_square_u32)                                                                                            \
    X(leat_pattern_u64)                                                                                           \
    X(leat_verify_u64)                                                                                            \
    X(leat_checksum_u64)                                                                                          \
    X(leat_sum_u64)                                                                                               \
    X(leat_sum_runs_u64)                                                                                          \
    X(leat_chase_u64)                                                                                             \
    X(leat_chase_local_u64)                                                                                       \
    X(leat_chain_u64)                                                                                             \
    X(leat_copy_pieces)

/* X(name) for each kernel that only the CPU device has. */
#define LEATI_HOST_KERNEL_LIST(X) X(leat_run_parts)

/* The image of a module in memory: a fatbin, PTX text or a code object. */
struct leati_image {
    const char *begin, *end;
};

/* The PTX of each module, for sm_75 and newer. Each image includes a NUL at its end. */
extern const struct leati_image leati_ptx[LEATI_BUILTIN_COUNT];

/* The NVIDIA architectures with machine code in the fatbins, sorted; tools/build-kernels.sh reads this list. 75 is
 * compute capability 7.5. The code runs on GPUs of the same major and the same or a higher minor number. */
#define LEATI_MACHINE_CODE_LIST 75, 80, 90, 100, 120

/* The oldest driver that decompresses the fatbins, by its CUDA version: 12.4. */
#define LEATI_MACHINE_CODE_DRIVER 12040

/* The machine code of each module, which ptxas made from its PTX. The driver selects the GPU's part. */
extern const struct leati_image leati_fatbins[LEATI_BUILTIN_COUNT];

/* The AMD architectures that the kernels are built for; tools/build-kernels.sh has the same list. */
#define LEATI_CODE_OBJECT_LIST(X) X(gfx90a) X(gfx942) X(gfx1100)
#define LEATI_CODE_OBJECT_NAMES "gfx90a, gfx942 and gfx1100"

struct leati_code_object {
    const char *architecture; /* for example "gfx90a" */
    struct leati_image image[LEATI_BUILTIN_COUNT];
};

extern const struct leati_code_object leati_code_objects[];
extern const size_t leati_code_object_count;

struct leati_builtin_kernel {
    const char *name;
    const leat_cpu_kernel *kernel;
};

/* The kernels compiled for the host: those of builtin_kernels.c, and those of layout_kernels.c and
 * convert_kernels.c. */
extern const struct leati_builtin_kernel leati_host_kernels[], leati_host_layouts[];
extern const size_t leati_host_kernel_count, leati_host_layout_count;

#endif
