/* test_cudart_plugin.c - tests that the constructor of a library can look up a function of the driver while
 * another thread makes its first lookup. The constructor runs with the loader's lock, for which that thread
 * waits. */
#include <cuda_runtime.h>

#include "compat.h"

#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static sem_t plugin_is_starting;

/* Looks up a function. Returns 0 if the runtime has found the driver and the function. */
static int look_up(void)
{
    enum cudaDriverEntryPointQueryResult status = cudaDriverEntryPointVersionNotSufficent;
    void *function = NULL;

    return cudaGetDriverEntryPoint("cuMemAlloc", &function, 0, &status) != cudaSuccess ||
           status != cudaDriverEntryPointSuccess || !function;
}

static void *look_up_on_thread(void *result)
{
    while (sem_wait(&plugin_is_starting))
        continue;
    *(int *)result = look_up();
    return NULL;
}

static int of_plugin = -1;

/* Called by the constructor of plugin.so. */
void plugin_starts(void);
void plugin_starts(void)
{
    sem_post(&plugin_is_starting);
    sleep_ms(200); /* the thread begins its lookup */
    of_plugin = look_up();
}

static void constructors_look_up_functions(void **state)
{
    char self[3000], path[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    int count, of_thread = -1;
    pthread_t thread;
    void *plugin;

    (void)state;
    assert_true(length > 0);
    self[length] = '\0';
    (void)snprintf(path, sizeof path, "%s/../plugin.so", dirname(self));
    OK(cudaGetDeviceCount(&count));
    assert_int_equal(sem_init(&plugin_is_starting, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, look_up_on_thread, &of_thread), 0);
    alarm(60); /* ends a test that hangs */
    plugin = dlopen(path, RTLD_NOW);
    if (!plugin)
        print_error("%s\n", dlerror());
    assert_non_null(plugin);
    pthread_join(thread, NULL);
    alarm(0);
    OK(of_plugin);
    OK(of_thread);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(constructors_look_up_functions)};

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
