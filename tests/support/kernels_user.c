/*
 * kernels_user.c - defines kernels as a user would write them. The build compiles them to a shared object for the
 * CPU device; kernels_user.ptx has them as PTX (made by tools/build-kernels.sh).
 */
#include <leat/device_code.h>

/* Multiplies every element. */
LEAT_KERNEL(user_scale_f32, float *, data, uint64_t, count, float, factor)
{
    LEAT_FOR (i, count)
        data[i] *= factor;
}

/* Writes each argument to its own element of out, so that the test notices an argument with the wrong size or
 * order. out[0] to out[6] become byte, number (sign-extended), word, the bits of single, the bits of twice, wide,
 * *from. */
LEAT_KERNEL(user_many, 8, uint64_t *, out, uint8_t, byte, int16_t, number, uint32_t, word, float, single, double,
            twice, int64_t, wide, const uint32_t *, from)
{
    union {
        float value;
        uint32_t bits;
    } single_bits = {single};
    union {
        double value;
        uint64_t bits;
    } twice_bits = {twice};

    if (leat_global_index() != 0)
        return;
    out[0] = byte;
    out[1] = (uint64_t)(int64_t)number;
    out[2] = word;
    out[3] = single_bits.bits;
    out[4] = twice_bits.bits;
    out[5] = (uint64_t)wide;
    out[6] = *from;
}

/* Writes one element for each thread of a two-dimensional grid, row by row: out[y * width + x] becomes the
 * thread's number, counted block by block. Every thread writes a different number, so the test notices a wrong
 * index or size of either dimension. */
LEAT_KERNEL(user_index2d, uint32_t *, out)
{
    uint32_t width = leat_grid_blocks_x() * leat_block_threads_x();
    uint32_t x = leat_block_x() * leat_block_threads_x() + leat_thread_x();
    uint32_t y = leat_block_y() * leat_block_threads_y() + leat_thread_y();
    uint32_t block = leat_block_y() * leat_grid_blocks_x() + leat_block_x();
    uint32_t thread = leat_thread_y() * leat_block_threads_x() + leat_thread_x();

    out[y * width + x] = block * leat_block_threads_x() * leat_block_threads_y() + thread;
}

/* Keeps the first thread busy: mixes *out in the given number of rounds, each of which needs the previous
 * result. */
LEAT_KERNEL(user_spin, 2, uint64_t *, out, uint64_t, rounds)
{
    uint64_t value;

    if (leat_global_index() != 0)
        return;
    value = *out;
    for (uint64_t round = 0; round < rounds; round++) {
        value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15u;
        value = (value ^ (value >> 29)) + round;
    }
    *out = value;
}

/* Counts the elements that LEAT_FOR visits: adds 1 to *narrow and i to *wide for each i, atomically. */
LEAT_KERNEL(user_count, uint32_t *, narrow, uint64_t *, wide, uint64_t, count)
{
    LEAT_FOR (i, count) {
        leat_atomic_add_u32(narrow, 1);
        leat_atomic_add_u64(wide, i);
    }
}
