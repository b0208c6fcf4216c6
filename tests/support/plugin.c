/* plugin.c - a library whose constructor calls a function of the program that loads it. The loader holds its lock
 * meanwhile. */
void plugin_starts(void);

__attribute__((constructor)) static void start(void)
{
    plugin_starts();
}
