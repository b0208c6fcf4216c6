/*
 * fault_walk.c - makes the n-th driver call of a scenario fail, for n = 1, 2, 3 ..., until the scenario makes
 * fewer than n driver calls. After each failure a call must return an error with the fault driver's message,
 * nothing may leak or hang, and the device must work as before.
 *
 * One scenario makes every call of the public API except pools and pageable copies (fault_public.c). Each kind of
 * pool has its own scenarios (fault_pools.c), in which a call may survive a driver failure, and must then have
 * done its work. The same holds for copies of pageable memory (fault_copies.c) and of files (fault_files.c),
 * because leat copies in another way if it cannot stage them. Here the CPU device stages such copies as a GPU
 * does. Another scenario calls entries of the driver's table directly. LEAT_TEST_DEVICE names the device.
 */
#include "fault_scenarios.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

leat_file *walk_file;
unsigned char host_in[LONG_BYTES], host_out[LONG_BYTES], host_other[LONG_BYTES], end_seen[600];
struct leati_driver *wrapper;
leat_device_info device_info = LEAT_DEVICE_INFO_INIT;
struct fault_run now;

void give_up(const char *format, ...)
{
    const char *entry = now.entry ? now.entry : wrapper ? leati_fault_entry(wrapper) : NULL;
    va_list args;

    fflush(stdout);
    fprintf(stderr, "FAILED: %s with call %llu (%s) made to fail: ", now.scenario, (unsigned long long)now.n,
            entry ? entry : "not yet");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(1);
}

static void on_alarm(int signal_number)
{
    static const char words[] = "FAILED: a run hangs\n";

    (void)signal_number;
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0)
        _exit(2);
    /* Leave a core file for a debugger. */
    if (getenv("FAULT_WALK_CORE"))
        abort();
    give_up("still running after %d s", RUN_SECONDS);
}

leat_status keep(struct world *w, const char *call, leat_status status)
{
    if (status >= LEAT_OK)
        return status;
    if (strstr(leat_last_error(), "fault driver: call "))
        w->fault_was_said = true;
    if (!w->failed) {
        w->failed = true;
        w->call = call;
        snprintf(w->message, sizeof w->message, "%s", leat_last_error());
    }
    return status;
}

void count_call(void *argument)
{
    atomic_fetch_add((atomic_int *)argument, 1);
}

void count_slowly(void *argument)
{
    test_sleep_us(3000);
    count_call(argument);
}

/* ---- the walk over all driver calls ----------------------------------------------------------- */

static unsigned open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    if (!folder)
        give_up("no /proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Returns true if leat may hide the failure of this entry because the call can succeed without it. A failed query
 * of free memory only shortens a message. leat can do without reserved addresses and without registered memory. If
 * leat cannot record its own event, the destruction of a stream waits instead. Failures of the user's events must
 * be reported; a scenario in which leat has no events of its own (without_memory) tests that. Pools and copies of
 * pageable memory have more such fallbacks, so their scenarios check the result instead. */
static bool may_be_silent(void)
{
    static const char *const entries[] = {"device_memory",       "vm_reserve",   "host_register",
                                          "host_device_pointer", "stream_query", "event_create",
                                          "event_record",        "event_query",  "event_destroy"};
    size_t count = now.without_memory ? 1 : sizeof entries / sizeof entries[0];

    for (size_t i = 0; i < count; i++)
        if (!strcmp(now.entry, entries[i]))
            return true;
    return now.of_pools || now.of_copies || now.of_traces;
}

/* Returns true if the call that was made to fail frees or unregisters memory. That memory may still exist after
 * the run, because leat does not try again when it destroys a pool or closes a device. */
static bool may_leak(void)
{
    return now.entry && (!strcmp(now.entry, "mem_free") || !strcmp(now.entry, "host_free") ||
                         !strcmp(now.entry, "host_unregister"));
}

/* Runs a scenario once, with one fault armed. Returns true if the fault happened. */
static bool run_once(void (*scenario)(struct world *), enum leati_fault_mode mode, bool leaks_allowed)
{
    uint64_t live = leati_fault_live(wrapper);
    unsigned files = open_files();
    struct world w;
    leat_device *device;
    bool fired;

    memset(&w, 0, sizeof w);
    now.entry = NULL;
    alarm(RUN_SECONDS);
    leati_fault_arm(wrapper, mode, NULL, now.n);
    scenario(&w);
    fired = leati_fault_fired(wrapper);
    now.entry = leati_fault_entry(wrapper);
    leati_fault_arm(wrapper, LEATI_FAULT_NONE, NULL, 0);
    if (mode == LEATI_FAULT_FAIL && fired && !w.fault_was_said && !may_be_silent())
        give_up("no call said so; the first error is: %s", w.failed ? w.message : "none");
    if ((mode != LEATI_FAULT_FAIL || !fired) && w.failed)
        give_up("%s failed by itself: %s", w.call, w.message);
    if (!leaks_allowed && !may_leak() && leati_fault_live(wrapper) != live)
        give_up("%llu things are left over", (unsigned long long)(leati_fault_live(wrapper) - live));
    if (leati_fault_live(wrapper) == live && open_files() != files)
        give_up("%u files were open before and %u are now", files, open_files());
    if (leat_device_open(test_device_name(), &device) != LEAT_OK)
        give_up("the device cannot be opened any more: %s", leat_last_error());
    must_work(device, &w);
    if (leat_device_close(device) != LEAT_OK)
        give_up("the device cannot be closed: %s", leat_last_error());
    alarm(0);
    return fired;
}

static void walk(const char *name, void (*scenario)(struct world *))
{
    now.scenario = name;
    now.n = 0;
    do {
        now.n++;
    } while (
        run_once(scenario, LEATI_FAULT_FAIL,
                 scenario == lazy_scenario || scenario == lazy_pool_scenario || scenario == lazy_copy_scenario ||
                     scenario == lazy_file_scenario || scenario == lazy_share_scenario));
    printf("fault_walk: %s: each of %llu driver calls was made to fail\n", name, (unsigned long long)now.n - 1);
    fflush(stdout);
}

/* Delays one driver call in each run, which must not change the result. To save time, it delays only every
 * stride-th call. */
static void walk_delays(const char *name, void (*scenario)(struct world *), uint64_t stride)
{
    unsigned runs = 0;

    now.scenario = name;
    for (now.n = 1; run_once(scenario, LEATI_FAULT_DELAY, false); now.n += stride)
        runs++;
    printf("fault_walk: %s: %u of %llu driver calls took longer\n", name, runs, (unsigned long long)now.n - 1);
}

static void walk_pools(void)
{
    static const struct {
        const char *name, *lazy_name;
        leat_pool_options options;
    } sorts[] = {
        {"a device pool",
         "a device pool, left to the close",
         {.limit_bytes = 12 * MIB, .reuse = LEAT_POOL_REUSE_WAIT}},
        {"a pool that waits last", NULL, {.limit_bytes = 12 * MIB}},
        {"a pool that never waits", NULL, {.reuse = LEAT_POOL_REUSE_WAIT_NEVER, .scrub = 1}},
        {"a plain pool",
         "a plain pool, left to the close",
         {.no_virtual_memory = 1, .reuse = LEAT_POOL_REUSE_WAIT}},
        {"a pinned pool", "a pinned pool, left to the close", {.kind = LEAT_KIND_PINNED}},
        {"a managed pool", NULL, {.kind = LEAT_KIND_MANAGED}},
        {"a pool of single handles",
         "a pool of single handles, left to the close",
         {.dedicated = 1, .exportable = 1}},
        {"a guarded pool", NULL, {.guard = 1}},
    };

    now.of_pools = true;
    for (size_t i = 0; i < sizeof sorts / sizeof sorts[0]; i++) {
        if ((sorts[i].options.dedicated && !device_info.virtual_memory) ||
            (sorts[i].options.kind == LEAT_KIND_MANAGED && !device_info.managed_memory))
            continue;
        now.pool = sorts[i].options;
        now.pool.size = sizeof now.pool;
        walk(sorts[i].name, pool_scenario);
        if (sorts[i].lazy_name)
            walk(sorts[i].lazy_name, lazy_pool_scenario);
        if (i == 0)
            walk_delays(sorts[i].name, pool_scenario, 7);
    }
    now.of_pools = false;
}

/* The recorder's thread asks again and again whether work is complete, so the number of driver calls differs, and has no
 * end to walk to. */
static void walk_traces(void)
{
    enum { CALLS = 150 };

    now.scenario = "a trace";
    now.of_traces = true;
    now.n = 0;
    traced_scenario(&(struct world){0}); /* what the first trace opens stays open */
    do {
        now.n++;
    } while (run_once(traced_scenario, LEATI_FAULT_FAIL, false) && now.n < CALLS);
    printf("fault_walk: a trace: each of %llu driver calls was made to fail\n", (unsigned long long)now.n - 1);
    now.of_traces = false;
}

/* Opens a file in memory, which disappears with the process. */
static void open_walk_file(void)
{
    int fd = memfd_create("fault_walk", MFD_CLOEXEC);
    char path[40];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || leat_file_open(path, LEAT_FILE_READ | LEAT_FILE_WRITE, &walk_file) != LEAT_OK)
        give_up("no file to copy to: %s", leat_last_error());
    close(fd);
}

static void walk_copies(void)
{
    open_walk_file();
    now.of_copies = true;
    walk("pageable memory", copy_scenario);
    walk("pageable memory, left to the close", lazy_copy_scenario);
    walk_delays("pageable memory", copy_scenario, 7);
    make_walk_folder();
    walk("files", file_scenario);
    walk("files, left to the close", lazy_file_scenario);
    walk_delays("files", file_scenario, 7);
    remove_walk_folder();
    now.of_copies = false;
    if (leat_file_close(walk_file) != LEAT_OK)
        give_up("the file cannot be closed: %s", leat_last_error());
}

/* Returns true if only a machine with two devices can call the entry. */
static bool needs_two_devices(const char *entry)
{
    return !strcmp(entry, "peer_enable");
}

/* Fails if the driver has an entry that no scenario has called. */
static void check_visits(void)
{
    struct leati_fault_visit visit;
    unsigned missed = 0, absent = 0, visited = 0;

    for (unsigned i = 0; leati_fault_visited(wrapper, i, &visit); i++) {
        if (!visit.present) {
            absent++;
            printf("fault_walk: the driver has no %s\n", visit.entry);
        } else if (!visit.calls && wrapper->device_count < 2 && needs_two_devices(visit.entry)) {
            absent++;
            printf("fault_walk: %s needs two devices\n", visit.entry);
        } else if (!visit.calls) {
            missed++;
            printf("fault_walk: %s was never called\n", visit.entry);
        } else {
            visited++;
        }
    }
    printf("fault_walk: %u entries visited, %u not there\n", visited, absent);
    if (missed)
        give_up("%u entries of the driver were never called", missed);
}

/* ---- loading, which happens once per process ---------------------------------------------------- */

/* Runs in the child process, with LEAT_FAULT=fail=load:1. Returns 42 if loading failed as it must. */
static int fail_to_load(void)
{
    leat_driver_info info = LEAT_DRIVER_INFO_INIT;
    leat_device *device;

    if (leat_device_open(test_device_name(), &device) != LEAT_ERROR_DRIVER)
        return 2;
    if (!strstr(leat_last_error(), "fault driver: call 1 (load)"))
        return 3;
    if (leat_driver_list(0, &info) != LEAT_OK || info.status != LEAT_ERROR_DRIVER || info.device_count)
        return 4;
    return strstr(info.reason, "fault driver") ? 42 : 5;
}

static void walk_load(void)
{
    int status;
    pid_t child = fork();

    if (child < 0)
        give_up("no child process");
    if (child == 0) {
        setenv("LEAT_FAULT", "fail=load:1", 1);
        execl("/proc/self/exe", "fault_walk", "--load", (char *)NULL);
        _exit(126);
    }
    now.scenario = "loading";
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 42)
        give_up("the child ended with wait status 0x%x", (unsigned)status);
    printf("fault_walk: loading failed as it should\n");
}

static void find_wrapper(void)
{
    struct leati_driver *driver;
    leat_device *device;

    if (leat_device_open(test_device_name(), &device) != LEAT_OK ||
        leat_device_get_info(device, &device_info) != LEAT_OK || leat_device_close(device) != LEAT_OK) {
        fprintf(stderr, "fault_walk: %s\n", leat_last_error());
        exit(77);
    }
    for (unsigned i = 0; (driver = leati_registry_driver(i, NULL, NULL)); i++)
        if (!strcmp(driver->name, device_info.driver))
            wrapper = driver;
}

/* With FAULT_WALK_HOLD=1 the driver keeps the device open during all runs, so that not every run creates a context
 * on a GPU. Without it each run destroys its context, which also frees what the run has leaked. */
static void *hold_device(void)
{
    void *held = NULL;

    if (getenv("FAULT_WALK_HOLD") && !strcmp(getenv("FAULT_WALK_HOLD"), "1") &&
        wrapper->ops->device_open(wrapper, device_info.ordinal, NULL, &held) != LEAT_OK)
        give_up("the device cannot be held: %s", leat_last_error());
    return held;
}

int main(int argc, char **argv)
{
    char driver[16];
    void *held;

    /* Set these variables before the first call of leat, which reads them. */
    snprintf(driver, sizeof driver, "%.*s", (int)strcspn(test_device_name(), ":"), test_device_name());
    setenv("LEAT_DRIVERS", driver, 0);
    if (argc == 2 && !strcmp(argv[1], "--load"))
        return fail_to_load();
    setenv("LEAT_FAULT", "none", 1);
    setenv("LEAT_COPY_STAGE", "1", 0);
    setenv("LEAT_COPY_RING", "256K", 0);
    setenv("LEAT_COPY_WORKERS", "2", 0);
    /* Prefetches to the host go in chunks, and prefetches to the device in one call. */
    setenv("LEAT_PREFETCH_STREAMS_OUT", "2", 0);
    setenv("LEAT_PREFETCH_CHUNK", "64K", 0);
    setenv("LEAT_LAYOUT_AS_GPU", "1", 0);
    /* With a fixed policy leat measures nothing at the first use. */
    setenv("LEAT_COPY_STORE_POLICY", "cached", 0);
    signal(SIGALRM, on_alarm);
    find_wrapper();
    held = hold_device();
    now.without_memory = true;
    walk("streams and events", order_scenario);
    now.without_memory = false;
    walk("everything, given back", public_scenario);
    walk("everything, left to the close", lazy_scenario);
    walk("virtual memory", table_scenario);
    walk("virtual memory, public", virtual_scenario);
    walk("shares", share_scenario);
    walk("shares, left to the close", lazy_share_scenario);
    if (device_info.managed_memory)
        walk("managed memory", managed_scenario);
    walk_delays("everything, given back", public_scenario, 7);
    walk_traces();
    walk_copies();
    /* FAULT_WALK_POOLS=0 skips the pools, which run the same code over every driver and take the most time. */
    if (!getenv("FAULT_WALK_POOLS") || strcmp(getenv("FAULT_WALK_POOLS"), "0") != 0) {
        walk_pools();
        check_visits();
    }
    if (held && wrapper->ops->device_close(wrapper, held) != LEAT_OK)
        give_up("the device that was held cannot be closed: %s", leat_last_error());
    walk_load();
    return 0;
}
