#include "plan/plan_view.h"

#include "engine/engine.h"

const struct plan *plan_view(stator *s) {
    CHECK(!s->start_tried);
    if (s->planned && s->plan.fits && !s->plan.room_known) {
        fit_room(s, &s->want, &s->plan);
        struct plan made; /* the search has left the graph at another size */
        (void)planner_make(s, &s->want, &made, NULL);
    }
    return &s->plan;
}
