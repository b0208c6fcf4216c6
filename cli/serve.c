#include "cli.h"
const char cli_serve_help[]="";
int cli_serve(int argc, char **argv) { (void)argc; (void)argv; return 0; }
