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

/* Makes the CPU device at least so large, for what allocates and touches nothing; unless LEAT_CPU_MEMORY says how
 * large it is. Comes before the first call of leat, which reads the variable once. */
void host_enlarge_cpu_device(uint64_t wanted_bytes);

/* {"cpu", "cores", "memory_bytes", "kernel"}; NULL when memory is short. */
json_t *host_facts_json(const struct host_facts *facts);

#endif
