/* task.c - creates and counts references to tasks. A task is an immutable description of what a node of a graph
 * does. */
#include "engine/inside.h"

#include <stdlib.h>
#include <string.h>

struct leatc_task *leatc_task_new(int type, leatc_task_run run, void (*end)(void *payload), size_t bytes)
{
    struct leatc_task *task = calloc(1, sizeof *task + bytes);

    if (!task)
        return NULL;
    atomic_init(&task->references, 1);
    task->type = type;
    task->run = run;
    task->end = end;
    (void)leatc_device_get(&task->ordinal);
    return task;
}

struct leatc_task *leatc_task_share(struct leatc_task *task)
{
    leati_assert(atomic_load(&task->references));
    atomic_fetch_add(&task->references, 1);
    return task;
}

void leatc_task_drop(struct leatc_task *task)
{
    leati_assert(!task || atomic_load(&task->references));
    if (!task || atomic_fetch_sub(&task->references, 1) > 1)
        return;
    if (task->end)
        task->end(task->payload);
    free(task->kept);
    free(task);
}

int leatc_task_create(int type, leatc_task_run run, void (*end)(void *payload), const void *payload, size_t bytes,
                      struct leatc_task **task)
{
    *task = leatc_task_new(type, run, end, bytes);
    if (!*task)
        return LEATC_OUT_OF_MEMORY;
    if (bytes)
        memcpy((*task)->payload, payload, bytes);
    return LEATC_OK;
}

void leatc_task_set_device(struct leatc_task *task, int ordinal)
{
    leati_assert(ordinal >= 0 && ordinal < LEATC_DEVICES_MAX);
    task->ordinal = ordinal;
}

const void *leatc_task_payload(const struct leatc_task *task)
{
    return task->payload;
}

int leatc_task_keep(struct leatc_task *task, const void *tag, const void *kept, size_t bytes)
{
    void *copy = malloc(bytes);

    if (!copy)
        return LEATC_OUT_OF_MEMORY;
    memcpy(copy, kept, bytes);
    free(task->kept);
    task->kept = copy;
    task->tag = tag;
    return LEATC_OK;
}

const void *leatc_task_kept(const struct leatc_task *task, const void *tag)
{
    return task->tag == tag ? task->kept : NULL;
}

int leatc_empty_make(struct leatc_task **task)
{
    return leatc_task_create(LEATC_NODE_EMPTY, NULL, NULL, NULL, 0, task);
}
