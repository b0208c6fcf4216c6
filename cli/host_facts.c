/*
 * host_facts.c - collects facts about this machine for "leat info" and for records of measurements.
 */
#include "host_facts.h"
#include "text_json.h"

#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Reads the processor's name from /proc/cpuinfo, whose key differs between architectures. */
static void read_cpu_model(char *text, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];

    text[0] = '\0';
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');

        if (!value || (strncmp(line, "model name", 10) && strncmp(line, "Model", 5)))
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        snprintf(text, size, "%s", value);
        break;
    }
    fclose(file);
}

void host_facts_read(struct host_facts *facts)
{
    struct utsname names;
    struct sysinfo system;
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    memset(facts, 0, sizeof *facts);
    read_cpu_model(facts->cpu, sizeof facts->cpu);
    facts->cores = online > 0 ? (unsigned)online : 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        facts->cores = (unsigned)CPU_COUNT(&set);
    if (sysinfo(&system) == 0)
        facts->memory_bytes = (uint64_t)system.totalram * system.mem_unit;
    if (uname(&names) == 0)
        snprintf(facts->kernel, sizeof facts->kernel, "%.60s %.60s", names.sysname, names.release);
}

/* Reads the processors' time since the system started, in ticks: all of it, and the idle part. Returns false if
 * the system does not report it. */
static bool read_ticks(unsigned long long *all, unsigned long long *idle)
{
    unsigned long long ticks[8] = {0};
    FILE *file = fopen("/proc/stat", "re");
    bool known = file && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1],
                                &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]) >= 4;

    if (file)
        fclose(file);
    *all = 0;
    for (unsigned i = 0; i < 8; i++)
        *all += ticks[i];
    *idle = ticks[3] + ticks[4]; /* idle time, and time of waiting for a disk */
    return known;
}

double host_busy_share(void)
{
    unsigned long long all[2], idle[2];

    if (!read_ticks(&all[0], &idle[0]))
        return NAN;
    usleep(250000);
    if (!read_ticks(&all[1], &idle[1]) || all[1] <= all[0] || idle[1] < idle[0])
        return NAN;
    return 1 - (double)(idle[1] - idle[0]) / (double)(all[1] - all[0]);
}

static double own_seconds(void)
{
    double seconds = 0;

    for (int i = 0; i < 2; i++) {
        struct rusage usage;

        if (getrusage(i ? RUSAGE_CHILDREN : RUSAGE_SELF, &usage) == 0)
            seconds += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                       1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    }
    return seconds;
}

void host_load_begin(struct host_load *load)
{
    memset(load, 0, sizeof *load);
    if (!read_ticks(&load->all_ticks, &load->idle_ticks))
        load->all_ticks = 0;
    load->own_seconds = own_seconds();
}

double host_load_of_others(const struct host_load *load)
{
    unsigned long long all, idle;
    double ticks, used;

    if (!load->all_ticks || !read_ticks(&all, &idle) || all <= load->all_ticks || idle < load->idle_ticks)
        return NAN;
    ticks = (double)(all - load->all_ticks);
    used = ticks - (double)(idle - load->idle_ticks) -
           (own_seconds() - load->own_seconds) * (double)sysconf(_SC_CLK_TCK);
    return used > 0 ? used / ticks : 0;
}

void host_enlarge_cpu_device(uint64_t wanted_bytes)
{
    struct host_facts facts;
    char text[32];

    host_facts_read(&facts);
    if (wanted_bytes <= facts.memory_bytes)
        return;
    snprintf(text, sizeof text, "%llu", (unsigned long long)wanted_bytes);
    setenv("LEAT_CPU_MEMORY", text, 0);
}

json_t *host_facts_json(const struct host_facts *facts)
{
    return json_pack("{s:o, s:I, s:I, s:o}", "cpu", text_json(facts->cpu), "cores", (json_int_t)facts->cores,
                     "memory_bytes", (json_int_t)facts->memory_bytes, "kernel", text_json(facts->kernel));
}
