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

/* What an object of the record has by that name; "" and NAN where it has none. */
const char *record_text(const json_t *object, const char *key);
double record_number(const json_t *object, const char *key);

/* One or two lines on what was measured where. record needs no rows yet. */
void report_print_head(const json_t *record, enum table_style style);

/* The table of one group, or one for each of its parts; nothing when the record has no row of it. False when
 * memory is short. */
bool report_print_group(const json_t *record, const char *group, enum table_style style);

/* Rows of copies with idle gaps as a table of sizes by gaps; cells are how many times as long the driver takes,
 * and both times, by these keys. False when memory is short. */
bool report_print_gaps(const json_t *rows, const char *title, const char *leat_key, const char *driver_key,
                       enum table_style style);

/* One table of the few rows that sum the record up. False when memory is short. */
bool report_print_headline(const json_t *record, enum table_style style);

/*
 * One screen of 80 columns: the device, the host, at most ten rows of the record, its notes as a number, and last
 * "main job: N rows, all verified, in T s", or how many rows were not. path: the file that has all tables. False when
 * memory is short.
 */
bool report_print_summary(const json_t *record, const char *path, double seconds);

/* The record's notes, if any. */
void report_print_notes(const json_t *record, enum table_style style);

/* Reads a record from a file; NULL after saying what is wrong with it. */
json_t *report_load(const char *path);

#endif
