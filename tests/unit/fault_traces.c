/* fault_traces.c - a scenario of fault_walk: streams and events while a trace is recorded. If a driver call of the
 * recorder fails, only device times are lost. */
#include "fault_scenarios.h"

#include <leat/trace.h>

void traced_scenario(struct world *w)
{
    if (leat_trace_start("/dev/null", NULL) != LEAT_OK)
        give_up("no trace: %s", leat_last_error());
    order_scenario(w);
    if (leat_trace_stop(NULL) != LEAT_OK)
        give_up("the trace does not end: %s", leat_last_error());
}
