/* assert.c - reports a failed assertion. */
#include "base/assert.h"

#ifdef LEATI_CHECKED
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Noreturn void leati_assert_failed(const char *file, int line, const char *function, const char *condition)
{
    char text[1024];
    int bytes =
        snprintf(text, sizeof(text), "leat: %s:%d: %s(): assertion failed: %s\n", file, line, function, condition);

    /* Use write() and not stdio, because the caller may be a fault handler. Abort even if write() fails. */
    if (bytes > 0 &&
        write(STDERR_FILENO, text, (size_t)bytes < sizeof(text) ? (size_t)bytes : sizeof(text) - 1) < 0)
        abort();
    abort();
}
#endif
