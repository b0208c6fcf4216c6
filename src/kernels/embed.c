/*
 * embed.c - puts the built-in kernels into the library: the kept PTX text, the AMD code objects, and the table of
 * the host's own.
 */
#include "kernels/builtin.h"

/* The assembler finds the file through the compiler's -Isrc, so the place of the build folder does not matter. */
__asm__(".pushsection .rodata\n"
        ".globl leati_kernels_ptx\n"
        ".hidden leati_kernels_ptx\n"
        ".type leati_kernels_ptx, %object\n"
        "leati_kernels_ptx:\n"
        ".incbin \"kernels/built/builtin_kernels.ptx\"\n"
        ".byte 0\n"
        ".Lleati_kernels_ptx_end:\n"
        ".size leati_kernels_ptx, . - leati_kernels_ptx\n"
        ".balign 8\n"
        ".globl leati_kernels_ptx_bytes\n"
        ".hidden leati_kernels_ptx_bytes\n"
        ".type leati_kernels_ptx_bytes, %object\n"
        ".size leati_kernels_ptx_bytes, 8\n"
        "leati_kernels_ptx_bytes:\n"
        ".quad .Lleati_kernels_ptx_end - leati_kernels_ptx\n"
        ".popsection\n");

_Static_assert(sizeof leati_kernels_ptx_bytes == 8, "the assembly above writes 8 bytes");

/* A code object, at the start of a page, as clang puts those of a program. */
#define EMBED(gpu)                                                                                                \
    extern __attribute__((visibility("hidden"))) const char leati_code_##gpu[], leati_code_##gpu##_end[];         \
    __asm__(".pushsection .rodata\n"                                                                              \
            ".balign 4096\n"                                                                                      \
            ".globl leati_code_" #gpu ", leati_code_" #gpu "_end\n"                                               \
            ".hidden leati_code_" #gpu ", leati_code_" #gpu "_end\n"                                              \
            ".type leati_code_" #gpu ", %object\n"                                                                \
            "leati_code_" #gpu ":\n"                                                                              \
            ".incbin \"kernels/built/builtin_kernels." #gpu ".co\"\n"                                             \
            "leati_code_" #gpu "_end:\n"                                                                          \
            ".size leati_code_" #gpu ", . - leati_code_" #gpu "\n"                                                \
            ".popsection\n");
LEATI_CODE_OBJECT_LIST(EMBED)
#undef EMBED

#define ENTRY(gpu) {#gpu, leati_code_##gpu, leati_code_##gpu##_end},
const struct leati_code_object leati_code_objects[] = {LEATI_CODE_OBJECT_LIST(ENTRY)};
#undef ENTRY

const size_t leati_code_object_count = sizeof leati_code_objects / sizeof leati_code_objects[0];

#define DECLARE(name) extern __attribute__((visibility("hidden"))) const leat_cpu_kernel leat_cpu_kernel_##name;
LEATI_KERNEL_LIST(DECLARE)
#undef DECLARE

#define ENTRY(name) {#name, &leat_cpu_kernel_##name},
const struct leati_host_kernel leati_host_kernels[] = {LEATI_KERNEL_LIST(ENTRY)};
#undef ENTRY

const size_t leati_host_kernel_count = sizeof leati_host_kernels / sizeof leati_host_kernels[0];
