/*
 * loop.h - the one thread of the library, which watches sockets and calls timers.
 *
 * A source is a socket and two functions, which the thread calls. The first source starts the thread, and the
 * thread ends when the last source was removed. It never waits for a stream or a driver, so the functions must
 * not make calls of leat except for leat_storage_wake(). After the functions were called, the thread moves the
 * bytes of small copies itself (leat_storage_work()).
 *
 * Call leatn_loop_add(); then leatn_loop_arm() and leatn_loop_poke() from any thread; at last leatn_loop_remove()
 * from one of the functions. The caller makes sure that no other thread uses the source then.
 */
#ifndef LEATN_LOOP_H
#define LEATN_LOOP_H

#include <leat/status.h>

#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>

struct leatn_loop;

struct leatn_source {
    /* Set by the user. */
    int fd;
    /* The socket has some of these events (EPOLLIN and so on). May also be called when it has none. */
    void (*event)(struct leatn_source *source, uint32_t events);
    /* Its time has come. Returns when the next call is due, as a time of leatc_now_ns(); UINT64_MAX: never; 0: the
     * function has removed the source. Its first call is soon after leatn_loop_add(). */
    uint64_t (*timer)(struct leatn_source *source, uint64_t now_ns);

    /* Set by the loop. */
    struct leatn_loop *loop;
    struct leatn_source *next, **place; /* in the loop's list */
    /* When timer() is due. Other threads set it to 0 with leatn_loop_poke(). Sequentially consistent, see there.
     */
    _Atomic uint64_t due_ns;
};

/* Adds a source, which is not armed yet. Errors: HOST_MEMORY, SYSTEM (no descriptor, no thread). */
leat_status leatn_loop_add(struct leatn_source *source);

/* Lets the loop call event() once, when the socket has one of these events, or has failed. A later call replaces
 * the events of an earlier one. 0: none, but event() may still be called if the socket fails. */
void leatn_loop_arm(struct leatn_source *source, uint32_t events);

/* Lets the loop call timer() soon. */
void leatn_loop_poke(struct leatn_source *source);

/* Lets leat go on with copies that became ready: on the thread of a loop after its functions have returned,
 * otherwise by leat_storage_wake(). */
void leatn_loop_wake_copies(void);

/* Removes a source. Only from its own functions. The loop does not use the source after the function returns, and
 * not its descriptor from this call on. */
void leatn_loop_remove(struct leatn_source *source);

#endif
