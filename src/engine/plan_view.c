#include "engine/plan_view.h"

#include "engine/engine.h"
#include "plan/fit.h"
#include "plan/planner.h"

const struct plan *plan_view(stator *s) {
    CHECK(!s->start.start_tried);
    if (s->planning.planned && s->planning.plan.fits && !s->planning.plan.room_known) {
        fit_room(&s->planning, &s->planning.want, &s->planning.plan);
        struct plan made; /* the search has left the graph at another size */
        (void)planner_make(&s->planning, &s->planning.want, &made, NULL);
    }
    return &s->planning.plan;
}

const char *plan_view_host(const stator *s, uint32_t stage) {
    const struct config *c = &s->planning.config;
    return stage < c->cluster.n ? c->cluster.stage[stage].host : NULL;
}
