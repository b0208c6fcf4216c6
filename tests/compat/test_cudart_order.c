/*
 * test_cudart_order.c - checks that random work in default streams and other streams runs in the order that CUDA
 * guarantees, if one thread submits it. Then several threads use all kinds of calls at the same time.
 *
 * Each piece of work is a host function that takes a number when it begins and another number when it ends.
 * Afterwards the test checks all pairs of pieces that the rules order: two pieces of one stream; a piece of the
 * legacy default stream and a piece of a blocking stream, in the order of submission; and a piece before the
 * record of an event and a piece after a wait for that event. The test prints its seed. The first argument or
 * TEST_SEED sets the seed.
 */
#include <cuda_runtime.h>

#include "../support/seed.h"
#include "compat.h"

#include <pthread.h>

enum { STREAMS = 6, PIECES = 150, ROUNDS = 8, EVENTS = 3 };

/* Stream 0 is the legacy default stream, 1 the per-thread default stream, 2 and 3 are blocking, 4 and 5
 * non-blocking. */
static bool is_blocking(int stream)
{
    return stream >= 1 && stream <= 3;
}

struct piece {
    int stream;
    bool slow;
    atomic_uint begin, end; /* the numbers that the piece took; 0: it has not begun or ended */
};

static struct piece pieces[PIECES];
static atomic_uint clock_now;
static uint64_t seed;

/* after[i][j] is true if j was submitted after i and the rules say that j runs after i. */
static bool after[PIECES][PIECES];

static unsigned chance(unsigned below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % below;
}

static void run_piece(void *argument)
{
    struct piece *piece = argument;

    atomic_store(&piece->begin, atomic_fetch_add(&clock_now, 1) + 1);
    if (piece->slow)
        sleep_ms(1);
    atomic_store(&piece->end, atomic_fetch_add(&clock_now, 1) + 1);
}

/* Returns true if work of these two streams runs in the order of submission. */
static bool in_order(int first, int second)
{
    return first == second || (first == 0 && is_blocking(second)) || (second == 0 && is_blocking(first));
}

/*
 * The model of one round. waits[s][e] describes the latest wait of stream s for event e: the number of pieces that
 * were submitted before the record for which it waits. waited_on[s][e] is the stream of that record.
 * recorded_at[e] and recorded_on[e] are the same two values for the latest record of e.
 */
struct model {
    int recorded_at[EVENTS], recorded_on[EVENTS];
    int waits[STREAMS][EVENTS], waited_on[STREAMS][EVENTS];
};

static void note_order(const struct model *model, int number)
{
    int stream = pieces[number].stream;

    for (int i = 0; i < number; i++) {
        after[i][number] = in_order(pieces[i].stream, stream);
        for (int e = 0; e < EVENTS; e++)
            if (i < model->waits[stream][e] && in_order(pieces[i].stream, model->waited_on[stream][e]))
                after[i][number] = true;
    }
}

static void play_round(const cudaStream_t *streams, const cudaEvent_t *events)
{
    struct model model = {.recorded_at = {0}};

    atomic_store(&clock_now, 0);
    memset(pieces, 0, sizeof pieces);
    for (int n = 0; n < PIECES;) {
        int stream = (int)chance(STREAMS), event = (int)chance(EVENTS);

        switch (chance(8)) {
        case 0:
            OK(cudaEventRecord(events[event], streams[stream]));
            model.recorded_at[event] = n;
            model.recorded_on[event] = stream;
            break;
        case 1:
            OK(cudaStreamWaitEvent(streams[stream], events[event], 0));
            /* The model stores only the stream's latest wait for this event, so it may not know all the order that
             * exists. */
            model.waits[stream][event] = model.recorded_at[event];
            model.waited_on[stream][event] = model.recorded_on[event];
            break;
        default:
            pieces[n].stream = stream;
            pieces[n].slow = chance(6) == 0;
            note_order(&model, n);
            OK(cudaLaunchHostFunc(streams[stream], run_piece, &pieces[n]));
            n++;
        }
    }
    OK(cudaDeviceSynchronize());
    for (int j = 0; j < PIECES; j++) {
        assert_true(atomic_load(&pieces[j].end) > 0);
        for (int i = 0; i < j; i++)
            if (after[i][j] && atomic_load(&pieces[i].end) > atomic_load(&pieces[j].begin)) {
                print_error("piece %d of stream %d began before piece %d of stream %d had ended\n", j,
                            pieces[j].stream, i, pieces[i].stream);
                fail();
            }
    }
}

static void work_runs_in_the_order_of_the_rules(void **state)
{
    cudaStream_t streams[STREAMS] = {0, cudaStreamPerThread};
    cudaEvent_t events[EVENTS];

    (void)state;
    for (int i = 2; i < STREAMS; i++)
        OK(cudaStreamCreateWithFlags(&streams[i], is_blocking(i) ? cudaStreamDefault : cudaStreamNonBlocking));
    for (int i = 0; i < EVENTS; i++)
        OK(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
    for (int i = 0; i < ROUNDS; i++) {
        /* Record each event once, because the model does not know records of an earlier round. */
        for (int e = 0; e < EVENTS; e++)
            OK(cudaEventRecord(events[e], 0));
        OK(cudaDeviceSynchronize());
        play_round(streams, events);
    }
    for (int i = 0; i < EVENTS; i++)
        OK(cudaEventDestroy(events[i]));
    for (int i = 2; i < STREAMS; i++)
        OK(cudaStreamDestroy(streams[i]));
}

/* ---- several threads ---- */

enum { THREADS = 4, TURNS = 60, BYTES = 20000 };

/* Passes a thread's own memory through all kinds of calls, in streams that other threads use too. Returns the line
 * that failed, or NULL. */
static void *use_everything(void *argument)
{
    int number = *(int *)argument;
    unsigned char in[BYTES], out[BYTES], *plain, *pooled, *pinned;
    cudaStream_t own;

#define NEED(call)                                                                                                \
    do {                                                                                                          \
        if (call)                                                                                                 \
            return (void *)(intptr_t)__LINE__;                                                                    \
    } while (0)
    NEED(cudaSetDevice(number % 2));
    NEED(cudaStreamCreate(&own));
    for (int i = 0; i < TURNS; i++) {
        cudaStream_t stream = i % 3 == 0 ? own : i % 3 == 1 ? cudaStreamPerThread : 0;

        memset(in, number + i, sizeof in);
        NEED(cudaMalloc((void **)&plain, BYTES));
        NEED(cudaMallocHost((void **)&pinned, BYTES));
        NEED(cudaMallocAsync((void **)&pooled, BYTES, stream));
        NEED(cudaMemcpyAsync(pooled, in, BYTES, cudaMemcpyHostToDevice, stream));
        NEED(cudaMemcpyAsync(plain, pooled, BYTES, cudaMemcpyDeviceToDevice, stream));
        NEED(cudaFreeAsync(pooled, stream));
        NEED(cudaMemcpyAsync(pinned, plain, BYTES, cudaMemcpyDeviceToHost, stream));
        NEED(cudaMemcpyAsync(out, plain, BYTES, cudaMemcpyDeviceToHost, stream));
        NEED(cudaStreamSynchronize(stream));
        NEED(memcmp(in, out, BYTES) || memcmp(in, pinned, BYTES));
        NEED(cudaFreeHost(pinned));
        NEED(cudaFree(plain));
        NEED(cudaFree(plain) != cudaErrorInvalidValue);
        NEED(cudaGetLastError() != cudaErrorInvalidValue || cudaGetLastError());
    }
    NEED(cudaStreamDestroy(own));
#undef NEED
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, use_everything, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;

        pthread_join(threads[i], &wrong);
        if (wrong)
            print_error("thread %d failed in line %d\n", i, (int)(intptr_t)wrong);
        assert_null(wrong);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(work_runs_in_the_order_of_the_rules),
    cmocka_unit_test(threads_do_not_disturb_each_other),
};

int main(int argc, char **argv)
{
    int wrong;

    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : test_seed() * 2654435761u + 1;
    printf("seed %llu\n", (unsigned long long)seed);
    wrong = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
