/* quick.h - compiler attributes for hot paths. */
#ifndef LEATI_QUICK_H
#define LEATI_QUICK_H

/* For a few small thread-local variables. Code in a shared library must call __tls_get_addr() to read a
 * thread-local variable, but reads variables with this attribute directly. Use it rarely, because a library that
 * is loaded with dlopen() has little room for them. */
#define LEATI_QUICK_TLS _Thread_local __attribute__((tls_model("initial-exec")))

/*
 * Functions on the path of a short copy, or of a wait for one. The linker places them together. In a program that
 * copies only now and then, leat's code is not in the caches and TLBs, and loading it is most of the time that
 * leat adds to the driver's own time.
 */
#define LEATI_HOT __attribute__((hot))

#endif
