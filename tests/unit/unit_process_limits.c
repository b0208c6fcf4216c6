/*
 * unit_process_limits.c - tests leat in a process with limits: on addresses (ulimit -v), on the number of mappings
 * (vm.max_map_count), and on the memory of a control group. When a limit is reached, leat must return an error
 * that names it.
 *
 * A limit holds for the rest of a process. So the tests run this program again, with the name of a part below as
 * its first argument.
 */
#include "run_self.h"

#include <leat/layout.h>
#include <leat/virtual.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- limits on addresses and on memory ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Exit status of a child in which leat refused a call with a message that names the limit. */
enum { TOLD = 43 };

/* Makes a call. If it is refused, the function that contains it returns tell(). */
#define STEP(call)                                                                                                \
    do {                                                                                                          \
        if ((call) != LEAT_OK)                                                                                    \
            return tell(#call);                                                                                   \
    } while (0)

static const char *limit_words;

static int tell(const char *call)
{
    if (strstr(leat_last_error(), limit_words))
        return TOLD;
    fprintf(stderr, "%s: %s\n", call, leat_last_error());
    return 1;
}

/* Uses device, pinned, managed and virtual memory, and memory of the driver's own call. Leaves it to the end of
 * the process to free everything. */
static int use_everything(void)
{
    static unsigned char in[1 << 20], out[1 << 20];
    leat_pool_options own = {.size = sizeof own, .dedicated = 1, .exportable = 1};
    leat_layout rows, columns;
    leat_device *device, *other;
    leat_stream *stream, *second;
    leat_event *event;
    leat_module *module;
    leat_kernel *kernel;
    leat_ticket *ticket;
    leat_pool *pool;
    size_t bytes = sizeof in;
    uint64_t count = bytes / 8, seed = 3;
    void *memory, *pinned, *managed, *plain, *shared, *reserved;
    void *args[] = {&managed, &count, &seed};

    test_pattern(in, bytes, 3);
    STEP(leat_device_open("cpu:0", &device));
    STEP(leat_stream_create(device, &stream));
    STEP(leat_alloc(stream, bytes, &memory));
    STEP(leat_copy(stream, memory, in, bytes));
    STEP(leat_copy_sync(stream, out, memory, bytes));
    if (memcmp(in, out, bytes) != 0)
        return 2;
    STEP(leat_stream_create(device, &second));
    STEP(leat_event_create(device, &event));
    STEP(leat_event_record(stream, event));
    STEP(leat_stream_wait(second, event));
    STEP(leat_memory_alloc(device, LEAT_KIND_PINNED, bytes, &pinned));
    STEP(leat_memory_alloc(device, LEAT_KIND_MANAGED, bytes, &managed));
    STEP(leat_module_builtin(device, &module));
    STEP(leat_kernel_get(module, "leat_pattern_u64", &kernel));
    STEP(leat_launch(second, kernel, leat_dim(8, 1, 1), leat_dim(64, 1, 1), 0, args, 3));
    STEP(leat_copy(second, pinned, managed, bytes));
    STEP(leat_stream_synchronize(second));
    if (memcmp(in, pinned, bytes) != 0)
        return 3;
    STEP(leat_alloc_driver(stream, 3 * bytes, &plain));
    STEP(leat_copy_start(stream, plain, in, bytes, NULL, &ticket));
    STEP(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    STEP(leat_layout_dense(&rows, 2, (int64_t[]){1024, 1024}, 1));
    STEP(leat_layout_dense(&columns, 2, (int64_t[]){1024, 1024}, 1));
    STEP(leat_layout_permute(&columns, (uint32_t[]){1, 0}));
    STEP(leat_copy_layout(stream, memory, &rows, plain, &columns));
    STEP(leat_pool_create(device, &own, &pool));
    STEP(leat_pool_alloc(stream, pool, bytes, &shared));
    STEP(leat_virtual_reserve(device, (size_t)2 << 20, 0, &reserved));
    STEP(leat_device_open("cpu:1", &other));
    STEP(leat_stream_create(other, &second));
    STEP(leat_alloc(second, bytes, &shared));
    STEP(leat_copy(second, shared, pinned, bytes));
    STEP(leat_stream_synchronize(second));
    return CONTENT;
}

/* Creates events until the table of handles is full and the call returns an error. After the events are destroyed,
 * the call must work again. */
static int use_all_events(void)
{
    static leat_event *events[1 << 20];
    leat_device *device;
    leat_event *event;
    unsigned count = 0;

    STEP(leat_device_open("cpu:0", &device));
    while (count < 1 << 20 && leat_event_create(device, &events[count]) == LEAT_OK)
        count++;
    if (count < 1000 || count == 1 << 20 || tell("leat_event_create") != TOLD)
        return 2;
    while (count)
        STEP(leat_event_destroy(events[--count]));
    STEP(leat_event_create(device, &event));
    STEP(leat_event_destroy(event));
    STEP(leat_device_close(device));
    return CONTENT;
}

/* Runs a part of this program with an address space of the given number of MiB. */
static int run_limited(unsigned mib, const char *part)
{
    struct rlimit limit = {.rlim_cur = (rlim_t)mib << 20, .rlim_max = (rlim_t)mib << 20};
    pid_t child = fork_child();

    if (child == 0) {
        if (setrlimit(RLIMIT_AS, &limit))
            _exit(97);
        execl(self, self, part, (char *)NULL);
        _exit(98);
    }
    return wait_for_child(child);
}

static void few_addresses_are_enough_or_named(void **state)
{
    static const unsigned mib[] = {64,  80,  96,   128,  192,  256,   384,    512,
                                   640, 768, 1024, 2048, 4096, 65536, 1048576};
    unsigned worked = 0;

    (void)state;
    if (SANITIZED)
        SKIP_OTHER("sanitizers need all addresses");
    for (unsigned i = 0; i < sizeof mib / sizeof mib[0]; i++) {
        int code = run_limited(mib[i], "use-everything");

        if (code != CONTENT && (code != TOLD || mib[i] >= 1024))
            fail_msg("with %u MiB of addresses: exit status %d", mib[i], code);
        worked += code == CONTENT;
    }
    print_message("           %u of %zu limits were enough for everything\n", worked, sizeof mib / sizeof mib[0]);
    /* Set LEAT_CPU_MEMORY to a quarter of the limit, and then to far more than the limit. */
    setenv("LEAT_CPU_MEMORY", "1G", 1);
    assert_int_equal(run_limited(4096, "use-everything"), CONTENT);
    setenv("LEAT_CPU_MEMORY", "64G", 1);
    assert_int_equal(run_limited(2048, "use-everything"), CONTENT);
    unsetenv("LEAT_CPU_MEMORY");
    assert_int_equal(run_limited(1024, "use-all-events"), CONTENT);
}

/* ---- the limit on the number of mappings ---- */

/* Mappings that the test itself has created, so that the system allows few more or none. */
struct filler {
    char *start;
    size_t bytes;
};

static unsigned long mappings_most(void)
{
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    unsigned long most = 0;

    if (file && fscanf(file, "%lu", &most) != 1)
        most = 0;
    if (file)
        fclose(file);
    return most;
}

/* Creates mappings until the system allows only spare more. over: also creates one mapping above the limit, which
 * is possible because the system checks the number before it adds a mapping. */
static bool fill_mappings(struct filler *filler, unsigned spare, bool over)
{
    size_t page_bytes = 4096, i = 1;

    filler->bytes = 2 * (mappings_most() + 16) * page_bytes;
    filler->start = mmap(NULL, filler->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (filler->start == MAP_FAILED)
        return false;
    /* Each call adds two mappings, except that the last one may add one. */
    while (i * page_bytes < filler->bytes && mprotect(filler->start + i * page_bytes, page_bytes, PROT_READ) == 0)
        i += 2;
    for (; spare && i > 2; spare--, i -= 2)
        mprotect(filler->start + (i - 2) * page_bytes, page_bytes, PROT_NONE);
    /* These mappings are shared, because the system would merge a private mapping with a neighbour of the same
     * kind. */
    while (over && mmap(NULL, page_bytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        continue;
    return true;
}

static uint64_t used_memory(leat_device *device)
{
    uint64_t free_bytes = 0, total_bytes = 0;

    return leat_device_memory(device, &free_bytes, &total_bytes) == LEAT_OK ? total_bytes - free_bytes
                                                                            : UINT64_MAX;
}

static size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    size_t all = 0, resident = 0;

    if (file && fscanf(file, "%zu %zu", &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

#define BLOCKS 40

/* Allocates small and large blocks through the driver's own call, and fills them. Returns their number. */
static unsigned take_blocks(leat_stream *stream, void *blocks[BLOCKS])
{
    static const size_t sizes[] = {128000, 3 << 20};
    unsigned i;

    for (i = 0; i < BLOCKS && leat_alloc_driver(stream, sizes[i % 2], &blocks[i]) == LEAT_OK; i++)
        if (leat_fill(stream, blocks[i], (uint8_t)(i + 1), sizes[i % 2]) != LEAT_OK)
            break;
    return leat_stream_synchronize(stream) == LEAT_OK ? i : 0;
}

/* Frees half of the blocks in stream order and the other half immediately. */
static bool give_blocks_back(leat_stream *stream, void *blocks[BLOCKS], unsigned count)
{
    while (count--)
        if ((count % 4 < 2 ? leat_free(stream, blocks[count]) : leat_memory_free(blocks[count])) != LEAT_OK)
            return false;
    return leat_stream_synchronize(stream) == LEAT_OK;
}

/* Runs in the child. Memory that is freed while the process has the largest number of mappings, or one more
 * (over), must not leak. */
static int use_all_mappings(bool over)
{
    struct filler filler;
    leat_device *device;
    leat_stream *stream;
    leat_physical *physical;
    void *blocks[BLOCKS], *reserved;
    size_t unit, resident;
    uint64_t used;

    limit_words = "vm.max_map_count";
    STEP(leat_device_open("cpu:0", &device));
    STEP(leat_stream_create(device, &stream));
    used = used_memory(device);
    if (take_blocks(stream, blocks) != BLOCKS)
        return 2;
    STEP(leat_virtual_granularity(device, &unit));
    STEP(leat_virtual_reserve(device, 4 * unit, 0, &reserved));
    STEP(leat_physical_create(device, unit, 0, &physical));
    STEP(leat_virtual_map((char *)reserved + unit, unit, physical));
    STEP(leat_virtual_set_access(device, (char *)reserved + unit, unit, LEAT_ACCESS_READ_WRITE));
    STEP(leat_fill(stream, (char *)reserved + unit, 1, unit));
    STEP(leat_stream_synchronize(stream));
    if (!fill_mappings(&filler, 0, over))
        return 3;
    resident = resident_bytes();
    if (leat_virtual_map((char *)reserved + 2 * unit, unit, physical) == LEAT_OK || tell("map") != TOLD)
        return 4;
    STEP(leat_virtual_unmap((char *)reserved + unit, unit));
    STEP(leat_physical_release(physical));
    STEP(leat_virtual_unreserve(reserved));
    if (!give_blocks_back(stream, blocks, BLOCKS))
        return 5;
    if (used_memory(device) != used || resident_bytes() + ((size_t)60 << 20) > resident)
        return 6;
    munmap(filler.start, filler.bytes);
    if (take_blocks(stream, blocks) != BLOCKS || !give_blocks_back(stream, blocks, BLOCKS))
        return 7;
    STEP(leat_device_close(device));
    return CONTENT;
}

/* Runs in the child. Allocates blocks until no mappings are left. Begins with 0 to 11 spare mappings. */
static int reach_all_mappings(void)
{
    limit_words = "vm.max_map_count";
    for (unsigned spare = 0; spare < 12; spare++) {
        struct filler filler;
        leat_device *device;
        leat_stream *stream;
        void *blocks[BLOCKS];
        unsigned taken;
        uint64_t used;

        STEP(leat_device_open("cpu:0", &device));
        STEP(leat_stream_create(device, &stream));
        used = used_memory(device);
        if (!fill_mappings(&filler, spare, false))
            return 2;
        taken = take_blocks(stream, blocks);
        if (taken == BLOCKS || tell("leat_alloc_driver") != TOLD)
            return 3;
        if (!give_blocks_back(stream, blocks, taken) || used_memory(device) != used)
            return 4;
        munmap(filler.start, filler.bytes);
        if (take_blocks(stream, blocks) != BLOCKS || !give_blocks_back(stream, blocks, BLOCKS))
            return 5;
        if (used_memory(device) != used)
            return 6;
        STEP(leat_device_close(device));
    }
    return CONTENT;
}

static void memory_goes_back_without_mappings(void **state)
{
    static const char *const parts[] = {"all-mappings", "over-mappings", "reach-mappings"};

    (void)state;
    if (SANITIZED)
        SKIP_OTHER("sanitizers need mappings of their own");
    if (!mappings_most() || mappings_most() > 2000000)
        SKIP_OTHER("there is no limit on mappings that is worth being reached");
    for (unsigned i = 0; i < 3; i++) {
        int code = run_self(NULL, NULL, &parts[i], 1);

        if (code != CONTENT)
            fail_msg("%s: exit status %d", parts[i], code);
    }
}

/* Writes one line to a file of a control group. */
static bool write_line(const char *group, const char *file, const char *line)
{
    char path[640];
    int fd;
    bool fine;

    snprintf(path, sizeof path, "%s/%s", group, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    fine = write(fd, line, strlen(line)) == (ssize_t)strlen(line);
    close(fd);
    return fine;
}

/* Runs in the child, in a control group of 256 MiB. Fills as much device memory as it can get. */
static int fill_memory(void)
{
    uint64_t free_bytes, total_bytes, filled = 0;
    leat_device *device;
    leat_stream *stream;
    void *memory;

    STEP(leat_device_open("cpu:0", &device));
    STEP(leat_stream_create(device, &stream));
    STEP(leat_device_memory(device, &free_bytes, &total_bytes));
    if (total_bytes > (uint64_t)256 << 20 || total_bytes < (uint64_t)128 << 20)
        return 2;
    if (leat_alloc(stream, (size_t)512 << 20, &memory) != LEAT_ERROR_DEVICE_MEMORY || tell("leat_alloc") != TOLD)
        return 3;
    while (leat_alloc(stream, (size_t)8 << 20, &memory) == LEAT_OK) {
        STEP(leat_fill(stream, memory, 1, (size_t)8 << 20));
        STEP(leat_stream_synchronize(stream));
        filled += (size_t)8 << 20;
    }
    return filled + ((uint64_t)8 << 20) > total_bytes && tell("leat_alloc") == TOLD ? CONTENT : 4;
}

/* Creates a control group with a limit of 256 MiB, as a child of the group of this process. Returns false if the
 * system does not allow it. */
static bool make_group(char *group, size_t bytes, const char **limit)
{
    FILE *groups = fopen("/proc/self/cgroup", "re");
    char line[512], path[300];
    bool made = false;

    while (groups && !made && fgets(line, sizeof line, groups)) {
        bool second_version = sscanf(line, "0::%299[^\n]", path) == 1;

        if (!second_version && sscanf(line, "%*u:memory:%299[^\n]", path) != 1)
            continue;
        snprintf(group, bytes, "%s%s/leat-test-%d", second_version ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory",
                 path, (int)getpid());
        *limit = second_version ? "memory.max" : "memory.limit_in_bytes";
        made = mkdir(group, 0755) == 0;
        if (made && !write_line(group, *limit, "268435456")) {
            rmdir(group);
            made = false;
        }
    }
    if (groups)
        fclose(groups);
    return made;
}

static void device_memory_is_what_the_control_group_allows(void **state)
{
    const char *limit;
    char group[512];
    pid_t child;
    int code;

    (void)state;
    if (SANITIZED)
        SKIP_OTHER("sanitizers take memory of their own");
    if (!make_group(group, sizeof group, &limit))
        SKIP_OTHER("this process can make no control group that limits memory");
    child = fork_child();
    if (child == 0) {
        if (!write_line(group, "cgroup.procs", "0"))
            _exit(97);
        execl(self, self, "fill-memory", (char *)NULL);
        _exit(98);
    }
    code = wait_for_child(child);
    /* The system keeps the group as long as it has pages, so try again. */
    for (int i = 0; i < 1000 && rmdir(group); i++)
        test_sleep_us(10000);
    assert_int_equal(code, CONTENT);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_addresses_are_enough_or_named),
        cmocka_unit_test(device_memory_is_what_the_control_group_allows),
        cmocka_unit_test(memory_goes_back_without_mappings),
    };
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    /* Call _exit() after the parts that leave objects open on purpose, because a sanitizer would report these as
     * leaks. */
    limit_words = "'ulimit -v'";
    if (argc == 2 && !strcmp(argv[1], "use-everything"))
        _exit(use_everything());
    if (argc == 2 && !strcmp(argv[1], "use-all-events"))
        return use_all_events();
    if (argc == 2 && !strcmp(argv[1], "all-mappings"))
        return use_all_mappings(false);
    if (argc == 2 && !strcmp(argv[1], "over-mappings"))
        return use_all_mappings(true);
    if (argc == 2 && !strcmp(argv[1], "reach-mappings"))
        return reach_all_mappings();
    limit_words = "the control group";
    if (argc == 2 && !strcmp(argv[1], "fill-memory"))
        _exit(fill_memory());
    if (length <= 0)
        return 1;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(self, '/') - self), self);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
