/* transfer_name.c - see transfer_name.h. */
#include "transfer_name.h"

#include <stdint.h>
#include <string.h>

/* Returns how many bytes the character at text has, or 0 if it is a control character or not valid UTF-8. */
static size_t printable(const unsigned char *text)
{
    static const uint32_t least[] = {0, 0x20, 0xa0, 0x800, 0x10000};
    size_t length = text[0] < 0x80 ? 1 : (text[0] & 0xe0) == 0xc0 ? 2 : (text[0] & 0xf0) == 0xe0 ? 3 : 4;
    uint32_t value = length == 1 ? text[0] : text[0] & (0x7fu >> length);

    if (length == 4 && (text[0] & 0xf8) != 0xf0)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (text[i] & 0x3f);
    }
    /* Characters below least[] are control characters, or should be written with fewer bytes. */
    if (value < least[length] || value == 0x7f || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return 0;
    /* Marks that change the direction or break lines. */
    if (value == 0x2028 || value == 0x2029 || (value >= 0x202a && value <= 0x202e) ||
        (value >= 0x2066 && value <= 0x2069))
        return 0;
    return length;
}

const char *transfer_name_problem(const char *name)
{
    size_t length = strlen(name);

    if (!length)
        return "the name is empty";
    if (length > TRANSFER_NAME_MAX)
        return "the name is longer than 255 bytes";
    if (strchr(name, '/'))
        return "the name has a slash";
    if (name[0] == '.')
        return "names that begin with a dot are only stored with --into FILE";
    for (size_t at = 0; at < length;) {
        size_t some = printable((const unsigned char *)name + at);

        if (!some)
            return "the name has a control character or is not UTF-8";
        at += some;
    }
    return NULL;
}

const char *transfer_show(char *shown, size_t shown_bytes, const char *text)
{
    size_t used = 0;

    while (*text && used + 1 < shown_bytes) {
        size_t some = printable((const unsigned char *)text);

        if (!some || used + some >= shown_bytes) {
            shown[used++] = '?';
            text++;
            continue;
        }
        memcpy(shown + used, text, some);
        used += some;
        text += some;
    }
    shown[used] = '\0';
    return shown;
}
