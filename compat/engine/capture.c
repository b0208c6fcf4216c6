/*
 * capture.c - implements stream capture: which streams are captured, how events extend a capture to other streams,
 * and which calls a capture forbids.
 *
 * A capture begins in one stream, its origin. Work that is submitted to a captured stream becomes a node of a
 * graph (graph.c). The new node depends on the stream's ends, which are the latest nodes of the stream. An event
 * that is recorded in a captured stream stores the stream's ends. A stream that waits for this event joins the
 * capture, or, if it is in the capture already, adds the stored nodes to its own ends. Calls that the rules of
 * capture forbid fail and invalidate the captures that they would have disturbed. An invalid capture ends without
 * a graph.
 *
 * While no stream is being captured, a call only loads one counter to find that out.
 */
#include "base/lock.h"
#include "engine/inside.h"

#include <stdlib.h>

struct leatc_capture {
    struct leatc_capture *next;
    unsigned long long id, thread;
    int mode;
    bool invalid;
    struct leatc_stream *origin;
    struct leatc_stream *members; /* all streams in the capture, including the origin */
    struct leatc_graph *graph;
    bool given; /* the caller passed the graph, and keeps it even if the capture fails */
};

atomic_uint leatc_captures;

/* Guards all captures, their graphs, and the capture fields of streams and events. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static struct leatc_capture *captures LEATI_GUARDED_BY(lock);
static unsigned long long latest_id LEATI_GUARDED_BY(lock);

static _Thread_local int thread_mode = LEATC_CAPTURE_GLOBAL;

static unsigned long long this_thread(void)
{
    static _Atomic unsigned long long latest;
    static _Thread_local unsigned long long number;

    if (!number)
        number = atomic_fetch_add(&latest, 1) + 1;
    return number;
}

static struct leatc_capture *of_stream(const struct leatc_stream *stream) LEATI_REQUIRES(lock)
{
    return atomic_load_explicit(&stream->capture, memory_order_acquire);
}

static bool is_blocking(const struct leatc_stream *stream)
{
    return !(stream->flags & LEATC_STREAM_NON_BLOCKING);
}

/* ---- beginning and ending ---- */

static void add_member(struct leatc_capture *capture, struct leatc_stream *stream) LEATI_REQUIRES(lock)
{
    leati_assert_locked(&lock);
    leati_assert(!of_stream(stream) && capture->graph);
    stream->next_member = capture->members;
    capture->members = stream;
    atomic_store_explicit(&stream->capture, capture, memory_order_release);
}

static void let_go(struct leatc_stream *stream) LEATI_REQUIRES(lock)
{
    leati_assert_locked(&lock);
    leatc_ends_clear(&stream->ends);
    atomic_store_explicit(&stream->capture, NULL, memory_order_release);
}

/* Ends a capture and frees it. Returns its graph if good is set, or if the caller must destroy the graph.
 * Otherwise returns NULL. */
static struct leatc_graph *finish(struct leatc_capture *capture, bool good) LEATI_REQUIRES(lock)
{
    struct leatc_capture **link = &captures;
    struct leatc_graph *graph = good || !capture->given ? capture->graph : NULL;

    leati_assert_locked(&lock);
    leati_assert(capture->graph && atomic_load(&leatc_captures));
    leatc_graphs_lock();
    capture->graph->capturing = false;
    leatc_graphs_unlock();
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    for (struct leatc_stream *stream = capture->members; stream; stream = stream->next_member)
        let_go(stream);
    atomic_fetch_sub(&leatc_captures, 1);
    free(capture);
    return graph;
}

/* Sets capture->graph to the graph that the caller passed, or to a new graph if given is NULL. */
static int take_graph(struct leatc_graph *given, struct leatc_node *const *before, size_t count,
                      struct leatc_capture *capture, struct leatc_ends *ends) LEATI_REQUIRES(lock)
{
    int result = LEATC_OK;

    leati_assert_locked(&lock);
    capture->graph = given;
    capture->given = given != NULL;
    if (!given)
        LEATC_TRY(leatc_graph_create(&capture->graph));
    leatc_graphs_lock();
    if (!leatc_graph_live(capture->graph) || capture->graph->capturing ||
        !leatc_nodes_belong(capture->graph, before, count)) {
        result = LEATC_INVALID_VALUE;
    } else if (!leatc_ends_join(ends, before, count)) {
        result = LEATC_OUT_OF_MEMORY;
    } else {
        capture->graph->capturing = true;
        for (size_t i = 0; i < capture->graph->count; i++)
            capture->graph->nodes[i]->captured = capture->graph->nodes[i]->excused = false;
    }
    leatc_graphs_unlock();
    return result;
}

static int begin(struct leatc_stream *stream, int mode, struct leatc_graph *graph,
                 struct leatc_node *const *before, size_t count) LEATI_REQUIRES(lock)
{
    struct leatc_capture *capture = of_stream(stream) ? NULL : calloc(1, sizeof *capture);
    int result;

    leati_assert_locked(&lock);
    if (!capture)
        return of_stream(stream) ? LEATC_ILLEGAL_STATE : LEATC_OUT_OF_MEMORY;
    result = take_graph(graph, before, count, capture, &stream->ends);
    if (result != LEATC_OK) {
        leatc_ends_clear(&stream->ends);
        free(capture);
        return result;
    }
    leati_assert(capture->graph && !capture->members);
    capture->id = ++latest_id;
    capture->thread = this_thread();
    capture->mode = mode;
    capture->origin = stream;
    capture->next = captures;
    captures = capture;
    add_member(capture, stream);
    atomic_fetch_add(&leatc_captures, 1);
    return LEATC_OK;
}

static int find_and_begin(struct leatc_stream *stream, int mode, struct leatc_graph *graph,
                          struct leatc_node *const *before, size_t count)
{
    struct leatc_stream *found = NULL;
    int result;

    LEATC_TRY(leatc_stream_find(stream, &found));
    if (mode < LEATC_CAPTURE_GLOBAL || mode > LEATC_CAPTURE_RELAXED)
        return LEATC_INVALID_VALUE;
    if (found->legacy)
        return LEATC_CAPTURE_UNSUPPORTED;
    leati_lock(&lock);
    result = begin(found, mode, graph, before, count);
    leati_unlock(&lock);
    return result;
}

int leatc_capture_begin(struct leatc_stream *stream, int mode)
{
    return find_and_begin(stream, mode, NULL, NULL, 0);
}

int leatc_capture_begin_to(struct leatc_stream *stream, struct leatc_graph *graph,
                           struct leatc_node *const *before, const void *data, size_t count, int mode)
{
    LEATC_TRY(leatc_edge_data_check(data, count));
    return graph ? find_and_begin(stream, mode, graph, before, count) : LEATC_INVALID_VALUE;
}

/* Returns OK if the calling thread may end the capture in this stream. */
static int check_end(const struct leatc_stream *stream, const struct leatc_capture *capture)
{
    if (!capture)
        return LEATC_ILLEGAL_STATE;
    if (capture->origin != stream)
        return LEATC_CAPTURE_UNMATCHED;
    return capture->mode == LEATC_CAPTURE_RELAXED || capture->thread == this_thread() ? LEATC_OK
                                                                                      : LEATC_CAPTURE_WRONG_THREAD;
}

static bool is_joined(const struct leatc_capture *capture)
{
    bool joined;

    leati_assert(capture->graph && capture->origin);
    leatc_graphs_lock();
    joined = leatc_graph_is_joined(capture->graph, &capture->origin->ends);
    leatc_graphs_unlock();
    return joined;
}

int leatc_capture_end(struct leatc_stream *stream, struct leatc_graph **graph)
{
    struct leatc_stream *found = NULL;
    struct leatc_capture *capture;
    struct leatc_graph *made = NULL;
    int result;

    LEATC_TRY(leatc_stream_find(stream, &found));
    if (!graph)
        return LEATC_INVALID_VALUE;
    leati_lock(&lock);
    capture = of_stream(found);
    result = check_end(found, capture);
    if (result == LEATC_OK) {
        if (capture->invalid)
            result = LEATC_CAPTURE_INVALIDATED;
        else if (!is_joined(capture))
            result = LEATC_CAPTURE_UNJOINED;
        made = finish(capture, result == LEATC_OK);
        *graph = result == LEATC_OK ? made : NULL;
    }
    leati_unlock(&lock);
    if (made && result != LEATC_OK)
        (void)leatc_graph_destroy(made);
    return result;
}

void leatc_capture_stream_ends(struct leatc_stream *stream)
{
    struct leatc_graph *graph = NULL;
    struct leatc_capture *capture;

    if (!leatc_capturing())
        return;
    leati_lock(&lock);
    capture = of_stream(stream);
    if (capture && capture->origin == stream) {
        graph = finish(capture, false);
    } else if (capture) {
        struct leatc_stream **link = &capture->members;

        while (*link != stream)
            link = &(*link)->next_member;
        *link = stream->next_member;
        let_go(stream);
    }
    leati_unlock(&lock);
    if (graph)
        (void)leatc_graph_destroy(graph);
}

/* Ends one capture that began in a stream of the device. Returns false if there is none. */
static bool end_one_of(struct leatc_device *device)
{
    struct leatc_graph *graph = NULL;
    struct leatc_capture *capture;

    leati_lock(&lock);
    for (capture = captures; capture && capture->origin->device != device;)
        capture = capture->next;
    if (capture)
        graph = finish(capture, false);
    leati_unlock(&lock);
    if (graph)
        (void)leatc_graph_destroy(graph);
    return capture != NULL;
}

void leatc_captures_close(struct leatc_device *device)
{
    while (end_one_of(device))
        continue;
}

int leatc_capture_info(struct leatc_stream *stream, struct leatc_capture_info *info)
{
    struct leatc_stream *found = NULL;
    struct leatc_capture *capture;

    *info = (struct leatc_capture_info){.status = LEATC_CAPTURE_NONE};
    LEATC_TRY(leatc_stream_find(stream, &found));
    if (!leatc_capturing())
        return LEATC_OK;
    if (found->legacy)
        return leatc_capture_refuse_legacy(found->device, false);
    leati_lock(&lock);
    capture = of_stream(found);
    if (capture)
        *info =
            (struct leatc_capture_info){.status = capture->invalid ? LEATC_CAPTURE_INVALID : LEATC_CAPTURE_ACTIVE,
                                        .id = capture->id,
                                        .graph = capture->graph,
                                        .ends = found->ends.nodes,
                                        .end_count = found->ends.count};
    leati_unlock(&lock);
    return LEATC_OK;
}

int leatc_capture_status(struct leatc_stream *stream, int *status, unsigned long long *id)
{
    struct leatc_capture_info info;

    if (!status)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_capture_info(stream, &info));
    *status = info.status;
    if (id && info.status != LEATC_CAPTURE_NONE)
        *id = info.id;
    return LEATC_OK;
}

int leatc_capture_exchange_mode(int *mode)
{
    int before = thread_mode;

    if (!mode || *mode < LEATC_CAPTURE_GLOBAL || *mode > LEATC_CAPTURE_RELAXED)
        return LEATC_INVALID_VALUE;
    thread_mode = *mode;
    *mode = before;
    return LEATC_OK;
}

/* ---- captured work ---- */

int leatc_capture_check(struct leatc_stream *stream, bool *captured)
{
    struct leatc_capture *capture;
    int result = LEATC_OK;

    leati_lock(&lock);
    capture = of_stream(stream);
    *captured = capture != NULL;
    if (capture && capture->invalid)
        result = LEATC_CAPTURE_INVALIDATED;
    leati_unlock(&lock);
    return result;
}

int leatc_capture_refuse(struct leatc_stream *stream)
{
    struct leatc_capture *capture;

    leati_lock(&lock);
    capture = of_stream(stream);
    if (capture)
        capture->invalid = true;
    leati_unlock(&lock);
    return capture ? LEATC_CAPTURE_UNSUPPORTED : LEATC_OK;
}

/* Adds a node with this task to the capture of the stream. child is its child graph, or NULL. The caller holds the
 * lock. */
static int append(struct leatc_stream *stream, struct leatc_task *task, struct leatc_graph *child)
    LEATI_REQUIRES(lock)
{
    int result;

    leati_assert_locked(&lock);
    leatc_graphs_lock();
    result = leatc_graph_append(of_stream(stream)->graph, &stream->ends, task, child);
    leatc_graphs_unlock();
    return result;
}

int leatc_capture_add(struct leatc_work *work, struct leatc_task *task)
{
    int result = LEATC_ILLEGAL_STATE; /* returned if another thread has ended the capture since the caller's
                                       * leatc_work_begin_capturable() */

    task->ordinal = work->ordinal;
    leati_lock(&lock);
    if (of_stream(work->record))
        result = append(work->record, task, NULL);
    leati_unlock(&lock);
    if (result != LEATC_OK)
        leatc_task_drop(task);
    return result;
}

int leatc_capture_alloc(struct leatc_work *work, int ordinal, size_t bytes, void **ptr)
{
    struct leatc_task *task = NULL;
    const struct leatc_alloc_task *made;
    int result = LEATC_ILLEGAL_STATE;

    LEATC_TRY(leatc_device_open(ordinal, NULL)); /* open the device now: it cannot be opened while the lock is
                                                  * held */
    leati_lock(&lock);
    if (of_stream(work->record))
        result = leatc_graph_alloc(of_stream(work->record)->graph->id, ordinal, 0, bytes, &task);
    if (result == LEATC_OK) {
        result = append(work->record, task, NULL);
        made = leatc_task_payload(task);
        if (result == LEATC_OK)
            *ptr = made->ptr;
    }
    leati_unlock(&lock);
    if (result != LEATC_OK)
        leatc_task_drop(task);
    return result;
}

int leatc_capture_free(struct leatc_work *work, void *ptr)
{
    struct leatc_task *task = NULL;
    int result = LEATC_ILLEGAL_STATE;

    leati_lock(&lock);
    if (of_stream(work->record))
        result = leatc_free_make(of_stream(work->record)->graph, ptr, &task);
    if (result == LEATC_OK)
        result = append(work->record, task, NULL);
    leati_unlock(&lock);
    if (result != LEATC_OK)
        leatc_task_drop(task);
    return result;
}

int leatc_capture_child(struct leatc_work *work, const struct leatc_graph *graph)
{
    struct leatc_task *task = leatc_task_new(LEATC_NODE_GRAPH, NULL, NULL, 0);
    struct leatc_holding *holdings = NULL;
    struct leatc_object *ended = NULL;
    struct leatc_graph *child = NULL;
    int result = LEATC_ILLEGAL_STATE;
    bool has_memory;

    leati_lock(&lock);
    leatc_graphs_lock();
    has_memory = leatc_graph_has_memory(graph);
    if (task && !has_memory)
        child = leatc_graph_copy(graph, false);
    leatc_graphs_unlock();
    if (has_memory)
        result = LEATC_NOT_SUPPORTED;
    else if (!child)
        result = LEATC_OUT_OF_MEMORY;
    else if (of_stream(work->record))
        result = append(work->record, task, child);
    if (result != LEATC_OK && child) {
        leatc_graphs_lock();
        leatc_graph_end(child, &holdings);
        leatc_holdings_release(holdings, &ended); /* no reference is the last one, because the executable graph
                                                   * owns as many references */
        leatc_graphs_unlock();
    }
    leati_unlock(&lock);
    if (result != LEATC_OK)
        leatc_task_drop(task);
    return result;
}

/* Adds nodes to the ends of the stream, or replaces the ends. The caller holds both locks. */
static int update_ends(struct leatc_stream *stream, struct leatc_node *const *nodes, size_t count, bool replace)
    LEATI_REQUIRES(leatc_graph_lock) LEATI_REQUIRES(lock)
{
    struct leatc_capture *capture = of_stream(stream);
    struct leatc_ends ends = {NULL, 0};

    leati_assert_locked(&lock);
    if (!capture)
        return LEATC_ILLEGAL_STATE;
    if (capture->invalid)
        return LEATC_CAPTURE_INVALIDATED;
    if (!leatc_nodes_belong(capture->graph, nodes, count))
        return LEATC_INVALID_VALUE;
    /* Build a new list, because nodes may be the stream's own list. */
    if ((!replace && !leatc_ends_join(&ends, stream->ends.nodes, stream->ends.count)) ||
        !leatc_ends_join(&ends, nodes, count)) {
        leatc_ends_clear(&ends);
        return LEATC_OUT_OF_MEMORY;
    }
    for (size_t i = 0; replace && i < stream->ends.count; i++)
        stream->ends.nodes[i]->excused = true;
    leatc_ends_clear(&stream->ends);
    stream->ends = ends;
    return LEATC_OK;
}

int leatc_capture_update(struct leatc_stream *stream, struct leatc_node *const *nodes, const void *data,
                         size_t count, unsigned flags)
{
    struct leatc_stream *found = NULL;
    int result;

    if (flags > 1)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_edge_data_check(data, count));
    LEATC_TRY(leatc_stream_find(stream, &found));
    leati_lock(&lock);
    leatc_graphs_lock();
    result = update_ends(found, nodes, count, flags);
    leatc_graphs_unlock();
    leati_unlock(&lock);
    return result;
}

/* ---- events ---- */

int leatc_capture_record(struct leatc_work *work, struct leatc_captured *event)
{
    struct leatc_capture *capture;
    int result = LEATC_ILLEGAL_STATE;

    leati_lock(&lock);
    capture = of_stream(work->record);
    if (capture) {
        leatc_ends_clear(&event->ends);
        result = leatc_ends_join(&event->ends, work->record->ends.nodes, work->record->ends.count)
                     ? LEATC_OK
                     : LEATC_OUT_OF_MEMORY;
        atomic_store(&event->capture_id, capture->id);
    }
    leati_unlock(&lock);
    return result;
}

void leatc_captured_clear(struct leatc_captured *event)
{
    if (!atomic_load_explicit(&event->capture_id, memory_order_relaxed))
        return;
    leati_lock(&lock);
    leatc_ends_clear(&event->ends);
    atomic_store(&event->capture_id, 0);
    leati_unlock(&lock);
}

static struct leatc_capture *of_id(unsigned long long id) LEATI_REQUIRES(lock)
{
    struct leatc_capture *capture = captures;

    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

int leatc_captured_refuse(struct leatc_captured *event)
{
    unsigned long long id = atomic_load_explicit(&event->capture_id, memory_order_relaxed);
    struct leatc_capture *capture;

    if (__builtin_expect(!id, 1))
        return LEATC_OK;
    leati_lock(&lock);
    capture = of_id(id);
    if (capture)
        capture->invalid = true;
    leati_unlock(&lock);
    return LEATC_CAPTURED_EVENT;
}

/* Makes the stream wait for the nodes that event stores from a capture. The caller holds the lock. */
static int wait_inside(struct leatc_stream *stream, struct leatc_captured *event) LEATI_REQUIRES(lock)
{
    struct leatc_capture *own = of_stream(stream), *others = of_id(atomic_load(&event->capture_id));

    leati_assert_locked(&lock);
    if (!others || (own && own != others)) {
        /* The event was not recorded in a capture, its capture has ended, or the stream is in another capture. */
        if (own)
            own->invalid = true;
        if (others)
            others->invalid = true;
        return others ? LEATC_CAPTURE_MERGE : LEATC_CAPTURE_ISOLATION;
    }
    if (others->invalid)
        return LEATC_CAPTURE_INVALIDATED;
    if (stream->legacy) {
        others->invalid = true;
        return LEATC_CAPTURE_IMPLICIT;
    }
    if (!own)
        add_member(others, stream);
    return leatc_ends_join(&stream->ends, event->ends.nodes, event->ends.count) ? LEATC_OK : LEATC_OUT_OF_MEMORY;
}

int leatc_capture_wait(struct leatc_stream *stream, struct leatc_captured *event, bool *inside)
{
    int result = LEATC_OK;

    leati_lock(&lock);
    *inside = of_stream(stream) || atomic_load(&event->capture_id);
    if (*inside)
        result = wait_inside(stream, event);
    leati_unlock(&lock);
    return result;
}

/* ---- calls that captures forbid ---- */

int leatc_capture_refuse_legacy(struct leatc_device *device, bool invalidate)
{
    int result = LEATC_OK;

    if (!leatc_capturing())
        return LEATC_OK;
    leati_lock(&lock);
    for (struct leatc_capture *capture = captures; capture; capture = capture->next)
        for (struct leatc_stream *stream = capture->members; stream; stream = stream->next_member)
            if (is_blocking(stream) && stream->device == device) {
                capture->invalid |= invalidate;
                result = LEATC_CAPTURE_IMPLICIT;
            }
    leati_unlock(&lock);
    return result;
}

int leatc_capture_refuse_device(struct leatc_device *device)
{
    int result = LEATC_OK;

    if (!leatc_capturing())
        return LEATC_OK;
    leati_lock(&lock);
    for (struct leatc_capture *capture = captures; capture; capture = capture->next)
        for (struct leatc_stream *stream = capture->members; stream; stream = stream->next_member)
            if (stream->device == device) {
                capture->invalid = true;
                result = LEATC_CAPTURE_UNSUPPORTED;
            }
    leati_unlock(&lock);
    return result;
}

/* Returns true if the capture forbids the calling thread to make unsafe calls. */
static bool forbids(const struct leatc_capture *capture)
{
    if (capture->mode == LEATC_CAPTURE_RELAXED || thread_mode == LEATC_CAPTURE_RELAXED)
        return false;
    return capture->thread == this_thread() ||
           (capture->mode == LEATC_CAPTURE_GLOBAL && thread_mode == LEATC_CAPTURE_GLOBAL);
}

int leatc_capture_refuse_unsafe(void)
{
    int result = LEATC_OK;

    if (!leatc_capturing())
        return LEATC_OK;
    leati_lock(&lock);
    for (struct leatc_capture *capture = captures; capture; capture = capture->next)
        if (forbids(capture)) {
            capture->invalid = true;
            result = LEATC_CAPTURE_UNSUPPORTED;
        }
    leati_unlock(&lock);
    return result;
}

int leatc_capture_refuse_sync(struct leatc_stream *stream)
{
    bool legacy = !stream || stream == LEATC_STREAM_LEGACY;
    int result;
    struct leatc_device *device = legacy && leatc_capturing() ? leatc_device_here(&result) : NULL;

    if (device)
        LEATC_TRY(leatc_capture_refuse_legacy(device, true));
    return leatc_capture_refuse_unsafe();
}
