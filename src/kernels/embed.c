/*
 * embed.c - puts the built-in kernels into the library: the kept PTX text, the AMD code objects, and the table of
 * the host's own.
 */
#include "kernels/builtin.h"

/* The assembler finds the file through the compiler's -Isrc, so the place of the build folder does not matter. */
#define EMBED_TEXT(name, file)                                                                                    \
    __asm__(".pushsection .rodata\n"                                                                              \
            ".globl " name "\n"                                                                                   \
            ".hidden " name "\n"                                                                                  \
            ".type " name ", %object\n" name ":\n"                                                                \
            ".incbin \"kernels/built/" file "\"\n"                                                                \
            ".byte 0\n"                                                                                           \
            ".L" name "_end:\n"                                                                                   \
            ".size " name ", . - " name "\n"                                                                      \
            ".balign 8\n"                                                                                         \
            ".globl " name "_bytes\n"                                                                             \
            ".hidden " name "_bytes\n"                                                                            \
            ".type " name "_bytes, %object\n"                                                                     \
            ".size " name "_bytes, 8\n" name "_bytes:\n"                                                          \
            ".quad .L" name "_end - " name "\n"                                                                   \
            ".popsection\n")

EMBED_TEXT("leati_kernels_ptx", "builtin_kernels.ptx");
EMBED_TEXT("leati_layout_ptx", "layout_kernels.ptx");

_Static_assert(sizeof leati_kernels_ptx_bytes == 8, "the assembly above writes 8 bytes");

/* A code object, at the start of a page, as clang puts those of a program. */
#define EMBED_OBJECT(name, file)                                                                                  \
    extern __attribute__((visibility("hidden"))) const char name[], name##_end[];                                 \
    __asm__(".pushsection .rodata\n"                                                                              \
            ".balign 4096\n"                                                                                      \
            ".globl " #name ", " #name "_end\n"                                                                   \
            ".hidden " #name ", " #name "_end\n"                                                                  \
            ".type " #name ", %object\n" #name ":\n"                                                              \
            ".incbin \"kernels/built/" file "\"\n" #name "_end:\n"                                                \
            ".size " #name ", . - " #name "\n"                                                                    \
            ".popsection\n");
#define EMBED(gpu)                                                                                                \
    EMBED_OBJECT(leati_code_##gpu, "builtin_kernels." #gpu ".co")                                                 \
    EMBED_OBJECT(leati_layout_##gpu, "layout_kernels." #gpu ".co")
LEATI_CODE_OBJECT_LIST(EMBED)
#undef EMBED

#define ENTRY(gpu) {#gpu, leati_code_##gpu, leati_code_##gpu##_end, leati_layout_##gpu, leati_layout_##gpu##_end},
const struct leati_code_object leati_code_objects[] = {LEATI_CODE_OBJECT_LIST(ENTRY)};
#undef ENTRY

const size_t leati_code_object_count = sizeof leati_code_objects / sizeof leati_code_objects[0];

#define DECLARE(name) extern __attribute__((visibility("hidden"))) const leat_cpu_kernel leat_cpu_kernel_##name;
LEATI_KERNEL_LIST(DECLARE)
LEATI_HOST_KERNEL_LIST(DECLARE)
LEATI_LAYOUT_KERNEL_LIST(DECLARE)
#undef DECLARE

#define ENTRY(name) {#name, &leat_cpu_kernel_##name},
const struct leati_host_kernel leati_host_kernels[] = {LEATI_KERNEL_LIST(ENTRY) LEATI_HOST_KERNEL_LIST(ENTRY)};
const struct leati_host_kernel leati_host_layouts[] = {LEATI_LAYOUT_KERNEL_LIST(ENTRY)};
#undef ENTRY

const size_t leati_host_kernel_count = sizeof leati_host_kernels / sizeof leati_host_kernels[0];
const size_t leati_host_layout_count = sizeof leati_host_layouts / sizeof leati_host_layouts[0];
