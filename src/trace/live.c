/* live.c - see live.h. */
#include "trace/live.h"

#include "base/clock.h"
#include "trace/trace_strings.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* Linux before 5.1 cannot forbid later writing without forbidding this mapping; there only the mode protects. */
static void seal(int fd)
{
    (void)fchmod(fd, 0400);
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

static bool map(struct leati_live_counters *live)
{
    struct stat status;
    void *shared;

    if (ftruncate(live->fd, sizeof live->now) || fstat(live->fd, &status))
        return false;
    shared = mmap(NULL, sizeof live->now, PROT_READ | PROT_WRITE, MAP_SHARED, live->fd, 0);
    if (shared == MAP_FAILED)
        return false;
    live->shared = shared;
    live->file[0] = status.st_dev;
    live->file[1] = status.st_ino;
    return true;
}

void leati_live_open(struct leati_live_counters *live, const char *path, bool host_only)
{
    *live = (struct leati_live_counters){.fd = memfd_create(LEATI_LIVE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (live->fd < 0)
        return;
    if (!map(live)) {
        close(live->fd);
        live->fd = -1;
        return;
    }
    seal(live->fd);
    live->now.version = LEATI_LIVE_VERSION;
    live->now.bytes = sizeof live->now;
    live->now.process = (uint64_t)getpid();
    live->now.start_ns = leati_clock_ns();
    live->now.host_only = host_only;
    snprintf(live->now.path, sizeof live->now.path, "%s", path);
    memcpy(live->now.magic, LEATI_LIVE_MAGIC, sizeof live->now.magic);
    leati_live_publish(live, live->now.start_ns);
}

void leati_live_close(struct leati_live_counters *live)
{
    struct stat status;

    if (!live->shared)
        return;
    munmap(live->shared, sizeof *live->shared);
    live->shared = NULL;
    /* A program that has closed all its descriptors may have another file with this number now. */
    if (!fstat(live->fd, &status) && status.st_dev == live->file[0] && status.st_ino == live->file[1])
        close(live->fd);
}

/* ---- places ---- */

/* Returns the place of a lane; NULL if it has none. */
static struct leati_live_lane *find_lane(struct leati_live_counters *live, uint32_t id)
{
    struct leati_live_lane *lanes = live->now.lanes;

    if (id && lanes[live->last_lane].id == id)
        return &lanes[live->last_lane];
    for (uint32_t i = 0; id && i < LEATI_LIVE_LANES; i++)
        if (lanes[i].id == id) {
            live->last_lane = i;
            return &lanes[i];
        }
    return NULL;
}

/* Returns an empty place, or that of the lane that has been idle for longest. Emptied places have latest_ns 0. */
static struct leati_live_lane *take_lane(struct leati_live_counters *live)
{
    struct leati_live_lane *best = NULL;

    for (struct leati_live_lane *lane = live->now.lanes; lane < live->now.lanes + LEATI_LIVE_LANES; lane++)
        if (!lane->in_flight && (!best || lane->latest_ns < best->latest_ns))
            best = lane;
    return best;
}

static void define_device(struct leati_live_counters *live, const struct leati_trace_device *device)
{
    /* Of more devices than places, the latest count. */
    struct leati_live_device *place = &live->now.devices[device->id % LEATI_LIVE_DEVICES];
    uint32_t bytes;
    const char *name = leati_trace_string_text(device->name, &bytes);

    *place = (struct leati_live_device){.id = device->id};
    snprintf(place->name, sizeof place->name, "%s", name);
}

void leati_live_define(struct leati_live_counters *live, const struct leati_defined *defined)
{
    if (!live->shared)
        return;
    for (uint32_t i = 0; i < defined->device_count; i++)
        define_device(live, &defined->devices[i]);
    for (uint32_t i = 0; i < defined->lane_count; i++) {
        const struct leati_trace_lane *lane = &defined->lanes[i];
        struct leati_live_lane *place = take_lane(live);

        if (place)
            *place = (struct leati_live_lane){
                .id = lane->id, .device = lane->device, .serial = lane->serial, .latest_ns = leati_clock_ns()};
    }
}

/* ---- counting ---- */

static struct leati_live_work *work_of_kind(struct leati_live_counters *live, uint8_t kind)
{
    return &live->now.kinds[kind < LEATI_LIVE_KINDS ? kind : 0];
}

/* Returns where a copy counts besides its kind; NULL: it is no copy. */
static struct leati_live_work *work_of_copy(struct leati_live_counters *live, uint8_t kind, uint8_t kinds)
{
    unsigned from = kinds & 15u, to = kinds >> 4;

    if (kind != LEATI_TRACE_COPY && kind != LEATI_TRACE_LAYOUT)
        return NULL;
    return &live->now.copies[from < LEATI_LIVE_MEMORIES ? from : 0][to < LEATI_LIVE_MEMORIES ? to : 0];
}

static void add_op(struct leati_live_work *work, const struct leati_trace_op *op)
{
    if (!work)
        return;
    work->ops++;
    work->bytes += op->bytes;
    work->host_ns += leati_trace_op_host_end(op) - op->host_start_ns;
    work->device_ns += op->device_end_ns - op->device_start_ns;
}

void leati_live_ops(struct leati_live_counters *live, const struct leati_trace_op *ops, uint32_t count)
{
    if (!live->shared)
        return;
    for (const struct leati_trace_op *op = ops; op < ops + count; op++) {
        struct leati_live_lane *lane = find_lane(live, op->lane);

        add_op(work_of_kind(live, op->kind), op);
        add_op(work_of_copy(live, op->kind, op->kinds), op);
        if (lane) {
            add_op(&lane->work, op);
            if (op->host_start_ns > lane->latest_ns)
                lane->latest_ns = op->host_start_ns;
        }
    }
}

void leati_live_times(struct leati_live_counters *live, const struct leati_kept *kept, uint64_t device_ns)
{
    struct leati_live_work *copy;
    struct leati_live_lane *lane;

    if (!live->shared)
        return;
    copy = work_of_copy(live, kept->kind, kept->kinds);
    lane = find_lane(live, kept->lane);
    work_of_kind(live, kept->kind)->device_ns += device_ns;
    if (copy)
        copy->device_ns += device_ns;
    if (lane)
        lane->work.device_ns += device_ns;
}

void leati_live_in_flight_begin(struct leati_live_counters *live)
{
    live->now.in_flight = live->now.in_flight_bytes = 0;
    for (uint32_t i = 0; i < LEATI_LIVE_LANES; i++)
        live->now.lanes[i].in_flight = live->now.lanes[i].in_flight_bytes = 0;
}

void leati_live_in_flight(struct leati_live_counters *live, const struct leati_kept *kept)
{
    struct leati_live_lane *lane = find_lane(live, kept->lane);

    live->now.in_flight++;
    live->now.in_flight_bytes += kept->bytes;
    if (lane) {
        lane->in_flight++;
        lane->in_flight_bytes += kept->bytes;
    }
}

/* ---- the shared memory ---- */

bool leati_live_is_due(const struct leati_live_counters *live, uint64_t now_ns)
{
    return live->shared && now_ns - live->now.time_ns >= LEATI_LIVE_NS;
}

void leati_live_publish(struct leati_live_counters *live, uint64_t now_ns)
{
    struct leati_live *shared = live->shared;
    size_t head = offsetof(struct leati_live, sequence);

    if (!shared)
        return;
    live->now.time_ns = now_ns;
    live->now.sequence += 2;
    /* Viewers read by a system call, in another process. The fences order the writes for them. */
    __atomic_store_n(&shared->sequence, live->now.sequence - 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    memcpy(shared, &live->now, head);
    memcpy((char *)shared + head + sizeof shared->sequence,
           (const char *)&live->now + head + sizeof shared->sequence,
           sizeof live->now - head - sizeof shared->sequence);
    __atomic_store_n(&shared->sequence, live->now.sequence, __ATOMIC_RELEASE);
}
