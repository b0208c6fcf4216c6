/*
 * ordering_calls.h - defines the calls for streams and events, which differ between the libraries only by their
 * prefix, and fills struct names. A program includes this file last. Before that it defines CALL(name), which adds
 * the prefix to a name; STREAM_HANDLE and EVENT_HANDLE, the types of the handles; and the functions of struct
 * names that are missing here.
 */
static int stream_destroy(void *stream)
{
    return (int)CALL(StreamDestroy)((STREAM_HANDLE)stream);
}

static int stream_synchronize(void *stream)
{
    return (int)CALL(StreamSynchronize)((STREAM_HANDLE)stream);
}

static int stream_query(void *stream)
{
    return (int)CALL(StreamQuery)((STREAM_HANDLE)stream);
}

static int stream_wait(void *stream, void *event)
{
    return (int)CALL(StreamWaitEvent)((STREAM_HANDLE)stream, (EVENT_HANDLE)event, 0);
}

static int host_function(void *stream, void (*function)(void *), void *argument)
{
    return (int)CALL(LaunchHostFunc)((STREAM_HANDLE)stream, function, argument);
}

static int event_destroy(void *event)
{
    return (int)CALL(EventDestroy)((EVENT_HANDLE)event);
}

static int event_record(void *event, void *stream)
{
    return (int)CALL(EventRecord)((EVENT_HANDLE)event, (STREAM_HANDLE)stream);
}

static int event_synchronize(void *event)
{
    return (int)CALL(EventSynchronize)((EVENT_HANDLE)event);
}

static int event_query(void *event)
{
    return (int)CALL(EventQuery)((EVENT_HANDLE)event);
}

/* Runs the model. Returns the exit status for main(). */
static int run(const char *program, int not_ready, int argc, char **argv)
{
    const struct names names = {.program = program,
                                .not_ready = not_ready,
                                .set_device = set_device,
                                .device_synchronize = device_synchronize,
                                .device_reset = device_reset,
                                .stream_create = stream_create,
                                .stream_destroy = stream_destroy,
                                .stream_synchronize = stream_synchronize,
                                .stream_query = stream_query,
                                .stream_wait = stream_wait,
                                .host_function = host_function,
                                .event_create = event_create,
                                .event_destroy = event_destroy,
                                .event_record = event_record,
                                .event_synchronize = event_synchronize,
                                .event_query = event_query,
                                .allocate = allocate,
                                .release = release,
                                .array_create = array_create,
                                .array_destroy = array_destroy,
                                .forms = forms,
                                .form_count = sizeof forms / sizeof forms[0],
                                .sets = sets,
                                .set_count = sizeof sets / sizeof sets[0]};

    return run_ordering(&names, argc, argv);
}
