/*
 * test_cudart_ipc.c - tests handles between processes if something fails: no descriptor is free; a process is
 * stopped, has ended, or is not the process that the handle names; a connection stays silent; data belongs to
 * another pool or is invented.
 *
 * The other processes run this program again. The first argument names their role. They exchange messages with the
 * test through descriptor 3.
 */
#include <cuda_runtime.h>

#include "compat.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE 3
#define BYTES ((size_t)100000)
#define NOBODY 65534

struct other {
    pid_t pid;
    int line;
};

/* ---- messages between the processes ---- */

static void say(int line, const void *what, size_t bytes)
{
    if (send(line, what, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        abort();
}

/* Receives a message. Aborts if no message arrives within a minute or the other process has ended. */
static void hear(int line, void *what, size_t bytes)
{
    struct timeval patience = {.tv_sec = 60};

    (void)setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (recv(line, what, bytes, MSG_WAITALL) != (ssize_t)bytes)
        abort();
}

static struct other start(const char *role, const char *argument)
{
    struct other other;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    other.line = pair[0];
    other.pid = fork();
    assert_true(other.pid >= 0);
    if (!other.pid) {
        if (pair[1] == LINE)
            (void)fcntl(LINE, F_SETFD, 0);
        else
            (void)dup2(pair[1], LINE);
        execl("/proc/self/exe", "test_cudart_ipc", role, argument, NULL);
        _exit(127);
    }
    close(pair[1]);
    return other;
}

/* Asks the other process to end, and waits until it has ended. */
static void finish(struct other *other)
{
    int status = -1;

    close(other->line);
    assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
    assert_int_equal(status, 0);
}

static void wait_for_the_end(int line)
{
    char byte;

    while (recv(line, &byte, 1, 0) > 0)
        continue;
}

/* ---- the other processes ---- */

/* The role "open": opens each handle that it receives, and answers with the result and the first byte of the
 * memory. */
struct answer {
    int result;
    unsigned char first;
};

static int open_handles(void)
{
    cudaIpcMemHandle_t handle;
    char ready = 1;

    say(LINE, &ready, 1);
    while (recv(LINE, &handle, sizeof handle, MSG_WAITALL) == (ssize_t)sizeof handle) {
        struct answer answer = {0, 0};
        unsigned char *there;

        answer.result = (int)cudaIpcOpenMemHandle((void **)&there, handle, cudaIpcMemLazyEnablePeerAccess);
        if (!answer.result && (cudaMemcpy(&answer.first, there, 1, cudaMemcpyDeviceToHost) != cudaSuccess ||
                               cudaIpcCloseMemHandle(there) != cudaSuccess))
            answer.result = -1;
        say(LINE, &answer, sizeof answer);
    }
    return (int)cudaDeviceReset();
}

static int export_memory(void)
{
    cudaIpcMemHandle_t handle;
    void *memory;

    if (cudaMalloc(&memory, BYTES) != cudaSuccess || cudaMemset(memory, 7, BYTES) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess || cudaIpcGetMemHandle(&handle, memory) != cudaSuccess)
        return 1;
    say(LINE, &handle, sizeof handle);
    wait_for_the_end(LINE);
    return (int)cudaDeviceReset();
}

/* The role "leave": ends, but leaves a child process that holds all descriptors until the test has ended. */
static int export_and_leave_a_child(void)
{
    cudaIpcMemHandle_t handle;
    void *memory;

    if (cudaMalloc(&memory, BYTES) != cudaSuccess || cudaIpcGetMemHandle(&handle, memory) != cudaSuccess)
        return 1;
    if (!fork()) {
        wait_for_the_end(LINE);
        _exit(0);
    }
    say(LINE, &handle, sizeof handle);
    _exit(0);
}

/* The role "pretend": listens under the name of another process, and answers every request with its own memory. */
static int pretend(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    int listening = socket(AF_UNIX, SOCK_STREAM, 0), file = memfd_create("pretended", 0), connection;
    char byte = 1, asked[64];
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file)}};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_LEN(sizeof file)};

    strcpy(address.sun_path + 1, name);
    memcpy(CMSG_DATA(&control.header), &file, sizeof file);
    if (ftruncate(file, 2 << 20) || bind(listening, (struct sockaddr *)&address, length) || listen(listening, 4))
        return 1;
    say(LINE, &byte, 1);
    connection = accept(listening, NULL, NULL);
    if (recv(connection, asked, sizeof asked, 0) > 0)
        (void)sendmsg(connection, &message, MSG_NOSIGNAL);
    return 0;
}

static int play(const char *role, const char *argument)
{
    if (!strcmp(argument, "nobody") && (setgid(NOBODY) || setuid(NOBODY)))
        return 1;
    if (!strcmp(role, "open"))
        return open_handles();
    if (!strcmp(role, "export"))
        return export_memory();
    if (!strcmp(role, "leave"))
        return export_and_leave_a_child();
    return pretend(argument);
}

/* ---- helpers of the tests ---- */

static unsigned char *mine;
static cudaIpcMemHandle_t my_handle;

/* Returns true if the process has a socket with this inode number. */
static bool has_socket(pid_t pid, unsigned long inode)
{
    char folder[64], path[400], wanted[64], found[64] = "";
    struct dirent *entry;
    DIR *descriptors;
    bool has = false;

    snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    descriptors = opendir(folder);
    assert_non_null(descriptors);
    while (!has && (entry = readdir(descriptors))) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        memset(found, 0, sizeof found);
        has = readlink(path, found, sizeof found - 1) > 0 && !strcmp(found, wanted);
    }
    closedir(descriptors);
    return has;
}

/* Finds the socket name under which the process answers requests for its memory. */
static void find_name(pid_t pid, char name[64])
{
    FILE *file = fopen("/proc/net/unix", "re");
    char line[512];
    unsigned long inode;

    assert_non_null(file);
    name[0] = '\0';
    while (!name[0] && fgets(line, sizeof line, file)) {
        const char *at = strstr(line, "@leat-share-");

        if (at && sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", &inode) == 1 && has_socket(pid, inode))
            snprintf(name, 64, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    }
    fclose(file);
    assert_true(name[0]);
}

static struct answer ask(struct other *opener, const cudaIpcMemHandle_t *handle)
{
    struct answer answer;

    say(opener->line, handle, sizeof *handle);
    hear(opener->line, &answer, sizeof answer);
    return answer;
}

static void expect_answer(struct answer answer, cudaError_t result)
{
    assert_int_equal(answer.result, result);
    if (result == cudaSuccess)
        assert_int_equal(answer.first, 5);
}

static struct other start_opener(void)
{
    struct other opener = start("open", "");
    char ready;

    hear(opener.line, &ready, 1);
    return opener;
}

/* ---- tests ---- */

/* Returns the number that the next descriptor will get. */
static int next_descriptor(void)
{
    int fd = dup(LINE - 1);

    close(fd);
    return fd;
}

static void a_moment_without_descriptors_passes(void **state)
{
    struct rlimit before, none;

    (void)state;
    for (int round = 0; round < 5; round++) {
        struct other opener = start_opener();
        struct answer answer;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = before;
        none.rlim_cur = (rlim_t)next_descriptor();
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        say(opener.line, &my_handle, sizeof my_handle);
        sleep_ms(30); /* time for the answering thread to fail for lack of descriptors */
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        hear(opener.line, &answer, sizeof answer);
        expect_answer(answer, cudaSuccess);
        finish(&opener);
    }
}

/* Opening a handle needs descriptors in the calling process too. If none is free, the call returns an error. */
static void without_descriptors_asking_fails(void **state)
{
    struct other exporter = start("export", "");
    struct rlimit before, few;
    cudaIpcMemHandle_t handle;
    void *there;

    (void)state;
    hear(exporter.line, &handle, sizeof handle);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    for (int free_ones = 0; free_ones < 2; free_ones++) { /* first no free descriptor, then one, which suffices
                                                           * only for the socket */
        few.rlim_cur = (rlim_t)(next_descriptor() + free_ones);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        GIVES(cudaErrorOperatingSystem, cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess));
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    }
    OK(cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess));
    OK(cudaIpcCloseMemHandle(there));
    (void)cudaGetLastError();
    finish(&exporter);
}

/* The process that made a handle is stopped: the kernel accepts connections for it, but the process does not
 * answer. */
static void a_process_that_stands_still_is_given_up(void **state)
{
    struct other exporter = start("export", "");
    cudaIpcMemHandle_t handle;
    int status = 0;
    void *there;

    (void)state;
    hear(exporter.line, &handle, sizeof handle);
    assert_int_equal(kill(exporter.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(exporter.pid, &status, WUNTRACED), exporter.pid);
    assert_true(WIFSTOPPED(status));
    GIVES(cudaErrorOperatingSystem, cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess));
    assert_int_equal(kill(exporter.pid, SIGCONT), 0);
    OK(cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess));
    OK(cudaIpcCloseMemHandle(there));
    (void)cudaGetLastError();
    finish(&exporter);
}

enum { SILENT = 100 };

/* Returns a connection to this process's own answering thread. */
static int connect_to_this(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char name[64];

    find_name(getpid(), name);
    strcpy(address.sun_path + 1, name);
    assert_int_equal(connect(connection, (struct sockaddr *)&address,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
                     0);
    return connection;
}

static void connections_that_say_nothing_hold_nobody_up(void **state)
{
    struct other opener = start_opener();
    int silent[SILENT];

    (void)state;
    for (int i = 0; i < SILENT; i++) {
        silent[i] = connect_to_this();
        if (i % 2)
            (void)send(silent[i], "lea", 3, MSG_NOSIGNAL); /* an incomplete request */
    }
    expect_answer(ask(&opener, &my_handle), cudaSuccess);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    expect_answer(ask(&opener, &my_handle), cudaSuccess);
    finish(&opener);
}

/* After a process has ended, another process can listen under its name. */
static void nobody_answers_for_a_process_that_has_ended(void **state)
{
    struct other exporter = start("export", ""), impostor;
    cudaIpcMemHandle_t handle;
    char name[64], ready;
    void *there;

    (void)state;
    hear(exporter.line, &handle, sizeof handle);
    find_name(exporter.pid, name);
    finish(&exporter);
    GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess));
    impostor = start("pretend", name);
    hear(impostor.line, &ready, 1);
    GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess));
    (void)cudaGetLastError();
    finish(&impostor);
}

/* A child of fork() inherits the listening socket, but does not answer. The call must fail and must not wait. */
static void a_child_does_not_stand_for_its_parent(void **state)
{
    struct other exporter = start("leave", "");
    cudaIpcMemHandle_t handle;
    int status = -1;
    void *there;

    (void)state;
    hear(exporter.line, &handle, sizeof handle);
    assert_int_equal(waitpid(exporter.pid, &status, 0), exporter.pid);
    assert_int_equal(status, 0);
    GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess));
    (void)cudaGetLastError();
    close(exporter.line);
}

static void other_users_get_and_give_nothing(void **state)
{
    struct other exporter, opener;
    cudaIpcMemHandle_t handle;
    char ready;
    void *there;

    (void)state;
    if (geteuid()) {
        print_message("skipped: only root can be another user as well\n");
        skip();
    }
    exporter = start("export", "nobody");
    hear(exporter.line, &handle, sizeof handle);
    GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess));
    (void)cudaGetLastError();
    finish(&exporter);
    opener = start("open", "nobody");
    hear(opener.line, &ready, 1);
    expect_answer(ask(&opener, &my_handle), cudaErrorInvalidValue);
    finish(&opener);
}

/* Signal handlers of the program must run only on the program's own threads. */
static void the_thread_that_answers_takes_no_signals(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGCHLD, SIGIO};
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int found = 0;

    (void)state;
    assert_non_null(tasks);
    while ((task = readdir(tasks))) {
        char path[300], line[200];
        bool answers = false;
        FILE *status;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        if (!isdigit((unsigned char)task->d_name[0]) || !(status = fopen(path, "re")))
            continue;
        while (fgets(line, sizeof line, status)) {
            unsigned long long blocked;

            if (!strcmp(line, "Name:\tleat share\n"))
                answers = true;
            if (!answers || sscanf(line, "SigBlk: %llx", &blocked) != 1)
                continue;
            found++;
            for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
                assert_true(blocked >> (signals[i] - 1) & 1);
        }
        fclose(status);
    }
    closedir(tasks);
    assert_int_equal(found, 1);
}

/* ---- pools ---- */

static cudaMemPool_t new_pool(void)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .handleTypes = cudaMemHandleTypePosixFileDescriptor,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    cudaMemPool_t pool;

    OK(cudaMemPoolCreate(&pool, &props));
    return pool;
}

static cudaMemPool_t import_of(cudaMemPool_t pool)
{
    cudaMemPool_t imported;
    int fd;

    OK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    OK(cudaMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)fd, cudaMemHandleTypePosixFileDescriptor,
                                            0));
    close(fd);
    return imported;
}

static unsigned char first_byte(const void *device)
{
    unsigned char byte = 0;

    OK(cudaMemcpy(&byte, device, 1, cudaMemcpyDeviceToHost));
    return byte;
}

static void pointers_belong_to_their_pool(void **state)
{
    cudaMemPool_t pools[2] = {new_pool(), new_pool()};
    cudaMemPool_t imported[2] = {import_of(pools[0]), import_of(pools[1])};
    struct cudaMemPoolPtrExportData data[2], broken;
    void *blocks[2], *there;

    (void)state;
    for (int i = 0; i < 2; i++) {
        OK(cudaMallocFromPoolAsync(&blocks[i], BYTES, pools[i], 0));
        OK(cudaMemset(blocks[i], 10 + i, BYTES));
        OK(cudaMemPoolExportPointer(&data[i], blocks[i]));
    }
    for (int i = 0; i < 2; i++) {
        GIVES(cudaErrorInvalidValue, cudaMemPoolImportPointer(&there, imported[!i], &data[i]));
        GIVES(cudaErrorInvalidValue, cudaMemPoolImportPointer(&there, pools[i], &data[i]));
        OK(cudaMemPoolImportPointer(&there, imported[i], &data[i]));
        assert_int_equal(first_byte(there), 10 + i);
        /* An import that is open does not make the data valid for another pool. */
        GIVES(cudaErrorInvalidValue, cudaMemPoolImportPointer(&there, imported[!i], &data[i]));
    }
    /* Changed data is refused, or still names the same memory. */
    for (size_t at = 0; at < sizeof broken; at++) {
        broken = data[0];
        ((unsigned char *)&broken)[at] ^= 1;
        if (cudaMemPoolImportPointer(&there, imported[0], &broken) == cudaSuccess) {
            assert_int_equal(first_byte(there), 10);
            OK(cudaFree(there));
        }
    }
    memset(&broken, 0, sizeof broken);
    GIVES(cudaErrorInvalidValue, cudaMemPoolImportPointer(&there, imported[0], &broken));
    /* A handle of memory that does not belong to a pool. */
    memcpy(&broken, &my_handle, sizeof broken);
    GIVES(cudaErrorInvalidValue, cudaMemPoolImportPointer(&there, imported[0], &broken));
    for (int i = 0; i < 2; i++) {
        OK(cudaMemPoolImportPointer(&there, imported[i], &data[i]));
        OK(cudaFree(there));
        OK(cudaFree(there));
        OK(cudaFreeAsync(blocks[i], 0));
        OK(cudaDeviceSynchronize());
        GIVES(cudaErrorInvalidValue, cudaMemPoolImportPointer(&there, imported[i], &data[i]));
        OK(cudaMemPoolDestroy(imported[i]));
        OK(cudaMemPoolDestroy(pools[i]));
    }
    (void)cudaGetLastError();
}

/* Descriptors that look like a pool's, but belong to something else, are refused. */
static void descriptors_of_something_else_are_no_pools(void **state)
{
    cudaMemPool_t pool = new_pool(), imported = NULL;
    char copied[64] = {0};
    int fd, wrong[4], ends[2];
    ssize_t length;

    (void)state;
    OK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    length = pread(fd, copied, sizeof copied, 0);
    assert_true(length > 0);
    assert_true(pwrite(fd, "x", 1, 0) < 0); /* no process can write to the descriptor of a pool */
    assert_int_not_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    wrong[0] = -1;
    wrong[1] = ends[0];
    wrong[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
    wrong[3] = memfd_create("copied", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(wrong[3], copied, (size_t)length), length);
    for (int i = 0; i < 4; i++)
        GIVES(cudaErrorInvalidValue,
              cudaMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)wrong[i],
                                                   cudaMemHandleTypePosixFileDescriptor, 0));
    GIVES(cudaErrorInvalidValue,
          cudaMemPoolImportFromShareableHandle(&imported, &fd, cudaMemHandleTypePosixFileDescriptor, 0));
    assert_null(imported);
    for (int i = 1; i < 4; i++)
        close(wrong[i]);
    close(ends[1]);
    close(fd);
    OK(cudaMemPoolDestroy(pool));
    (void)cudaGetLastError();
}

/* A device reset ends the handles of its memory, in other processes too. */
static void handles_end_with_their_device(void **state)
{
    struct other opener = start_opener();
    cudaIpcMemHandle_t handle;
    void *memory;

    (void)state;
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&memory, BYTES));
    OK(cudaMemset(memory, 5, BYTES));
    OK(cudaDeviceSynchronize());
    OK(cudaIpcGetMemHandle(&handle, memory));
    expect_answer(ask(&opener, &handle), cudaSuccess);
    OK(cudaDeviceReset());
    expect_answer(ask(&opener, &handle), cudaErrorInvalidValue);
    OK(cudaSetDevice(0));
    finish(&opener);
}

/* ---- descriptors ---- */

/* The test also sets the program's own descriptors to close on exec, so that it can check all descriptors. */
static void descriptors_close_on_exec(void **state)
{
    cudaMemPool_t pool = new_pool(), imported = import_of(pool);
    struct other exporter = start("export", "");
    struct cudaMemPoolPtrExportData data;
    cudaIpcEventHandle_t event_handle;
    cudaIpcMemHandle_t handle;
    DIR *descriptors;
    struct dirent *entry;
    cudaEvent_t event;
    void *block, *there, *opened;
    int fd, silent = connect_to_this();

    (void)state;
    hear(exporter.line, &handle, sizeof handle);
    OK(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
    OK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
    OK(cudaIpcGetEventHandle(&event_handle, event));
    OK(cudaMallocFromPoolAsync(&block, BYTES, pool, 0));
    OK(cudaMemPoolExportPointer(&data, block));
    OK(cudaMemPoolImportPointer(&there, imported, &data));
    OK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    descriptors = opendir("/proc/self/fd");
    assert_non_null(descriptors);
    while ((entry = readdir(descriptors))) {
        int number = atoi(entry->d_name), flags = fcntl(number, F_GETFD);

        if (!isdigit((unsigned char)entry->d_name[0]) || number <= STDERR_FILENO || flags & FD_CLOEXEC)
            continue;
        print_error("descriptor %d does not close on exec\n", number);
        fail();
    }
    closedir(descriptors);
    close(silent);
    close(fd);
    OK(cudaFree(there));
    OK(cudaFreeAsync(block, 0));
    OK(cudaEventDestroy(event));
    OK(cudaIpcCloseMemHandle(opened));
    OK(cudaMemPoolDestroy(imported));
    OK(cudaMemPoolDestroy(pool));
    finish(&exporter);
}

static int set_up(void **state)
{
    (void)state;
    return cudaMalloc((void **)&mine, BYTES) || cudaMemset(mine, 5, BYTES) || cudaDeviceSynchronize() ||
           cudaIpcGetMemHandle(&my_handle, mine);
}

static int tear_down(void **state)
{
    (void)state;
    return cudaFree(mine) != cudaSuccess;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_moment_without_descriptors_passes),
    cmocka_unit_test(without_descriptors_asking_fails),
    cmocka_unit_test(a_process_that_stands_still_is_given_up),
    cmocka_unit_test(connections_that_say_nothing_hold_nobody_up),
    cmocka_unit_test(nobody_answers_for_a_process_that_has_ended),
    cmocka_unit_test(a_child_does_not_stand_for_its_parent),
    cmocka_unit_test(other_users_get_and_give_nothing),
    cmocka_unit_test(the_thread_that_answers_takes_no_signals),
    cmocka_unit_test(pointers_belong_to_their_pool),
    cmocka_unit_test(descriptors_of_something_else_are_no_pools),
    cmocka_unit_test(handles_end_with_their_device),
    cmocka_unit_test(descriptors_close_on_exec),
};

int main(int argc, char **argv)
{
    int wrong, fd;

    if (argc > 1)
        return play(argv[1], argc > 2 ? argv[2] : "");
    /* Ignore the descriptors with which the program was started. */
    for (fd = LINE; fd < 1024; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    wrong = cmocka_run_group_tests(tests, set_up, tear_down);
    for (int i = 0; i < 2; i++)
        wrong += cudaSetDevice(i) || cudaDeviceReset();
    return wrong ? 1 : 0;
}
