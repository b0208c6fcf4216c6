/*
 * test_ucx.c - tests UCX as the carrier of payload (net/ucx.h): bytes, sizes, cancelling, failures, and what UCX
 * leaves in the process.
 *
 * The program itself never uses UCX. Each test forks two children, which are the two ends of a link and talk over
 * a pair of sockets too, as links do over their control socket. So each test has a new UCX in each process.
 *
 * UCX_TLS selects the transports as always; most tests run with several values. TEST_UCX_OTHER names a libucp.so.0
 * of another version, for the test that two versions refuse each other. An argument selects one test.
 */
#include "net.h"
#include "ucx.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define FRAGMENT LEATN_UCX_FRAGMENT_MAX
#define NEVER UINT64_MAX

/* ---- children ---- */

/* In a child cmocka cannot report a failure. A child prints what failed and exits with 1. */
#define CHECK(condition)                                                                                          \
    do {                                                                                                          \
        if (!(condition))                                                                                         \
            fail_child(#condition, __LINE__);                                                                     \
    } while (0)
#define CHECK_OK(call) CHECK((call) == LEAT_OK || (fprintf(stderr, "%s\n", leat_last_error()), 0))

static _Noreturn void fail_child(const char *condition, int line)
{
    fprintf(stderr, "test_ucx.c:%d: end %s: %s\n", line, getenv("TEST_UCX_END"), condition);
    _exit(1);
}

/* One end of a link: its worker, and its end of the pair of sockets. */
struct end {
    int control;
    struct leatn_ucx_worker *worker;
    atomic_uint changes;
    unsigned seen; /* changes when step() last returned */
};

static void on_change(void *object)
{
    struct end *end = object;

    atomic_fetch_add(&end->changes, 1);
}

/* Lets UCX work once, then waits as the loop of the library does. Returns when anything has changed since it
 * returned the last time, when the descriptor is readable, or after limit_ns. */
static void step(struct end *end, uint64_t limit_ns)
{
    uint64_t wait_ns = leatn_ucx_progress(end->worker);
    struct pollfd watched = {.fd = leatn_ucx_descriptor(end->worker), .events = POLLIN};
    bool armed = wait_ns == LEATN_UCX_ARMED;
    unsigned changes;
    struct timespec wait;

    if (wait_ns > limit_ns)
        wait_ns = limit_ns;
    changes = atomic_load(&end->changes);
    if (wait_ns == 0 || changes != end->seen) {
        end->seen = changes;
        return;
    }
    wait = (struct timespec){(time_t)(wait_ns / 1000000000), (long)(wait_ns % 1000000000)};
    (void)ppoll(&watched, armed, wait_ns == NEVER ? NULL : &wait, NULL);
}

static void wait_end(struct end *end, const struct leatn_ucx_request *request)
{
    while (leatn_ucx_state(request) == LEATN_UCX_RUNNING)
        step(end, NEVER);
}

static void send_all(int fd, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t some = send(fd, (const char *)bytes + done, count - done, MSG_NOSIGNAL);

        CHECK(some > 0);
        done += (size_t)some;
    }
}

static void receive_all(int fd, void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t some = read(fd, (char *)bytes + done, count - done);

        CHECK(some > 0);
        done += (size_t)some;
    }
}

/* Waits until the other process has closed its end of the pair. UCX goes on working meanwhile. */
static void wait_for_end(struct end *end)
{
    struct pollfd watched = {.fd = end->control, .events = POLLIN};
    char byte;

    while (poll(&watched, 1, 0) == 0)
        step(end, 1000000);
    CHECK(read(end->control, &byte, 1) == 0);
}

/* Waits until both ends have come here. UCX goes on working meanwhile. */
static void meet(struct end *end)
{
    struct pollfd watched = {.fd = end->control, .events = POLLIN};
    char byte = 'm';

    send_all(end->control, &byte, 1);
    while (poll(&watched, 1, 0) == 0)
        step(end, 1000000);
    receive_all(end->control, &byte, 1);
}

static void exchange_addresses(struct end *end, void **address, size_t *bytes)
{
    size_t own_bytes;
    const void *own = leatn_ucx_worker_address(end->worker, &own_bytes);

    send_all(end->control, &own_bytes, sizeof own_bytes);
    send_all(end->control, own, own_bytes);
    receive_all(end->control, bytes, sizeof *bytes);
    CHECK(*bytes <= LEATN_UCX_ADDRESS_MAX);
    *address = malloc(*bytes);
    CHECK(*address);
    receive_all(end->control, *address, *bytes);
}

static void connect_end(struct end *end, const void *address, size_t bytes)
{
    CHECK_OK(leatn_ucx_connect(end->worker, address, bytes, getenv("TEST_UCX_END")[0] == '0'));
    while (!leatn_ucx_is_connected(end->worker)) {
        CHECK(!leatn_ucx_has_failed(end->worker, NULL, 0));
        step(end, NEVER);
    }
}

static void open_end(struct end *end)
{
    void *address;
    size_t bytes;

    CHECK_OK(leatn_ucx_worker_create(on_change, end, &end->worker));
    exchange_addresses(end, &address, &bytes);
    connect_end(end, address, bytes);
    free(address);
}

/* Both ends have received all blocks. */
static void close_end(struct end *end)
{
    meet(end);
    leatn_ucx_close(end->worker, true);
    while (!leatn_ucx_is_closed(end->worker))
        step(end, NEVER);
    leatn_ucx_worker_destroy(end->worker);
}

/* ---- patterns: each byte depends on its position and on a seed ---- */

static uint64_t word_of(uint64_t index, uint64_t seed)
{
    uint64_t word = (index + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed * UINT64_C(0xbf58476d1ce4e5b9);

    return word ^ word >> 29;
}

static void fill(unsigned char *memory, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)(word_of(i / 8, seed) >> (i % 8 * 8));
}

static bool is_filled(const unsigned char *memory, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != (unsigned char)(word_of(i / 8, seed) >> (i % 8 * 8)))
            return false;
    return true;
}

static unsigned char *allocate(size_t bytes)
{
    unsigned char *memory = malloc(bytes);

    CHECK(memory);
    return memory;
}

/* ---- running a test ---- */

typedef void end_function(struct end *end, int side);

struct scene {
    const char *transports;   /* UCX_TLS; NULL: what UCX chooses */
    const char *name, *value; /* another variable of the environment, or NULL */
    end_function *run;
    int killed_side; /* the end that is killed by a signal; -1: none */
};

static pid_t start_end(const struct scene *scene, int control, int other, int side)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child > 0)
        return child;
    close(other);
    alarm(getenv("TEST_UCX_ALARM") ? (unsigned)atoi(getenv("TEST_UCX_ALARM")) : 120);
    setenv("TEST_UCX_END", side ? "1" : "0", 1);
    if (scene->transports)
        setenv("UCX_TLS", scene->transports, 1);
    if (scene->name)
        setenv(scene->name, scene->value, 1);
    {
        struct end end = {.control = control};

        scene->run(&end, side);
    }
    exit(0);
}

static void check_status(int status, bool killed)
{
    if (killed)
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    else if (WIFSIGNALED(status))
        fail_msg("a child was ended by signal %d", WTERMSIG(status));
    else
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void run_ends(const struct scene *scene)
{
    int pair[2], status[2];
    pid_t children[2];

    fflush(NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    for (int side = 0; side < 2; side++)
        children[side] = start_end(scene, pair[side], pair[!side], side);
    close(pair[0]);
    close(pair[1]);
    for (int side = 0; side < 2; side++)
        assert_int_equal(waitpid(children[side], &status[side], 0), children[side]);
    for (int side = 0; side < 2; side++)
        check_status(status[side], side == scene->killed_side);
}

static void run(const char *transports, end_function *function)
{
    struct scene scene = {.transports = transports, .run = function, .killed_side = -1};

    run_ends(&scene);
}

/* What UCX chooses on one machine, and what it has between two machines without special networks. */
static const char *const all_transports[] = {NULL, "tcp", "posix,tcp"};
#define TRANSPORTS (sizeof all_transports / sizeof all_transports[0])

static void run_with_all(end_function *function)
{
    for (size_t i = 0; i < TRANSPORTS; i++)
        run(all_transports[i], function);
}

/* ---- bytes ---- */

enum { MESSAGE_FRAGMENTS = 64, WINDOW = 8 };

/* The ids of the two directions may be the same, because a send of one end only meets receives of the other. */
static uint64_t id_of(size_t fragment)
{
    return UINT64_C(0x8000000000000000) + fragment;
}

struct flow {
    struct leatn_ucx_request requests[WINDOW];
    const struct leatn_ucx_memory *in;
    unsigned char *memory;
    size_t started, ended;
};

/* Takes the results of requests in their order, and starts others, so that at most WINDOW are under way. */
static void move_flow(struct end *end, struct flow *flow, bool receive)
{
    while (flow->ended < flow->started) {
        struct leatn_ucx_request *request = &flow->requests[flow->ended % WINDOW];

        if (leatn_ucx_state(request) == LEATN_UCX_RUNNING)
            break;
        CHECK(leatn_ucx_state(request) == LEATN_UCX_DONE);
        flow->ended++;
    }
    while (flow->started < MESSAGE_FRAGMENTS && flow->started - flow->ended < WINDOW) {
        struct leatn_ucx_request *request = &flow->requests[flow->started % WINDOW];
        unsigned char *memory = flow->memory + flow->started * FRAGMENT;
        uint64_t id = id_of(flow->started++);

        CHECK(receive ? leatn_ucx_receive(end->worker, request, memory, flow->in, FRAGMENT, id)
                      : leatn_ucx_send(end->worker, request, memory, flow->in, FRAGMENT, id));
    }
}

static void move_both_ways(struct end *end, struct flow *out, struct flow *in)
{
    while (out->ended < MESSAGE_FRAGMENTS || in->ended < MESSAGE_FRAGMENTS) {
        move_flow(end, in, true);
        move_flow(end, out, false);
        if (out->ended < MESSAGE_FRAGMENTS || in->ended < MESSAGE_FRAGMENTS)
            step(end, NEVER);
    }
}

static void both_ways(struct end *end, int side)
{
    size_t bytes = MESSAGE_FRAGMENTS * FRAGMENT;
    struct flow out = {.memory = allocate(bytes)}, in = {.memory = allocate(bytes)};

    fill(out.memory, bytes, (uint64_t)side);
    memset(in.memory, 0xee, bytes);
    open_end(end);
    move_both_ways(end, &out, &in);
    CHECK(is_filled(in.memory, bytes, (uint64_t)!side));
    CHECK(atomic_load(&end->changes) > 0);
    close_end(end);
    free(out.memory);
    free(in.memory);
}

static void messages_go_both_ways(void **state)
{
    (void)state;
    run_with_all(both_ways);
}

/* From and to registered memory. */
static void both_ways_registered(struct end *end, int side)
{
    struct leatn_ucx_memory *memory;
    size_t bytes = MESSAGE_FRAGMENTS * FRAGMENT;
    struct flow out = {0}, in = {0};

    open_end(end);
    CHECK_OK(leatn_ucx_memory_create(2 * bytes, &memory));
    out.in = in.in = memory;
    out.memory = leatn_ucx_memory_address(memory);
    in.memory = out.memory + bytes;
    fill(out.memory, bytes, (uint64_t)side + 2);
    move_both_ways(end, &out, &in);
    CHECK(is_filled(in.memory, bytes, (uint64_t)!side + 2));
    meet(end);
    leatn_ucx_memory_destroy(memory);
    close_end(end);
}

static void registered_memory_is_used(void **state)
{
    (void)state;
    run_with_all(both_ways_registered);
}

/* Every size, at any alignment; no byte beside the destination changes. Half of the sends come first. */
static void sizes(struct end *end, int side)
{
    static const size_t all[] = {1, 7, 64, 1000, 4096, 8191, 8192, 65537, 300000, FRAGMENT - 1, FRAGMENT};
    unsigned char *memory = allocate(FRAGMENT + 16);

    open_end(end);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (size_t shift = 0; shift < 2; shift++) {
            struct leatn_ucx_request request = {0};
            uint64_t id = 2 * i + shift;

            if (side == 0) {
                fill(memory + shift, all[i], id);
                (void)leatn_ucx_send(end->worker, &request, memory + shift, NULL, all[i], id);
                wait_end(end, &request);
                CHECK(leatn_ucx_state(&request) == LEATN_UCX_DONE);
                continue;
            }
            memset(memory, 0xee, FRAGMENT + 16);
            if (i % 2)
                step(end, 2000000);
            (void)leatn_ucx_receive(end->worker, &request, memory + 3, NULL, all[i], id);
            wait_end(end, &request);
            CHECK(leatn_ucx_state(&request) == LEATN_UCX_DONE);
            CHECK(is_filled(memory + 3, all[i], id));
            CHECK(memory[2] == 0xee && memory[3 + all[i]] == 0xee);
        }
    close_end(end);
    free(memory);
}

static void all_sizes_arrive(void **state)
{
    (void)state;
    run_with_all(sizes);
}

/* A block of another size than the receive's: the receive fails, whether the block is longer or shorter. */
static void wrong_sizes(struct end *end, int side)
{
    static const struct {
        size_t sent, wanted;
        const char *words;
    } cases[] = {
        {1000, 2000, "1000 bytes instead of 2000"},
        {2000, 1000, "runcated"},
        {FRAGMENT, FRAGMENT / 2, "runcated"},
        {FRAGMENT / 2, FRAGMENT, "524288 bytes instead of 1048576"},
    };
    unsigned char *memory = allocate(FRAGMENT);
    char text[200];

    memset(memory, 0x11, FRAGMENT);
    open_end(end);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct leatn_ucx_request request = {0};

        if (side == 0)
            (void)leatn_ucx_send(end->worker, &request, memory, NULL, cases[i].sent, i);
        else
            (void)leatn_ucx_receive(end->worker, &request, memory, NULL, cases[i].wanted, i);
        wait_end(end, &request);
        if (side == 0)
            continue;
        CHECK(leatn_ucx_state(&request) == LEATN_UCX_FAILED);
        leatn_ucx_describe(&request, text, sizeof text);
        CHECK(strstr(text, cases[i].words));
        CHECK(!leatn_ucx_has_failed(end->worker, NULL, 0));
    }
    close_end(end);
    free(memory);
}

static void blocks_of_another_size_fail(void **state)
{
    (void)state;
    run_with_all(wrong_sizes);
}

/* ---- threads ---- */

enum { THREADS = 3, THREAD_BLOCKS = 24 };

struct thread_job {
    struct end *end;
    pthread_t thread;
    unsigned number;
    bool receive;
    unsigned char *memory;
};

/* Starts blocks of its own, and waits for them without a call of UCX: the loop does that. */
static void *use_worker(void *argument)
{
    struct thread_job *job = argument;

    for (uint64_t i = 0; i < THREAD_BLOCKS; i++) {
        struct leatn_ucx_request request = {0};
        uint64_t id = i * THREADS + job->number;
        size_t bytes = 1 + (id * 77777) % FRAGMENT;

        if (job->receive) {
            (void)leatn_ucx_receive(job->end->worker, &request, job->memory, NULL, bytes, id);
        } else {
            fill(job->memory, bytes, id);
            (void)leatn_ucx_send(job->end->worker, &request, job->memory, NULL, bytes, id);
        }
        while (leatn_ucx_state(&request) == LEATN_UCX_RUNNING)
            nanosleep(&(struct timespec){0, 100000}, NULL);
        CHECK(leatn_ucx_state(&request) == LEATN_UCX_DONE);
        if (job->receive)
            CHECK(is_filled(job->memory, bytes, id));
    }
    atomic_fetch_add(&job->end->changes, 1 << 16);
    return NULL;
}

static void threads(struct end *end, int side)
{
    struct thread_job jobs[2 * THREADS];

    open_end(end);
    (void)side;
    for (unsigned i = 0; i < 2 * THREADS; i++) {
        jobs[i] = (struct thread_job){.end = end, .number = i / 2, .receive = i % 2, .memory = allocate(FRAGMENT)};
        CHECK(pthread_create(&jobs[i].thread, NULL, use_worker, &jobs[i]) == 0);
    }
    /* The threads do not call UCX between their requests, so this one must be woken up by what they start. A
     * thread that has ended does not wake it up: hence the limit. */
    while (atomic_load(&end->changes) >> 16 < 2 * THREADS)
        step(end, 50000000);
    for (unsigned i = 0; i < 2 * THREADS; i++) {
        CHECK(pthread_join(jobs[i].thread, NULL) == 0);
        free(jobs[i].memory);
    }
    close_end(end);
}

static void several_threads_use_a_worker(void **state)
{
    (void)state;
    run_with_all(threads);
}

/* ---- cancelling ---- */

/* A receive that nothing meets ends at once. The id can be used again. */
static void cancel_unmet(struct end *end, int side)
{
    struct leatn_ucx_request request = {0};
    unsigned char *memory = allocate(FRAGMENT);
    char text[200];

    open_end(end);
    memset(memory, 0xee, FRAGMENT);
    if (side == 1) {
        CHECK(leatn_ucx_receive(end->worker, &request, memory, NULL, FRAGMENT, 5));
        CHECK(leatn_ucx_state(&request) == LEATN_UCX_RUNNING);
        leatn_ucx_cancel(&request);
        CHECK(leatn_ucx_state(&request) == LEATN_UCX_FAILED);
        leatn_ucx_describe(&request, text, sizeof text);
        CHECK(strstr(text, "ancel"));
        leatn_ucx_cancel(&request);
    }
    meet(end);
    if (side == 0) {
        fill(memory, FRAGMENT, 9);
        (void)leatn_ucx_send(end->worker, &request, memory, NULL, FRAGMENT, 5);
        leatn_ucx_cancel(&request); /* has no effect on a send */
    } else {
        CHECK(memory[0] == 0xee && memory[FRAGMENT - 1] == 0xee);
        (void)leatn_ucx_receive(end->worker, &request, memory, NULL, FRAGMENT, 5);
    }
    wait_end(end, &request);
    CHECK(leatn_ucx_state(&request) == LEATN_UCX_DONE);
    if (side == 1)
        CHECK(is_filled(memory, FRAGMENT, 9));
    close_end(end);
    free(memory);
}

static void receives_are_cancelled(void **state)
{
    (void)state;
    run_with_all(cancel_unmet);
}

enum { CANCEL_BLOCKS = 48, CANCEL_ROUNDS = 4 };

/* Receives blocks that were cancelled before they came, as a link that gives up a message must. */
static void drain(struct end *end, struct leatn_ucx_request *requests, unsigned char *scratch, uint64_t first)
{
    for (uint64_t i = 0; i < CANCEL_BLOCKS; i++) {
        if (leatn_ucx_state(&requests[i]) != LEATN_UCX_FAILED)
            continue;
        (void)leatn_ucx_receive(end->worker, &requests[i], scratch, NULL, FRAGMENT, first + i);
        wait_end(end, &requests[i]);
        CHECK(leatn_ucx_state(&requests[i]) == LEATN_UCX_DONE);
        CHECK(is_filled(scratch, FRAGMENT, first + i));
    }
}

/* Cancels in the middle: each receive is either complete, with all its bytes, or failed, and then its block can
 * still be received. */
static void cancel_middle(struct end *end, int side)
{
    static struct leatn_ucx_request requests[CANCEL_BLOCKS];
    unsigned char *memory = allocate(CANCEL_BLOCKS * FRAGMENT), *scratch = allocate(FRAGMENT);

    open_end(end);
    for (uint64_t round = 0; round < CANCEL_ROUNDS; round++) {
        uint64_t first = round * CANCEL_BLOCKS;

        memset(memory, 0xee, CANCEL_BLOCKS * FRAGMENT);
        for (uint64_t i = 0; i < CANCEL_BLOCKS; i++) {
            unsigned char *at = memory + i * FRAGMENT;

            if (side == 0)
                fill(at, FRAGMENT, first + i);
            if (side == 0)
                (void)leatn_ucx_send(end->worker, &requests[i], at, NULL, FRAGMENT, first + i);
            else
                (void)leatn_ucx_receive(end->worker, &requests[i], at, NULL, FRAGMENT, first + i);
        }
        if (side == 1) {
            wait_end(end, &requests[(5 + 7 * round) % CANCEL_BLOCKS]);
            for (size_t i = 0; i < CANCEL_BLOCKS; i++)
                leatn_ucx_cancel(&requests[i]);
        }
        for (uint64_t i = 0; i < CANCEL_BLOCKS && side == 1; i++) {
            wait_end(end, &requests[i]);
            if (leatn_ucx_state(&requests[i]) == LEATN_UCX_DONE)
                CHECK(is_filled(memory + i * FRAGMENT, FRAGMENT, first + i));
        }
        if (side == 1)
            drain(end, requests, scratch, first);
        for (uint64_t i = 0; i < CANCEL_BLOCKS; i++) {
            wait_end(end, &requests[i]);
            CHECK(leatn_ucx_state(&requests[i]) == LEATN_UCX_DONE);
        }
        meet(end);
    }
    close_end(end);
    free(memory);
    free(scratch);
}

static void cancelling_in_the_middle_loses_nothing(void **state)
{
    (void)state;
    run_with_all(cancel_middle);
}

/* ---- failures ---- */

/* The other end is killed while blocks go both ways. Then UCX ends all requests, because the endpoint fails (which
 * TCP tells at once), or because the caller closes it, after the control socket has told. */
static void killed(struct end *end, int side, bool close_it)
{
    static struct leatn_ucx_request sends[4], receives[4];
    unsigned char *memory = allocate(8 * FRAGMENT);
    char text[200];

    open_end(end);
    for (uint64_t i = 0; i < 4; i++) {
        (void)leatn_ucx_receive(end->worker, &receives[i], memory + i * FRAGMENT, NULL, FRAGMENT, i);
        if (side == 0)
            (void)leatn_ucx_send(end->worker, &sends[i], memory + (4 + i) * FRAGMENT, NULL, FRAGMENT, i);
    }
    wait_end(end, side ? &receives[0] : &sends[0]);
    if (side == 1)
        raise(SIGKILL);
    wait_for_end(end);
    if (close_it)
        leatn_ucx_close(end->worker, false);
    for (size_t i = 0; i < 4; i++) {
        wait_end(end, &sends[i]);
        wait_end(end, &receives[i]);
        CHECK(leatn_ucx_state(&receives[i]) == LEATN_UCX_FAILED);
        leatn_ucx_describe(&receives[i], text, sizeof text);
        CHECK(strstr(text, "1048576 bytes failed: "));
    }
    CHECK(!leatn_ucx_send(end->worker, &sends[0], memory, NULL, FRAGMENT, 9));
    CHECK(leatn_ucx_state(&sends[0]) == LEATN_UCX_FAILED);
    if (!close_it) {
        CHECK(leatn_ucx_has_failed(end->worker, text, sizeof text));
        CHECK(strstr(text, "the UCX connection failed: "));
    }
    leatn_ucx_worker_destroy(end->worker);
    free(memory);
}

static void killed_found(struct end *end, int side)
{
    killed(end, side, false);
}

static void killed_closed(struct end *end, int side)
{
    killed(end, side, true);
}

static void requests_end_if_the_peer_is_killed(void **state)
{
    struct scene scene = {.run = killed_closed, .killed_side = 1};

    (void)state;
    for (size_t i = 0; i < TRANSPORTS; i++) {
        scene.transports = all_transports[i];
        run_ends(&scene);
    }
    scene.transports = "tcp,self";
    scene.run = killed_found;
    run_ends(&scene);
}

/* Destroying a worker ends requests that are under way, and UCX does not write to their memory any more. */
static void destroyed(struct end *end, int side)
{
    static struct leatn_ucx_request requests[8];
    unsigned char *memory = allocate(8 * FRAGMENT);
    char text[200];

    open_end(end);
    meet(end);
    for (uint64_t i = 0; i < 8; i++) {
        if (side == 0)
            (void)leatn_ucx_send(end->worker, &requests[i], memory + i * FRAGMENT, NULL, FRAGMENT, i);
        else
            (void)leatn_ucx_receive(end->worker, &requests[i], memory + i * FRAGMENT, NULL, FRAGMENT, i);
    }
    wait_end(end, &requests[0]);
    leatn_ucx_worker_destroy(end->worker);
    for (size_t i = 0; i < 8; i++)
        CHECK(leatn_ucx_state(&requests[i]) != LEATN_UCX_RUNNING);
    leatn_ucx_describe(&requests[7], text, sizeof text);
    memset(memory, 0, 8 * FRAGMENT);
    free(memory);
}

/* One end destroys its worker in the middle; the other one hears of it over the control socket. */
static void destroyed_by_one(struct end *end, int side)
{
    struct leatn_ucx_request request = {0};
    unsigned char *memory = allocate(FRAGMENT);

    open_end(end);
    meet(end);
    (void)leatn_ucx_receive(end->worker, &request, memory, NULL, FRAGMENT, 1);
    if (side == 1)
        wait_for_end(end);
    leatn_ucx_worker_destroy(end->worker);
    close(end->control);
    CHECK(leatn_ucx_state(&request) == LEATN_UCX_FAILED);
    free(memory);
}

static void workers_are_destroyed_in_the_middle(void **state)
{
    (void)state;
    run_with_all(destroyed);
    run_with_all(destroyed_by_one);
}

/* Several workers in one process, one after the other and at the same time: the context is made again. */
static void many_workers(struct end *end, int side)
{
    struct end more[3];

    (void)side;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            more[i] = (struct end){.control = end->control};
            open_end(&more[i]);
        }
        for (int i = 0; i < 3; i++) {
            struct leatn_ucx_request send = {0}, receive = {0};
            unsigned char out[100], in[100];

            fill(out, sizeof out, (uint64_t)(i + round));
            (void)leatn_ucx_receive(more[i].worker, &receive, in, NULL, sizeof in, 1);
            (void)leatn_ucx_send(more[i].worker, &send, out, NULL, sizeof out, 1);
            wait_end(&more[i], &receive);
            wait_end(&more[i], &send);
            CHECK(is_filled(in, sizeof in, (uint64_t)(i + round)));
        }
        for (int i = 0; i < 3; i++)
            close_end(&more[i]);
    }
}

static void a_process_has_several_workers(void **state)
{
    (void)state;
    run_with_all(many_workers);
}

/* The two ends have no transport in common. */
static void no_transport(struct end *end, int side)
{
    void *address;
    size_t bytes;

    setenv("UCX_TLS", side ? "tcp" : "posix", 1);
    CHECK_OK(leatn_ucx_worker_create(on_change, end, &end->worker));
    exchange_addresses(end, &address, &bytes);
    CHECK(leatn_ucx_connect(end->worker, address, 0, true) == LEAT_ERROR_INVALID);
    CHECK(leatn_ucx_connect(end->worker, address, bytes, true) == LEAT_ERROR_LINK);
    CHECK(strstr(leat_last_error(), "no transport to the other end"));
    leatn_ucx_worker_destroy(end->worker);
    free(address);
}

static void ends_without_a_common_transport_are_told(void **state)
{
    (void)state;
    run(NULL, no_transport);
}

/* UCX of another version at the other end. */
static void other_version(struct end *end, int side)
{
    void *address;
    size_t bytes;

    if (side == 1 && getenv("TEST_UCX_OTHER"))
        setenv("LEAT_UCX_LIBRARY", getenv("TEST_UCX_OTHER"), 1);
    CHECK_OK(leatn_ucx_worker_create(on_change, end, &end->worker));
    exchange_addresses(end, &address, &bytes);
    if (!getenv("TEST_UCX_OTHER"))
        ((unsigned char *)address)[2]++;
    CHECK(leatn_ucx_connect(end->worker, address, bytes, side == 0) == LEAT_ERROR_LINK);
    CHECK(strstr(leat_last_error(), "these do not understand each other"));
    leatn_ucx_worker_destroy(end->worker);
    free(address);
}

static void other_versions_are_refused(void **state)
{
    (void)state;
    run(NULL, other_version);
}

/* Requests before connecting, and after closing. */
static void not_connected(struct end *end, int side)
{
    struct leatn_ucx_request request = {0}, early = {0};
    unsigned char bytes[16] = {0}, out[16] = {0};
    char text[200];

    (void)side;
    CHECK_OK(leatn_ucx_worker_create(on_change, end, &end->worker));
    CHECK(leatn_ucx_is_closed(end->worker));
    CHECK(!leatn_ucx_send(end->worker, &request, bytes, NULL, sizeof bytes, 1));
    leatn_ucx_describe(&request, text, sizeof text);
    CHECK(strstr(text, "not connected"));
    CHECK(leatn_ucx_receive(end->worker, &early, bytes, NULL, sizeof bytes, 1));
    {
        void *address;
        size_t address_bytes;

        exchange_addresses(end, &address, &address_bytes);
        connect_end(end, address, address_bytes);
        free(address);
    }
    (void)leatn_ucx_send(end->worker, &request, out, NULL, sizeof out, 1);
    wait_end(end, &early);
    CHECK(leatn_ucx_state(&early) == LEATN_UCX_DONE);
    wait_end(end, &request);
    meet(end);
    leatn_ucx_close(end->worker, true);
    CHECK(!leatn_ucx_send(end->worker, &request, out, NULL, sizeof out, 1));
    CHECK(!leatn_ucx_receive(end->worker, &request, out, NULL, sizeof out, 1));
    leatn_ucx_close(end->worker, false);
    leatn_ucx_worker_destroy(end->worker);
    leatn_ucx_worker_destroy(NULL);
}

static void requests_need_a_connection(void **state)
{
    (void)state;
    run_with_all(not_connected);
}

/* ---- what UCX leaves in the process ---- */

struct effects {
    struct sigaction actions[65];
    stack_t stack;
    unsigned char code[4][16]; /* the first instructions of functions that UCX likes to patch */
    char **environment;
    size_t variables;
};

extern char **environ;

static void see_effects(struct effects *effects)
{
    static const char *const functions[] = {"mmap", "munmap", "mremap", "madvise"};

    memset(effects, 0, sizeof *effects);
    for (int i = 1; i < 65; i++)
        (void)sigaction(i, NULL, &effects->actions[i]);
    sigaltstack(NULL, &effects->stack);
    for (size_t i = 0; i < 4; i++)
        memcpy(effects->code[i], dlsym(RTLD_DEFAULT, functions[i]), sizeof effects->code[i]);
    effects->environment = environ;
    while (environ[effects->variables])
        effects->variables++;
}

/* The C library leaves the end of sa_mask undefined. */
static bool has_same_action(const struct sigaction *a, const struct sigaction *b)
{
    return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags &&
           memcmp(&a->sa_mask, &b->sa_mask, sizeof(uint64_t)) == 0;
}

static void no_effects(struct end *end, int side)
{
    static struct effects before, after;
    struct leatn_ucx_request send = {0}, receive = {0};
    unsigned char *memory = allocate(2 * FRAGMENT);
    char printed[] = "/tmp/test_ucx_XXXXXX";
    int file = mkstemp(printed), standard_error = dup(2);

    (void)side;
    CHECK(file >= 0 && standard_error >= 0);
    unlink(printed);
    setenv("UCX_NO_SUCH_OPTION", "1", 1); /* UCX warns about it by default */
    see_effects(&before);
    fflush(NULL);
    dup2(file, 2);
    open_end(end);
    (void)leatn_ucx_receive(end->worker, &receive, memory, NULL, FRAGMENT, 1);
    (void)leatn_ucx_send(end->worker, &send, memory + FRAGMENT, NULL, FRAGMENT, 1);
    wait_end(end, &receive);
    wait_end(end, &send);
    close_end(end);
    see_effects(&after);
    fflush(NULL);
    dup2(standard_error, 2);
    for (int i = 1; i < 65; i++)
        CHECK(has_same_action(&before.actions[i], &after.actions[i]));
    CHECK(memcmp(&before.stack, &after.stack, sizeof before.stack) == 0);
    CHECK(memcmp(before.code, after.code, sizeof before.code) == 0);
    CHECK(before.environment == after.environment && before.variables == after.variables);
    CHECK(!getenv("UCX_MEM_EVENTS"));
    CHECK(lseek(file, 0, SEEK_END) == 0);
    free(memory);
}

static void ucx_leaves_nothing_in_the_process(void **state)
{
    (void)state;
    run_with_all(no_effects);
}

/* While a worker lives, UCX has a thread. Signals of the program must not be handled there. */
static void signals_blocked(struct end *end, int side)
{
    char path[64], line[256];
    struct dirent *task;
    unsigned taking = 0;
    DIR *tasks;
    sigset_t mask;

    (void)side;
    open_end(end);
    sigemptyset(&mask);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    CHECK(!sigismember(&mask, SIGTERM)); /* the mask of the caller is as before */
    tasks = opendir("/proc/self/task");
    CHECK(tasks);
    while ((task = readdir(tasks)) != NULL) {
        FILE *status;

        snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task->d_name);
        status = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (status && fgets(line, sizeof line, status))
            if (strncmp(line, "SigBlk:", 7) == 0 && !(strtoull(line + 7, NULL, 16) >> (SIGTERM - 1) & 1))
                taking++;
        if (status)
            fclose(status);
    }
    closedir(tasks);
    CHECK(taking == 1); /* this one */
    close_end(end);
}

static void threads_of_ucx_take_no_signals(void **state)
{
    (void)state;
    run(NULL, signals_blocked);
}

/* A child of a process with a worker is refused, and the parent's link still works. */
static void forked(struct end *end, int side)
{
    struct leatn_ucx_request send = {0}, receive = {0};
    unsigned char out[64] = {1}, in[64] = {0};
    int status;
    pid_t child;

    (void)side;
    open_end(end);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct leatn_ucx_worker *worker;

        CHECK(leatn_ucx_worker_create(on_change, end, &worker) == LEAT_ERROR_NOT_PERMITTED);
        CHECK(strstr(leat_last_error(), "fork"));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    (void)leatn_ucx_receive(end->worker, &receive, in, NULL, sizeof in, 1);
    (void)leatn_ucx_send(end->worker, &send, out, NULL, sizeof out, 1);
    wait_end(end, &receive);
    wait_end(end, &send);
    CHECK(in[0] == 1);
    close_end(end);
}

static void children_of_fork_are_refused(void **state)
{
    (void)state;
    run_with_all(forked);
}

/* ---- the library ---- */

static void explained(struct end *end, int side)
{
    char text[2000];

    (void)side;
    leatn_ucx_explain(NULL, text, sizeof text);
    CHECK(strstr(text, "UCX 1.") && strstr(text, "host") && !strstr(text, "this link"));
    open_end(end);
    meet(end);
    leatn_ucx_explain(end->worker, text, sizeof text);
    CHECK(strstr(text, "this link uses: ") && (strstr(text, "tcp/") || strstr(text, "posix/")));
    if (side == 0)
        printf("%s\n", text);
    close_end(end);
}

static void transports_are_explained(void **state)
{
    (void)state;
    run(NULL, explained);
    run("tcp,self", explained);
}

static void missing(struct end *end, int side)
{
    struct leatn_ucx_worker *worker;
    char text[2000];

    for (int i = 0; i < 2; i++) {
        setenv("LEAT_UCX_LIBRARY", side ? "/no/such/libucp.so.0" : "libno_such_ucp.so.0", 1);
        CHECK(leatn_ucx_worker_create(on_change, end, &worker) == LEAT_ERROR_UNSUPPORTED);
        CHECK(strstr(leat_last_error(), "install it (Debian: libucx0)"));
        CHECK(strstr(leat_last_error(), side ? "/no/such/libucp.so.0" : "libno_such_ucp.so.0"));
        if (i == 0 && side == 0)
            printf("%s\n", leat_last_error());
        leatn_ucx_explain(NULL, text, sizeof text);
        CHECK(strcmp(text, leat_last_error()) == 0);
    }
    /* A library that is not UCX, and a file that is no library. */
    setenv("LEAT_UCX_LIBRARY", "libm.so.6", 1);
    CHECK(leatn_ucx_worker_create(on_change, end, &worker) == LEAT_ERROR_UNSUPPORTED);
    CHECK(strstr(leat_last_error(), "it has no function ucp_get_version"));
    setenv("LEAT_UCX_LIBRARY", "/proc/self/status", 1);
    CHECK(leatn_ucx_worker_create(on_change, end, &worker) == LEAT_ERROR_UNSUPPORTED);
    CHECK(strstr(leat_last_error(), "cannot be loaded"));
    CHECK(!getenv("UCX_MEM_EVENTS"));
    /* With a good library it works after all. */
    unsetenv("LEAT_UCX_LIBRARY");
    if (getenv("TEST_UCX_FIRST"))
        setenv("LEAT_UCX_LIBRARY", getenv("TEST_UCX_FIRST"), 1);
    CHECK_OK(leatn_ucx_worker_create(on_change, end, &worker));
    leatn_ucx_worker_destroy(worker);
}

static void a_missing_library_is_reported(void **state)
{
    (void)state;
    run(NULL, missing);
}

/* Returns true if UCX can be used here. Asks in a child. */
static bool has_ucx(void)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct end end;
        struct leatn_ucx_worker *worker;

        if (leatn_ucx_worker_create(on_change, &end, &worker) == LEAT_OK)
            _exit(0);
        printf("skipped: %s\n", leat_last_error());
        fflush(NULL);
        _exit(leat_last_error()[0] ? 77 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_go_both_ways),
        cmocka_unit_test(registered_memory_is_used),
        cmocka_unit_test(all_sizes_arrive),
        cmocka_unit_test(blocks_of_another_size_fail),
        cmocka_unit_test(several_threads_use_a_worker),
        cmocka_unit_test(receives_are_cancelled),
        cmocka_unit_test(cancelling_in_the_middle_loses_nothing),
        cmocka_unit_test(requests_end_if_the_peer_is_killed),
        cmocka_unit_test(workers_are_destroyed_in_the_middle),
        cmocka_unit_test(a_process_has_several_workers),
        cmocka_unit_test(ends_without_a_common_transport_are_told),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(requests_need_a_connection),
        cmocka_unit_test(ucx_leaves_nothing_in_the_process),
        cmocka_unit_test(threads_of_ucx_take_no_signals),
        cmocka_unit_test(children_of_fork_are_refused),
        cmocka_unit_test(transports_are_explained),
        cmocka_unit_test(a_missing_library_is_reported),
    };

    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    if (!has_ucx())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
