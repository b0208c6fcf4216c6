/*
 * unit_net_plain.c - tests who may connect as the plain socket of "leat bench net": strangers must not keep out
 * the other end.
 */
#include "../../cli/bench_measure.h"
#include "../../cli/bench_threads.h"
#include "../../cli/net_end.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* What the runs need, which are not tested here. */

bool bench_check(struct bench *bench, leat_status status)
{
    (void)bench;
    return status == LEAT_OK;
}

double bench_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void bench_workers_run(struct bench_workers *workers, bench_work work, void *argument)
{
    (void)workers;
    (void)work;
    (void)argument;
    fail();
}

void *net_buffer(struct net_end *end, enum net_kind kind, bool out)
{
    (void)end;
    (void)kind;
    (void)out;
    return NULL;
}

/* Connects as a stranger would. */
static int connect_stranger(const struct net_reply *reply)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int plain = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(plain >= 0);
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%.90s", reply->text);
    assert_int_equal(connect(plain, (struct sockaddr *)&address,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(reply->text))),
                     0);
    return plain;
}

/* One stranger sends nothing and one a part of a token; the other end connects behind them. */
static void silent_strangers_do_not_keep_others_out(void **state)
{
    static struct bench benches[2];
    struct net_end served = {.bench = &benches[0], .plain = -1}, other = {.bench = &benches[1], .plain = -1};
    struct net_reply reply = {.magic = 0};
    int listener, silent, slow;
    char byte = 7;
    double begin;

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_mutex_init(&benches[i].error_lock, NULL), 0);
    listener = net_plain_listen(&served, "unix:x", &reply);
    assert_true(listener >= 0);
    silent = connect_stranger(&reply);
    slow = connect_stranger(&reply);
    assert_int_equal(write(slow, "a", 1), 1);
    assert_true(net_plain_connect(&other, "unix:x", &reply));
    begin = bench_now();
    assert_true(net_plain_accept(&served, listener, &reply));
    assert_true(bench_now() - begin < 5);
    assert_string_equal(benches[0].error, "");
    assert_int_equal(write(other.plain, &byte, 1), 1);
    byte = 0;
    assert_int_equal(read(served.plain, &byte, 1), 1);
    assert_int_equal(byte, 7);
    close(silent);
    close(slow);
    close(other.plain);
    close(served.plain);
}

/* Nobody but a stranger comes. */
static void waiting_ends_in_time(void **state)
{
    static struct bench bench;
    struct net_end served = {.bench = &bench, .plain = -1};
    struct net_reply reply = {.magic = 0};
    double begin = bench_now();
    int listener, silent;

    (void)state;
    assert_int_equal(pthread_mutex_init(&bench.error_lock, NULL), 0);
    listener = net_plain_listen(&served, "unix:x", &reply);
    assert_true(listener >= 0);
    silent = connect_stranger(&reply);
    assert_false(net_plain_accept(&served, listener, &reply));
    assert_true(bench_now() - begin < 10);
    assert_non_null(strstr(bench.error, "accept"));
    close(silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_strangers_do_not_keep_others_out),
        cmocka_unit_test(waiting_ends_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
