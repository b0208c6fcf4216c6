/*
 * event.c - implements events: leat events with CUDA's flags, and events that several processes share.
 *
 * An event with LEATC_EVENT_INTERPROCESS is a page of shared memory with two counters: recorded is the number of
 * records that were submitted to streams, and reached is the number of the latest record that a stream has
 * reached. A host function in the recording stream advances reached. To wait for the event, a thread or a host
 * function reads recorded once, and waits until reached has that value.
 */
#include "engine/inside.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)

/* The content of the shared page. */
struct counts {
    _Atomic uint64_t recorded, reached;
    _Atomic uint32_t changes; /* incremented when reached advances; waiting threads sleep on this word (futex) */
};

/* This process's mapping of a shared page. The event and its submitted host functions each hold a reference. */
struct shared {
    atomic_uint holders;
    int fd;
    struct counts *counts;
};

struct leatc_event {
    struct leati_handle handle;
    struct leatc_device *device;
    leat_event *native;
    unsigned flags;
    atomic_bool recorded;
    struct shared *shared; /* the page of an interprocess event, else NULL */
    unsigned long long id;
    struct leatc_captured captured;
};

static struct leati_handles events = LEATI_HANDLES(struct leatc_event);
static _Atomic unsigned long long latest_id = 1;

/* ---- the shared page of an interprocess event ---- */

/* Returns true if fd is a memory file with the size and the seals of an event's page. The seals ensure that no
 * process can shrink the file. */
static bool is_page(int fd)
{
    struct stat file;

    return fd >= 0 && leatc_is_sealed(fd, SEALS) && !fstat(fd, &file) && file.st_size == PAGE_BYTES;
}

/* Maps the page in fd. On success the result owns fd; on failure fd is closed. Returns NULL if memory is exhausted
 * or fd is not an event's page. */
static struct shared *hold_page(int fd)
{
    struct shared *shared = calloc(1, sizeof *shared);
    void *page = is_page(fd) ? mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (shared && page != MAP_FAILED) {
        atomic_init(&shared->holders, 1);
        shared->fd = fd;
        shared->counts = page;
        return shared;
    }
    if (page != MAP_FAILED)
        munmap(page, PAGE_BYTES);
    if (fd >= 0)
        close(fd);
    free(shared);
    return NULL;
}

static struct shared *new_page(void)
{
    int fd = memfd_create("leat-event", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && (ftruncate(fd, PAGE_BYTES) || fcntl(fd, F_ADD_SEALS, SEALS))) {
        close(fd);
        fd = -1;
    }
    return hold_page(fd);
}

static void let_go(struct shared *shared)
{
    if (!shared || atomic_fetch_sub(&shared->holders, 1) > 1)
        return;
    munmap(shared->counts, PAGE_BYTES);
    close(shared->fd);
    free(shared);
}

static bool has_reached(const struct shared *shared, uint64_t target)
{
    return atomic_load(&shared->counts->reached) >= target;
}

static void wait_until(struct shared *shared, uint64_t target)
{
    /* The timeout is for the case that the recording process dies before it wakes the waiters. */
    struct timespec moment = {.tv_nsec = 100000000};

    while (!has_reached(shared, target)) {
        /* Read changes before checking reached again. If reached advances in between, changes has another value,
         * so FUTEX_WAIT returns at once and no wake-up is lost. */
        uint32_t changes = atomic_load(&shared->counts->changes);

        if (!has_reached(shared, target))
            (void)syscall(SYS_futex, &shared->counts->changes, FUTEX_WAIT, changes, &moment, NULL, 0);
    }
}

/* The argument of the host functions run_reach() and run_wait(): the page, and the value of reached to set or to
 * wait for. */
struct mark {
    struct shared *shared;
    uint64_t target;
};

static void run_reach(void *argument)
{
    struct mark *mark = argument;
    struct counts *counts = mark->shared->counts;
    uint64_t before = atomic_load(&counts->reached);

    /* Never lower reached: the host functions of several streams and processes may run in any order. */
    while (before < mark->target && !atomic_compare_exchange_weak(&counts->reached, &before, mark->target))
        ;
    atomic_fetch_add(&counts->changes, 1);
    (void)syscall(SYS_futex, &counts->changes, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    let_go(mark->shared);
    free(mark);
}

static void run_wait(void *argument)
{
    struct mark *mark = argument;

    wait_until(mark->shared, mark->target);
    let_go(mark->shared);
    free(mark);
}

static leat_status give_mark(leat_stream *stream, struct shared *shared, uint64_t target, void (*run)(void *))
{
    struct mark *mark = malloc(sizeof *mark);
    leat_status status;

    if (!mark)
        return LEAT_ERROR_HOST_MEMORY;
    *mark = (struct mark){shared, target};
    atomic_fetch_add(&shared->holders, 1);
    status = leat_launch_host(stream, run, mark);
    if (status != LEAT_OK) {
        let_go(shared);
        free(mark);
    }
    return status;
}

/* Submits a record of a shared event. It increments recorded before it submits the record, so that every later
 * wait includes this record. */
static leat_status record_shared(struct shared *shared, leat_stream *stream)
{
    return give_mark(stream, shared, atomic_fetch_add(&shared->counts->recorded, 1) + 1, run_reach);
}

/* ---- events ---- */

int leatc_event_check(struct leatc_event *event)
{
    LEATC_TRY(leatc_check_child());
    return leati_handle_live(&events, event) ? LEATC_OK : LEATC_INVALID_HANDLE;
}

static void end_event(struct leatc_event *event)
{
    if (event->shared)
        leatc_share_end(LEATC_SHARE_EVENT, event->id);
    let_go(event->shared);
    leatc_captured_clear(&event->captured);
    (void)leat_event_destroy(event->native);
    leati_handle_free(&events, event);
}

/* Creates an event. shared: the page of an event that another process created, or NULL for a new event. */
static int create(unsigned flags, struct shared *shared, struct leatc_event **event)
{
    struct leatc_event *made;
    leat_status status;
    int result;
    struct leatc_device *device = leatc_device_here(&result);

    if (!event || flags & ~(LEATC_EVENT_BLOCKING_SYNC | LEATC_EVENT_DISABLE_TIMING | LEATC_EVENT_INTERPROCESS) ||
        (flags & LEATC_EVENT_INTERPROCESS && !(flags & LEATC_EVENT_DISABLE_TIMING)))
        return LEATC_INVALID_VALUE;
    if (!device)
        return result;
    made = leati_handle_new(&events);
    if (!made)
        return LEATC_OUT_OF_MEMORY;
    made->device = device;
    made->flags = flags;
    made->id = atomic_fetch_add(&latest_id, 1);
    status = leat_event_create(atomic_load(&device->native), &made->native);
    if (status == LEAT_OK && flags & LEATC_EVENT_INTERPROCESS && !shared && !(made->shared = new_page()))
        status = LEAT_ERROR_HOST_MEMORY;
    if (status != LEAT_OK) {
        end_event(made);
        return leatc_result_of(status);
    }
    if (shared)
        made->shared = shared;
    leati_handle_publish(made);
    *event = made;
    return LEATC_OK;
}

int leatc_event_create(unsigned flags, struct leatc_event **event)
{
    return create(flags, NULL, event);
}

int leatc_share_event(struct leatc_event *event, void *handle)
{
    int fd, result;

    LEATC_TRY(leatc_event_check(event));
    if (!event->shared)
        return LEATC_INVALID_VALUE;
    fd = fcntl(event->shared->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return LEATC_OPERATING_SYSTEM;
    result = leatc_share_offer(LEATC_SHARE_EVENT, event->id, PAGE_BYTES, fd, handle);
    if (result != LEATC_OK)
        close(fd);
    return result;
}

int leatc_share_open_event(const void *handle, struct leatc_event **event)
{
    struct shared *shared;
    size_t bytes;
    int fd, result;

    if (!event)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_share_ask(handle, LEATC_SHARE_EVENT, &bytes, &fd));
    shared = hold_page(fd);
    if (!shared)
        return LEATC_OUT_OF_MEMORY;
    result = create(LEATC_EVENT_INTERPROCESS | LEATC_EVENT_DISABLE_TIMING, shared, event);
    if (result != LEATC_OK)
        let_go(shared);
    return result;
}

int leatc_event_destroy(struct leatc_event *event)
{
    LEATC_TRY(leatc_check_child());
    if (!leati_handle_retire(&events, event))
        return LEATC_INVALID_HANDLE;
    end_event(event);
    return LEATC_OK;
}

static void close_event(void *object, void *device)
{
    struct leatc_event *event = object;

    if (event->device == device && leati_handle_retire(&events, event))
        end_event(event);
}

void leatc_events_close(struct leatc_device *device)
{
    leati_handles_each(&events, close_event, device);
}

/* Records the event in a stream. The event and the stream belong to the same device. */
static int record(struct leatc_event *event, struct leatc_work *work)
{
    if (event->shared)
        return leatc_work_end(work, record_shared(event->shared, work->stream));
    LEATC_TRY(leatc_result_of(leat_event_record(work->stream, event->native)));
    atomic_store_explicit(&event->recorded, true, memory_order_release);
    /* A record in the legacy default stream counts as work, so later work of blocking streams waits for it. */
    return work->record->legacy ? leatc_work_end(work, LEAT_OK) : LEATC_OK;
}

/* Checks that the event is live and that the stream belongs to its device. Begins work on the stream. */
static int begin_record(struct leatc_event *event, struct leatc_stream *stream, struct leatc_work *work)
{
    LEATC_TRY(leatc_event_check(event));
    LEATC_TRY(leatc_work_begin_capturable(stream, work));
    return work->record->device == event->device ? LEATC_OK : LEATC_INVALID_HANDLE;
}

int leatc_event_record(struct leatc_event *event, struct leatc_stream *stream)
{
    struct leatc_work work;

    LEATC_TRY(begin_record(event, stream, &work));
    if (work.captured)
        return leatc_capture_record(&work, &event->captured);
    leatc_captured_clear(&event->captured);
    return record(event, &work);
}

static int run_record(const void *payload, struct leatc_work *work)
{
    struct leatc_event *event = *(struct leatc_event *const *)payload;

    LEATC_TRY(leatc_event_check(event));
    return record(event, work);
}

static int run_wait_external(const void *payload, struct leatc_work *work);

int leatc_event_make(int type, struct leatc_event *event, struct leatc_task **task)
{
    LEATC_TRY(leatc_event_check(event));
    LEATC_TRY(leatc_task_create(type, type == LEATC_NODE_RECORD ? run_record : run_wait_external, NULL, &event,
                                sizeof(struct leatc_event *), task));
    (*task)->ordinal = event->device->ordinal;
    return LEATC_OK;
}

static int capture_event(struct leatc_work *work, int type, struct leatc_event *event)
{
    struct leatc_task *task;

    LEATC_TRY(leatc_event_make(type, event, &task));
    return leatc_capture_add(work, task);
}

int leatc_event_record_external(struct leatc_event *event, struct leatc_stream *stream)
{
    struct leatc_work work;

    LEATC_TRY(begin_record(event, stream, &work));
    leatc_captured_clear(&event->captured);
    if (work.captured)
        return capture_event(&work, LEATC_NODE_RECORD, event);
    return record(event, &work);
}

int leatc_event_synchronize(struct leatc_event *event)
{
    int result;

    LEATC_TRY(leatc_event_check(event));
    LEATC_TRY(leatc_captured_refuse(&event->captured));
    if (event->shared) {
        wait_until(event->shared, atomic_load(&event->shared->counts->recorded));
        return LEATC_OK;
    }
    result = leatc_result_of(leat_event_synchronize(event->native));
    leatc_pools_waited(event->device);
    return result;
}

int leatc_event_query(struct leatc_event *event)
{
    LEATC_TRY(leatc_event_check(event));
    LEATC_TRY(leatc_captured_refuse(&event->captured));
    if (event->shared)
        return has_reached(event->shared, atomic_load(&event->shared->counts->recorded)) ? LEATC_OK
                                                                                         : LEATC_NOT_READY;
    return leatc_result_of(leat_event_query(event->native));
}

static int check_timed(struct leatc_event *event)
{
    LEATC_TRY(leatc_event_check(event));
    return !(event->flags & LEATC_EVENT_DISABLE_TIMING) &&
                   atomic_load_explicit(&event->recorded, memory_order_acquire)
               ? LEATC_OK
               : LEATC_INVALID_HANDLE;
}

int leatc_event_elapsed(float *milliseconds, struct leatc_event *start, struct leatc_event *end)
{
    double elapsed = 0;

    if (!milliseconds)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_timed(start));
    LEATC_TRY(check_timed(end));
    LEATC_TRY(leatc_captured_refuse(&start->captured));
    LEATC_TRY(leatc_captured_refuse(&end->captured));
    if (start->device != end->device)
        return LEATC_INVALID_HANDLE;
    LEATC_TRY(leatc_result_of(leat_event_elapsed(start->native, end->native, &elapsed)));
    *milliseconds = (float)elapsed;
    return LEATC_OK;
}

/* Makes the stream wait for the latest record of the event. */
static int wait_for(struct leatc_event *event, struct leatc_work *work)
{
    if (event->shared)
        return leatc_work_end(
            work, give_mark(work->stream, event->shared, atomic_load(&event->shared->counts->recorded), run_wait));
    return leatc_work_end(work, leat_stream_wait(work->stream, event->native));
}

int leatc_stream_wait(struct leatc_stream *stream, struct leatc_event *event)
{
    struct leatc_stream *found = NULL;
    struct leatc_work work;
    bool inside = false;

    LEATC_TRY(leatc_event_check(event));
    if (leatc_capturing() || atomic_load_explicit(&event->captured.capture_id, memory_order_relaxed)) {
        LEATC_TRY(leatc_stream_find(stream, &found));
        LEATC_TRY(leatc_capture_wait(found, &event->captured, &inside));
        if (inside)
            return LEATC_OK;
    }
    LEATC_TRY(leatc_work_begin(stream, &work));
    return wait_for(event, &work);
}

static int run_wait_external(const void *payload, struct leatc_work *work)
{
    struct leatc_event *event = *(struct leatc_event *const *)payload;

    LEATC_TRY(leatc_event_check(event));
    return wait_for(event, work);
}

int leatc_stream_wait_external(struct leatc_stream *stream, struct leatc_event *event)
{
    struct leatc_work work;

    LEATC_TRY(leatc_event_check(event));
    LEATC_TRY(leatc_captured_refuse(&event->captured));
    LEATC_TRY(leatc_work_begin_capturable(stream, &work));
    if (work.captured)
        return capture_event(&work, LEATC_NODE_WAIT, event);
    return wait_for(event, &work);
}
