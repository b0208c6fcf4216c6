/* quick.h - what hot paths need of the compiler. */
#ifndef LEATI_QUICK_H
#define LEATI_QUICK_H

/* For a few words of each thread: read without the call by which a shared library finds its other thread-local
 * variables. Room for them is scarce in libraries that are loaded later. */
#define LEATI_QUICK_TLS _Thread_local __attribute__((tls_model("initial-exec")))

/*
 * Functions that a short copy, or a wait for it, goes through. The linker puts them side by side: a program that
 * copies now and then has no code of leat's in its caches, nor its pages in the tables of the processor, and what
 * such a copy takes beyond the driver's own time is mostly the fetching of both.
 */
#define LEATI_HOT __attribute__((hot))

#endif
