/*
 * activity_read.c - opens a recorded run and finds the reader for it.
 */
#include "activity_read.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

bool activity_input_fail(struct activity_input *input, const char *format, ...)
{
    va_list list;
    int used = snprintf(input->error, ACTIVITY_ERROR_MAX, "%.200s: ", input->path);

    va_start(list, format);
    vsnprintf(input->error + used, ACTIVITY_ERROR_MAX - (size_t)used, format, list);
    va_end(list);
    text_clean(input->error); /* libraries quote the file in their messages */
    return false;
}

size_t activity_input_read(struct activity_input *input, void *buffer, size_t bytes)
{
    size_t done = 0;

    if (input->at < input->head_bytes) {
        done = input->head_bytes - (size_t)input->at;
        done = done < bytes ? done : bytes;
        memcpy(buffer, input->head + input->at, done);
    }
    while (done < bytes) {
        size_t left = bytes - done;
        int got = gzread(input->file, (char *)buffer + done, left < 1 << 20 ? (unsigned)left : 1 << 20);
        int code;

        if (got < 0) {
            const char *text = gzerror(input->file, &code);

            activity_input_fail(input, "cannot be read: %s", code == Z_ERRNO ? strerror(errno) : text);
            return SIZE_MAX;
        }
        if (got == 0)
            break;
        done += (size_t)got;
    }
    input->at += done;
    return done;
}

/* Reads the first bytes. Returns false if that fails. */
static bool read_head(struct activity_input *input)
{
    size_t got = activity_input_read(input, input->head, ACTIVITY_HEAD_BYTES);

    if (got == SIZE_MAX)
        return false;
    input->head_bytes = got;
    input->at = 0;
    return true;
}

bool activity_input_is_leat(const struct activity_input *input)
{
    return input->head_bytes >= 8 && !memcmp(input->head, "leattrc\n", 8);
}

static bool read_any(struct activity_input *input, struct activity_log *log)
{
    static const unsigned char mark[] = {0xef, 0xbb, 0xbf};
    const unsigned char *head = input->head;
    size_t i = input->head_bytes >= 3 && !memcmp(head, mark, 3) ? 3 : 0;

    if (input->head_bytes == 0)
        return activity_input_fail(input, "the file is empty");
    if (activity_input_is_leat(input))
        return activity_read_leat(input, log);
    if (input->head_bytes >= 15 && !memcmp(head, "SQLite format 3", 15))
        return activity_read_nsys(input, log);
    while (i < input->head_bytes && strchr(" \t\r\n", head[i]) && head[i])
        i++;
    if (i < input->head_bytes && (head[i] == '{' || head[i] == '['))
        return activity_read_kineto(input, log);
    return activity_input_fail(
        input, "this is neither a trace of leat (LEAT_TRACE), nor one of PyTorch's profiler, nor an "
               "SQLite export of nsys");
}

bool activity_input_open(struct activity_input *input, const char *path, char error[ACTIVITY_ERROR_MAX])
{
    bool standard = !strcmp(path, "-");
    int fd = standard ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);

    *input = (struct activity_input){.path = standard ? "standard input" : path, .error = error};
    if (fd < 0)
        return activity_input_fail(input, "cannot be opened: %s", strerror(errno));
    input->file = gzdopen(fd, "r");
    if (!input->file) {
        close(fd);
        return activity_input_fail(input, "out of host memory");
    }
    gzbuffer(input->file, 1 << 18);
    return read_head(input);
}

void activity_input_close(struct activity_input *input)
{
    if (input->file)
        gzclose(input->file);
    input->file = NULL;
}

struct activity_log *activity_read(const char *path, char error[ACTIVITY_ERROR_MAX])
{
    struct activity_log *log = activity_log_create();
    struct activity_input input;
    char wrong[ACTIVITY_ERROR_MAX];
    bool fine = activity_input_open(&input, path, error);

    if (fine && !log)
        fine = activity_input_fail(&input, "out of host memory");
    fine = fine && read_any(&input, log);
    if (fine && !activity_log_finish(log, wrong))
        fine = activity_input_fail(&input, "%s", wrong);
    activity_input_close(&input);
    if (fine)
        return log;
    activity_log_destroy(log);
    return NULL;
}
