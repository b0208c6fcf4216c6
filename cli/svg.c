/*
 * svg.c - writes the parts of SVG files that all pictures of the command share.
 */
#include "svg.h"

#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Returns the length of the UTF-8 character at text in bytes; 0 if it is incomplete or invalid. */
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

/* Average widths of characters in pixels. The viewer's font is unknown, so these are the widths of DejaVu Sans, a
 * wide font. */
static const double character_widths[] = {[SVG_TEXT] = 6.3, [SVG_TITLE] = 10.8};

void svg_write_text_within(FILE *file, double x, double y, const char *style, const char *text, enum svg_size size,
                           double room)
{
    size_t most = (size_t)(room / character_widths[size]), characters = 0, kept = 0, i;
    char *shortened;

    /* Count characters; bytes 0x80 to 0xbf continue a character of UTF-8. kept: the bytes of the shortened text,
     * which leave room for the dots. */
    for (i = 0; text[i]; i++) {
        characters += ((unsigned char)text[i] & 0xc0) != 0x80;
        if (characters < most)
            kept = i + 1;
    }
    shortened = characters > most ? strndup(text, kept) : NULL;
    if (!shortened) {
        svg_write_text(file, x, y, style, text);
        return;
    }
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\"><title>", x, y, style);
    svg_write_escaped(file, text);
    fputs("</title>", file);
    svg_write_escaped(file, shortened);
    fputs("\u2026</text>\n", file);
    free(shortened);
}

static void complain(const char *path)
{
    cli_complain("bench: %s cannot be written: %s", path, strerror(errno));
}

static void write_hues(FILE *file, const struct svg_hue *hues, unsigned count, bool dark)
{
    for (unsigned i = 0; i < count; i++) {
        const char *hue = dark ? hues[i].dark : hues[i].light;

        fprintf(file, ".k%u{stroke:%s}\n.dot.k%u,rect.k%u{fill:%s;stroke:none}\n", i, hue, i, i, hue);
    }
}

static void write_styles(FILE *file, const struct svg_hue *hues, unsigned count)
{
    fputs("<style>\n"
          "text{font:12px sans-serif;fill:#1f2328}\n"
          ".title{font-size:18px;font-weight:bold}\n"
          ".head{font-size:14px;font-weight:bold}\n"
          ".name{font-weight:bold}\n"
          ".quiet{fill:#59636e}\n"
          ".tick{font-size:11px;fill:#59636e}\n"
          ".middle{text-anchor:middle}\n"
          ".end{text-anchor:end}\n"
          ".paper{fill:#ffffff}\n"
          ".frame{fill:none;stroke:#8c959f;stroke-width:1}\n"
          ".grid{fill:none;stroke:#d8dee4;stroke-width:1}\n"
          ".bound{stroke:#59636e;stroke-width:1.2}\n"
          ".curve{fill:none;stroke-width:2;stroke-linejoin:round}\n"
          ".driver{stroke-dasharray:5 4;stroke-width:1.6}\n"
          ".hollow{fill:#ffffff;stroke-width:1.4}\n",
          file);
    write_hues(file, hues, count, false);
    fputs("@media (prefers-color-scheme: dark){\n"
          "text{fill:#e6edf3}\n.quiet,.tick{fill:#9198a1}\n.paper,.hollow{fill:#14181d}\n.grid{stroke:#2d343c}\n"
          ".frame{stroke:#59636e}\n.bound{stroke:#9198a1}\n",
          file);
    write_hues(file, hues, count, true);
    fputs("}\n</style>\n", file);
}

FILE *svg_begin(const char *path, unsigned width, unsigned height, const struct svg_hue *hues, unsigned hue_count)
{
    FILE *file = fopen(path, "we");

    if (!file) {
        complain(path);
        return NULL;
    }
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\">\n",
            width, height, width, height);
    write_styles(file, hues, hue_count);
    fprintf(file, "<rect width=\"%u\" height=\"%u\" class=\"paper\"/>\n", width, height);
    return file;
}

bool svg_end(FILE *file, const char *path)
{
    bool fine;

    fputs("</svg>\n", file);
    fine = !ferror(file);
    fine = fclose(file) == 0 && fine;
    if (!fine)
        complain(path);
    return fine;
}

unsigned svg_write_head(FILE *file, unsigned width, const char *title, const char *const *lines)
{
    double room = (double)width - 2 * SVG_MARGIN;
    unsigned y = SVG_MARGIN + 12;

    svg_write_text_within(file, SVG_MARGIN, y, "title", title, SVG_TITLE, room);
    y += 6;
    for (; *lines; lines++) {
        y += SVG_LINE_STEP;
        svg_write_text_within(file, SVG_MARGIN, y, "quiet", *lines, SVG_TEXT, room);
    }
    return y + SVG_LINE_STEP + 8;
}

void svg_write_grid(FILE *file, double x, double y, double width, const char *value)
{
    fprintf(file, "<path d=\"M%.1f %.1fh%.1f\" class=\"grid\"/>\n", x, y, width);
    svg_write_text(file, x - 6, y + 4, "tick end", value);
}

void svg_write_frame(FILE *file, double x, double y, double width, double height)
{
    fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"frame\"/>\n", x, y, width,
            height);
}
