# recorded_driver.awk - writes a libcuda.so.1 in C from client_lookups.txt: its cuGetProcAddress_v2() answers each
# recorded lookup as the vendor's driver did. No other function of it does anything.
function define(symbol) {
    if (!defined[symbol]++ && symbol !~ /^cuGetProcAddress(_v2)?$/)
        printf "int %s(void);\nint %s(void) { return 999; }\n", symbol, symbol
}
BEGIN {
    print "#include <stddef.h>\n#include <stdint.h>\n#include <string.h>"
    print "int cuGetProcAddress(const char *name, void **found, int version, uint64_t flags);"
    print "int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *why);"
}
$1 == "dlsym" { define($2) }
$1 == "v2" && $5 != "none" {
    define($5)
    rows = rows sprintf("{\"%s\", %d, %d, (void *)(uintptr_t)%s},\n", $2, $3, $4, $5)
}
END {
    printf "static const struct { const char *name; int version; uint64_t flags; void *function; } rows[] = {\n%s};\n", rows
    print "int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *why)\n{"
    print "    *found = NULL;"
    print "    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !*found; i++)"
    print "        if (rows[i].version == version && rows[i].flags == flags && !strcmp(rows[i].name, name))"
    print "            *found = rows[i].function;"
    print "    if (why)\n        *why = *found ? 0 : 1;\n    return 0;\n}"
    print "int cuGetProcAddress(const char *name, void **found, int version, uint64_t flags)\n{"
    print "    return cuGetProcAddress_v2(name, found, version, flags, NULL);\n}"
}
