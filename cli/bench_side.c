/*
 * bench_side.c - makes the measured calls, by leat or by the driver.
 */
#include "bench_side.h"

bool bench_side_enter(struct bench *bench, enum bench_side side)
{
    return side == BENCH_LEAT ||
           bench_check_peer(bench, "making the device current", bench->peer->enter(bench->peer));
}

bool bench_side_leave(struct bench *bench, enum bench_side side)
{
    return side == BENCH_LEAT || bench_check_peer(bench, "leaving the device", bench->peer->leave(bench->peer));
}

bool bench_side_copy(struct bench *bench, enum bench_side side, unsigned stream, enum bench_direction direction,
                     void *dst, const void *src, size_t bytes)
{
    if (side == BENCH_LEAT)
        return bench_check(bench, leat_copy(bench->streams[stream], dst, src, bytes));
    return bench_check_peer(
        bench, "copy", bench->peer->copy(bench->peer, bench->native_streams[stream], direction, dst, src, bytes));
}

bool bench_side_wait(struct bench *bench, enum bench_side side, unsigned stream)
{
    if (side == BENCH_LEAT)
        return bench_check(bench, leat_stream_synchronize(bench->streams[stream]));
    return bench_check_peer(bench, "wait", bench->peer->wait(bench->peer, bench->native_streams[stream]));
}
