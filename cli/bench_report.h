/*
 * bench_report.h - a record of "leat bench": reading it, and tables of it.
 */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include "table.h"

#include <jansson.h>
#include <stdbool.h>

/* A machine counts as busy if others use more than this share of its processors' time, before a run or during it.
 */
#define REPORT_BUSY_SHARE 0.2

/* Return the value of a key of an object in the record, or "" and NAN if there is none. */
const char *record_text(const json_t *object, const char *key);
double record_number(const json_t *object, const char *key);

/* Prints what was measured and where. The record need not have rows yet. */
void report_print_head(const json_t *record, enum table_style style);

/* Prints the table of a group, or one table for each of its parts. Prints nothing if the record has no row of the
 * group. Returns false if memory is short. */
bool report_print_group(const json_t *record, const char *group, enum table_style style);

/* Prints rows of copies with idle gaps as a table: a row for each size, a column for each gap. A cell has the
 * driver's time over leat's, and both times, which are under these keys. Returns false if memory is short. */
bool report_print_gaps(const json_t *rows, const char *title, const char *leat_key, const char *driver_key,
                       enum table_style style);

/* Prints the headline table: the few rows that summarize the record. Returns false if memory is short. */
bool report_print_headline(const json_t *record, enum table_style style);

/*
 * Prints one screen of 80 columns: the device, the host, at most ten rows of the record, the file with all tables
 * (path), and, last, "main job: N rows, all verified, in T s" or how many rows were not verified. Returns false if
 * memory is short.
 */
bool report_print_summary(const json_t *record, const char *path, double seconds);

/* Prints the record's notes, if any. */
void report_print_notes(const json_t *record, enum table_style style);

/* Reads a record from a file (-: standard input). Returns NULL after reporting what is wrong with it. */
json_t *report_load(const char *path);

#endif
