/* team.c - see team.h. */
#include "copy/team.h"

#include "base/addresses.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEAMS_MAX 64
#define THREADS_MAX 64
#define THREADS_USUAL 8 /* for each device: enough for both directions of its link; measured on an H200 */
#define LEAST_SHARE 4u
#define FEW_THREADS 4u /* a team of fewer is joined by threads that wait: so many copy at once then */
#define BYTES_FOR_A_THREAD ((size_t)12 << 20)
#define PREFAULT_BYTES ((size_t)2 << 20)

/* How long a thread that has nothing to do stays awake, which saves the next copy the time to wake it (some 150 us
 * in a virtual machine); the same while a stream is in the middle of a copy; and how long a thread looks at one
 * job before it looks at the others. */
#define AWAKE_NS 200000u
#define AWAKE_IN_COPY_NS 5000000u
#define LOOK_NS 20000u

/* Threads that look for work hold a lock for some ten instructions at a time, so they never sleep for it. */
struct leati_team {
    unsigned holders; /* under teams_lock */
    int node;
    unsigned threads, started, share;
    atomic_bool locked; /* guards the next two, and what job.h says */
    struct leati_job *first, **end;
    atomic_uint jobs;    /* in the list */
    atomic_uint news;    /* changes when a job comes, or when many may go on */
    atomic_uint asleep;  /* threads that wait for work_there */
    atomic_uint lent;    /* threads that wait for a stream and copy meanwhile */
    atomic_bool polling; /* one thread looks at the streams from time to time while the others sleep */
    atomic_bool ending;
    pthread_mutex_t sleep_lock; /* guards nothing but the sleep: see rest() */
    pthread_cond_t work_there;
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

static void lower(_Atomic uintptr_t *least, uintptr_t value)
{
    uintptr_t now = atomic_load_explicit(least, memory_order_relaxed);

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
        needed = job->early ? 0 : 1;
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
    } while (
        !atomic_compare_exchange_weak_explicit(&job->at, &at, next, memory_order_relaxed, memory_order_relaxed));
    return TAKEN;
}

/* Where the job's sides are rows; ring is the place of the part in the ring. */
static size_t copy_rows(struct leati_job *job, size_t offset, char *ring, size_t bytes, uintptr_t *fault)
{
    bool in = job->way == LEATI_WAY_IN, out = job->way == LEATI_WAY_OUT;
    struct leati_rows packed = leati_rows_dense(ring);

    return leati_rows_copy_guarded(in ? &packed : &job->to_rows, in ? 0 : offset, out ? &packed : &job->from_rows,
                                   out ? 0 : offset, bytes, job->stores, fault);
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
    if (job->cold)
        leati_bytes_fetch(job->src + offset, bytes);
    if (job->copy_list)
        copied = job->copy_list(job->list, offset, bytes, &fault);
    else if (job->in_rows)
        copied = copy_rows(job, offset, ring, bytes, &fault);
    else
        copied = leati_bytes_copy_guarded(job->way == LEATI_WAY_IN ? ring : job->dst + offset,
                                          job->way == LEATI_WAY_OUT ? ring : job->src + offset, bytes, job->stores,
                                          &fault);
    if (copied == bytes)
        return;
    /* The first address is told: of two threads that fail at once, the one further in front wins. */
    lower(&job->fault, fault);
    lower(&job->stopped_at, offset + copied);
    leati_job_stop(job, LEAT_ERROR_POINTER);
}

/* The sentence goes to the stream before the word ready lets it go on. False when another thread is at it, which
 * then moves the word. */
static bool tell_failure(struct leati_job *job)
{
    char sentence[256];

    if (atomic_load_explicit(&job->stopped, memory_order_relaxed) != LEAT_ERROR_POINTER)
        return true;
    if (atomic_exchange_explicit(&job->told, true, memory_order_relaxed))
        return false;
    leati_job_sentence(job, sentence, sizeof sentence);
    leati_order_failed(job->order, LEAT_ERROR_POINTER, sentence);
    return true;
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
        if (ready + 1 == job->count && !tell_failure(job))
            return;
        if (atomic_compare_exchange_strong(&job->words->ready, &ready, ready + 1))
            ready++;
    }
}

/* Makes pages of the destination while the stream is still on its way. False when all are there. */
static bool prefault(struct leati_job *job)
{
    size_t at = atomic_load_explicit(&job->prefaulted, memory_order_relaxed);

    if (at >= job->reach_bytes)
        return false;
    at = atomic_fetch_add_explicit(&job->prefaulted, PREFAULT_BYTES, memory_order_relaxed);
    if (at >= job->reach_bytes)
        return false;
    leati_bytes_prefault(job->dst + at,
                         job->reach_bytes - at < PREFAULT_BYTES ? job->reach_bytes - at : PREFAULT_BYTES);
    return true;
}

static enum taken work_on_part(struct leati_job *job)
{
    uint32_t c, part;
    enum taken taken = take_part(job, &c, &part);

    if (taken == TAKEN) {
        copy_part(job, &job->chunks[c], part);
        finish_part(job, c);
    }
    return taken;
}

void leati_job_work(struct leati_job *job)
{
    while (work_on_part(job) == TAKEN)
        continue;
}

/* ---- the threads ---- */

static inline void pause_a_moment(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void lock(struct leati_team *team)
{
    while (atomic_exchange_explicit(&team->locked, true, memory_order_acquire)) {
        /* Looks before it tries again, since each try takes the line away from the holder. */
        for (unsigned looks = 1; atomic_load_explicit(&team->locked, memory_order_relaxed); looks++) {
            if (looks % 100)
                pause_a_moment();
            else
                sched_yield(); /* the holder may have lost its processor */
        }
    }
}

static void unlock(struct leati_team *team)
{
    atomic_store_explicit(&team->locked, false, memory_order_release);
}

/* Is the stream in the middle of the copy, so that there will be work soon? */
static bool is_lively(const struct leati_job *job)
{
    return job->early || atomic_load_explicit(&job->words->passed, memory_order_relaxed);
}

/* Works on a job. When its stream is not there yet it stays with it as long as no other job comes. */
static void serve(struct leati_team *team, struct leati_job *job, bool alone)
{
    unsigned news = atomic_load_explicit(&team->news, memory_order_relaxed);
    uint64_t since = 0;

    for (;;) {
        switch (work_on_part(job)) {
        case TAKEN:
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
        for (int i = 0; i < 16; i++)
            pause_a_moment();
        if (!since)
            since = leati_clock_ns();
        else if (leati_clock_ns() - since > LOOK_NS)
            return;
    }
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
    atomic_fetch_sub_explicit(&team->jobs, 1, memory_order_relaxed);
}

/* Is there something to do for a job that is at chunk c? A thread that is lent may have its own wait over
 * meanwhile: it copies what is in memory, and makes and fetches no pages, which may take long. */
static bool has_work(const struct leati_job *job, uint32_t c, bool lent)
{
    if (can_copy(job, c))
        return !lent || !job->cold;
    return !lent && atomic_load_explicit(&job->prefaulted, memory_order_relaxed) < job->reach_bytes;
}

/* A job that can go on at once, or one whose pages are to be made, entered as its worker. Takes finished ones out
 * of the list. */
static struct leati_job *find_job(struct leati_team *team, bool lent, bool *alone, bool *lively)
{
    struct leati_job *job, *next;

    *alone = *lively = false;
    /* Threads that wait awake leave the lock alone until there is something. */
    if (!atomic_load_explicit(&team->jobs, memory_order_relaxed))
        return NULL;
    lock(team);
    for (job = team->first; job; job = next) {
        /* Read once: others take parts meanwhile. */
        uint32_t c = (uint32_t)(atomic_load_explicit(&job->at, memory_order_relaxed) >> 32);

        next = job->next;
        if (c >= job->count) {
            unlist(team, job);
            continue;
        }
        *lively = *lively || is_lively(job);
        if (job->workers >= job->share)
            continue;
        if (has_work(job, c, lent))
            break;
    }
    if (job)
        job->workers++;
    *alone = job && team->first == job && !job->next;
    unlock(team);
    return job;
}

static void leave_job(struct leati_team *team, struct leati_job *job)
{
    lock(team);
    job->workers--;
    unlock(team);
}

/* Waits for something to do: awake for a moment, then asleep. While jobs wait for their streams, one thread looks
 * at them from time to time, since a stream wakes nobody. */
static void rest(struct leati_team *team, unsigned news, uint64_t idle_ns, bool lively)
{
    uint64_t awake_ns = lively ? AWAKE_IN_COPY_NS : team->threads > 1 ? AWAKE_NS : AWAKE_NS / 10;
    struct timespec pause = {.tv_nsec = idle_ns < 2000000 ? 20000 : 100000};

    if (idle_ns < awake_ns) {
        for (int i = 0; i < 20 && atomic_load_explicit(&team->news, memory_order_relaxed) == news; i++)
            pause_a_moment();
        if (team->threads == 1)
            sched_yield();
        return;
    }
    if (atomic_load_explicit(&team->jobs, memory_order_relaxed) &&
        !atomic_exchange_explicit(&team->polling, true, memory_order_relaxed)) {
        nanosleep(&pause, NULL);
        atomic_store_explicit(&team->polling, false, memory_order_relaxed);
        return;
    }
    pthread_mutex_lock(&team->sleep_lock);
    /* In one order with wake(): either that one sees the sleeper, or this one sees the news (seq_cst). Once is
     * enough: whoever is woken looks for work, and is awake for a while. */
    atomic_fetch_add(&team->asleep, 1);
    if (atomic_load(&team->news) == news)
        pthread_cond_wait(&team->work_there, &team->sleep_lock);
    atomic_fetch_sub(&team->asleep, 1);
    pthread_mutex_unlock(&team->sleep_lock);
}

/* Says that there is something to do, and wakes one thread, which wakes the next: waking one costs the caller some
 * 40 us in a virtual machine. */
static void wake_one(struct leati_team *team)
{
    if (!atomic_load(&team->asleep))
        return;
    pthread_mutex_lock(&team->sleep_lock);
    pthread_cond_signal(&team->work_there);
    pthread_mutex_unlock(&team->sleep_lock);
}

static void wake(struct leati_team *team)
{
    atomic_fetch_add(&team->news, 1);
    wake_one(team);
}

/* Are there fewer threads awake than the jobs can use, if all are like this one? Relaxed, since a guess will do:
 * whoever is woken for nothing goes to sleep again. */
static bool wants_more(const struct leati_team *team, const struct leati_job *job)
{
    unsigned asleep = atomic_load_explicit(&team->asleep, memory_order_relaxed);
    unsigned jobs = atomic_load_explicit(&team->jobs, memory_order_relaxed);

    return asleep && team->threads - asleep < (jobs ? jobs : 1) * job->share;
}

static void *team_thread(void *argument)
{
    struct leati_team *team = argument;
    uint64_t idle_since = 0;

    for (;;) {
        /* Taken first, so that neither an end nor a job that comes from here on is slept through. */
        unsigned news = atomic_load(&team->news);
        bool alone, lively;
        struct leati_job *job;

        if (atomic_load_explicit(&team->ending, memory_order_acquire))
            return NULL;
        job = find_job(team, false, &alone, &lively);
        if (!job) {
            uint64_t now = leati_clock_ns();

            idle_since = idle_since ? idle_since : now;
            rest(team, news, now - idle_since, lively);
            continue;
        }
        if (wants_more(team, job))
            wake_one(team);
        idle_since = 0;
        serve(team, job, alone);
        leave_job(team, job);
    }
}

/* ---- jobs come and go ---- */

void leati_team_add(struct leati_team *team, struct leati_job *job)
{
    /* Few threads are faster with little to share: they get in each other's way less. */
    size_t useful = job->bytes / BYTES_FOR_A_THREAD;
    unsigned most = leati_team_is_small(team) ? FEW_THREADS : team->share;

    useful = useful < LEAST_SHARE ? LEAST_SHARE : useful;
    job->share = useful < most ? (unsigned)useful : most;
    lock(team);
    job->next = NULL;
    job->place = team->end;
    *team->end = job;
    team->end = &job->next;
    job->listed = true;
    atomic_fetch_add_explicit(&team->jobs, 1, memory_order_relaxed);
    unlock(team);
    wake(team);
}

/* Enters a job like a thread of the team, so that the job's memory stays meanwhile. */
static bool enter_job(struct leati_team *team, struct leati_job *job)
{
    bool listed;

    lock(team);
    listed = job->listed;
    job->workers += listed;
    unlock(team);
    return listed;
}

void leati_team_help(struct leati_team *team, struct leati_job *job)
{
    if (!enter_job(team, job))
        return;
    leati_job_work(job);
    leave_job(team, job);
}

void leati_team_remove(struct leati_team *team, struct leati_job *job)
{
    unsigned workers;

    lock(team);
    if (job->listed)
        unlist(team, job);
    workers = job->workers;
    unlock(team);
    /* They are on their way out, or copy a last part. */
    while (workers) {
        sched_yield();
        lock(team);
        workers = job->workers;
        unlock(team);
    }
}

/* ---- threads that wait ---- */

bool leati_team_is_small(const struct leati_team *team)
{
    return team->threads < FEW_THREADS;
}

bool leati_team_has_jobs(const struct leati_team *team)
{
    return atomic_load_explicit(&team->jobs, memory_order_relaxed);
}

bool leati_team_lend_begins(struct leati_team *team)
{
    unsigned most = leati_team_is_small(team) ? FEW_THREADS - team->threads : 0;
    unsigned lent = atomic_load_explicit(&team->lent, memory_order_relaxed);

    /* Relaxed: nothing but a count. */
    while (lent < most && !atomic_compare_exchange_weak_explicit(&team->lent, &lent, lent + 1,
                                                                 memory_order_relaxed, memory_order_relaxed))
        continue;
    return lent < most;
}

void leati_team_lend_ends(struct leati_team *team)
{
    atomic_fetch_sub_explicit(&team->lent, 1, memory_order_relaxed);
}

bool leati_team_work(struct leati_team *team, struct leati_job *job)
{
    uint64_t until = leati_clock_ns() + LOOK_NS;
    bool worked = false;

    while (work_on_part(job) == TAKEN) {
        worked = true;
        if (leati_clock_ns() >= until)
            break;
    }
    leave_job(team, job);
    return worked;
}

bool leati_team_lend(struct leati_team *team)
{
    bool alone, lively;
    struct leati_job *job = find_job(team, true, &alone, &lively);

    return job && leati_team_work(team, job);
}

bool leati_team_enter(struct leati_team *team, struct leati_job *job)
{
    return leati_team_is_small(team) && enter_job(team, job);
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

/* Half of the processors stay with the program. */
static leat_status choose_threads(int processors, int devices, unsigned *threads)
{
    unsigned half = processors > 3 ? (unsigned)processors / 2 : 1, most = THREADS_USUAL * (unsigned)devices;
    uint64_t chosen;

    most = most < THREADS_MAX ? most : THREADS_MAX;
    LEATI_TRY(leati_option_number(LEATI_OPTION_COPY_WORKERS, 1, THREADS_MAX, half < most ? half : most, &chosen));
    *threads = (unsigned)chosen;
    return LEAT_OK;
}

/* Ends the threads that were started. */
static void end_threads(struct leati_team *team)
{
    atomic_store_explicit(&team->ending, true, memory_order_release);
    atomic_fetch_add(&team->news, 1);
    pthread_mutex_lock(&team->sleep_lock);
    pthread_cond_broadcast(&team->work_there);
    pthread_mutex_unlock(&team->sleep_lock);
    for (unsigned i = 0; i < team->started; i++)
        pthread_join(team->ids[i], NULL);
    pthread_cond_destroy(&team->work_there);
    pthread_mutex_destroy(&team->sleep_lock);
    free(team);
}

static leat_status start_threads(struct leati_team *team, unsigned threads, const cpu_set_t *processors)
{
    struct leati_addresses_hint hint;
    int failed = 0;

    team->threads = threads;
    for (unsigned i = 0; i < threads && !failed; i++) {
        failed = leati_thread_start(&team->ids[i], team_thread, team);
        if (failed)
            break;
        team->started++;
        if (CPU_COUNT(processors))
            (void)pthread_setaffinity_np(team->ids[i], sizeof *processors, processors);
        (void)pthread_setname_np(team->ids[i], "leat copy");
    }
    if (!failed)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_SYSTEM,
                      "pthread_create: %s: pageable copies need %u threads, see LEAT_COPY_WORKERS%s",
                      strerror(failed), threads, leati_addresses_hint(&hint));
}

static leat_status make_team(int node, int devices, struct leati_team **made)
{
    struct leati_team *team;
    cpu_set_t processors;
    unsigned threads = 1;
    leat_status status;

    node_processors(node, &processors);
    LEATI_TRY(choose_threads(CPU_COUNT(&processors), devices, &threads));
    team = calloc(1, sizeof *team);
    if (!team)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the threads that copy");
    team->node = node;
    team->end = &team->first;
    team->share = threads < THREADS_USUAL ? threads : THREADS_USUAL;
    pthread_mutex_init(&team->sleep_lock, NULL);
    pthread_cond_init(&team->work_there, NULL);
    status = start_threads(team, threads, &processors);
    if (status != LEAT_OK) {
        end_threads(team);
        return status;
    }
    *made = team;
    return LEAT_OK;
}

leat_status leati_team_get(int node, int devices, struct leati_team **team)
{
    struct leati_team **place = &teams[node >= 0 && node < TEAMS_MAX - 1 ? node + 1 : 0];
    leat_status status = LEAT_OK;

    pthread_mutex_lock(&teams_lock);
    if (!*place)
        status = make_team(node, devices, place);
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
