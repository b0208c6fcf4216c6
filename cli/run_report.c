/* run_report.c - prints what "leat run" has counted. See run.h. */
#include "run.h"
#include "table.h"
#include "text.h"

#include <string.h>

static const char *const call_names[] = {
#define CALL_NAME(id, name) name,
    RUN_CALL_LIST(CALL_NAME)
#undef CALL_NAME
};

static const char *const outcome_names[] = {
#define OUTCOME_NAME(id, text) text,
    RUN_OUTCOME_LIST(OUTCOME_NAME)
#undef OUTCOME_NAME
};

/* The counts of all processes for one kind of call and one outcome. */
struct sum {
    uint64_t calls, bytes, ns;
};

static unsigned slots_of(const struct run_table *table)
{
    unsigned processes = atomic_load_explicit(&table->processes, memory_order_relaxed);

    return processes < RUN_PROCESSES ? processes : RUN_PROCESSES;
}

static struct sum sum_of(const struct run_table *table, enum run_call call, enum run_outcome outcome)
{
    struct sum sum = {0};

    for (unsigned i = 0; i < slots_of(table); i++) {
        const struct run_count *count = &table->slots[i].counts[call][outcome];

        sum.calls += atomic_load_explicit(&count->calls, memory_order_relaxed);
        sum.bytes += atomic_load_explicit(&count->bytes, memory_order_relaxed);
        sum.ns += atomic_load_explicit(&count->ns, memory_order_relaxed);
    }
    return sum;
}

static bool add_row(struct table *table, enum run_call call, enum run_outcome outcome, const struct sum *sum)
{
    char calls[TEXT_MAX], bytes[TEXT_MAX], seconds[TEXT_MAX], rate[TEXT_MAX];
    bool has_rate = sum->ns && call < RUN_CALL_DEVICE; /* device memory is not touched when it is allocated */

    snprintf(calls, sizeof calls, "%llu", (unsigned long long)sum->calls);
    return table_add(
        table, (const char *const[]){call_names[call], calls, text_bytes(bytes, sum->bytes),
                                     sum->ns ? text_figure(seconds, (double)sum->ns * 1e-9) : "-",
                                     has_rate ? text_figure(rate, (double)sum->bytes / (double)sum->ns) : "-",
                                     outcome_names[outcome]});
}

/* What went through leat, or would have. */
struct by_leat {
    struct sum copies, pinned, device;
};

/* Where a call is summed up; NULL for one that frees memory. */
static struct sum *total_of(struct by_leat *by_leat, enum run_call call)
{
    if (call == RUN_CALL_FREE_HOST || call == RUN_CALL_FREE || call == RUN_CALL_FREE_ASYNC)
        return NULL;
    return call < RUN_CALL_COPIES   ? &by_leat->copies
           : call < RUN_CALL_DEVICE ? &by_leat->pinned
                                    : &by_leat->device;
}

static bool fill(struct table *rows, const struct run_table *table, unsigned *count, struct by_leat *by_leat)
{
    bool fine = true;

    for (enum run_call call = 0; call < RUN_CALLS; call++)
        for (enum run_outcome outcome = 0; outcome < RUN_OUTCOMES && fine; outcome++) {
            struct sum sum = sum_of(table, call, outcome);

            if (!sum.calls)
                continue;
            ++*count;
            if ((outcome == RUN_OUTCOME_LEAT || outcome == RUN_OUTCOME_OBSERVED) && total_of(by_leat, call)) {
                struct sum *total = total_of(by_leat, call);

                total->calls += sum.calls;
                total->bytes += sum.bytes;
            }
            fine = add_row(rows, call, outcome, &sum);
        }
    return fine;
}

/* Prints the messages of the processes in which leat failed, each once. */
static void print_messages(FILE *out, const struct run_table *table)
{
    const char *before = NULL;

    for (unsigned i = 0; i < slots_of(table); i++) {
        const struct run_process *process = &table->slots[i];

        /* Acquire: pairs with the release in dropin_count_message(). */
        if (atomic_load_explicit(&process->message_state, memory_order_acquire) != 2 ||
            (before && !strcmp(before, process->message)))
            continue;
        before = process->message;
        fprintf(out, "leat: process %d: %.*s\n", atomic_load_explicit(&process->pid, memory_order_relaxed),
                RUN_MESSAGE_BYTES, before);
    }
}

/* Prints where the traces are. */
static void print_traces(FILE *out, const struct run_table *table)
{
    for (unsigned i = 0; i < slots_of(table); i++) {
        const struct run_process *process = &table->slots[i];

        /* Acquire: pairs with the release in dropin_count_trace(). */
        if (atomic_load_explicit(&process->traced_state, memory_order_acquire) == 2)
            fprintf(out, "leat: process %d: %.*s\n", atomic_load_explicit(&process->pid, memory_order_relaxed),
                    RUN_TRACED_BYTES, process->traced);
    }
}

/* Writes " and N KIND allocations, BYTES," for a title, or nothing if there was none. */
static void describe(char *text, size_t text_bytes_most, const char *kind, const struct sum *sum)
{
    char bytes[TEXT_MAX];

    if (sum->calls)
        snprintf(text, text_bytes_most, " and %llu %s allocation%s, %s,", (unsigned long long)sum->calls, kind,
                 sum->calls == 1 ? "" : "s", text_bytes(bytes, sum->bytes));
}

bool run_print_report(FILE *out, const struct run_table *table, bool observed, const char *plain)
{
    static const struct table_column columns[] = {{.name = "CALL"},
                                                  {.name = "CALLS", .right = true},
                                                  {.name = "BYTES", .right = true},
                                                  {.name = "SECONDS", .right = true},
                                                  {.name = "GB/S", .right = true},
                                                  {.name = "THROUGH", .wrap = TABLE_WRAP_REST}};
    unsigned processes = atomic_load_explicit(&table->processes, memory_order_relaxed), count = 0;
    struct by_leat by_leat = {0};
    char title[400], bytes[TEXT_MAX], pinned[100] = "", device[100] = "";
    struct table *rows;
    bool fine;

    if (plain) {
        fprintf(out, "leat: run: %s; it ran as without leat\n", plain);
        return !ferror(out);
    }
    if (!processes) {
        fputs("leat: run: no CUDA call was made\n", out);
        return !ferror(out);
    }
    rows = table_create(columns, sizeof columns / sizeof columns[0]);
    fine = rows && fill(rows, table, &count, &by_leat);
    describe(pinned, sizeof pinned, "pinned", &by_leat.pinned);
    describe(device, sizeof device, "device", &by_leat.device);
    snprintf(title, sizeof title, "leat: run: %u process%s with CUDA; %llu cop%s, %s,%s%s %s through leat",
             processes, processes == 1 ? "" : "es", (unsigned long long)by_leat.copies.calls,
             by_leat.copies.calls == 1 ? "y" : "ies", text_bytes(bytes, by_leat.copies.bytes), pinned, device,
             observed ? "would go" : "went");
    table_set_file(out);
    if (count)
        fine = fine && table_print(rows, title, TABLE_PLAIN);
    else
        fprintf(out, "%s\n", title);
    table_set_file(NULL);
    table_destroy(rows);
    print_messages(out, table);
    print_traces(out, table);
    return fine && !ferror(out);
}
