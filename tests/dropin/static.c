/* static.c - a statically linked program, into which nothing can be preloaded. */
int main(void)
{
    return 4;
}
