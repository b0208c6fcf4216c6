/*
 * host_facts.h - what the machine is, for "leat info" and for records of measurements.
 */
#ifndef CLI_HOST_FACTS_H
#define CLI_HOST_FACTS_H

#include <jansson.h>
#include <stdint.h>

struct host_facts {
    char cpu[128];         /* "AMD EPYC 9555 64-Core Processor", or "" */
    unsigned cores;        /* logical processors that this process may use */
    uint64_t memory_bytes; /* all of the machine's memory */
    char kernel[128];      /* "Linux 6.1.0-18-amd64" */
};

void host_facts_read(struct host_facts *facts);

/* Looks at the processors for a quarter of a second. Returns the share of their time that somebody used, 0 to 1, or NAN
 * if the system does not tell. Unlike the load average it is not raised by what has ended. */
double host_busy_share(void);

/* The processors' time at one moment, to find out later what others used of it. */
struct host_load {
    unsigned long long all_ticks, idle_ticks; /* of all processors, since the system started; all 0: unknown */
    double own_seconds;                       /* of this process and of those that it has waited for */
};

void host_load_begin(struct host_load *load);

/* Returns the share of the processors' time that others than this process used since host_load_begin(), 0 to 1, or
 * NAN if the system does not tell. What a hypervisor took away counts as used by others. */
double host_load_of_others(const struct host_load *load);

/* Makes the CPU device at least so large, for what allocates and touches nothing; unless LEAT_CPU_MEMORY says how
 * large it is. Comes before the first call of leat, which reads the variable once. */
void host_enlarge_cpu_device(uint64_t wanted_bytes);

/* {"cpu", "cores", "memory_bytes", "kernel"}; NULL when memory is short. */
json_t *host_facts_json(const struct host_facts *facts);

#endif
