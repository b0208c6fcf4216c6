/*
 * embed.c - puts the built-in kernels into the library: the fatbins, the PTX text and the AMD code objects of
 * kernels/built/, and the tables of the kernels compiled for the host.
 */
#include "kernels/builtin.h"

/* Embeds a file as the symbols name and name_end. The assembler finds the file by the compiler's option -Isrc, so
 * the build folder can be anywhere. what_follows: a directive for more data at the end of the image. */
#define EMBED(name, file, alignment, what_follows)                                                                \
    extern __attribute__((visibility("hidden"))) const char name[], name##_end[];                                 \
    __asm__(".pushsection .rodata\n"                                                                              \
            ".balign " alignment "\n"                                                                             \
            ".globl " #name ", " #name "_end\n"                                                                   \
            ".hidden " #name ", " #name "_end\n"                                                                  \
            ".type " #name ", %object\n" #name ":\n"                                                              \
            ".incbin \"kernels/built/" file "\"\n" what_follows #name "_end:\n"                                   \
            ".size " #name ", . - " #name "\n"                                                                    \
            ".popsection\n");
#define IMAGE(name) {name, name##_end},

#define EMBED_PTX(more, name, file) EMBED(leati_ptx_##file, #file ".ptx", "1", ".byte 0\n")
LEATI_BUILTIN_LIST(EMBED_PTX, )
#undef EMBED_PTX

#define ENTRY(more, name, file) [LEATI_BUILTIN_##name] = IMAGE(leati_ptx_##file)
const struct leati_image leati_ptx[LEATI_BUILTIN_COUNT] = {LEATI_BUILTIN_LIST(ENTRY, )};
#undef ENTRY

/* Fatbins are aligned to 8 bytes, as nvcc aligns them in a program. */
#define EMBED_FATBIN(more, name, file) EMBED(leati_fatbin_##file, #file ".fatbin", "8", "")
LEATI_BUILTIN_LIST(EMBED_FATBIN, )
#undef EMBED_FATBIN

#define ENTRY(more, name, file) [LEATI_BUILTIN_##name] = IMAGE(leati_fatbin_##file)
const struct leati_image leati_fatbins[LEATI_BUILTIN_COUNT] = {LEATI_BUILTIN_LIST(ENTRY, )};
#undef ENTRY

/* Code objects are aligned to pages, as clang aligns them in a program. */
#define EMBED_OBJECT(gpu, name, file) EMBED(leati_##gpu##_##file, #file "." #gpu ".co", "4096", "")
#define EMBED_OBJECTS(gpu) LEATI_BUILTIN_LIST(EMBED_OBJECT, gpu)
LEATI_CODE_OBJECT_LIST(EMBED_OBJECTS)
#undef EMBED_OBJECTS
#undef EMBED_OBJECT

#define ENTRY(gpu, name, file) [LEATI_BUILTIN_##name] = IMAGE(leati_##gpu##_##file)
#define ENTRIES(gpu) {#gpu, {LEATI_BUILTIN_LIST(ENTRY, gpu)}},
const struct leati_code_object leati_code_objects[] = {LEATI_CODE_OBJECT_LIST(ENTRIES)};
#undef ENTRIES
#undef ENTRY

const size_t leati_code_object_count = sizeof leati_code_objects / sizeof leati_code_objects[0];

#define DECLARE(name) extern __attribute__((visibility("hidden"))) const leat_cpu_kernel leat_cpu_kernel_##name;
LEATI_KERNEL_LIST(DECLARE)
LEATI_HOST_KERNEL_LIST(DECLARE)
#define DECLARE_LAYOUT(module, name) DECLARE(name)
LEATI_LAYOUT_KERNEL_LIST(DECLARE_LAYOUT)
LEATI_CONVERT_KERNEL_LIST(DECLARE_LAYOUT)
#undef DECLARE_LAYOUT
#undef DECLARE

#define ENTRY(name) {#name, &leat_cpu_kernel_##name},
const struct leati_builtin_kernel leati_host_kernels[] = {LEATI_KERNEL_LIST(ENTRY) LEATI_HOST_KERNEL_LIST(ENTRY)};
#define ENTRY_LAYOUT(module, name) ENTRY(name)
const struct leati_builtin_kernel leati_host_layouts[] = {LEATI_LAYOUT_KERNEL_LIST(ENTRY_LAYOUT)
                                                              LEATI_CONVERT_KERNEL_LIST(ENTRY_LAYOUT)};
#undef ENTRY_LAYOUT
#undef ENTRY

const size_t leati_host_kernel_count = sizeof leati_host_kernels / sizeof leati_host_kernels[0];
const size_t leati_host_layout_count = sizeof leati_host_layouts / sizeof leati_host_layouts[0];
