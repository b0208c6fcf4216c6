/*
 * svg.c - what the pictures of the command share.
 */
#include "svg.h"

#include "cli.h"

#include <errno.h>
#include <string.h>

/* How many bytes the UTF-8 character at text has; 0: it is cut off or none. */
static unsigned character_bytes(const char *text)
{
    unsigned char first = (unsigned char)*text;
    unsigned bytes = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4, i;

    for (i = 1; i < bytes; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 0;
    return bytes;
}

void svg_write_escaped(FILE *file, const char *text)
{
    unsigned bytes;

    for (; *text; text += bytes ? bytes : 1) {
        bytes = character_bytes(text);
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (bytes == 3 && !memcmp(text, "\xef\xbf", 2) && (unsigned char)text[2] >= 0xbe)
            continue; /* U+FFFE and U+FFFF */
        else if (bytes > 1 || (unsigned char)*text >= ' ' || *text == '\n' || *text == '\t')
            fwrite(text, 1, bytes, file);
    }
}

void svg_write_text(FILE *file, double x, double y, const char *style, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, style);
    svg_write_escaped(file, text);
    fputs("</text>\n", file);
}

static void complain(const char *path)
{
    cli_complain("bench: %s cannot be written: %s", path, strerror(errno));
}

FILE *svg_open(const char *path)
{
    FILE *file = fopen(path, "we");

    if (!file)
        complain(path);
    return file;
}

bool svg_close(FILE *file, const char *path)
{
    bool fine = !ferror(file);

    fine = fclose(file) == 0 && fine;
    if (!fine)
        complain(path);
    return fine;
}
