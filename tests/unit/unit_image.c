/*
 * unit_image.c - tests damaged kernel files for the CPU device: cpu_image_check() must refuse files that would
 * crash the system's loader.
 */
#include "harness.h"

#include "driver/cpu/cpu_image.h"
#include "seed.h"

#include <elf.h>
#include <leat/device_code.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A complete shared object, as a linker writes it. */
struct whole {
    unsigned char *start;
    size_t bytes;
};

static struct whole read_whole(const char *path)
{
    struct whole whole = {test_buffer(64 << 20), 0};
    FILE *file = fopen(path, "rbe");

    assert_non_null(file);
    whole.bytes = fread(whole.start, 1, 64 << 20, file);
    fclose(file);
    return whole;
}

/* Checks a copy of the image in a buffer of exactly this size, so that a sanitizer reports reads past the end. */
static leat_status check_copy(const unsigned char *image, size_t bytes)
{
    unsigned char *copy = test_buffer(bytes);
    leat_status status;

    memcpy(copy, image, bytes);
    status = cpu_image_check(copy, bytes);
    free(copy);
    return status;
}

/* ---- complete files ---- */

static int check_loaded(struct dl_phdr_info *info, size_t bytes, void *count)
{
    struct whole whole;

    (void)bytes;
    /* dl_iterate_phdr() reports no file name for the program itself and for the vDSO. */
    if (!info->dlpi_name || info->dlpi_name[0] != '/')
        return 0;
    whole = read_whole(info->dlpi_name);
    if (check_copy(whole.start, whole.bytes) != LEAT_OK)
        fail_msg("%s: %s", info->dlpi_name, leat_last_error());
    free(whole.start);
    ++*(unsigned *)count;
    return 0;
}

static void whole_images_are_taken(void **state)
{
    struct whole whole = read_whole(TEST_KERNELS_PLAIN);
    unsigned count = 0;

    (void)state;
    OK(cpu_image_check(whole.start, whole.bytes));
    free(whole.start);
    /* The check must accept the files that linkers make, such as every library of this program. */
    dl_iterate_phdr(check_loaded, &count);
    assert_true(count >= 2);
}

/* ---- truncated files ---- */

/* Linkers put the section headers at the end of the file, so every truncated file must be refused. */
static void images_that_are_cut_off_are_refused(void **state)
{
    struct whole whole = read_whole(TEST_KERNELS_PLAIN);

    (void)state;
    for (size_t bytes = 0; bytes < whole.bytes; bytes += bytes < 4096 ? 7 : 509)
        assert_int_equal(check_copy(whole.start, bytes), LEAT_ERROR_IMAGE);
    free(whole.start);
}

/* ---- damaged files ---- */

static Elf64_Ehdr *header_of(struct whole *whole)
{
    return (Elf64_Ehdr *)(void *)whole->start;
}

/* Returns the first segment of this type with these access rights. */
static Elf64_Phdr *segment_of(struct whole *whole, uint32_t type, uint32_t rights)
{
    Elf64_Phdr *segments = (Elf64_Phdr *)(void *)(whole->start + header_of(whole)->e_phoff);

    for (unsigned i = 0; i < header_of(whole)->e_phnum; i++)
        if (segments[i].p_type == type && (segments[i].p_flags & rights) == rights)
            return &segments[i];
    fail_msg("no segment of type %u", type);
    return NULL;
}

static Elf64_Dyn *entry_of(struct whole *whole, int64_t tag)
{
    Elf64_Phdr *dynamic = segment_of(whole, PT_DYNAMIC, 0);
    Elf64_Dyn *entries = (Elf64_Dyn *)(void *)(whole->start + dynamic->p_offset);

    for (size_t i = 0; i < dynamic->p_filesz / sizeof *entries; i++)
        if (entries[i].d_tag == tag)
            return &entries[i];
    fail_msg("no entry with tag %lld", (long long)tag);
    return NULL;
}

static uint64_t *value_of(struct whole *whole, int64_t tag)
{
    return &entry_of(whole, tag)->d_un.d_val;
}

/* Returns the table that an entry of the dynamic section points to. It is in the first segment, where addresses
 * equal file offsets. */
static void *table_of(struct whole *whole, int64_t tag)
{
    return whole->start + *value_of(whole, tag);
}

static Elf64_Rela *relocation_of(struct whole *whole, uint32_t type, unsigned number)
{
    Elf64_Rela *relocations = table_of(whole, DT_RELA);

    for (size_t i = 0; i < *value_of(whole, DT_RELASZ) / sizeof *relocations; i++)
        if (ELF64_R_TYPE(relocations[i].r_info) == type && !number--)
            return &relocations[i];
    fail_msg("no relocation of type %u", type);
    return NULL;
}

static uint32_t *hash_of(struct whole *whole)
{
    return table_of(whole, DT_GNU_HASH);
}

/* Returns the first hash bucket that is not empty. */
static uint32_t *bucket_of(struct whole *whole)
{
    uint32_t *hash = hash_of(whole), *bucket = hash + 4 + 2 * hash[2];

    while (!*bucket)
        bucket++;
    return bucket;
}

static Elf64_Sym *symbol_of(struct whole *whole, unsigned char type)
{
    Elf64_Sym *symbol = table_of(whole, DT_SYMTAB);

    for (symbol++; ELF64_ST_TYPE(symbol->st_info) != type; symbol++)
        continue;
    return symbol;
}

#define DAMAGE(name, statement)                                                                                   \
    static void name(struct whole *w)                                                                             \
    {                                                                                                             \
        statement;                                                                                                \
    }
#define FAR ((uint64_t)1 << 40)

DAMAGE(class_of_32_bits, header_of(w)->e_ident[EI_CLASS] = ELFCLASS32)
DAMAGE(big_endian, header_of(w)->e_ident[EI_DATA] = ELFDATA2MSB)
DAMAGE(a_program, header_of(w)->e_type = ET_EXEC)
DAMAGE(another_machine, header_of(w)->e_machine = EM_AARCH64)
DAMAGE(no_segments, header_of(w)->e_phnum = 0)
DAMAGE(too_many_segments, header_of(w)->e_phnum = 60000)
DAMAGE(segments_elsewhere, header_of(w)->e_phoff = FAR)
DAMAGE(segments_of_another_size, header_of(w)->e_phentsize = 32)
DAMAGE(sections_elsewhere, header_of(w)->e_shoff = FAR)
DAMAGE(segment_past_the_end, segment_of(w, PT_LOAD, PF_W)->p_offset = FAR)
DAMAGE(segment_too_long, segment_of(w, PT_LOAD, PF_X)->p_filesz = FAR)
DAMAGE(segment_too_short_in_memory, segment_of(w, PT_LOAD, PF_W)->p_memsz = 1)
DAMAGE(segment_at_a_wild_address, segment_of(w, PT_LOAD, PF_W)->p_vaddr += (uint64_t)1 << 45)
DAMAGE(segments_that_overlap,
       segment_of(w, PT_LOAD, PF_W)->p_vaddr = segment_of(w, PT_LOAD, PF_W)->p_offset &= 4095)
DAMAGE(alignment_of_3, segment_of(w, PT_LOAD, PF_W)->p_align = 3)
DAMAGE(alignment_of_8, segment_of(w, PT_LOAD, PF_X)->p_align = 8)
DAMAGE(data_that_cannot_be_written, segment_of(w, PT_LOAD, PF_W)->p_flags = PF_R)
DAMAGE(code_that_cannot_be_run, segment_of(w, PT_LOAD, PF_X)->p_flags = PF_R)
DAMAGE(read_only_data_elsewhere, segment_of(w, PT_GNU_RELRO, 0)->p_vaddr = FAR)
DAMAGE(read_only_data_too_long, segment_of(w, PT_GNU_RELRO, 0)->p_memsz = FAR)
DAMAGE(notes_elsewhere, segment_of(w, PT_NOTE, 0)->p_vaddr = FAR)
DAMAGE(no_dynamic_section, segment_of(w, PT_DYNAMIC, 0)->p_type = PT_NULL)
DAMAGE(dynamic_section_elsewhere, segment_of(w, PT_DYNAMIC, 0)->p_vaddr += 8)
DAMAGE(dynamic_section_without_end, segment_of(w, PT_DYNAMIC, 0)->p_filesz = 16)
DAMAGE(names_elsewhere, *value_of(w, DT_STRTAB) = FAR)
DAMAGE(no_names, entry_of(w, DT_STRTAB)->d_tag = DT_DEBUG)
DAMAGE(names_without_size, entry_of(w, DT_STRSZ)->d_tag = DT_DEBUG)
DAMAGE(names_without_end, *value_of(w, DT_STRSZ) -= 1)
DAMAGE(names_too_long, *value_of(w, DT_STRSZ) = FAR)
DAMAGE(symbols_elsewhere, *value_of(w, DT_SYMTAB) = FAR)
DAMAGE(symbols_of_another_size, *value_of(w, DT_SYMENT) = 16)
DAMAGE(no_hash_table, entry_of(w, DT_GNU_HASH)->d_tag = DT_DEBUG)
DAMAGE(hash_table_elsewhere, *value_of(w, DT_GNU_HASH) = FAR)
DAMAGE(hash_table_without_buckets, hash_of(w)[0] = 0)
DAMAGE(hash_table_with_many_buckets, hash_of(w)[0] = UINT32_MAX)
DAMAGE(hash_table_with_an_odd_filter, hash_of(w)[2] = 3)
DAMAGE(hash_table_with_a_long_filter, hash_of(w)[2] = 1u << 30)
DAMAGE(hash_table_with_a_wide_shift, hash_of(w)[3] = 77)
DAMAGE(bucket_before_the_first_symbol, *bucket_of(w) = hash_of(w)[1] - 1)
DAMAGE(bucket_behind_the_last_symbol, *bucket_of(w) = 1u << 30)
DAMAGE(first_symbol_behind_the_last, hash_of(w)[1] = 1u << 30)
DAMAGE(name_of_a_symbol_elsewhere, symbol_of(w, STT_OBJECT)->st_name = UINT32_MAX)
DAMAGE(symbol_elsewhere, symbol_of(w, STT_OBJECT)->st_value = FAR)
DAMAGE(symbol_past_the_end, symbol_of(w, STT_OBJECT)->st_size = FAR)
DAMAGE(function_that_is_data, symbol_of(w, STT_OBJECT)->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC))
DAMAGE(local_symbol_nowhere, symbol_of(w, STT_NOTYPE)->st_info = ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE))
DAMAGE(relocations_elsewhere, *value_of(w, DT_RELA) = FAR)
DAMAGE(relocations_of_another_size, *value_of(w, DT_RELAENT) = 16)
DAMAGE(relocations_without_size, entry_of(w, DT_RELASZ)->d_tag = DT_DEBUG)
DAMAGE(half_a_relocation, *value_of(w, DT_RELASZ) -= 8)
DAMAGE(too_many_relocations, *value_of(w, DT_RELASZ) = (uint64_t)24 << 30)
DAMAGE(more_relative_ones_than_there_are, *value_of(w, DT_RELACOUNT) = 1000)
DAMAGE(fewer_relative_ones_than_said, *value_of(w, DT_RELACOUNT) += 1)
DAMAGE(relocation_elsewhere, relocation_of(w, R_X86_64_RELATIVE, 1)->r_offset = FAR)
DAMAGE(relocation_of_code, relocation_of(w, R_X86_64_RELATIVE, 3)->r_offset = *value_of(w, DT_INIT))
DAMAGE(relocation_of_an_unknown_sort, relocation_of(w, R_X86_64_GLOB_DAT, 0)->r_info += 100)
DAMAGE(relocation_by_copying, relocation_of(w, R_X86_64_GLOB_DAT, 0)->r_info = R_X86_64_COPY)
DAMAGE(relocation_to_a_symbol_far_away, relocation_of(w, R_X86_64_GLOB_DAT, 0)->r_info += (uint64_t)1 << 60)
DAMAGE(relocation_that_leads_away, relocation_of(w, R_X86_64_RELATIVE, 4)->r_addend = (int64_t)FAR)
DAMAGE(function_to_call_relocated_away, relocation_of(w, R_X86_64_RELATIVE, 0)->r_addend = 0x10)
DAMAGE(first_function_elsewhere, *value_of(w, DT_INIT) = FAR)
DAMAGE(last_function_in_data, *value_of(w, DT_FINI) = *value_of(w, DT_PLTGOT))
DAMAGE(functions_to_call_elsewhere, *value_of(w, DT_INIT_ARRAY) = FAR)
DAMAGE(functions_to_call_without_relocations, *value_of(w, DT_INIT_ARRAYSZ) += 24)
DAMAGE(half_a_function_to_call, *value_of(w, DT_FINI_ARRAYSZ) -= 4)
DAMAGE(table_of_calls_elsewhere, entry_of(w, DT_RELACOUNT)->d_tag = DT_JMPREL)
DAMAGE(relocations_of_another_sort, *entry_of(w, DT_RELACOUNT) = ((Elf64_Dyn){DT_PLTREL, {DT_REL}}))
DAMAGE(object_without_a_name, *entry_of(w, DT_RELACOUNT) = ((Elf64_Dyn){DT_NEEDED, {FAR}}))
DAMAGE(an_auditor, *entry_of(w, DT_RELACOUNT) = ((Elf64_Dyn){DT_AUDIT, {1}}))
DAMAGE(old_hash_table_elsewhere, *entry_of(w, DT_RELACOUNT) = ((Elf64_Dyn){DT_HASH, {FAR}}))
DAMAGE(old_hash_table_with_a_ring, *entry_of(w, DT_RELACOUNT) = ((Elf64_Dyn){DT_HASH, {*value_of(w, DT_STRTAB)}});
       memcpy(table_of(w, DT_STRTAB), (uint32_t[]){1, 2, 1, 0, 1}, 20))
DAMAGE(versions_elsewhere, *entry_of(w, DT_RELACOUNT) = ((Elf64_Dyn){DT_VERSYM, {FAR}}))
DAMAGE(needed_versions_elsewhere, *entry_of(w, DT_RELACOUNT) = ((Elf64_Dyn){DT_VERNEED, {FAR}}))
DAMAGE(own_versions_elsewhere, *entry_of(w, DT_RELACOUNT) = ((Elf64_Dyn){DT_VERDEF, {FAR}}))
DAMAGE(versions_that_are_none,
       *entry_of(w, DT_RELACOUNT) = ((Elf64_Dyn){DT_VERSYM, {*value_of(w, DT_SYMTAB) + 24}}))
DAMAGE(packed_relocations_elsewhere, *entry_of(w, DT_RELACOUNT) = ((Elf64_Dyn){DT_RELR, {FAR}}))

static void damaged_tables_are_refused(void **state)
{
#define ONE(name)                                                                                                 \
    {                                                                                                             \
#name, name                                                                                               \
    }
    static const struct {
        const char *name;
        void (*damage)(struct whole *whole);
    } damages[] = {
        ONE(class_of_32_bits),
        ONE(big_endian),
        ONE(a_program),
        ONE(another_machine),
        ONE(no_segments),
        ONE(too_many_segments),
        ONE(segments_elsewhere),
        ONE(segments_of_another_size),
        ONE(sections_elsewhere),
        ONE(segment_past_the_end),
        ONE(segment_too_long),
        ONE(segment_too_short_in_memory),
        ONE(segment_at_a_wild_address),
        ONE(segments_that_overlap),
        ONE(alignment_of_3),
        ONE(alignment_of_8),
        ONE(data_that_cannot_be_written),
        ONE(code_that_cannot_be_run),
        ONE(read_only_data_elsewhere),
        ONE(read_only_data_too_long),
        ONE(notes_elsewhere),
        ONE(no_dynamic_section),
        ONE(dynamic_section_elsewhere),
        ONE(dynamic_section_without_end),
        ONE(names_elsewhere),
        ONE(no_names),
        ONE(names_without_size),
        ONE(names_without_end),
        ONE(names_too_long),
        ONE(symbols_elsewhere),
        ONE(symbols_of_another_size),
        ONE(no_hash_table),
        ONE(hash_table_elsewhere),
        ONE(hash_table_without_buckets),
        ONE(hash_table_with_many_buckets),
        ONE(hash_table_with_an_odd_filter),
        ONE(hash_table_with_a_long_filter),
        ONE(hash_table_with_a_wide_shift),
        ONE(bucket_before_the_first_symbol),
        ONE(bucket_behind_the_last_symbol),
        ONE(first_symbol_behind_the_last),
        ONE(name_of_a_symbol_elsewhere),
        ONE(symbol_elsewhere),
        ONE(symbol_past_the_end),
        ONE(function_that_is_data),
        ONE(local_symbol_nowhere),
        ONE(relocations_elsewhere),
        ONE(relocations_of_another_size),
        ONE(relocations_without_size),
        ONE(half_a_relocation),
        ONE(too_many_relocations),
        ONE(more_relative_ones_than_there_are),
        ONE(fewer_relative_ones_than_said),
        ONE(relocation_elsewhere),
        ONE(relocation_of_code),
        ONE(relocation_of_an_unknown_sort),
        ONE(relocation_by_copying),
        ONE(relocation_to_a_symbol_far_away),
        ONE(relocation_that_leads_away),
        ONE(function_to_call_relocated_away),
        ONE(first_function_elsewhere),
        ONE(last_function_in_data),
        ONE(functions_to_call_elsewhere),
        ONE(functions_to_call_without_relocations),
        ONE(half_a_function_to_call),
        ONE(table_of_calls_elsewhere),
        ONE(relocations_of_another_sort),
        ONE(object_without_a_name),
        ONE(an_auditor),
        ONE(old_hash_table_elsewhere),
        ONE(old_hash_table_with_a_ring),
        ONE(versions_elsewhere),
        ONE(needed_versions_elsewhere),
        ONE(own_versions_elsewhere),
        ONE(versions_that_are_none),
        ONE(packed_relocations_elsewhere),
    };
    struct whole whole = read_whole(TEST_KERNELS_PLAIN);
    leat_device *device;
    leat_module *module;

    (void)state;
    OK(leat_device_open("cpu:0", &device));
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct whole damaged = {test_buffer(whole.bytes), whole.bytes};

        memcpy(damaged.start, whole.start, whole.bytes);
        damages[i].damage(&damaged);
        if (check_copy(damaged.start, damaged.bytes) != LEAT_ERROR_IMAGE)
            fail_msg("%s is not found", damages[i].name);
        REFUSED(leat_module_load(device, damaged.start, damaged.bytes, &module), LEAT_ERROR_IMAGE,
                "not a whole shared object");
        free(damaged.start);
    }
    free(whole.start);
    OK(leat_device_close(device));
}

/* leat's descriptions of kernels are data in the file, which cpu_image_check() does not read. leat_kernel_get()
 * must refuse a damaged description. */
static void damaged_descriptions_are_refused(void **state)
{
    struct whole whole = read_whole(TEST_KERNELS_PLAIN);
    Elf64_Phdr *data = segment_of(&whole, PT_LOAD, PF_W);
    Elf64_Sym *symbol = symbol_of(&whole, STT_OBJECT);
    const char *name = (const char *)table_of(&whole, DT_STRTAB) + symbol->st_name;
    leat_cpu_kernel *kernel =
        (leat_cpu_kernel *)(void *)(whole.start + data->p_offset + (symbol->st_value - data->p_vaddr));
    leat_device *device;
    leat_module *module;
    leat_kernel *found;

    (void)state;
    assert_int_equal(strncmp(name, "leat_cpu_kernel_", 16), 0);
    OK(leat_device_open("cpu:0", &device));
    for (int damaged = 0; damaged < 2; damaged++) {
        OK(leat_module_load(device, whole.start, whole.bytes, &module));
        if (damaged)
            REFUSED(leat_kernel_get(module, name + 16, &found), LEAT_ERROR_IMAGE, "is damaged");
        else
            OK(leat_kernel_get(module, name + 16, &found));
        OK(leat_module_unload(module));
        kernel->parameter_count = UINT32_MAX;
    }
    OK(leat_device_close(device));
    free(whole.start);
}

/* The check must end for any bytes, and must not read outside of the file. */
static void any_bytes_can_be_checked(void **state)
{
    struct whole whole = read_whole(TEST_KERNELS_PLAIN);
    uint64_t seed = test_seed();
    unsigned char *image = test_buffer(whole.bytes);
    unsigned refused = 0;

    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        /* Damage mostly the start of the file, which contains most of what the check reads. */
        size_t range = round % 2 ? whole.bytes : 0x700;

        memcpy(image, whole.start, whole.bytes);
        for (unsigned i = 0; i <= round % 8; i++) {
            uint64_t word = leat_pattern_value(round * 8 + i, seed);

            image[word % range] = (unsigned char)(word >> 56);
        }
        refused += cpu_image_check(image, whole.bytes) != LEAT_OK;
    }
    print_message("           seed %llu: %u of 20000 damaged images were refused\n", (unsigned long long)seed,
                  refused);
    free(image);
    free(whole.start);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_images_are_taken),     cmocka_unit_test(images_that_are_cut_off_are_refused),
        cmocka_unit_test(damaged_tables_are_refused), cmocka_unit_test(damaged_descriptions_are_refused),
        cmocka_unit_test(any_bytes_can_be_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
