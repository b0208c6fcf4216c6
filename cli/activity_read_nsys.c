/*
 * activity_read_nsys.c - reads exports of NVIDIA Nsight Systems: what "nsys export --type sqlite" writes.
 *
 * Calls of the CUDA runtime and driver have the same correlation number as the work that they submitted, in one
 * process (activity_join.h). Tables that a recording did not need are not in the file. The names of calls and
 * kernels are numbers of the table StringIds, which is read last, and of which only the names in use are kept.
 */
#include "activity_join.h"
#include "sqlite.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES_MAX = 64, RANGE_PUSH_POP = 59, NO_TEXT = -1 };
/* The numbers of the tables ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_UNIF_MEM_MIGRATION, which are those of CUPTI. The
 * cause 1 is a call of the program. */
enum { COPY_PAGES_TO_DEVICE = 11, COPY_PAGES_FROM_DEVICE = 12, COPY_PAGES_BETWEEN = 13 };
enum { COPY_PAGES_FIRST = COPY_PAGES_TO_DEVICE, COPY_PAGES_LAST = COPY_PAGES_BETWEEN };
enum { CAUSE_COHERENCE = 2, CAUSE_ACCESS_COUNTERS = 5 };
enum { WAIT_EVENT = 1, WAIT_STREAM = 3, WAIT_CONTEXT = 4 };

struct nsys {
    struct activity_input *input;
    struct activity_log *log;
    struct sqlite_file *file;
    struct activity_part_list calls, work;
    const char *table; /* that is being read */
    uint64_t row;
    uint64_t processes[PROCESSES_MAX];
    unsigned process_count;
    int64_t *texts; /* sorted: the numbers of the names in use */
    uint32_t *names;
    size_t text_count;
};

static bool no_memory(struct nsys *nsys)
{
    return activity_input_fail(nsys->input, "out of host memory");
}

static bool bad_value(struct nsys *nsys, const char *column, const char *wanted)
{
    return activity_input_fail(nsys->input, "the file is damaged: table %s, row %" PRIu64 ": %s is not %s",
                               nsys->table, nsys->row, column, wanted);
}

/* Every table has these columns first. */
enum { START, END, FIRST };

static bool get_times(struct nsys *nsys, const struct sqlite_value *values, uint64_t *begin, uint64_t *end)
{
    nsys->row++;
    if (!values[START].is_integer || values[START].number < 0)
        return bad_value(nsys, "start", "a time");
    if (!values[END].is_integer || values[END].number < values[START].number)
        return bad_value(nsys, "end", "a time at or after start");
    *begin = (uint64_t)values[START].number;
    *end = (uint64_t)values[END].number;
    return true;
}

static uint64_t number_or(const struct sqlite_value *value, uint64_t otherwise)
{
    return value->is_integer && value->number >= 0 ? (uint64_t)value->number : otherwise;
}

static struct activity_part new_part(void)
{
    return (struct activity_part){.activity = {.stream = ACTIVITY_NONE,
                                               .thread = ACTIVITY_NONE,
                                               .name = ACTIVITY_NONE,
                                               .place = ACTIVITY_NONE,
                                               .range = ACTIVITY_NONE,
                                               .pieces = 1},
                                  .text = NO_TEXT};
}

/* The numbers of processes and threads have 24 bits for the thread, and above them 24 for the process. */
static uint64_t process_of(uint64_t number)
{
    return number >> 24 & 0xffffff;
}

/* Correlation numbers are unique in a process. */
static uint64_t correlation_of(uint64_t process, const struct sqlite_value *value)
{
    uint64_t number = number_or(value, 0);

    return number ? process << 40 | (number & ((UINT64_C(1) << 40) - 1)) : 0;
}

/* Returns the place of a process among those with work, or UINT_MAX if there are too many. */
static unsigned find_process(struct nsys *nsys, uint64_t process)
{
    unsigned i = 0;

    while (i < nsys->process_count && nsys->processes[i] != process)
        i++;
    if (i == PROCESSES_MAX)
        return UINT32_MAX;
    if (i == nsys->process_count)
        nsys->processes[nsys->process_count++] = process;
    return i;
}

/* ---- work ---- */

enum { WORK_DEVICE = FIRST, WORK_STREAM, WORK_CORRELATION, WORK_PROCESS, WORK_OWN };

/* Finds the device and the stream. Each process has devices of its own, since the same number may be another GPU
 * there. */
static uint32_t find_stream(struct nsys *nsys, uint64_t process, uint64_t device, uint64_t stream)
{
    unsigned place = find_process(nsys, process);
    uint32_t index;
    char name[64];

    if (place == UINT32_MAX)
        return ACTIVITY_NONE;
    if (place)
        snprintf(name, sizeof name, "cuda:%" PRIu64 " of process %" PRIu64, device, process);
    else
        snprintf(name, sizeof name, "cuda:%" PRIu64, device);
    index = activity_log_device(nsys->log, (uint64_t)place << 32 | device, name);
    return index == ACTIVITY_NONE ? index : activity_log_stream(nsys->log, index, stream);
}

/* Reads what all work has. Returns false with the error set. */
static bool read_work(struct nsys *nsys, const struct sqlite_value *values, struct activity_part *part)
{
    struct activity *a = &part->activity;
    uint64_t device = number_or(&values[WORK_DEVICE], UINT64_MAX);
    uint64_t process = process_of(number_or(&values[WORK_PROCESS], 0));

    *part = new_part();
    if (!get_times(nsys, values, &a->device_begin_ns, &a->device_end_ns))
        return false;
    if (device >= UINT32_MAX)
        return bad_value(nsys, "deviceId", "the number of a device");
    if (!values[WORK_STREAM].is_integer)
        return bad_value(nsys, "streamId", "the number of a stream");
    a->stream = find_stream(nsys, process, device, (uint64_t)values[WORK_STREAM].number);
    if (a->stream == ACTIVITY_NONE)
        return activity_input_fail(
            nsys->input,
            "it has more than %d processes with work, %d devices or %d streams, or memory is "
            "short",
            PROCESSES_MAX, ACTIVITY_DEVICES_MAX, ACTIVITY_STREAMS_MAX);
    part->correlation = correlation_of(process, &values[WORK_CORRELATION]);
    a->flags = ACTIVITY_FLAG_DEVICE;
    return true;
}

/* Adds work. CUPTI sets both times to 0 if it does not know them. */
static bool add_work(struct nsys *nsys, const struct activity_part *part)
{
    if (!part->activity.device_begin_ns && !part->activity.device_end_ns) {
        nsys->log->lost++;
        return true;
    }
    return activity_part_add(nsys->input, &nsys->work, part);
}

static bool read_kernel(void *context, const struct sqlite_value *values)
{
    struct nsys *nsys = context;
    struct activity_part part;

    if (!read_work(nsys, values, &part))
        return false;
    part.activity.kind = ACTIVITY_KERNEL;
    part.text = values[WORK_OWN].is_integer ? values[WORK_OWN].number : NO_TEXT;
    if (part.text == NO_TEXT && values[WORK_OWN + 1].is_integer)
        part.text = values[WORK_OWN + 1].number;
    return add_work(nsys, &part);
}

/* The kernels of a graph, of which nsys has recorded only the whole. */
static bool read_graph(void *context, const struct sqlite_value *values)
{
    struct nsys *nsys = context;
    struct activity_part part;

    if (!read_work(nsys, values, &part))
        return false;
    part.activity.kind = ACTIVITY_KERNEL;
    part.activity.name = activity_log_name(nsys->log, "CUDA graph");
    return part.activity.name == ACTIVITY_NONE ? no_memory(nsys) : add_work(nsys, &part);
}

/* The numbers of the table ENUM_CUDA_MEM_KIND. */
static enum activity_memory memory_of(const struct sqlite_value *value)
{
    switch (number_or(value, 7)) {
    case 0:
        return ACTIVITY_MEMORY_PAGEABLE;
    case 1:
        return ACTIVITY_MEMORY_PINNED;
    case 2:
    case 3: /* an array */
    case 5: /* static */
        return ACTIVITY_MEMORY_DEVICE;
    case 4:
    case 6:
        return ACTIVITY_MEMORY_MANAGED;
    default:
        return ACTIVITY_MEMORY_UNKNOWN;
    }
}

/* A copy of managed memory by the driver. Its kinds of memory say only that it is managed. */
static void set_page_move(struct activity *a, uint64_t kind, uint64_t cause)
{
    a->kind = ACTIVITY_PAGE_MOVE;
    a->from_memory = kind == COPY_PAGES_TO_DEVICE ? ACTIVITY_MEMORY_MANAGED : ACTIVITY_MEMORY_DEVICE;
    a->to_memory = kind == COPY_PAGES_FROM_DEVICE ? ACTIVITY_MEMORY_MANAGED : ACTIVITY_MEMORY_DEVICE;
    if (cause >= CAUSE_COHERENCE && cause <= CAUSE_ACCESS_COUNTERS)
        a->flags |= ACTIVITY_FLAG_FAULT;
}

static bool read_copy(void *context, const struct sqlite_value *values)
{
    struct nsys *nsys = context;
    struct activity_part part;
    struct activity *a = &part.activity;
    uint64_t kind;

    if (!read_work(nsys, values, &part))
        return false;
    if (!values[WORK_OWN].is_integer || values[WORK_OWN].number < 0)
        return bad_value(nsys, "bytes", "a number of bytes");
    kind = number_or(&values[WORK_OWN + 1], 0);
    a->bytes = (uint64_t)values[WORK_OWN].number;
    a->kind = ACTIVITY_COPY;
    a->from_memory = (uint8_t)memory_of(&values[WORK_OWN + 2]);
    a->to_memory = (uint8_t)memory_of(&values[WORK_OWN + 3]);
    if (kind >= COPY_PAGES_FIRST && kind <= COPY_PAGES_LAST)
        set_page_move(a, kind, number_or(&values[WORK_OWN + 4], 0));
    return add_work(nsys, &part);
}

static bool read_fill(void *context, const struct sqlite_value *values)
{
    struct nsys *nsys = context;
    struct activity_part part;

    if (!read_work(nsys, values, &part))
        return false;
    part.activity.kind = ACTIVITY_FILL;
    part.activity.bytes = number_or(&values[WORK_OWN], 0);
    return add_work(nsys, &part);
}

/* ---- calls ---- */

static bool set_thread(struct nsys *nsys, const struct sqlite_value *value, struct activity *a)
{
    if (!value->is_integer)
        return true;
    a->thread = activity_log_thread(nsys->log, (uint64_t)value->number & 0xffffff);
    return a->thread != ACTIVITY_NONE ||
           activity_input_fail(nsys->input, "it has more than %d threads, or memory is short",
                               ACTIVITY_THREADS_MAX);
}

static bool read_call(void *context, const struct sqlite_value *values)
{
    struct nsys *nsys = context;
    struct activity_part part = new_part();

    if (!get_times(nsys, values, &part.activity.host_begin_ns, &part.activity.host_end_ns) ||
        !set_thread(nsys, &values[FIRST], &part.activity))
        return false;
    if (!values[FIRST + 2].is_integer)
        return bad_value(nsys, "nameId", "the number of a name");
    part.text = values[FIRST + 2].number;
    part.correlation = correlation_of(process_of(number_or(&values[FIRST], 0)), &values[FIRST + 1]);
    part.activity.flags = ACTIVITY_FLAG_HOST;
    part.activity.kind = ACTIVITY_OTHER;
    return activity_part_add(nsys->input, &nsys->calls, &part);
}

/* Ranges of NVTX that a thread pushes and pops. Others may end on another thread, or overlap. */
static bool read_range(void *context, const struct sqlite_value *values)
{
    struct nsys *nsys = context;
    struct activity_part part = new_part();

    if (number_or(&values[FIRST], 0) != RANGE_PUSH_POP || !values[END].is_integer) { /* a mark, or never popped */
        nsys->row++;
        return true;
    }
    if (!get_times(nsys, values, &part.activity.host_begin_ns, &part.activity.host_end_ns) ||
        !set_thread(nsys, &values[FIRST + 1], &part.activity))
        return false;
    part.activity.kind = ACTIVITY_RANGE;
    part.activity.flags = ACTIVITY_FLAG_HOST;
    if (values[FIRST + 2].text)
        part.activity.name = activity_log_name(nsys->log, values[FIRST + 2].text);
    else if (values[FIRST + 3].is_integer)
        part.text = values[FIRST + 3].number;
    return activity_part_add(nsys->input, &nsys->calls, &part);
}

/* A wait of the host that no call in the file explains; calls that wait are known by their names. */
static bool read_wait(void *context, const struct sqlite_value *values)
{
    struct nsys *nsys = context;
    struct activity_part part = new_part();
    uint64_t type = number_or(&values[FIRST], 0);

    if (!get_times(nsys, values, &part.activity.host_begin_ns, &part.activity.host_end_ns))
        return false;
    if (number_or(&values[FIRST + 1], 0) || (type != WAIT_EVENT && type != WAIT_STREAM && type != WAIT_CONTEXT))
        return true;
    part.activity.kind = ACTIVITY_HOST_WAIT;
    part.activity.flags = ACTIVITY_FLAG_HOST;
    return activity_part_add(nsys->input, &nsys->calls, &part);
}

/* ---- names ---- */

static int compare_texts(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

    return one < other ? -1 : one > other;
}

static void collect_texts(struct nsys *nsys, const struct activity_part_list *parts)
{
    size_t i;

    for (i = 0; i < parts->count; i++)
        if (parts->list[i].text != NO_TEXT)
            nsys->texts[nsys->text_count++] = parts->list[i].text;
}

/* Lists the numbers of all names in use. */
static bool list_texts(struct nsys *nsys)
{
    size_t room = nsys->calls.count + nsys->work.count, i, kept = 0;

    nsys->texts = calloc(room + 1, sizeof *nsys->texts);
    if (!nsys->texts)
        return no_memory(nsys);
    collect_texts(nsys, &nsys->calls);
    collect_texts(nsys, &nsys->work);
    qsort(nsys->texts, nsys->text_count, sizeof *nsys->texts, compare_texts);
    for (i = 0; i < nsys->text_count; i++)
        if (i == 0 || nsys->texts[i] != nsys->texts[i - 1])
            nsys->texts[kept++] = nsys->texts[i];
    nsys->text_count = kept;
    nsys->names = malloc((kept + 1) * sizeof *nsys->names);
    if (!nsys->names)
        return no_memory(nsys);
    memset(nsys->names, 0xff, (kept + 1) * sizeof *nsys->names); /* ACTIVITY_NONE */
    return true;
}

static uint32_t *find_text(const struct nsys *nsys, int64_t text)
{
    int64_t *found = bsearch(&text, nsys->texts, nsys->text_count, sizeof text, compare_texts);

    return found ? &nsys->names[found - nsys->texts] : NULL;
}

/* Copies a name without the version that calls have at their end, as in cudaMemcpyAsync_ptsz_v7000. */
static void copy_name(char *name, size_t bytes, const char *text)
{
    char *end, *digits;

    snprintf(name, bytes, "%s", text);
    digits = strstr(name, "_v");
    if (strncmp(name, "cu", 2) != 0 || !digits)
        return;
    for (end = digits + 2; *end >= '0' && *end <= '9'; end++)
        continue;
    if (*end || end - digits < 5) /* _v2 belongs to the name of the driver's call */
        return;
    *digits = '\0';
    if (digits - name > 5 && (!strcmp(digits - 5, "_ptsz") || !strcmp(digits - 5, "_ptds")))
        digits[-5] = '\0';
}

static bool read_text(void *context, const struct sqlite_value *values)
{
    struct nsys *nsys = context;
    uint32_t *name;
    char text[1024];

    nsys->row++;
    if (!values[0].is_integer)
        return bad_value(nsys, "id", "a number");
    name = find_text(nsys, values[0].number);
    if (!name)
        return true;
    if (!values[1].text)
        return bad_value(nsys, "value", "a text");
    copy_name(text, sizeof text, values[1].text);
    *name = activity_log_name(nsys->log, text);
    return *name != ACTIVITY_NONE || no_memory(nsys);
}

static void set_names(const struct nsys *nsys, struct activity_part_list *parts, bool calls)
{
    size_t i;

    for (i = 0; i < parts->count; i++) {
        struct activity *a = &parts->list[i].activity;
        const uint32_t *name = parts->list[i].text == NO_TEXT ? NULL : find_text(nsys, parts->list[i].text);

        if (!name)
            continue;
        a->name = *name;
        if (calls && a->kind == ACTIVITY_OTHER)
            activity_describe_call(a, activity_name(nsys->log, *name));
    }
}

/* ---- names of devices and threads ---- */

static bool read_gpu(void *context, const struct sqlite_value *values)
{
    struct nsys *nsys = context;
    uint64_t number = number_or(values[1].is_integer ? &values[1] : &values[0], UINT64_MAX);
    size_t i;

    nsys->row++;
    for (i = 0; i < nsys->log->device_count && values[2].text; i++) {
        struct activity_device *device = &nsys->log->devices[i];
        char name[160];

        /* For other processes the number may be of another GPU. */
        if (device->number != number)
            continue;
        snprintf(name, sizeof name, "cuda:%" PRIu64 " %.120s", number, values[2].text);
        device->name = activity_log_name(nsys->log, name);
        if (device->name == ACTIVITY_NONE)
            return no_memory(nsys);
    }
    return true;
}

/* ---- the file ---- */

struct table {
    const char *name;
    struct sqlite_column columns[SQLITE_COLUMNS_MAX];
    size_t count;
    sqlite_row *row;
};

static bool read_table(struct nsys *nsys, const struct table *table)
{
    char error[SQLITE_ERROR_MAX];

    nsys->table = table->name;
    nsys->row = 0;
    if (sqlite_read(nsys->file, table->name, table->columns, table->count, table->row, nsys, error))
        return true;
    return error[0] ? activity_input_fail(nsys->input, "%s", error) : false;
}

static const struct table tables[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL",
     {{"start", true},
      {"end", true},
      {"deviceId", true},
      {"streamId", true},
      {"correlationId", false},
      {"globalPid", false},
      {"shortName", false},
      {"demangledName", false}},
     WORK_OWN + 2,
     read_kernel},
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
     {{"start", true},
      {"end", true},
      {"deviceId", true},
      {"streamId", true},
      {"correlationId", false},
      {"globalPid", false}},
     WORK_OWN,
     read_graph},
    {"CUPTI_ACTIVITY_KIND_MEMCPY",
     {{"start", true},
      {"end", true},
      {"deviceId", true},
      {"streamId", true},
      {"correlationId", false},
      {"globalPid", false},
      {"bytes", true},
      {"copyKind", true},
      {"srcKind", false},
      {"dstKind", false},
      {"migrationCause", false}},
     WORK_OWN + 5,
     read_copy},
    {"CUPTI_ACTIVITY_KIND_MEMSET",
     {{"start", true},
      {"end", true},
      {"deviceId", true},
      {"streamId", true},
      {"correlationId", false},
      {"globalPid", false},
      {"bytes", true}},
     WORK_OWN + 1,
     read_fill},
    {"CUPTI_ACTIVITY_KIND_RUNTIME",
     {{"start", true}, {"end", true}, {"globalTid", false}, {"correlationId", false}, {"nameId", true}},
     FIRST + 3,
     read_call},
    {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
     {{"start", true}, {"end", true}, {"syncType", true}, {"correlationId", false}},
     FIRST + 2,
     read_wait},
    {"NVTX_EVENTS",
     {{"start", true},
      {"end", true},
      {"eventType", true},
      {"globalTid", false},
      {"text", false},
      {"textId", false}},
     FIRST + 4,
     read_range}};
static const struct table strings = {"StringIds", {{"id", true}, {"value", true}}, 2, read_text};
static const struct table gpus = {
    "TARGET_INFO_GPU", {{"id", true}, {"cuDevice", false}, {"name", true}}, 3, read_gpu};

static bool read_tables(struct nsys *nsys)
{
    size_t found = 0, i;

    for (i = 0; i < sizeof tables / sizeof tables[0]; i++)
        found += sqlite_has_table(nsys->file, tables[i].name);
    if (!found && !sqlite_has_table(nsys->file, strings.name))
        return activity_input_fail(nsys->input,
                                   "this is an SQLite file, but no export of nsys: it has none of the "
                                   "tables CUPTI_ACTIVITY_KIND_..., NVTX_EVENTS and StringIds");
    for (i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (!read_table(nsys, &tables[i]))
            return false;
    if (!list_texts(nsys) || !read_table(nsys, &strings))
        return false;
    set_names(nsys, &nsys->calls, true);
    set_names(nsys, &nsys->work, false);
    return read_table(nsys, &gpus) && activity_join(nsys->input, nsys->log, &nsys->calls, &nsys->work);
}

bool activity_read_nsys(struct activity_input *input, struct activity_log *log)
{
    struct nsys nsys = {.input = input, .log = log};
    char error[SQLITE_ERROR_MAX];
    bool fine;

    log->source = "nsys";
    if (!gzdirect(input->file) || !strcmp(input->path, "standard input"))
        return activity_input_fail(input,
                                   "an SQLite file is read from a file that is not compressed, and not from "
                                   "standard input");
    nsys.file = sqlite_open(input->path, error);
    if (!nsys.file)
        return activity_input_fail(input, "%s", error);
    fine = read_tables(&nsys);
    sqlite_close(nsys.file);
    free(nsys.calls.list);
    free(nsys.work.list);
    free(nsys.texts);
    free(nsys.names);
    return fine;
}
