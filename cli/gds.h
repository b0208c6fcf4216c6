/*
 * gds.h - finds out whether GPUDirect Storage could read a file here, which NVIDIA's libcufile decides.
 *
 * libcufile may never return, for example where the kernel has no list of modules, and it may end the process. So
 * a child process asks it: this command, executed again.
 */
#ifndef CLI_GDS_H
#define CLI_GDS_H

#include <stddef.h>

/* The words after "leat explain" that run the child's side, and are followed by the path. */
#define CLI_GDS_PROBE "gds-probe"

/* Fills text with what GPUDirect Storage could do for the file, as one line without its end. */
void cli_gds_explain(const char *path, char *text, size_t bytes);

/* The child's side: asks libcufile about the file, and prints the answer. Returns an exit status. */
int cli_gds_probe(const char *path);

#endif
