/*
 * team.h - the threads that move bytes between ordinary memory and pinned memory.
 *
 * One team for each NUMA node that a device with staged copies is on; its threads stay on that node. They make no
 * driver call at all: a driver may hold its lock while it waits for a stream, which may in turn be waiting for
 * them (seen with cuMemFree, cuMemHostUnregister and cuModuleLoadData). So all that they do is copy, look at words
 * in memory and write such words.
 */
#ifndef LEATI_TEAM_H
#define LEATI_TEAM_H

#include "copy/job.h"

#include <stdbool.h>

struct leati_team;

/* The team of a node (-1: unknown), made and its threads started at the first use, as many as that many devices
 * can use; each get needs a put, the last of which ends the threads. HOST_MEMORY, SYSTEM. */
leat_status leati_team_get(int node, int devices, struct leati_team **team);
void leati_team_put(struct leati_team *team);

/* How many threads there are, and how many at most work on one job. */
unsigned leati_team_threads(const struct leati_team *team);
unsigned leati_team_share(const struct leati_team *team);

/* Gives a job to the team. */
void leati_team_add(struct leati_team *team, struct leati_job *job);

/* Takes a job away from the team, whether it is finished or not, and waits until no thread works on it. */
void leati_team_remove(struct leati_team *team, struct leati_job *job);

/* The caller works on a job of the team's as long as there is something that it can do at once. */
void leati_team_help(struct leati_team *team, struct leati_job *job);

/* The same for a job that nobody else can end meanwhile: one that its stream was not given yet, or the caller's
 * own. */
void leati_job_work(struct leati_job *job);

/* ---- threads that wait ----
 *
 * A team of few threads is joined by threads of the program's that wait for a stream: on a machine with two
 * processors one copies, and the other one would look on. They hold no lock meanwhile, are at no job when they
 * call the driver, and stay with a job for no more than a part or two.
 */

/* Has it so few threads that others join? */
bool leati_team_is_small(const struct leati_team *team);

/* Are there jobs whose parts are not all taken? A guess, for one relaxed load. */
bool leati_team_has_jobs(const struct leati_team *team);

/* Around all of a wait: may this thread join, one of few? */
bool leati_team_lend_begins(struct leati_team *team);
void leati_team_lend_ends(struct leati_team *team);

/* In between: the caller copies for a moment for some job that can go on at once. False: there is none. */
bool leati_team_lend(struct leati_team *team);

/* The same for one job: enters it where the team is small, so that its memory stays; then works on it for a moment
 * and leaves it. False: it is not listed any more; there was nothing to do at once. */
bool leati_team_enter(struct leati_team *team, struct leati_job *job);
bool leati_team_work(struct leati_team *team, struct leati_job *job);

#endif
