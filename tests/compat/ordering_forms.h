/*
 * ordering_forms.h - makes a program's tables forms and sets from four lists, which the program defines before it
 * includes this file.
 *
 * COPIES(X) and SETS(X) list calls that exist under one name. COPIES_BOTH(X) and SETS_BOTH(X) list calls that also
 * exist for the per-thread default stream, under the name SECOND(name). Each entry is one of these:
 *
 *     X(name, order, sorts of dst, sorts of src, (arguments))
 *     X(name, order, bytes of the value, (arguments))
 *
 * The arguments may use the variables dst, src, value and stream.
 */
#define COPY_CALL_(name, arguments)                                                                               \
    static int copy_##name(const struct cell *dst, const struct cell *src, void *stream)                          \
    {                                                                                                             \
        (void)dst, (void)src, (void)stream;                                                                       \
        return (int)name arguments;                                                                               \
    }
#define SET_CALL_(name, arguments)                                                                                \
    static int set_##name(const struct cell *dst, uint32_t value, void *stream)                                   \
    {                                                                                                             \
        (void)stream;                                                                                             \
        return (int)name arguments;                                                                               \
    }
#define COPY_ROW_(name, order, to, from, mine) {#name, order, to, from, copy_##name, mine},
#define SET_ROW_(name, order, unit, mine) {#name, order, unit, set_##name, mine},

/* With this second level of macros, the preprocessor expands SECOND(name) before ## joins it with other tokens. */
#define COPY_CALL_2(name, arguments) COPY_CALL_(name, arguments)
#define SET_CALL_2(name, arguments) SET_CALL_(name, arguments)
#define COPY_ROW_2(name, order, to, from, mine) COPY_ROW_(name, order, to, from, mine)
#define SET_ROW_2(name, order, unit, mine) SET_ROW_(name, order, unit, mine)

#define DEFINE_COPY(name, order, to, from, arguments) COPY_CALL_(name, arguments)
#define DEFINE_SET(name, order, unit, arguments) SET_CALL_(name, arguments)

/* The headers declare the second names only if a program asks for them, so declare them here. */
#define DEFINE_SECOND_COPY(name, order, to, from, arguments)                                                      \
    extern __typeof__(name) SECOND(name);                                                                         \
    COPY_CALL_2(SECOND(name), arguments)
#define DEFINE_SECOND_SET(name, order, unit, arguments)                                                           \
    extern __typeof__(name) SECOND(name);                                                                         \
    SET_CALL_2(SECOND(name), arguments)

#define LIST_COPY(name, order, to, from, arguments) COPY_ROW_(name, order, to, from, false)
#define LIST_SET(name, order, unit, arguments) SET_ROW_(name, order, unit, false)
#define LIST_SECOND_COPY(name, order, to, from, arguments) COPY_ROW_2(SECOND(name), order, to, from, true)
#define LIST_SECOND_SET(name, order, unit, arguments) SET_ROW_2(SECOND(name), order, unit, true)

COPIES(DEFINE_COPY)
COPIES_BOTH(DEFINE_COPY)
COPIES_BOTH(DEFINE_SECOND_COPY)
SETS(DEFINE_SET)
SETS_BOTH(DEFINE_SET)
SETS_BOTH(DEFINE_SECOND_SET)

static const struct form forms[] = {COPIES(LIST_COPY) COPIES_BOTH(LIST_COPY) COPIES_BOTH(LIST_SECOND_COPY)};
static const struct set sets[] = {SETS(LIST_SET) SETS_BOTH(LIST_SET) SETS_BOTH(LIST_SECOND_SET)};
