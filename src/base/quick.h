/* quick.h - thread-local variables of the hot paths. */
#ifndef LEATI_QUICK_H
#define LEATI_QUICK_H

/* For a few words of each thread: read without the call by which a shared library finds its other thread-local
 * variables. Room for them is scarce in libraries that are loaded later. */
#define LEATI_QUICK_TLS _Thread_local __attribute__((tls_model("initial-exec")))

#endif
