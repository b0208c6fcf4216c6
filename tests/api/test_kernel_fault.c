/*
 * test_kernel_fault.c - tests kernels of the CPU device that get a bad pointer. Before the process ends by
 * SIGSEGV, leat must print a line on standard error with the pointer and what is at that address.
 */
#include <leat/leat.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define CHECK(call)                                                                                               \
    do {                                                                                                          \
        if ((call) != LEAT_OK) {                                                                                  \
            fprintf(stderr, "%s\n", leat_last_error());                                                           \
            return 1;                                                                                             \
        }                                                                                                         \
    } while (0)

/* Launches a kernel that writes four words to address 16 or, if which is "freed", to a freed allocation. */
static int crash(const char *which)
{
    struct rlimit no_core = {0, 0};
    uint64_t count = 4;
    uint32_t value = 1;
    void *data = (void *)16;
    void *arguments[] = {&data, &count, &value};
    leat_device *device;
    leat_stream *stream;
    leat_module *module;
    leat_kernel *add;

    setrlimit(RLIMIT_CORE, &no_core);
    CHECK(leat_device_open("cpu:0", &device));
    CHECK(leat_stream_create(device, &stream));
    CHECK(leat_module_builtin(device, &module));
    CHECK(leat_kernel_get(module, "leat_add_u32", &add));
    if (!strcmp(which, "freed")) {
        CHECK(leat_alloc_driver(stream, 64 << 20, &data));
        CHECK(leat_free(stream, data));
        CHECK(leat_stream_synchronize(stream));
    }
    CHECK(leat_launch(stream, add, leat_dim(1, 1, 1), leat_dim(32, 1, 1), 0, arguments, 3));
    CHECK(leat_stream_synchronize(stream));
    return 0;
}

/* Runs this program with the given argument. Returns true if the process ends by SIGSEGV and prints one line that
 * contains both texts. */
static int says(const char *self, const char *which, const char *first, const char *second)
{
    char command[4200], line[2048];
    int found = 0, lines = 0, status;
    FILE *pipe;

    snprintf(command, sizeof command, "exec '%s' %s 2>&1", self, which);
    pipe = popen(command, "r");
    if (!pipe)
        return 0;
    while (fgets(line, sizeof line, pipe)) {
        lines++;
        found += strstr(line, first) && strstr(line, second);
        printf("%s: %s", which, line);
    }
    status = pclose(pipe);
    return found == 1 && lines == 1 && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

int main(int argc, char **argv)
{
    const char *device = getenv("LEAT_TEST_DEVICE");

    if (argc > 1)
        return crash(argv[1]);
    if (device && strncmp(device, "cpu:", 4) != 0) {
        puts("skipped: kernels of the CPU device");
        return 77;
    }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    puts("skipped: the sanitizer reports the fault");
    return 77;
#endif
    if (!says(argv[0], "low", "a kernel on the CPU device crashed: ", "0x10 ") ||
        !says(argv[0], "freed", "a kernel on the CPU device crashed: ", "of cpu:0")) {
        puts("the fault of a kernel is not named");
        return 1;
    }
    return 0;
}
