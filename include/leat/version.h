/*
 * leat/version.h - tells the version of leat to the preprocessor and at run time.
 *
 * Model. The macros have the version of the headers that a program was compiled with; leat_version() and
 * leat_version_number() return the version of the library that the program runs with. While the major number is 0,
 * a new minor number may change calls, and a new patch number does not.
 *
 *     #if LEAT_VERSION_NUMBER >= LEAT_VERSION_MAKE(0, 2, 0)
 *     ...
 *     #endif
 *
 *     if (leat_version_number() < LEAT_VERSION_NUMBER)
 *         fprintf(stderr, "leat %s is older than the headers, %s\n", leat_version(), LEAT_VERSION_STRING);
 *
 * Experimental calls. Calls between "#ifndef LEAT_NO_EXPERIMENTAL" and its "#endif" may still change or disappear
 * in any new version, also in a patch release. A program that defines LEAT_NO_EXPERIMENTAL before it includes a
 * header of leat does not see these calls, so that the compiler refuses them. The libraries export them under the
 * symbol version LEAT_EXPERIMENTAL; 'objdump -T program' shows which of them a program uses.
 *
 * Threads. Any thread may make these calls, at any time.
 */
#ifndef LEAT_VERSION_H
#define LEAT_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#ifndef LEAT_API
#define LEAT_API __attribute__((visibility("default")))
#endif

/* The same as in the file VERSION; make checks that. */
#define LEAT_VERSION_MAJOR 0
#define LEAT_VERSION_MINOR 1
#define LEAT_VERSION_PATCH 0

/* A version as one number that grows from version to version: 1.2.3 is 10203. Minor and patch are below 100. */
#define LEAT_VERSION_MAKE(major, minor, patch) ((major) * 10000 + (minor) * 100 + (patch))
#define LEAT_VERSION_NUMBER LEAT_VERSION_MAKE(LEAT_VERSION_MAJOR, LEAT_VERSION_MINOR, LEAT_VERSION_PATCH)

/* The version as text: "0.1.0". */
#define LEAT_VERSION_TEXT_(number) #number
#define LEAT_VERSION_JOIN_(major, minor, patch)                                                                   \
    LEAT_VERSION_TEXT_(major) "." LEAT_VERSION_TEXT_(minor) "." LEAT_VERSION_TEXT_(patch)
#define LEAT_VERSION_STRING LEAT_VERSION_JOIN_(LEAT_VERSION_MAJOR, LEAT_VERSION_MINOR, LEAT_VERSION_PATCH)

/* Returns the version of the running library, such as "0.1.0". */
LEAT_API const char *leat_version(void);

/* Returns the version of the running library as the number that LEAT_VERSION_MAKE() makes of it. */
LEAT_API int leat_version_number(void);

#ifdef __cplusplus
}
#endif

#endif
