/*
 * host_facts.h - collects facts about this machine for "leat info" and for records of measurements.
 */
#ifndef CLI_HOST_FACTS_H
#define CLI_HOST_FACTS_H

#include <jansson.h>
#include <stdint.h>

struct host_facts {
    char cpu[128];         /* "AMD EPYC 9555 64-Core Processor", or "" */
    unsigned cores;        /* logical processors that this process may use */
    uint64_t memory_bytes; /* size of the machine's memory */
    char kernel[128];      /* "Linux 6.1.0-18-amd64" */
};

void host_facts_read(struct host_facts *facts);

/* Observes the processors for a quarter of a second. Returns the share of their time that was used, 0 to 1, or NAN
 * if the system does not report it. Unlike the load average, it does not include programs that have ended. */
double host_busy_share(void);

/* The processor times at the moment of host_load_begin(). host_load_of_others() subtracts them from later
 * times. */
struct host_load {
    unsigned long long all_ticks, idle_ticks; /* time of all processors since the system started; all_ticks 0:
                                               * unknown */
    double own_seconds;                       /* processor time of this process and of its children that have
                                               * ended */
};

void host_load_begin(struct host_load *load);

/* Returns the share of the processors' time that other processes used since host_load_begin(), 0 to 1, or NAN if
 * the system does not report it. Time that a hypervisor gave to other machines counts as used by others. */
double host_load_of_others(const struct host_load *load);

/* Gives the CPU device at least this amount of memory, unless LEAT_CPU_MEMORY is set already. Commands that
 * allocate much memory and do not touch it use this. Call it before the first call of leat, which reads the
 * variable only once. */
void host_enlarge_cpu_device(uint64_t wanted_bytes);

/* Returns {"cpu", "cores", "memory_bytes", "kernel"}, or NULL if memory is short. */
json_t *host_facts_json(const struct host_facts *facts);

#endif
