/* stage.c - see stage.h. */
#include "copy/stage.h"

#include "base/catch.h"
#include "base/options.h"
#include "copy/lend.h"
#include "copy/links.h"
#include "copy/small.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS_BYTES ((size_t)4096) /* in front of the ring, which starts on a page of its own */
#define RING_USUAL_BYTES ((uint64_t)64 << 20)
#define RING_LEAST_BYTES ((uint64_t)256 << 10)
#define COLD_LEAST_BYTES ((size_t)1 << 20) /* below that the look costs more than it may save */
#define PROBE_BYTES ((size_t)8 << 20)
#define MEMORY_USUAL_BYTES ((uint64_t)1 << 30)

/* Guards the lists of issued jobs and whatever job.h says. Held for a few loads and stores, and for pool calls. */
static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t make_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- a device's stager ---- */

static leat_status device_closes(struct leat_device *device);

static const struct leati_copy_hooks hooks = {
    .stream_ends = leati_small_stream_ends, .device_closes = device_closes, .wait_begins = leati_lend_wait_begins};

void leati_copy_set_hooks(leat_device *device)
{
    /* Release: pairs with the acquire of those who call them. */
    atomic_store_explicit(&device->copy_hooks, &hooks, memory_order_release);
}

/* An eighth of the machine's memory, but no more than usual. */
static uint64_t usual_memory(void)
{
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    return machine / 8 < MEMORY_USUAL_BYTES ? machine / 8 : MEMORY_USUAL_BYTES;
}

/* Tries on a stream of its own whether the driver can wait for words: what it cannot is found out in no other
 * way. */
static leat_status try_values(struct leati_stager *stager)
{
    leat_device *device = stager->device;
    struct leati_driver *driver = device->driver;
    struct leati_words *words = leati_stager_take(stager, sizeof *words);
    struct leati_value values[2];
    leat_status status, ended;
    void *stream;

    if (!words)
        return LEAT_ERROR_HOST_MEMORY;
    atomic_init(&words->ready, 1);
    atomic_init(&words->passed, 0);
    values[0] = (struct leati_value){.word = &words->ready, .value = 1, .wait = true};
    values[1] = (struct leati_value){.word = &words->passed, .value = 1};
    status = driver->ops->stream_create(driver, device->native, &stream);
    if (status != LEAT_OK) {
        leati_stager_give_back(words);
        return status;
    }
    status = driver->ops->stream_values(driver, stream, values, 2);
    ended = driver->ops->stream_synchronize(driver, stream);
    /* Where it cannot be waited for, it may still write its word. */
    if (ended == LEAT_OK)
        leati_stager_give_back(words);
    else
        leati_stager_lose(stager, words);
    status = status == LEAT_OK ? ended : status;
    ended = driver->ops->stream_destroy(driver, stream);
    return status == LEAT_OK ? ended : status;
}

static leat_status set_up(struct leati_stager *stager)
{
    leat_pool_options cached = {.size = sizeof cached, .name = "staging", .kind = LEAT_KIND_PINNED};
    leat_pool_options streamed = {.size = sizeof streamed, .name = "staging, streamed", .kind = LEAT_KIND_PINNED};
    leat_device_info info = {.numa_node = -1};
    leat_status status;
    void *slot;

    /* The handlers of faults come with the first use of staging, not at some later copy. */
    (void)leati_catch_ready();
    LEATI_TRY(leati_option_number(LEATI_OPTION_COPY_RING, RING_LEAST_BYTES, (uint64_t)1 << 40, RING_USUAL_BYTES,
                                  &stager->ring_bytes));
    LEATI_TRY(leati_option_number(LEATI_OPTION_COPY_MEMORY, RING_LEAST_BYTES, (uint64_t)1 << 50, usual_memory(),
                                  &stager->limit_bytes));
    LEATI_TRY(leat_device_query(stager->device, &info));
    LEATI_TRY(leat_pool_create(stager->device, &cached, &stager->pools[LEATI_STORES_CACHED]));
    LEATI_TRY(leat_pool_create(stager->device, &streamed, &stager->pools[LEATI_STORES_STREAMING]));
    LEATI_TRY(try_values(stager));
    LEATI_TRY(leati_team_get(info.numa_node, stager->device->driver->device_count, &stager->team));
    slot = leati_stager_take(stager, PROBE_BYTES);
    if (!slot)
        return LEAT_ERROR_HOST_MEMORY;
    status = leati_bytes_choose(slot, PROBE_BYTES, leati_team_share(stager->team), &stager->choice);
    leati_stager_give_back(slot);
    return status;
}

static void tear_down(struct leati_stager *stager)
{
    if (stager->team)
        leati_team_put(stager->team);
    stager->team = NULL;
    for (int i = 0; i < 2; i++) {
        if (stager->pools[i])
            (void)leat_pool_destroy(stager->pools[i]);
        stager->pools[i] = NULL;
    }
}

static leat_status make(leat_device *device, struct leati_stager **made)
{
    struct leati_stager *stager = calloc(1, sizeof *stager);
    struct leati_sentence before;
    leat_status status;

    if (!stager)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the device's staging");
    stager->device = device;
    if (!device->driver->ops->stream_values) {
        snprintf(stager->refused, sizeof stager->refused, "the driver's streams cannot wait for words in memory");
    } else {
        leati_error_keep(&before);
        status = set_up(stager);
        if (status != LEAT_OK && !stager->lost)
            tear_down(stager);
        if (status != LEAT_OK && status != LEAT_ERROR_UNSUPPORTED && !stager->lost) {
            free(stager);
            return status;
        }
        if (status != LEAT_OK) {
            snprintf(stager->refused, sizeof stager->refused, "%s", leat_last_error());
            leati_error_restore(status, &before);
        }
    }
    leati_copy_set_hooks(device);
    /* Release: pairs with the acquire of those who find it. */
    atomic_store_explicit(&device->stager, stager, memory_order_release);
    *made = stager;
    return LEAT_OK;
}

leat_status leati_stager_get(leat_device *device, struct leati_stager **stager)
{
    leat_status status = LEAT_OK;

    *stager = atomic_load_explicit(&device->stager, memory_order_acquire);
    if (*stager)
        return LEAT_OK;
    pthread_mutex_lock(&make_lock);
    *stager = atomic_load_explicit(&device->stager, memory_order_acquire);
    if (!*stager)
        status = make(device, stager);
    pthread_mutex_unlock(&make_lock);
    return status;
}

static void *take_from(leat_pool *pool, size_t bytes)
{
    void *block;

    return leat_pool_alloc(pool, NULL, bytes, &block) == LEAT_OK ? block : NULL;
}

void *leati_stager_take(struct leati_stager *stager, size_t bytes)
{
    return take_from(stager->pools[LEATI_STORES_CACHED], bytes);
}

void leati_stager_lose(struct leati_stager *stager, void *block)
{
    struct leati_lost *lost = malloc(sizeof *lost);

    if (!lost)
        return; /* it stays for ever, which harms nobody */
    lost->block = block;
    pthread_mutex_lock(&jobs_lock);
    lost->next = stager->lost;
    stager->lost = lost;
    pthread_mutex_unlock(&jobs_lock);
}

enum leati_stores leati_stage_stores(const struct leati_stager *stager, enum leati_way way, size_t bytes)
{
    if (way == LEATI_WAY_OUT)
        return stager->choice.out;
    /* What the DMA reads for the first time it reads faster from memory than from the caches of other processors;
     * a ring that goes round stays in the caches (measured on an H200). */
    if (way == LEATI_WAY_IN && stager->choice.probed && bytes <= stager->ring_bytes)
        return LEATI_STORES_STREAMING;
    return stager->choice.in;
}

void leati_stager_give_back(void *block)
{
    (void)leat_memory_free(block);
}

/* ---- the end of a job ---- */

void leati_stager_keep(struct leati_stager *stager, struct leati_job *job)
{
    pthread_mutex_lock(&jobs_lock);
    job->stager = stager;
    job->next_issued = stager->issued;
    stager->issued = job;
    pthread_mutex_unlock(&jobs_lock);
}

void leati_job_let_go(struct leati_job *job)
{
    /* Release and acquire: the last holder frees what the others have finished using. */
    if (atomic_fetch_sub_explicit(&job->holders, 1, memory_order_acq_rel) != 1)
        return;
    leati_order_let_go(job->order);
    free(job->chunks);
    free(job);
}

/* Bytes that are known to be at dst. Under the lock, while the words are there. */
static size_t arrived(const struct leati_job *job)
{
    uint32_t chunks = atomic_load_explicit(&job->words->ready, memory_order_acquire), passed;
    size_t bytes, most = atomic_load_explicit(&job->stopped_at, memory_order_relaxed);

    if (job->way == LEATI_WAY_IN) {
        passed = atomic_load_explicit(&job->words->passed, memory_order_acquire);
        chunks = passed > 1 ? passed - 1 : 0;
    }
    bytes = chunks >= job->count ? job->bytes : job->chunks[chunks].offset;
    return bytes < most ? bytes : most;
}

static bool is_done(const struct leati_job *job)
{
    uint32_t passed = atomic_load_explicit(&job->words->passed, memory_order_acquire);

    /* What the threads do is in front of the last of them, by which the stream waited for it. */
    return (int32_t)(passed - job->end) >= 0;
}

/* Nobody but the ticket has the job any more: its memory goes back. Under the lock. */
static void finish(struct leati_job *job)
{
    struct leati_stager *stager = job->stager;

    job->arrived_bytes = arrived(job);
    job->over = true;
    job->stager = NULL;
    stager->held_bytes -= job->held_bytes;
    leati_stager_give_back(job->words);
    job->words = NULL;
    leati_order_let_go(job->order);
    job->order = NULL;
    leati_job_let_go(job);
}

/* Ends the jobs whose streams have got past them. Under the lock. */
static void reap(struct leati_stager *stager)
{
    struct leati_job **place = &stager->issued, *job;

    while ((job = *place)) {
        if (!is_done(job)) {
            place = &job->next_issued;
            continue;
        }
        /* Its last thread may still be on its way out. */
        leati_team_remove(stager->team, job);
        *place = job->next_issued;
        finish(job);
    }
}

static leat_status device_closes(struct leat_device *device)
{
    struct leati_stager *stager = atomic_load_explicit(&device->stager, memory_order_acquire);
    struct leati_job *job;
    leat_status status = LEAT_OK;

    leati_links_close(device);
    if (!stager)
        return LEAT_OK;
    /* The streams have ended by now, each with a last word to write, and one that could not be waited for may be
     * on its way to one. */
    if (stager->team || stager->lost)
        status = device->driver->ops->device_synchronize(device->driver, device->native);
    /* Once more: only when the device is lost does nobody write the words any more. */
    if (status != LEAT_OK)
        (void)device->driver->ops->device_synchronize(device->driver, device->native);
    pthread_mutex_lock(&jobs_lock);
    /* All work is done, or the device is lost and will never do it. */
    while ((job = stager->issued)) {
        leati_team_remove(stager->team, job);
        stager->issued = job->next_issued;
        if (!is_done(job)) {
            leati_job_stop(job, LEAT_ERROR_DEVICE_LOST);
            atomic_store_explicit(&job->stopped_at, arrived(job), memory_order_relaxed);
        }
        finish(job);
    }
    pthread_mutex_unlock(&jobs_lock);
    if (stager->team)
        leati_team_put(stager->team);
    while (stager->lost) {
        struct leati_lost *lost = stager->lost;

        stager->lost = lost->next;
        leati_stager_give_back(lost->block);
        free(lost);
    }
    for (int i = 0; i < 2; i++) {
        leat_status ended = stager->pools[i] ? leat_pool_destroy(stager->pools[i]) : LEAT_OK;

        status = status == LEAT_OK ? ended : status;
    }
    atomic_store_explicit(&device->stager, NULL, memory_order_relaxed);
    free(stager);
    return status;
}

/* ---- the start of a job ---- */

/* Memory for a ring of wanted bytes, or of fewer while much is in use; waits only when all that is allowed is in
 * use. NULL, with a sentence, when there is none to be had. */
static void *take_ring(struct leati_stager *stager, enum leati_stores stores, size_t wanted, size_t least,
                       size_t *got)
{
    struct leati_driver *driver = stager->device->driver;
    struct timespec pause = {.tv_nsec = 50000};
    void *block;

    for (unsigned looks = 1;; looks++) {
        uint64_t left, most, free_bytes, total_bytes;

        pthread_mutex_lock(&jobs_lock);
        reap(stager);
        left = stager->limit_bytes > stager->held_bytes ? stager->limit_bytes - stager->held_bytes : 0;
        /* A share of what is left, so that many streams that are held up can each have one. */
        most = left / 8 > least ? left / 8 : least;
        *got = wanted < most ? wanted : (size_t)(most / WORDS_BYTES * WORDS_BYTES);
        if (*got + WORDS_BYTES <= left || !stager->held_bytes) {
            stager->held_bytes += *got + WORDS_BYTES;
            pthread_mutex_unlock(&jobs_lock);
            break;
        }
        pthread_mutex_unlock(&jobs_lock);
        /* Copies of a device that is lost never end: any call that needs it says so. */
        if (looks % 256 == 0 &&
            driver->ops->device_memory(driver, stager->device->native, &free_bytes, &total_bytes) != LEAT_OK)
            return NULL;
        nanosleep(&pause, NULL);
    }
    block = take_from(stager->pools[stores], *got + WORDS_BYTES);
    if (block)
        return block;
    pthread_mutex_lock(&jobs_lock);
    stager->held_bytes -= *got + WORDS_BYTES;
    pthread_mutex_unlock(&jobs_lock);
    return NULL;
}

/* Chunks are whole rows where DMA puts rows into their places: in bytes, or 0. */
static size_t chunk_unit(const struct leati_stage_request *request)
{
    enum leati_box_side placed = request->way == LEATI_WAY_IN ? LEATI_BOX_DST : LEATI_BOX_SRC;
    const struct leati_staged_box *box = request->box;

    return box && request->way != LEATI_WAY_HOST && !leati_box_is_dense(&box->box, placed) ? box->box.width_bytes
                                                                                           : 0;
}

/* Fills in the chunks of a job. False: no memory. */
static bool cut_job(struct leati_job *job, const struct leati_stager *stager,
                    const struct leati_stage_request *request, size_t bytes, size_t ring_bytes)
{
    struct leati_cut cut = {.bytes = bytes,
                            .ring_bytes = ring_bytes,
                            .most_bytes = request->route ? LEATI_LINK_CHUNK_BYTES : 0,
                            .unit_bytes = chunk_unit(request),
                            .out = request->way == LEATI_WAY_OUT,
                            .threads = leati_team_share(stager->team)};

    job->count = request->list ? 1 : leati_cut_chunks(&cut, NULL);
    job->chunks = calloc(job->count, sizeof *job->chunks);
    if (!job->chunks)
        return false;
    if (request->list)
        *job->chunks = (struct leati_chunk){.bytes = bytes, .parts = (uint32_t)bytes, .part_bytes = 1};
    else
        leati_cut_chunks(&cut, job->chunks);
    return true;
}

/* bytes: of the copy, or the number of copies in a list. */
static struct leati_job *new_job(struct leati_stager *stager, const struct leati_stage_request *request,
                                 size_t bytes)
{
    enum leati_stores stores = leati_stage_stores(stager, request->way, bytes);
    size_t wanted = request->way == LEATI_WAY_HOST ? 0 : leati_ring_bytes(bytes, (size_t)stager->ring_bytes);
    size_t unit_bytes = chunk_unit(request), ring_bytes;
    /* A chunk of one unit must fit. */
    size_t least = unit_bytes > RING_LEAST_BYTES ? leati_ring_bytes(unit_bytes, SIZE_MAX) : RING_LEAST_BYTES;
    struct leati_job *job = calloc(1, sizeof *job);

    if (!job)
        return NULL;
    job->stores = stores;
    job->words = take_ring(stager, stores, wanted, least, &ring_bytes);
    if (!job->words)
        goto free_job;
    if (!cut_job(job, stager, request, bytes, ring_bytes))
        goto give_ring_back;
    atomic_init(&job->words->ready, 0);
    atomic_init(&job->words->passed, 0);
    job->ring = (char *)job->words + WORDS_BYTES;
    job->held_bytes = ring_bytes + WORDS_BYTES;
    return job;

give_ring_back:
    leati_stager_give_back(job->words);
    pthread_mutex_lock(&jobs_lock);
    stager->held_bytes -= ring_bytes + WORDS_BYTES;
    pthread_mutex_unlock(&jobs_lock);
free_job:
    free(job);
    return NULL;
}

static struct leati_value write_passed(struct leati_job *job, uint32_t value)
{
    return (struct leati_value){.word = &job->words->passed, .value = value};
}

static struct leati_value wait_ready(struct leati_job *job, uint32_t value)
{
    return (struct leati_value){.word = &job->words->ready, .value = value, .wait = true};
}

static struct leati_end move_end(struct leati_end end, size_t bytes)
{
    end.ptr = (char *)end.ptr + bytes;
    return end;
}

/* The DMA of one chunk: in, from the ring to the device, or out. ring: the chunk's place. */
static leat_status move_chunk(const struct leati_job *job, leat_stream *stream, void *native,
                              const struct leati_stage_request *request, const struct leati_chunk *chunk,
                              struct leati_end ring, struct leati_end placed)
{
    struct leati_driver *driver = stream->device->driver;
    bool in = job->way == LEATI_WAY_IN;
    size_t row_bytes = chunk_unit(request);

    if (row_bytes)
        return leati_box_move_packed(stream, request->box->by, in ? LEATI_BOX_DST : LEATI_BOX_SRC, placed, ring,
                                     &request->box->box, chunk->offset / row_bytes, chunk->bytes / row_bytes);
    placed = move_end(placed, chunk->offset);
    return in ? driver->ops->copy(driver, native, placed, ring, chunk->bytes)
              : driver->ops->copy(driver, native, ring, placed, chunk->bytes);
}

/* Gives the stream its side of the job. Words that follow one another go in one call, which halves the gap that
 * they leave between two DMAs. */
static leat_status issue(struct leati_job *job, leat_stream *stream, const struct leati_stage_request *request,
                         const struct leati_target *to, const struct leati_target *from)
{
    struct leati_end placed = job->way == LEATI_WAY_IN ? to->end : from->end;
    struct leati_driver *driver = stream->device->driver;
    struct leati_route *route = request->route;
    void *native = route ? leati_route_stream(route) : stream->native;
    struct leati_value values[4];
    unsigned given = 0;

    if (!job->early)
        values[given++] = write_passed(job, 1);
    for (uint32_t c = 0; c < job->count && job->way != LEATI_WAY_HOST; c++) {
        const struct leati_chunk *chunk = &job->chunks[c];
        struct leati_end ring = {.ptr = job->ring + chunk->place, .kind = LEAT_KIND_PINNED};
        uint32_t ready = job->way == LEATI_WAY_IN ? c + 1 : chunk->after;

        if (ready)
            values[given++] = wait_ready(job, ready);
        if (given)
            LEATI_TRY(driver->ops->stream_values(driver, native, values, given));
        given = 0;
        if (route)
            LEATI_TRY(leati_route_copy(route, move_end(to->end, chunk->offset), ring, chunk->bytes));
        else
            LEATI_TRY(move_chunk(job, stream, native, request, chunk, ring, placed));
        values[given++] = write_passed(job, c + 2);
    }
    if (job->way != LEATI_WAY_IN) {
        values[given++] = wait_ready(job, job->count);
        values[given++] = write_passed(job, job->end);
    }
    return driver->ops->stream_values(driver, native, values, given);
}

/* The stream was given a part of the job only: lets it run through that part, and waits until it has. When that
 * fails too, the device is lost, and the job's memory stays until its close. */
static void abandon(struct leati_stager *stager, struct leati_job *job, leat_stream *stream,
                    const struct leati_route *route)
{
    void *native = route ? leati_route_stream(route) : stream->native;
    struct leati_driver *driver = stream->device->driver;
    struct leati_sentence why;

    leati_error_keep(&why);
    leati_job_stop(job, LEAT_ERROR_DRIVER);
    leati_team_remove(stager->team, job);
    atomic_store_explicit(&job->stopped_at, 0, memory_order_relaxed);
    atomic_store_explicit(&job->words->ready, job->count, memory_order_release);
    if (driver->ops->stream_synchronize(driver, native) == LEAT_OK)
        atomic_store_explicit(&job->words->passed, job->end, memory_order_release);
    pthread_mutex_lock(&jobs_lock);
    reap(stager);
    pthread_mutex_unlock(&jobs_lock);
    leati_error_restore(LEAT_ERROR_DRIVER, &why);
}

static struct leati_rows rows_of(const leat_copy_box *box, enum leati_box_side side, const void *base)
{
    bool dst = side == LEATI_BOX_DST;

    return (struct leati_rows){.base = (char *)base,
                               .width = box->width_bytes,
                               .pitch = dst ? box->dst_pitch_bytes : box->src_pitch_bytes,
                               .height = box->height,
                               .slice = dst ? box->dst_slice_bytes : box->src_slice_bytes};
}

/* What the threads will touch, and which pages of it there will be a use for. */
static void set_reach(struct leati_job *job, const struct leati_staged_box *staged)
{
    const leat_copy_box *box = staged ? &staged->box : NULL;

    job->reach_bytes = job->way == LEATI_WAY_IN || job->copy_list ? 0 : job->bytes;
    if (box) {
        job->in_rows = true;
        job->to_rows = rows_of(box, LEATI_BOX_DST, job->dst);
        job->from_rows = rows_of(box, LEATI_BOX_SRC, job->src);
        /* Gaps of many pages are left as they are. */
        if (job->reach_bytes && leati_box_reach(box, LEATI_BOX_DST) / 2 <= job->bytes)
            job->reach_bytes = leati_box_reach(box, LEATI_BOX_DST);
        else
            job->reach_bytes = 0;
    }
    atomic_init(&job->prefaulted, leati_bytes_resident(job->dst, job->reach_bytes) ? job->reach_bytes : 0);
}

leat_status leati_stage_start(struct leati_stager *stager, leat_stream *stream, const struct leati_target *to,
                              const struct leati_target *from, size_t bytes,
                              const struct leati_stage_request *request, struct leati_job **started)
{
    struct leati_sentence before;
    struct leati_job *job;
    leat_status status;

    leati_error_keep(&before);
    job = new_job(stager, request, bytes);
    if (!job) {
        leati_error_restore(LEAT_NOT_READY, &before);
        return LEAT_NOT_READY;
    }
    job->way = request->way;
    job->early = request->early && (request->way == LEATI_WAY_IN || request->list);
    job->dst = to->end.ptr;
    job->src = from->end.ptr;
    job->bytes = bytes;
    job->end = job->way == LEATI_WAY_IN ? job->count + 1 : job->count + 2;
    job->deadline_ns = request->deadline_ns;
    atomic_init(&job->holders, started ? 2 : 1);
    atomic_init(&job->stopped_at, bytes);
    atomic_init(&job->fault, UINTPTR_MAX);
    job->cold = job->way == LEATI_WAY_IN && bytes >= COLD_LEAST_BYTES && !request->box &&
                !leati_bytes_resident(job->src, bytes);
    if (request->list) {
        job->copy_list = request->list->copy;
        job->list = request->list->list;
    }
    set_reach(job, request->box);
    leati_order_hold(stream->order);
    job->order = stream->order;
    leati_stager_keep(stager, job);
    if (request->here)
        leati_job_work(job);
    else
        leati_team_add(stager->team, job);
    leati_stream_piece_begins(stream);
    status = issue(job, stream, request, to, from);
    leati_stream_piece_ends(stream);
    if (request->way != LEATI_WAY_IN && !(request->list && request->list->scratch))
        leati_stream_writes_host(stream);
    if (status != LEAT_OK) {
        abandon(stager, job, stream, request->route);
        if (started)
            leati_job_let_go(job);
        return status;
    }
    if (started)
        *started = job;
    return LEAT_OK;
}

/* ---- looking ---- */

void leati_job_sentence(const struct leati_job *job, char *text, size_t bytes)
{
    leat_status why = atomic_load_explicit(&job->stopped, memory_order_relaxed);
    size_t at = atomic_load_explicit(&job->stopped_at, memory_order_relaxed);

    switch (why) {
    case LEAT_OK:
        snprintf(text, bytes, "%s", "");
        break;
    case LEAT_ERROR_POINTER:
        if (job->copy_list)
            snprintf(
                text, bytes,
                "a copy between layouts from %p to %p stopped: the pageable memory at %p could not be reached "
                "(unmapped, protected, or its file shrank); keep it until the stream has got past the copy",
                (const void *)job->src, (void *)job->dst,
                (void *)atomic_load_explicit(&job->fault, memory_order_relaxed));
        else
            snprintf(text, bytes,
                     "a copy of %zu bytes from %p to %p stopped after %zu bytes: the pageable memory at %p could "
                     "not be "
                     "reached (unmapped, protected, or its file shrank); keep it until the stream has got past "
                     "the copy",
                     job->bytes, (const void *)job->src, (void *)job->dst, at,
                     (void *)atomic_load_explicit(&job->fault, memory_order_relaxed));
        break;
    default:
        snprintf(text, bytes, "a copy of %zu bytes from %p to %p stopped after %zu bytes: %s", job->bytes,
                 (const void *)job->src, (void *)job->dst, at, leat_status_text(why));
        break;
    }
}

void leati_job_look(struct leati_job *job, struct leati_job_state *state)
{
    pthread_mutex_lock(&jobs_lock);
    /* The last point first, since the others are reached before it and the copy goes on meanwhile. */
    state->done = job->over || is_done(job);
    state->staged = state->done || leati_job_staged(job);
    state->arrived_bytes = job->over ? job->arrived_bytes : arrived(job);
    /* A copy that was told to stop when all was copied already did not stop. */
    state->status = LEAT_OK;
    if (atomic_load_explicit(&job->stopped_at, memory_order_relaxed) < job->bytes)
        state->status = (leat_status)atomic_load_explicit(&job->stopped, memory_order_relaxed);
    pthread_mutex_unlock(&jobs_lock);
}

bool leati_job_lend(struct leati_job *job)
{
    struct leati_team *team = NULL;

    /* Its team is there until the job is over, which waits for those who entered. */
    pthread_mutex_lock(&jobs_lock);
    if (!job->over && leati_team_enter(job->stager->team, job))
        team = job->stager->team;
    pthread_mutex_unlock(&jobs_lock);
    return team && leati_team_work(team, job);
}
