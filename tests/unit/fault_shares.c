/* fault_shares.c - a scenario of fault_walk: memory that is shared and handed over, both sides in one process. */
#include "fault_scenarios.h"

#include <leat/share.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHARED = 5000 };

/* Both sides of a share. */
struct pair {
    leat_share *share, *received;
};

/* Creates a share of a block and receives it. */
static bool connect_sides(struct world *w, void *block, leat_access access, struct pair *pair)
{
    leat_share_options options = LEAT_SHARE_OPTIONS_INIT;
    leat_status status;
    int ends[2];

    options.access = access;
    STEP(leat_share_create(w->stream, block, &options, &pair->share));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        give_up("no sockets");
    status = keep(w, "leat_share_send", leat_share_send(pair->share, ends[0]));
    if (status == LEAT_OK)
        status = keep(w, "leat_share_receive", leat_share_receive(w->device, ends[1], &pair->received));
    close(ends[0]);
    close(ends[1]);
    return status == LEAT_OK;
}

/* Hands the memory over, reads it at the other side, and hands it back. */
static bool go_around(struct world *w, struct pair *pair, void *block, unsigned char value)
{
    unsigned char *seen = host_out;
    void *there = NULL;

    memset(seen, 0, SHARED);
    STEP(leat_share_get_pointer(pair->received, &there, NULL));
    STEP(leat_fill(w->stream, block, value, SHARED));
    STEP(leat_share_hand_over(w->stream, pair->share));
    STEP(leat_share_take_over(w->second, pair->received));
    STEP(leat_copy(w->second, w->pinned, there, SHARED));
    STEP(leat_share_hand_over(w->second, pair->received));
    STEP(leat_share_take_over(w->stream, pair->share));
    STEP(leat_copy(w->stream, (char *)w->pinned + SHARED, block, SHARED));
    STEP(leat_stream_synchronize(w->stream));
    memcpy(seen, w->pinned, SHARED);
    for (size_t i = 0; i < SHARED; i++)
        if (seen[i] != value)
            give_up("byte %zu that was handed over is 0x%02x and not 0x%02x, without an error", i, seen[i], value);
    return true;
}

static bool share_steps(struct world *w, struct pair *pairs)
{
    leat_pool_options options = {.size = sizeof options, .dedicated = 1, .exportable = 1};

    STEP(leat_device_open(test_device_name(), &w->device));
    STEP(leat_stream_create(w->device, &w->stream));
    STEP(leat_stream_create(w->device, &w->second));
    STEP(leat_pool_create(w->device, &options, &w->pool));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_PINNED, 2 * SHARED, &w->pinned));
    for (int i = 0; i < 2; i++)
        STEP(leat_pool_alloc(w->stream, w->pool, SHARED, &w->blocks[i]));
    if (!connect_sides(w, w->blocks[0], LEAT_ACCESS_READ_WRITE, &pairs[0]) ||
        !go_around(w, &pairs[0], w->blocks[0], 21))
        return false;
    return !wrapper->ops->vm_set_rights || (connect_sides(w, w->blocks[1], LEAT_ACCESS_READ, &pairs[1]) &&
                                            go_around(w, &pairs[1], w->blocks[1], 22));
}

/* After a failure one side may wait for what the other could not submit. */
static void end_waits(struct pair *pairs)
{
    for (int i = 0; i < 2; i++)
        if (leat_share_abandon(pairs[i].share) != LEAT_OK || leat_share_abandon(pairs[i].received) != LEAT_OK)
            give_up("a share cannot be abandoned: %s", leat_last_error());
}

static void end_sides(struct world *w, struct pair *pairs)
{
    for (int i = 0; i < 2; i++) {
        END(leat_share_destroy(pairs[i].received));
        END(leat_share_destroy(pairs[i].share));
        if (leat_share_destroy(pairs[i].share) == LEAT_ERROR_BUSY ||
            leat_share_destroy(pairs[i].received) == LEAT_ERROR_BUSY)
            give_up("a share is still busy: %s", leat_last_error());
    }
}

void share_scenario(struct world *w)
{
    struct pair pairs[2] = {{NULL, NULL}, {NULL, NULL}};

    if (!device_info.virtual_memory || !wrapper->ops->stream_mem_ops)
        return;
    share_steps(w, pairs);
    end_waits(pairs);
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    end_sides(w, pairs);
    for (int i = 0; i < 2; i++)
        if (w->blocks[i])
            FREE(leat_free(w->stream, w->blocks[i]));
    if (w->pinned)
        FREE(leat_memory_free(w->pinned));
    if (w->pool)
        END(leat_pool_destroy(w->pool));
    END(leat_stream_destroy(w->second));
    END(leat_stream_destroy(w->stream));
    END(leat_device_close(w->device));
}

void lazy_share_scenario(struct world *w)
{
    struct pair pairs[2] = {{NULL, NULL}, {NULL, NULL}};

    if (!device_info.virtual_memory || !wrapper->ops->stream_mem_ops)
        return;
    /* The close must end the waits that a failure leaves behind, before it waits for the device. */
    share_steps(w, pairs);
    END(leat_device_close(w->device));
}
