/* next.c - a library whose lookup of "the next function of this name" must not find its own function. dlsym()
 * knows the caller by its return address, which a replacement of dlsym() could hide. */
#include <dlfcn.h>

void *next_lookup(void);

void *next_lookup(void)
{
    void *found = dlsym(RTLD_NEXT, "next_lookup");

    /* The call above must not be a jump. */
    __asm__ volatile("");
    return found;
}
