/* quick.h - compiler attributes for hot paths. */
#ifndef LEATI_QUICK_H
#define LEATI_QUICK_H

/* For a few small thread-local variables: they are read without calling __tls_get_addr(), as other thread-local
 * variables of a shared library are. Use it rarely: a library that is loaded with dlopen() has little room for
 * them. */
#define LEATI_QUICK_TLS _Thread_local __attribute__((tls_model("initial-exec")))

/*
 * Functions on the path of a short copy, or of a wait for one. The linker places them together. A program that
 * copies only now and then has none of leat's code in its caches and TLBs, and fetching it is most of the time
 * that leat adds to the driver's own time.
 */
#define LEATI_HOT __attribute__((hot))

#endif
