/*
 * managed_moves.c - lets host and device use managed memory in turn: without help, with prefetch, and with advice.
 * It shows which pages move in each case.
 *
 *     cc managed_moves.c -o managed_moves $(pkg-config --cflags --libs leat)
 *     ./managed_moves [device]
 *
 * The program is a loop: the host writes some numbers; the device adds them to a constant table and writes the
 * result; the host reads the result. Try it on the CPU device first. There leat records every page that would move
 * on a machine with separate memories, and this program prints the record. On a GPU it only prints that the result
 * is right.
 */
#include <leat/leat.h>

#include <stdio.h>
#include <string.h>

#define ROUNDS 3
#define COUNT ((size_t)1 << 18)
#define BYTES (COUNT * sizeof(uint32_t))

enum way { ALONE, PREFETCH, ADVICE, WAYS };

struct work {
    leat_device *device;
    leat_stream *stream;
    leat_kernel *add;
    uint32_t *table, *input, *result; /* managed memory */
    int recorded;
};

static int failed(const char *step)
{
    fprintf(stderr, "managed_moves: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static int allocate(struct work *w, uint32_t **numbers)
{
    void *memory;

    if (leat_memory_alloc(w->device, LEAT_KIND_MANAGED, BYTES, &memory) != LEAT_OK)
        return failed("allocate managed memory");
    *numbers = memory;
    return 0;
}

/* Advises leat where the table and the input should be. The program does this once, before the loop. */
static int advise(struct work *w)
{
    /* READ_MOSTLY allows the host and the device to have a copy of the table each. PREFERRED and ACCESSED_BY keep
     * the input on the host, which writes it, and let the device read it there. */
    if (leat_managed_advise(w->table, BYTES, LEAT_ADVICE_READ_MOSTLY, LEAT_HOST) != LEAT_OK ||
        leat_managed_advise(w->input, BYTES, LEAT_ADVICE_PREFERRED, LEAT_HOST) != LEAT_OK ||
        leat_managed_advise(w->input, BYTES, LEAT_ADVICE_ACCESSED_BY, w->device) != LEAT_OK)
        return failed("advise");
    return 0;
}

/* The pages belong to a pool and keep their advice when a block is freed, so undo it for the next user of the
 * pages. */
static int undo_advice(struct work *w)
{
    if (leat_managed_advise(w->table, BYTES, LEAT_ADVICE_NOT_READ_MOSTLY, LEAT_HOST) != LEAT_OK ||
        leat_managed_advise(w->input, BYTES, LEAT_ADVICE_NOT_PREFERRED, LEAT_HOST) != LEAT_OK ||
        leat_managed_advise(w->input, BYTES, LEAT_ADVICE_NOT_ACCESSED_BY, w->device) != LEAT_OK)
        return failed("undo the advice");
    return 0;
}

static int prefetch(struct work *w, enum way way, leat_device *to)
{
    if (way == PREFETCH && leat_managed_prefetch(w->stream, w->input, BYTES, to) != LEAT_OK)
        return failed("prefetch the input");
    return leat_managed_prefetch(w->stream, w->result, BYTES, to) == LEAT_OK ? 0 : failed("prefetch the result");
}

/* Computes result = table + input on the device. */
static int add(struct work *w)
{
    uint64_t count = COUNT;
    void *args[] = {&w->result, &w->table, &w->input, &count};

    return leat_launch(w->stream, w->add, leat_dim(64, 1, 1), leat_dim(256, 1, 1), 0, args, 4) == LEAT_OK
               ? 0
               : failed("launch the kernel");
}

static int run_round(struct work *w, enum way way, uint32_t round)
{
    for (size_t i = 0; i < COUNT; i++)
        w->input[i] = round;
    /* Prefetch the table only in the first round. It then stays on the device, because nobody writes it. */
    if (way == PREFETCH && round == 0 && leat_managed_prefetch(w->stream, w->table, BYTES, w->device) != LEAT_OK)
        return failed("prefetch the table");
    if ((way != ALONE && prefetch(w, way, w->device)) || add(w) || (way != ALONE && prefetch(w, way, LEAT_HOST)))
        return 1;
    if (leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("finish the work");
    for (size_t i = 0; i < COUNT; i++)
        if (w->result[i] != (uint32_t)i + round) {
            fprintf(stderr, "managed_moves: result %zu is %u\n", i, w->result[i]);
            return 1;
        }
    return 0;
}

static int report(struct work *w)
{
    char text[4000];

    if (leat_managed_report(w->device, NULL, 0, text, sizeof text) != LEAT_OK)
        return failed("ask what moved");
    printf("%s\n", text);
    return 0;
}

static int run_way(struct work *w, enum way way)
{
    static const char *const names[WAYS] = {"without help", "with prefetch",
                                            "with advice, and prefetch of the result"};

    /* The pool may return pages that are still on the device after the previous way. Therefore begin a new record
     * for each way, which counts only the moves after its start. */
    if (allocate(w, &w->table) || allocate(w, &w->input) || allocate(w, &w->result))
        return 1;
    w->recorded = leat_managed_record(w->device, 1) == LEAT_OK;
    for (size_t i = 0; i < COUNT; i++)
        w->table[i] = (uint32_t)i;
    if (way == ADVICE && advise(w))
        return 1;
    for (uint32_t round = 0; round < ROUNDS; round++)
        if (run_round(w, way, round))
            return 1;
    printf("---- %s: %d rounds, all sums are right\n", names[way], ROUNDS);
    if (w->recorded && (leat_managed_record(w->device, 0) != LEAT_OK || report(w)))
        return failed("end the record");
    if (way == ADVICE && undo_advice(w))
        return 1;
    if (leat_memory_free(w->table) != LEAT_OK || leat_memory_free(w->input) != LEAT_OK ||
        leat_memory_free(w->result) != LEAT_OK)
        return failed("free managed memory");
    return 0;
}

static int run(struct work *w)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_module *module;

    if (leat_device_get_info(w->device, &info) != LEAT_OK)
        return failed("ask what the device is");
    if (!info.managed_memory) {
        printf("%s has no managed memory\n", info.name);
        return 0;
    }
    if (leat_module_builtin(w->device, &module) != LEAT_OK ||
        leat_kernel_get(module, "leat_vector_add_u32", &w->add) != LEAT_OK)
        return failed("find the kernel");
    if (leat_stream_create(w->device, &w->stream) != LEAT_OK)
        return failed("create a stream");
    for (enum way way = ALONE; way < WAYS; way++)
        if (run_way(w, way))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    struct work w = {0};
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open the device");
    wrong = run(&w);
    /* Closing destroys the stream, and frees what a failed step left behind. */
    if (leat_device_close(w.device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}
