/*
 * bench_report.h - reads a record of "leat bench", and prints it as tables.
 */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include "table.h"

#include <jansson.h>
#include <stdbool.h>

/* A machine counts as busy if other processes use more than this share of the processors' time before or during a
 * run. */
#define REPORT_BUSY_SHARE 0.2

/* Return the value of a key of an object in the record. If there is none, record_text() returns "" and
 * record_number() NAN. */
const char *record_text(const json_t *object, const char *key);
double record_number(const json_t *object, const char *key);

/* Prints what was measured and where. The record need not have rows yet. */
void report_print_head(const json_t *record, enum table_style style);

/* Prints the table of a group, or one table for each of its parts. Prints nothing if the record has no row of the
 * group. Returns false if memory is short. */
bool report_print_group(const json_t *record, const char *group, enum table_style style);

/* Prints the results of the part "gaps" as a table, with a line for each size and a column for each gap. A cell
 * contains the driver's time divided by leat's, and both times. leat_key and driver_key: the keys of the times in
 * the record. Returns false if memory is short. */
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
