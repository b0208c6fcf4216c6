/*
 * cpu_managed.c - keeps the advice for pages of managed memory of the CPU device, and records where each page
 * would be if host and devices had separate memories. A "side" is the host or one device.
 *
 * While the record is on, pages are inaccessible (mprotect) until a thread accesses them. The fault handler
 * records the access for the side that the faulting thread works for, and opens the page. Page protection belongs
 * to the process, not to a thread, so sides are separated in time: before work of a device begins, leat closes all
 * pages that other sides have opened, and after that work, all pages that the device has opened. If two sides
 * access a page at the same time, only one access is recorded. Copies and fills report their accesses before they
 * begin, which saves the faults.
 *
 * Pages move by the rules that NVIDIA documents for cuMemAdvise: if a side can reach a page at its preferred
 * location, it uses the page there; a reader of a read-mostly page makes a copy; any other page moves to the side
 * that accesses it.
 */
#include "driver/cpu/cpu.h"

#include "base/assume.h"
#include "base/clock.h"
#include "base/fault_handler.h"
#include "base/lock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

/* A side is a device's number or HOST. NOWHERE means no side. */
enum { NOWHERE = -2, HOST = CPU_HOST_SIDE };

enum { MOVES = 4096, NEIGHBOURS = 16 /* a page may be merged into one of this many latest moves */ };

struct managed_page {
    uint32_t copies;       /* bit_of() of each side that has the page; 0: never accessed */
    uint32_t accessed_by;  /* bit_of() of each side with the advice ACCESSED_BY */
    uint8_t preferred;     /* a side + 2; 0 means NOWHERE */
    uint8_t last_prefetch; /* a side + 2; 0 means NOWHERE */
    uint8_t first_touch;   /* a side + 2: the side that accessed the page first */
    uint8_t read_mostly;
    uint16_t faults_to_device, faults_to_host;
    uint16_t prefetched_to_device, prefetched_to_host, in_vain;
    uint16_t copied, ended, in_place;
};

/* One allocation. */
struct memory {
    uintptr_t base;
    size_t pages_count;
    struct managed_page *pages; /* NULL: no advice and no record yet */
    uint32_t opened_by;         /* sides that have opened pages since all pages were closed */
    bool unseen;                /* true: left accessible, because the system allows no more mappings */
};

/* Guards all variables below. The fault handler takes this lock too, so a thread that holds it must not access
 * managed memory. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static struct leati_ranges memories LEATI_GUARDED_BY(lock);
static leat_managed_move *moves;    /* ring of the latest moves; NULL before the first record */
static uint64_t moves_phase[MOVES]; /* phase in which each move was recorded */
static uint64_t moves_count;        /* number of moves ever recorded */
static uint64_t phase;              /* incremented whenever work of a device begins or ends */
static uint64_t began_ns;

/* True while the record is on. Changed under the lock; also read without the lock, to return early if there is no
 * record. */
static atomic_bool recording;

/* The side that this thread works for, and whether SIGSEGV is unblocked on it. The TLS model is initial-exec,
 * because the fault handler must not call __tls_get_addr(). */
static _Thread_local __attribute__((tls_model("initial-exec"))) int current_side = HOST;
static _Thread_local __attribute__((tls_model("initial-exec"))) bool unblocked;

static uint32_t bit_of(int side)
{
    LEATI_ASSUME(side == HOST || (side >= 0 && side < CPU_DEVICES_MAX));
    return (uint32_t)1 << (side == HOST ? 31 : side);
}

static bool is_recording(void)
{
    /* Acquire: pairs with the release of begin_record(), so that its set-up is visible. */
    return atomic_load_explicit(&recording, memory_order_acquire);
}

static void count(uint16_t *counter)
{
    if (*counter < UINT16_MAX)
        (*counter)++;
}

/* ---- moves ---- */

static leat_location location_of(int side)
{
    leat_location location = {.kind = LEAT_LOCATION_KIND_NONE, .ordinal = -1};

    if (side == HOST)
        location.kind = LEAT_LOCATION_KIND_HOST;
    if (side >= 0)
        location = (leat_location){.kind = LEAT_LOCATION_KIND_DEVICE, .ordinal = side};
    return location;
}

static bool same_place(leat_location location, int side)
{
    return location.kind == location_of(side).kind && location.ordinal == location_of(side).ordinal;
}

static void note_move(uintptr_t address, int from, int to, leat_move_cause cause)
{
    uint64_t oldest = moves_count > NEIGHBOURS ? moves_count - NEIGHBOURS : 0;

    for (uint64_t i = moves_count; i-- > oldest;) {
        leat_managed_move *move = &moves[i % MOVES];

        if (moves_phase[i % MOVES] != phase || move->cause != cause || !same_place(move->from, from) ||
            !same_place(move->to, to))
            continue;
        if (address == (uintptr_t)move->ptr + move->bytes) {
            move->bytes += CPU_PAGE_BYTES;
            return;
        }
        if (address + CPU_PAGE_BYTES == (uintptr_t)move->ptr) {
            move->ptr = (void *)address;
            move->bytes += CPU_PAGE_BYTES;
            return;
        }
    }
    moves_phase[moves_count % MOVES] = phase;
    moves[moves_count++ % MOVES] = (leat_managed_move){.time_ns = leati_clock_ns() - began_ns,
                                                       .ptr = (void *)address,
                                                       .bytes = CPU_PAGE_BYTES,
                                                       .from = location_of(from),
                                                       .to = location_of(to),
                                                       .cause = cause};
}

/* Returns one of the sides that have the page: the host if it has the page, else the first device that does;
 * NOWHERE if none does. */
static int home_of(const struct managed_page *page)
{
    if (!page->copies)
        return NOWHERE;
    return page->copies & bit_of(HOST) ? HOST : __builtin_ctz(page->copies);
}

static bool has_several(const struct managed_page *page)
{
    return page->copies & (page->copies - 1);
}

/* Returns true if side can access memory at place: devices reach the host and each other, the host reaches no
 * device. */
static bool reaches(int side, int place)
{
    return side == place || (side != HOST && place != NOWHERE);
}

static void first_touch(struct managed_page *page, uintptr_t address, int side)
{
    int preferred = page->preferred - 2;
    int place = preferred != NOWHERE && reaches(side, preferred) ? preferred : side;

    page->copies = bit_of(place);
    page->first_touch = (uint8_t)(side + 2);
    if (place != side)
        count(&page->in_place);
    note_move(address, NOWHERE, place, LEAT_MOVE_CAUSE_FIRST_TOUCH);
}

/* Records that side accesses a page that it does not have, if no copy is made: side uses the page in place, or the
 * page moves to side. */
static void fault(struct managed_page *page, uintptr_t address, int side)
{
    int home = home_of(page);

    if (!has_several(page) && reaches(side, home) &&
        (page->preferred == home + 2 || page->accessed_by & bit_of(side))) {
        count(&page->in_place);
        return;
    }
    if (has_several(page))
        count(&page->ended);
    page->copies = bit_of(side);
    count(side == HOST ? &page->faults_to_host : &page->faults_to_device);
    note_move(address, home, side, LEAT_MOVE_CAUSE_FAULT);
}

/* Records an access; returns the protection that the page gets for the side. */
static int touch(struct managed_page *page, uintptr_t address, int side, bool write)
{
    if (!page->copies) {
        first_touch(page, address, side);
    } else if (page->copies & bit_of(side)) {
        if (write && has_several(page)) {
            page->copies = bit_of(side);
            count(&page->ended);
            note_move(address, side, side, LEAT_MOVE_CAUSE_END_COPIES);
        }
    } else if (page->read_mostly && !write) {
        note_move(address, home_of(page), side, LEAT_MOVE_CAUSE_COPY);
        page->copies |= bit_of(side);
        count(&page->copied);
    } else {
        fault(page, address, side);
    }
    /* Read-only if there are several copies, so that the next write faults and the copies end. */
    return page->read_mostly && has_several(page) ? PROT_READ : PROT_READ | PROT_WRITE;
}

static void prefetch(struct managed_page *page, uintptr_t address, int to)
{
    int home = home_of(page);

    if (page->copies & bit_of(to)) {
        count(&page->in_vain);
    } else if (page->read_mostly && page->copies) {
        page->copies |= bit_of(to);
        count(&page->copied);
        note_move(address, home, to, LEAT_MOVE_CAUSE_COPY);
    } else {
        page->copies = bit_of(to);
        count(to == HOST ? &page->prefetched_to_host : &page->prefetched_to_device);
        note_move(address, home, to, LEAT_MOVE_CAUSE_PREFETCH);
    }
}

/* ---- rights ---- */

static size_t bytes_of(const struct memory *memory)
{
    return memory->pages_count * CPU_PAGE_BYTES;
}

/* Makes all of the memory accessible, because the system allows no more mappings, and notes that accesses to it
 * will not be recorded. */
static bool leave_open(struct memory *memory)
{
    memory->unseen = true;
    return mprotect((void *)memory->base, bytes_of(memory), PROT_READ | PROT_WRITE) == 0;
}

static bool set_rights(struct memory *memory, uintptr_t start, size_t bytes, int rights)
{
    return memory->unseen || mprotect((void *)start, bytes, rights) == 0 || leave_open(memory);
}

static void close_pages(struct memory *memory, uintptr_t start, size_t bytes)
{
    if (is_recording())
        set_rights(memory, start, bytes, PROT_NONE);
}

/* Closes all memory that sides other than this one have opened. */
static void close_others(int side)
{
    leati_lock(&lock);
    phase++;
    for (size_t i = 0; i < memories.count && is_recording(); i++) {
        struct memory *memory = memories.entries[i].value;

        if (!(memory->opened_by & ~bit_of(side)))
            continue;
        close_pages(memory, memory->base, bytes_of(memory));
        memory->opened_by = 0;
    }
    leati_unlock(&lock);
}

/* A range of an allocation, widened to whole pages. */
struct managed_span {
    struct memory *memory;
    size_t first, end; /* pages first to end - 1 */
};

static uintptr_t page_address(const struct memory *memory, size_t page)
{
    return memory->base + page * CPU_PAGE_BYTES;
}

/* Finds the pages that a range touches. Returns false if ptr is not in managed memory. */
static bool find_span(const void *ptr, size_t bytes, struct managed_span *span)
{
    const struct leati_range *range = leati_ranges_find(&memories, (uintptr_t)ptr);
    size_t offset;

    if (!range)
        return false;
    offset = (uintptr_t)ptr - range->base;
    span->memory = range->value;
    span->first = offset / CPU_PAGE_BYTES;
    span->end = (offset + bytes + CPU_PAGE_BYTES - 1) / CPU_PAGE_BYTES;
    return true;
}

/* The fault handler calls this first for each fault (leati_fault_handler_set_repair()). */
static bool repair(const siginfo_t *info, const void *context)
{
    int before = errno, rights;
    bool write = true, repaired = false;
    struct managed_span span;

    if (info->si_signo != SIGSEGV || info->si_code != SEGV_ACCERR)
        return false;
#if defined(__x86_64__)
    /* Bit 1 of the page fault's error code: a write (Intel SDM volume 3, "Page-Fault Exceptions"). */
    write = ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
    (void)context;
#endif
    leati_lock(&lock);
    if (find_span(info->si_addr, 1, &span) && span.memory->pages) {
        uintptr_t address = page_address(span.memory, span.first);

        /* If the record has just ended, no page is closed any more, and the access only needs a retry. */
        rights = is_recording() ? touch(&span.memory->pages[span.first], address, current_side, write)
                                : PROT_READ | PROT_WRITE;
        span.memory->opened_by |= bit_of(current_side);
        repaired = set_rights(span.memory, address, CPU_PAGE_BYTES, rights);
    }
    leati_unlock(&lock);
    errno = before;
    return repaired;
}

/* ---- the side of a thread ---- */

/* A SIGSEGV fault while the signal is blocked kills the process, so unblock it. */
static void unblock_faults(void)
{
    sigset_t faults;

    if (unblocked || !is_recording())
        return;
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
    unblocked = true;
}

int cpu_managed_side(void)
{
    return current_side;
}

int cpu_managed_take_side(int side)
{
    int earlier = current_side;

    current_side = side;
    unblock_faults();
    return earlier;
}

int cpu_managed_enter(const struct cpu_device *device)
{
    int earlier = cpu_managed_take_side(device->ordinal);

    if (is_recording())
        close_others(device->ordinal);
    return earlier;
}

void cpu_managed_leave(int earlier)
{
    current_side = earlier;
    if (is_recording())
        close_others(earlier);
}

void cpu_managed_touch(const void *ptr, size_t bytes, bool write)
{
    struct managed_span span;

    if (!is_recording())
        return;
    leati_lock(&lock);
    if (find_span(ptr, bytes, &span) && is_recording()) {
        size_t begin = span.first;
        int rights = PROT_NONE;

        for (size_t i = span.first; i <= span.end; i++) {
            int next = i == span.end
                           ? PROT_NONE
                           : touch(&span.memory->pages[i], page_address(span.memory, i), current_side, write);

            if (next != rights && i > begin)
                set_rights(span.memory, page_address(span.memory, begin), (i - begin) * CPU_PAGE_BYTES, rights);
            if (next != rights)
                begin = i;
            rights = next;
        }
        span.memory->opened_by |= bit_of(current_side);
    }
    leati_unlock(&lock);
}

/* ---- allocations ---- */

static leat_status need_pages(struct memory *memory)
{
    if (!memory->pages)
        memory->pages = calloc(memory->pages_count, sizeof *memory->pages);
    return memory->pages ? LEAT_OK
                         : leati_fail(LEAT_ERROR_HOST_MEMORY,
                                      "no memory for the CPU device's records of %zu pages", memory->pages_count);
}

leat_status cpu_managed_add(void *ptr, size_t bytes)
{
    struct memory *memory = calloc(1, sizeof *memory);
    leat_status status = LEAT_OK;

    if (!memory)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the CPU device's records");
    memory->base = (uintptr_t)ptr;
    memory->pages_count = bytes / CPU_PAGE_BYTES;
    leati_lock(&lock);
    if (is_recording())
        status = need_pages(memory);
    if (status == LEAT_OK && !leati_ranges_insert(&memories, memory->base, bytes, memory))
        status = leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the CPU device's records");
    if (status == LEAT_OK)
        close_pages(memory, memory->base, bytes);
    leati_unlock(&lock);
    if (status != LEAT_OK) {
        free(memory->pages);
        free(memory);
    }
    return status;
}

static void remove_record(const void *ptr) LEATI_REQUIRES(lock)
{
    const struct leati_range *range = leati_ranges_find(&memories, (uintptr_t)ptr);
    struct memory *memory = range ? range->value : NULL;

    leati_assert_locked(&lock);
    if (!memory)
        return;
    leati_ranges_remove(&memories, memory->base);
    if (!memories.count)
        leati_ranges_clear(&memories);
    free(memory->pages);
    free(memory);
}

void cpu_managed_remove(const void *ptr)
{
    leati_lock(&lock);
    remove_record(ptr);
    leati_unlock(&lock);
}

leat_status cpu_managed_unmap(void *ptr, size_t bytes)
{
    leat_status status;

    /* Under the lock, so that the end of a record cannot make the unmapped addresses accessible. */
    leati_lock(&lock);
    status = cpu_space_unmap(ptr, bytes);
    if (status == LEAT_OK)
        remove_record(ptr);
    leati_unlock(&lock);
    return status;
}

/* ---- prefetch, advice ---- */

static leat_status refuse_memory(const void *ptr)
{
    return leati_fail(LEAT_ERROR_POINTER, "%p is no managed memory of the CPU devices", ptr);
}

/* Finds the range of a call, and allocates its struct managed_page if necessary. On failure *span is empty. Call
 * under the lock. */
static leat_status need_span(const void *ptr, size_t bytes, struct managed_span *span) LEATI_REQUIRES(lock)
{
    leat_status status = find_span(ptr, bytes, span) ? need_pages(span->memory) : refuse_memory(ptr);

    leati_assert_locked(&lock);
    if (status != LEAT_OK)
        *span = (struct managed_span){.memory = NULL};
    return status;
}

static int side_of(const void *device)
{
    return device ? ((const struct cpu_device *)device)->ordinal : HOST;
}

struct prefetch_work {
    struct cpu_work work;
    void *ptr;
    size_t bytes;
    int to;
};

static void run_prefetch(struct cpu_work *queued)
{
    struct prefetch_work *work = (struct prefetch_work *)(void *)queued;
    struct managed_span span;

    leati_lock(&lock);
    phase++;
    /* Nothing to do if the memory was freed meanwhile, or if the record has ended. */
    if (is_recording() && find_span(work->ptr, work->bytes, &span)) {
        for (size_t i = span.first; i < span.end; i++)
            prefetch(&span.memory->pages[i], page_address(span.memory, i), work->to);
        close_pages(span.memory, page_address(span.memory, span.first), (span.end - span.first) * CPU_PAGE_BYTES);
    }
    leati_unlock(&lock);
}

leat_status cpu_managed_prefetch(struct leati_driver *driver, void *stream, void *ptr, size_t bytes, void *to)
{
    struct prefetch_work *work = malloc(sizeof *work);
    leat_status status;
    struct managed_span span;

    (void)driver;
    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to queue the work");
    *work = (struct prefetch_work){.work.run = run_prefetch, .ptr = ptr, .bytes = bytes, .to = side_of(to)};
    leati_lock(&lock);
    status = need_span(ptr, bytes, &span);
    for (size_t i = span.first; i < span.end; i++)
        span.memory->pages[i].last_prefetch = (uint8_t)(work->to + 2);
    leati_unlock(&lock);
    if (status != LEAT_OK) {
        free(work);
        return status;
    }
    cpu_stream_push(stream, &work->work);
    return LEAT_OK;
}

static void end_copies(struct managed_page *page)
{
    if (!has_several(page))
        return;
    page->copies = page->preferred && page->copies & bit_of(page->preferred - 2) ? bit_of(page->preferred - 2)
                                                                                 : bit_of(home_of(page));
    count(&page->ended);
}

static void advise(struct managed_page *page, leat_advice advice, int where)
{
    switch (advice) {
    case LEAT_ADVICE_READ_MOSTLY:
        page->read_mostly = 1;
        break;
    case LEAT_ADVICE_NOT_READ_MOSTLY:
        page->read_mostly = 0;
        end_copies(page);
        break;
    case LEAT_ADVICE_PREFERRED:
        page->preferred = (uint8_t)(where + 2);
        break;
    case LEAT_ADVICE_NOT_PREFERRED:
        page->preferred = 0;
        break;
    case LEAT_ADVICE_ACCESSED_BY:
        page->accessed_by |= bit_of(where);
        break;
    case LEAT_ADVICE_NOT_ACCESSED_BY:
        page->accessed_by &= ~bit_of(where);
        break;
    }
}

leat_status cpu_managed_advise(struct leati_driver *driver, void *device, void *ptr, size_t bytes,
                               leat_advice advice, void *where)
{
    leat_status status;
    struct managed_span span;

    (void)driver, (void)device;
    leati_lock(&lock);
    status = need_span(ptr, bytes, &span);
    if (status == LEAT_OK) {
        for (size_t i = span.first; i < span.end; i++)
            advise(&span.memory->pages[i], advice, side_of(where));
        /* Close the pages, because those that are open were opened under the earlier advice. */
        close_pages(span.memory, page_address(span.memory, span.first), (span.end - span.first) * CPU_PAGE_BYTES);
    }
    leati_unlock(&lock);
    return status;
}

/* ---- queries ---- */

static void add_places(const struct managed_page *page, leat_managed_info *info)
{
    info->pages_nowhere += !page->copies;
    info->pages_on_host += (page->copies & bit_of(HOST)) != 0;
    for (int i = 0; i < CPU_DEVICES_MAX; i++)
        info->pages_on_device[i] += (page->copies & bit_of(i)) != 0;
}

_Static_assert(CPU_DEVICES_MAX <= LEAT_MANAGED_DEVICES_MAX, "a count for each device");

static void describe_span(const struct managed_span *span, leat_managed_info *info)
{
    const struct managed_page *first = &span->memory->pages[span->first];
    bool same_preferred = true, same_prefetch = true;
    uint32_t accessed_by = UINT32_MAX;

    info->read_mostly = 1;
    for (size_t i = span->first; i < span->end; i++) {
        const struct managed_page *page = &span->memory->pages[i];

        info->read_mostly &= page->read_mostly;
        accessed_by &= page->accessed_by;
        same_preferred = same_preferred && page->preferred == first->preferred;
        same_prefetch = same_prefetch && page->last_prefetch == first->last_prefetch;
        add_places(page, info);
    }
    info->accessed_by_host = (accessed_by & bit_of(HOST)) != 0;
    info->accessed_by = accessed_by & ~bit_of(HOST);
    info->preferred = location_of(same_preferred ? first->preferred - 2 : NOWHERE);
    info->last_prefetch = location_of(same_prefetch ? first->last_prefetch - 2 : NOWHERE);
}

leat_status cpu_managed_query(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                              leat_managed_info *info)
{
    leat_status status = LEAT_OK;
    struct managed_span span;

    (void)driver, (void)device;
    leati_lock(&lock);
    if (!find_span(ptr, bytes, &span)) {
        status = refuse_memory(ptr);
    } else {
        info->page_bytes = CPU_PAGE_BYTES;
        info->pages = span.end - span.first;
        info->preferred = info->last_prefetch = location_of(NOWHERE);
        info->places_known = moves != NULL && span.memory->pages;
        if (span.memory->pages)
            describe_span(&span, info);
        if (!info->places_known) {
            info->pages_nowhere = info->pages_on_host = 0;
            memset(info->pages_on_device, 0, sizeof info->pages_on_device);
        }
    }
    leati_unlock(&lock);
    return status;
}

leat_status cpu_managed_attach(struct leati_driver *driver, void *stream, void *ptr, size_t bytes,
                               leat_attach attach)
{
    (void)driver, (void)stream, (void)ptr, (void)bytes, (void)attach;
    return LEAT_OK;
}

/* ---- the record ---- */

/* Clears the record of an allocation, but not its advice. */
static void forget_record(struct memory *memory)
{
    for (size_t i = 0; i < memory->pages_count; i++) {
        struct managed_page *page = &memory->pages[i];

        *page = (struct managed_page){.accessed_by = page->accessed_by,
                                      .preferred = page->preferred,
                                      .last_prefetch = page->last_prefetch,
                                      .read_mostly = page->read_mostly};
    }
    memory->opened_by = 0;
    memory->unseen = false;
}

/* Starts the record: clears it and closes all pages. Call under the lock. */
static leat_status begin_record(void) LEATI_REQUIRES(lock)
{
    leati_assert_locked(&lock);
    if (!moves)
        moves = malloc(MOVES * sizeof *moves);
    if (!moves)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the record of %d moves", MOVES);
    for (size_t i = 0; i < memories.count; i++)
        LEATI_TRY(need_pages(memories.entries[i].value));
    moves_count = 0;
    began_ns = leati_clock_ns();
    atomic_store_explicit(&recording, true, memory_order_release);
    for (size_t i = 0; i < memories.count; i++) {
        struct memory *memory = memories.entries[i].value;

        forget_record(memory);
        close_pages(memory, memory->base, bytes_of(memory));
    }
    return LEAT_OK;
}

/* Ends the record: makes all pages accessible. Call under the lock. */
static leat_status end_record(void) LEATI_REQUIRES(lock)
{
    leat_status status = LEAT_OK;

    leati_assert_locked(&lock);
    for (size_t i = 0; i < memories.count; i++) {
        struct memory *memory = memories.entries[i].value;

        if (mprotect((void *)memory->base, bytes_of(memory), PROT_READ | PROT_WRITE))
            status = leati_fail(LEAT_ERROR_SYSTEM, "mprotect of %p + %zu: %s", (void *)memory->base,
                                bytes_of(memory), strerror(errno));
    }
    if (status == LEAT_OK)
        atomic_store_explicit(&recording, false, memory_order_release);
    return status;
}

leat_status cpu_managed_record(struct leati_driver *driver, void *device, bool on)
{
    leat_status status = LEAT_OK;

    (void)driver, (void)device;
    if (on) {
        leati_fault_handler_set_repair(repair);
        if (!leati_fault_handler_is_installed())
            return leati_fail(
                LEAT_ERROR_UNSUPPORTED,
                "another handler of SIGSEGV was installed after leat's; start the record before installing it");
    }
    leati_lock(&lock);
    if (on)
        status = begin_record();
    else if (is_recording())
        status = end_record();
    leati_unlock(&lock);
    unblock_faults();
    return status;
}

void cpu_managed_end(void)
{
    leati_lock(&lock);
    atomic_store_explicit(&recording, false, memory_order_release);
    free(moves);
    moves = NULL;
    moves_count = 0;
    leati_unlock(&lock);
}

/* Fails if no record was ever started. Call under the lock. */
static leat_status need_record(void) LEATI_REQUIRES(lock)
{
    leati_assert_locked(&lock);
    return moves ? LEAT_OK
                 : leati_fail(LEAT_ERROR_UNSUPPORTED, "nothing was recorded: call leat_managed_record() first");
}

static void add_page(const struct managed_page *page, leat_managed_stats *counts)
{
    uint32_t faults = (uint32_t)page->faults_to_device + page->faults_to_host;

    counts->pages++;
    counts->first_touch_host += page->first_touch == HOST + 2;
    counts->first_touch_device += page->first_touch > HOST + 2;
    counts->faults_to_device += page->faults_to_device;
    counts->faults_to_host += page->faults_to_host;
    counts->prefetched_to_device += page->prefetched_to_device;
    counts->prefetched_to_host += page->prefetched_to_host;
    counts->prefetched_in_vain += page->in_vain;
    counts->copied += page->copied;
    counts->copies_ended += page->ended;
    counts->used_in_place += page->in_place;
    counts->thrashing += faults >= 3 && page->faults_to_device && page->faults_to_host;
}

static void add_span(const struct managed_span *span, leat_managed_stats *counts)
{
    counts->unseen |= span->memory->unseen;
    for (size_t i = span->first; span->memory->pages && i < span->end; i++)
        add_page(&span->memory->pages[i], counts);
}

leat_status cpu_managed_count(struct leati_driver *driver, void *device, const void *ptr, size_t bytes,
                              leat_managed_stats *counts)
{
    leat_status status;
    struct managed_span span;

    (void)driver, (void)device;
    counts->page_bytes = CPU_PAGE_BYTES;
    leati_lock(&lock);
    status = need_record();
    if (status == LEAT_OK && ptr) {
        status = need_span(ptr, bytes, &span);
        if (status == LEAT_OK)
            add_span(&span, counts);
    }
    for (size_t i = 0; status == LEAT_OK && !ptr && i < memories.count; i++) {
        span.memory = memories.entries[i].value;
        span.first = 0;
        span.end = span.memory->pages_count;
        add_span(&span, counts);
    }
    leati_unlock(&lock);
    return status;
}

leat_status cpu_managed_history(struct leati_driver *driver, void *device, leat_managed_move *out, size_t *room)
{
    size_t most = *room < MOVES ? *room : MOVES, there = 0;
    leat_managed_move *latest = malloc((most ? most : 1) * sizeof *latest);
    leat_status status;

    (void)driver, (void)device;
    if (!latest)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a copy of %zu moves", most);
    leati_lock(&lock);
    status = need_record();
    if (status == LEAT_OK) {
        there = moves_count < most ? (size_t)moves_count : most;
        for (size_t i = 0; i < there; i++)
            latest[i] = moves[(moves_count - there + i) % MOVES];
    }
    leati_unlock(&lock);
    if (status == LEAT_OK) {
        /* Write to out without the lock: it may be closed managed memory, and the fault handler takes the lock. */
        memcpy(out, latest, there * sizeof *out);
        *room = there;
    }
    free(latest);
    return status;
}
