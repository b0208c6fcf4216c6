/* team.c - see team.h. */
#include "copy/team.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEAMS_MAX 64
#define THREADS_MAX 64
#define THREADS_USUAL 12 /* enough for both directions of one link; measured on an H200 */
#define SHARE_USUAL 6    /* for one copy: more threads do not make it faster there */
#define PREFAULT_BYTES ((size_t)2 << 20)

/* How long a thread that has nothing to do stays awake, which saves the next copy the time to wake it; and how long
 * it looks at a job whose stream is not there yet before it looks for another. */
#define AWAKE_NS 100000u
#define LOOK_NS 20000u

struct leati_team {
    unsigned holders; /* under teams_lock */
    int node;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work_there, job_left;
    struct leati_job *first, **end;
    unsigned threads, share, asleep;
    bool polling; /* one thread looks at the streams again and again while the others sleep */
    bool ending;
    atomic_uint news; /* changes when a job comes; read without the lock */
    pthread_t ids[THREADS_MAX];
};

static pthread_mutex_t teams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct leati_team *teams[TEAMS_MAX];

/* ---- one part of a job ---- */

void leati_job_stop(struct leati_job *job, leat_status why)
{
    int none = LEAT_OK;

    /* Relaxed: whoever needs to know learns of it through the word ready. */
    atomic_compare_exchange_strong_explicit(&job->stopped, &none, (int)why, memory_order_relaxed,
                                            memory_order_relaxed);
}

static bool has_stopped(struct leati_job *job)
{
    if (atomic_load_explicit(&job->stopped, memory_order_relaxed) != LEAT_OK)
        return true;
    if (!job->deadline_ns || leati_clock_ns() < job->deadline_ns)
        return false;
    leati_job_stop(job, LEAT_ERROR_DEADLINE);
    return true;
}

static void lower(_Atomic size_t *least, size_t value)
{
    size_t now = atomic_load_explicit(least, memory_order_relaxed);

    while (value < now &&
           !atomic_compare_exchange_weak_explicit(least, &now, value, memory_order_relaxed, memory_order_relaxed))
        continue;
}

/* May the parts of chunk c be copied by now? */
static bool can_copy(const struct leati_job *job, uint32_t c)
{
    const struct leati_chunk *chunk = &job->chunks[c];
    uint32_t needed;

    switch (job->way) {
    case LEATI_WAY_IN:
        needed = chunk->after ? chunk->after + 1 : job->early ? 0 : 1;
        break;
    case LEATI_WAY_OUT:
        needed = c + 2;
        break;
    default:
        needed = 1;
        break;
    }
    /* Acquire: what the DMA wrote is there. */
    return atomic_load_explicit(&job->words->passed, memory_order_acquire) >= needed;
}

enum taken { TAKEN, NOT_YET, NOTHING_LEFT };

static enum taken take_part(struct leati_job *job, uint32_t *c, uint32_t *part)
{
    /* Relaxed: the part's data is guarded by the words. */
    uint64_t at = atomic_load_explicit(&job->at, memory_order_relaxed), next;

    do {
        *c = (uint32_t)(at >> 32);
        *part = (uint32_t)at;
        if (*c >= job->count)
            return NOTHING_LEFT;
        if (!can_copy(job, *c))
            return NOT_YET;
        next = *part + 1 < job->chunks[*c].parts ? at + 1 : (uint64_t)(*c + 1) << 32;
    } while (!atomic_compare_exchange_weak_explicit(&job->at, &at, next, memory_order_relaxed,
                                                    memory_order_relaxed));
    return TAKEN;
}

static void copy_part(struct leati_job *job, const struct leati_chunk *chunk, uint32_t part)
{
    size_t start = part * chunk->part_bytes, offset = chunk->offset + start;
    size_t bytes = chunk->bytes - start < chunk->part_bytes ? chunk->bytes - start : chunk->part_bytes;
    char *ring = job->ring + chunk->place + start;
    uintptr_t fault = 0;
    size_t copied;

    if (has_stopped(job)) {
        lower(&job->stopped_at, offset);
        return;
    }
    copied = leati_bytes_copy_guarded(job->way == LEATI_WAY_IN ? ring : job->dst + offset,
                                      job->way == LEATI_WAY_OUT ? ring : job->src + offset, bytes, job->stores, &fault);
    if (copied == bytes)
        return;
    lower(&job->stopped_at, offset + copied);
    if (atomic_load_explicit(&job->stopped, memory_order_relaxed) == LEAT_OK)
        atomic_store_explicit(&job->fault, fault, memory_order_relaxed);
    leati_job_stop(job, LEAT_ERROR_POINTER);
}

/* The sentence goes to the stream before the word ready lets it go on. */
static void tell_failure(struct leati_job *job)
{
    char sentence[256];

    if (atomic_load_explicit(&job->stopped, memory_order_relaxed) != LEAT_ERROR_POINTER ||
        atomic_exchange_explicit(&job->told, true, memory_order_relaxed))
        return;
    leati_job_sentence(job, sentence, sizeof sentence);
    leati_order_failed(job->order, LEAT_ERROR_POINTER, sentence);
}

/* A part of chunk c is finished: moves the word ready over all chunks that are complete. Two threads that finish
 * neighbours at once must not both think that the other one moves it: hence the one order of all (seq_cst). */
static void finish_part(struct leati_job *job, uint32_t c)
{
    uint32_t ready;

    if (atomic_fetch_add(&job->chunks[c].finished, 1) + 1 != job->chunks[c].parts)
        return;
    ready = atomic_load(&job->words->ready);
    while (ready < job->count && atomic_load(&job->chunks[ready].finished) == job->chunks[ready].parts) {
        if (ready + 1 == job->count)
            tell_failure(job);
        if (atomic_compare_exchange_strong(&job->words->ready, &ready, ready + 1))
            ready++;
    }
}

/* Makes pages of the destination while the stream is still on its way. False when all are there. */
static bool prefault(struct leati_job *job)
{
    size_t at = atomic_load_explicit(&job->prefaulted, memory_order_relaxed);

    if (at >= job->bytes)
        return false;
    at = atomic_fetch_add_explicit(&job->prefaulted, PREFAULT_BYTES, memory_order_relaxed);
    if (at >= job->bytes)
        return false;
    leati_bytes_prefault(job->dst + at, job->bytes - at < PREFAULT_BYTES ? job->bytes - at : PREFAULT_BYTES);
    return true;
}

void leati_job_work(struct leati_job *job)
{
    uint32_t c, part;

    while (take_part(job, &c, &part) == TAKEN) {
        copy_part(job, &job->chunks[c], part);
        finish_part(job, c);
    }
}

/* ---- the threads ---- */

static inline void pause_a_moment(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Works on a job; stays with it for a moment when its stream is not there yet, unless another job comes. */
static void serve(struct leati_team *team, struct leati_job *job, bool alone)
{
    unsigned news = atomic_load_explicit(&team->news, memory_order_relaxed);
    uint64_t since = 0;
    uint32_t c, part;

    for (;;) {
        switch (take_part(job, &c, &part)) {
        case TAKEN:
            copy_part(job, &job->chunks[c], part);
            finish_part(job, c);
            since = 0;
            continue;
        case NOTHING_LEFT:
            return;
        case NOT_YET:
            break;
        }
        if (prefault(job))
            continue;
        if (!alone || atomic_load_explicit(&team->news, memory_order_relaxed) != news)
            return;
        if (!since)
            since = leati_clock_ns();
        else if (leati_clock_ns() - since > LOOK_NS)
            return;
        pause_a_moment();
    }
}

static bool nothing_left(const struct leati_job *job)
{
    return atomic_load_explicit(&job->at, memory_order_relaxed) >> 32 >= job->count;
}

/* Takes a job out of the list. Under the lock. */
static void unlist(struct leati_team *team, struct leati_job *job)
{
    *job->place = job->next;
    if (job->next)
        job->next->place = job->place;
    else
        team->end = job->place;
    job->listed = false;
}

/* A job that can go on at once, or one whose pages are to be made. Under the lock; takes finished ones away. */
static struct leati_job *find_job(struct leati_team *team)
{
    struct leati_job *job, *next;

    for (job = team->first; job; job = next) {
        next = job->next;
        if (nothing_left(job)) {
            unlist(team, job);
            pthread_cond_broadcast(&team->job_left);
            continue;
        }
        if (job->workers >= team->share)
            continue;
        if (can_copy(job, (uint32_t)(atomic_load_explicit(&job->at, memory_order_relaxed) >> 32)) ||
            atomic_load_explicit(&job->prefaulted, memory_order_relaxed) < job->bytes)
            return job;
    }
    return NULL;
}

/* Waits for something to do, with the lock held: awake for a moment, then asleep. While jobs wait for their
 * streams, one thread looks at them from time to time, since a stream wakes nobody. */
static void rest(struct leati_team *team, uint64_t idle_ns)
{
    unsigned news = atomic_load_explicit(&team->news, memory_order_relaxed);
    struct timespec pause = {.tv_nsec = idle_ns < 2000000 ? 20000 : 100000};

    if (team->threads > 1 ? idle_ns < AWAKE_NS : idle_ns < AWAKE_NS / 10) {
        pthread_mutex_unlock(&team->lock);
        for (int i = 0; i < 50 && atomic_load_explicit(&team->news, memory_order_relaxed) == news; i++)
            pause_a_moment();
        pthread_mutex_lock(&team->lock);
        return;
    }
    if (team->first && !team->polling) {
        team->polling = true;
        pthread_mutex_unlock(&team->lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&team->lock);
        team->polling = false;
        return;
    }
    team->asleep++;
    pthread_cond_wait(&team->work_there, &team->lock);
    team->asleep--;
}

static void wake(struct leati_team *team, unsigned most)
{
    atomic_fetch_add_explicit(&team->news, 1, memory_order_relaxed);
    for (unsigned i = 0; i < team->asleep && i < most; i++)
        pthread_cond_signal(&team->work_there);
}

static void *team_thread(void *argument)
{
    struct leati_team *team = argument;
    uint64_t idle_since = 0;

    pthread_mutex_lock(&team->lock);
    while (!team->ending) {
        struct leati_job *job = find_job(team);
        bool alone, slept;

        if (!job) {
            uint64_t now = leati_clock_ns();

            idle_since = idle_since ? idle_since : now;
            rest(team, now - idle_since);
            continue;
        }
        /* Whoever finds work after a long time wakes the others, who may help. */
        slept = idle_since && team->asleep;
        if (slept)
            wake(team, team->share - 1);
        idle_since = 0;
        job->workers++;
        alone = team->first == job && !job->next;
        pthread_mutex_unlock(&team->lock);
        serve(team, job, alone);
        pthread_mutex_lock(&team->lock);
        if (--job->workers == 0)
            pthread_cond_broadcast(&team->job_left);
    }
    /* Another thread may be the one that polls; each ends by itself. */
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

/* ---- jobs come and go ---- */

void leati_team_add(struct leati_team *team, struct leati_job *job)
{
    pthread_mutex_lock(&team->lock);
    job->next = NULL;
    job->place = team->end;
    *team->end = job;
    team->end = &job->next;
    job->listed = true;
    wake(team, job->count > 1 || job->chunks[0].parts > team->share ? team->share : job->chunks[0].parts);
    pthread_mutex_unlock(&team->lock);
}

void leati_team_remove(struct leati_team *team, struct leati_job *job)
{
    pthread_mutex_lock(&team->lock);
    if (job->listed)
        unlist(team, job);
    while (job->workers)
        pthread_cond_wait(&team->job_left, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

/* ---- the team itself ---- */

/* The processors of a node that this process may use; all that it may use where the node is not known. */
static void node_processors(int node, cpu_set_t *set)
{
    char path[64], text[4096];
    cpu_set_t of_node, both;
    FILE *file;

    if (sched_getaffinity(0, sizeof *set, set))
        CPU_ZERO(set);
    if (node < 0)
        return;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    file = fopen(path, "re");
    if (!file)
        return;
    CPU_ZERO(&of_node);
    if (fgets(text, sizeof text, file)) {
        for (char *at = text; *at >= '0' && *at <= '9';) {
            unsigned long low = strtoul(at, &at, 10), high = *at == '-' ? strtoul(at + 1, &at, 10) : low;

            for (unsigned long cpu = low; cpu <= high && cpu < CPU_SETSIZE; cpu++)
                CPU_SET(cpu, &of_node);
            at += *at == ',';
        }
    }
    fclose(file);
    CPU_AND(&both, set, &of_node);
    if (CPU_COUNT(&both))
        *set = both;
}

/* A processor stays free for the caller; with few processors that leaves one thread, which is what they can feed. */
static leat_status choose_threads(int processors, unsigned *threads)
{
    unsigned usual = processors > 2 ? (unsigned)processors * 3 / 4 : 1;
    uint64_t chosen;

    LEATI_TRY(leati_option_number(LEATI_OPTION_COPY_WORKERS, 1, THREADS_MAX,
                                  usual < THREADS_USUAL ? usual : THREADS_USUAL, &chosen));
    *threads = (unsigned)chosen;
    return LEAT_OK;
}

/* Ends the threads that were started. */
static void end_threads(struct leati_team *team)
{
    pthread_mutex_lock(&team->lock);
    team->ending = true;
    wake(team, team->threads);
    pthread_mutex_unlock(&team->lock);
    for (unsigned i = 0; i < team->threads; i++)
        pthread_join(team->ids[i], NULL);
    pthread_cond_destroy(&team->work_there);
    pthread_cond_destroy(&team->job_left);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

static leat_status start_threads(struct leati_team *team, unsigned threads, const cpu_set_t *processors)
{
    int failed = 0;

    for (unsigned i = 0; i < threads && !failed; i++) {
        failed = pthread_create(&team->ids[i], NULL, team_thread, team);
        if (failed)
            break;
        team->threads++;
        if (CPU_COUNT(processors))
            (void)pthread_setaffinity_np(team->ids[i], sizeof *processors, processors);
        (void)pthread_setname_np(team->ids[i], "leat copy");
    }
    if (!failed)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_SYSTEM, "pthread_create: %s: pageable copies need %u threads, see LEAT_COPY_WORKERS",
                      strerror(failed), threads);
}

static leat_status make_team(int node, struct leati_team **made)
{
    struct leati_team *team;
    cpu_set_t processors;
    unsigned threads = 1;
    leat_status status;

    node_processors(node, &processors);
    LEATI_TRY(choose_threads(CPU_COUNT(&processors), &threads));
    team = calloc(1, sizeof *team);
    if (!team)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the threads that copy");
    team->node = node;
    team->end = &team->first;
    team->share = threads <= 4 ? threads : threads / 2 > SHARE_USUAL ? threads / 2 : SHARE_USUAL;
    team->share = team->share < threads ? team->share : threads;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->work_there, NULL);
    pthread_cond_init(&team->job_left, NULL);
    status = start_threads(team, threads, &processors);
    if (status != LEAT_OK) {
        end_threads(team);
        return status;
    }
    *made = team;
    return LEAT_OK;
}

leat_status leati_team_get(int node, struct leati_team **team)
{
    struct leati_team **place = &teams[node >= 0 && node < TEAMS_MAX - 1 ? node + 1 : 0];
    leat_status status = LEAT_OK;

    pthread_mutex_lock(&teams_lock);
    if (!*place)
        status = make_team(node, place);
    if (status == LEAT_OK) {
        (*place)->holders++;
        *team = *place;
    }
    pthread_mutex_unlock(&teams_lock);
    return status;
}

void leati_team_put(struct leati_team *team)
{
    pthread_mutex_lock(&teams_lock);
    if (--team->holders == 0) {
        teams[team->node >= 0 && team->node < TEAMS_MAX - 1 ? team->node + 1 : 0] = NULL;
        end_threads(team);
    }
    pthread_mutex_unlock(&teams_lock);
}

unsigned leati_team_threads(const struct leati_team *team)
{
    return team->threads;
}

unsigned leati_team_share(const struct leati_team *team)
{
    return team->share;
}
