/*
 * modules.h - lists the modules of leat's built-in kernels.
 *
 * A driver that gets PTX compiles a module as a whole, and the call that needs the module's first kernel waits for
 * this. So the kernels that many programs need are in one module, and the layout kernels are split into many
 * modules: for each unit size one for rows of all kinds and ND tiles, one for small tiles, and one for wide tiles;
 * for units of 1 and 2 bytes one for pixels; one for triples, and one for conversions. Most drivers get machine
 * code instead (kernels/builtin.h). tools/build-kernels.sh reads these lists.
 */
#ifndef LEATI_KERNELS_MODULES_H
#define LEATI_KERNELS_MODULES_H

/* X(more, NAME, file) for each module; the files are in kernels/built/. The modules of one kind must follow
 * each other, sorted by unit size, because layout/gpu.c adds the number of the unit size to the first module
 * of a kind. */
#define LEATI_BUILTIN_LIST(X, more)                                                                               \
    X(more, BASIC, builtin_kernels)                                                                               \
    X(more, ELEMENTS, layout_elements)                                                                            \
    X(more, ROWS_1, layout_rows_1)                                                                                \
    X(more, ROWS_2, layout_rows_2)                                                                                \
    X(more, ROWS_4, layout_rows_4)                                                                                \
    X(more, ROWS_8, layout_rows_8)                                                                                \
    X(more, ROWS_16, layout_rows_16)                                                                              \
    X(more, TILES_1, layout_tiles_1)                                                                              \
    X(more, TILES_2, layout_tiles_2)                                                                              \
    X(more, TILES_4, layout_tiles_4)                                                                              \
    X(more, TILES_8, layout_tiles_8)                                                                              \
    X(more, TILES_16, layout_tiles_16)                                                                            \
    X(more, WIDE_1, layout_wide_1)                                                                                \
    X(more, WIDE_2, layout_wide_2)                                                                                \
    X(more, WIDE_4, layout_wide_4)                                                                                \
    X(more, WIDE_8, layout_wide_8)                                                                                \
    X(more, WIDE_16, layout_wide_16)                                                                              \
    X(more, PIXELS_1, layout_pixels_1)                                                                            \
    X(more, PIXELS_2, layout_pixels_2)                                                                            \
    X(more, TRIPLES, layout_triples)                                                                              \
    X(more, CONVERT, convert_kernels)                                                                             \
    X(more, STEPS, layout_steps)

enum leati_builtin {
#define LEATI_BUILTIN_ENUM(more, name, file) LEATI_BUILTIN_##name,
    LEATI_BUILTIN_LIST(LEATI_BUILTIN_ENUM, )
#undef LEATI_BUILTIN_ENUM
        LEATI_BUILTIN_COUNT
};

/* X(NAME, kernel) for each kernel of layout_kernels.c, with the name of its module. */
#define LEATI_LAYOUT_KERNEL_LIST(X)                                                                               \
    X(ELEMENTS, leat_layout_elements)                                                                             \
    X(ROWS_1, leat_layout_rows_1)                                                                                 \
    X(ROWS_2, leat_layout_rows_2)                                                                                 \
    X(ROWS_4, leat_layout_rows_4)                                                                                 \
    X(ROWS_8, leat_layout_rows_8)                                                                                 \
    X(ROWS_16, leat_layout_rows_16)                                                                               \
    X(ROWS_1, leat_layout_strided_1)                                                                              \
    X(ROWS_2, leat_layout_strided_2)                                                                              \
    X(ROWS_4, leat_layout_strided_4)                                                                              \
    X(ROWS_8, leat_layout_strided_8)                                                                              \
    X(ROWS_1, leat_layout_listed_1)                                                                               \
    X(ROWS_2, leat_layout_listed_2)                                                                               \
    X(ROWS_4, leat_layout_listed_4)                                                                               \
    X(ROWS_8, leat_layout_listed_8)                                                                               \
    X(ROWS_1, leat_layout_nd_tile_1)                                                                              \
    X(ROWS_2, leat_layout_nd_tile_2)                                                                              \
    X(ROWS_4, leat_layout_nd_tile_4)                                                                              \
    X(ROWS_8, leat_layout_nd_tile_8)                                                                              \
    X(ROWS_16, leat_layout_nd_tile_16)                                                                            \
    X(ROWS_1, leat_layout_nd_tile_single_1)                                                                       \
    X(ROWS_2, leat_layout_nd_tile_single_2)                                                                       \
    X(TILES_1, leat_layout_transpose_1)                                                                           \
    X(TILES_2, leat_layout_transpose_2)                                                                           \
    X(TILES_4, leat_layout_transpose_4)                                                                           \
    X(TILES_8, leat_layout_transpose_8)                                                                           \
    X(TILES_16, leat_layout_transpose_16)                                                                         \
    X(TILES_1, leat_layout_transpose_odd_1)                                                                       \
    X(TILES_2, leat_layout_transpose_odd_2)                                                                       \
    X(TILES_4, leat_layout_transpose_odd_4)                                                                       \
    X(TILES_8, leat_layout_transpose_odd_8)                                                                       \
    X(TILES_16, leat_layout_transpose_odd_16)                                                                     \
    X(WIDE_1, leat_layout_transpose_wide_1)                                                                       \
    X(WIDE_2, leat_layout_transpose_wide_2)                                                                       \
    X(WIDE_4, leat_layout_transpose_wide_4)                                                                       \
    X(WIDE_8, leat_layout_transpose_wide_8)                                                                       \
    X(WIDE_16, leat_layout_transpose_wide_16)                                                                     \
    X(WIDE_1, leat_layout_transpose_wide_odd_1)                                                                   \
    X(WIDE_2, leat_layout_transpose_wide_odd_2)                                                                   \
    X(WIDE_4, leat_layout_transpose_wide_odd_4)                                                                   \
    X(WIDE_8, leat_layout_transpose_wide_odd_8)                                                                   \
    X(WIDE_16, leat_layout_transpose_wide_odd_16)                                                                 \
    X(WIDE_1, leat_layout_transpose_long_1)                                                                       \
    X(WIDE_4, leat_layout_transpose_long_odd_4)                                                                   \
    X(PIXELS_1, leat_layout_join_1)                                                                               \
    X(PIXELS_1, leat_layout_split_1)                                                                              \
    X(PIXELS_2, leat_layout_join_2)                                                                               \
    X(PIXELS_2, leat_layout_split_2)                                                                              \
    X(PIXELS_1, leat_layout_join_wide_1)                                                                          \
    X(PIXELS_1, leat_layout_split_wide_1)                                                                         \
    X(TRIPLES, leat_layout_triples_1)                                                                             \
    X(TRIPLES, leat_layout_triples_2)                                                                             \
    X(TRIPLES, leat_layout_triples_4)                                                                             \
    X(STEPS, leat_transpose_naive_u32)                                                                            \
    X(STEPS, leat_transpose_shared_u32)                                                                           \
    X(STEPS, leat_transpose_padded_u32)

/* X(NAME, kernel) for each kernel of convert_kernels.c. */
#define LEATI_CONVERT_KERNEL_LIST(X)                                                                              \
    X(CONVERT, leat_convert_rows)                                                                                 \
    X(CONVERT, leat_convert_joins)                                                                                \
    X(CONVERT, leat_convert_pixels)                                                                               \
    X(CONVERT, leat_convert_elements)                                                                             \
    X(CONVERT, leat_convert_tiles)

/*
 * X(kernel, number) for each kernel with a maximum number of registers per thread (PTX .maxnreg), which C cannot
 * express. With the limit more blocks fit into a multiprocessor. On an H200 five instead of four blocks of 128 threads
 * made wide tiles of 1 byte 8 to 12 % faster, twelve instead of ten blocks of 64 threads small ones. Pixels whose planes
 * begin anywhere became up to 16 % faster with eight or nine instead of seven blocks (64 or 56 registers), and slower
 * with ten (48: 0.85 instead of 0.97 of a copy); joins of many channels up to 15 % faster with 80, and ND tiles of bytes 6 %
 * with four instead of three blocks of 256 threads. With these limits the code for full tiles spills almost no registers.
 */
#define LEATI_REGISTERS_LIST(X)                                                                                   \
    X(leat_layout_nd_tile_1, 64)                                                                                  \
    X(leat_layout_transpose_1, 80)                                                                                \
    X(leat_layout_transpose_wide_odd_1, 92)                                                                       \
    X(leat_layout_join_1, 56)                                                                                     \
    X(leat_layout_split_1, 56)                                                                                    \
    X(leat_layout_join_2, 56)                                                                                     \
    X(leat_layout_split_2, 64)                                                                                    \
    X(leat_layout_join_wide_1, 80)

#endif
