/* The plan as a picture: for each place a bar of its budget, for each arena its blocks; scratch as offset
 * against step, the others slice by slice. Every block says on hover what it is. Colours are classes, so that
 * light and dark come from the viewer. */
#include "app/out.h"
#include "app/plan/plan_parts.h"

#include "base/arith.h"
#include "base/units.h"

#include <inttypes.h>
#include <string.h>

#define WIDTH   1200
#define LEFT    110
#define RIGHT   24
#define PLOT    (WIDTH - LEFT - RIGHT)
#define BAR     24 /* height of a slice */
#define STEPS_H 260
#define LETTER  6.6 /* about a letter's width */

struct svg {
    FILE *f;
    const struct plan *p;
    double y;
};

/* Names come from files: what XML does not take becomes '?'. */
static void put_text(FILE *f, const char *s) {
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '&')
            fputs("&amp;", f);
        else if (c == '<')
            fputs("&lt;", f);
        else if (c == '>')
            fputs("&gt;", f);
        else
            fputc(c != '\n' && (c < 0x20 || c >= 0x7F) ? '?' : c, f);
    }
}

static void text_at(const struct svg *g, double x, double y, const char *class, const char *text) {
    fprintf(g->f, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    put_text(g->f, text);
    fputs("</text>\n", g->f);
}

struct palette {
    const char *background, *text, *soft, *free;
    const char *role[PLAN_ROLES];
};

/* Literal colours: librsvg and Inkscape know no CSS variables and would draw everything black. */
static void put_colours(FILE *f, const struct palette *c) {
    fprintf(f,
            ".bg{fill:%s}.free{fill:%s}text{fill:%s}.soft,.right{fill:%s}\n"
            ".bound{stroke:%s}.b{stroke:%s}.b:hover{stroke:%s;stroke-width:2}\n",
            c->background, c->free, c->text, c->soft, c->text, c->background, c->text);
    for (int r = 0; r < PLAN_ROLES; r++)
        fprintf(f, ".r%d{fill:%s}", r, c->role[r]);
}

static void put_style(FILE *f) {
    static const struct palette light = {
        "#ffffff",
        "#1f2328",
        "#59636e",
        "#eef1f4",
        {"#8ab8f0", "#f2b880", "#c9b2ec", "#8fd3a6", "#f3a0ac", "#8ed5dc", "#c3cad2"}};
    static const struct palette dark = {
        "#0d1117",
        "#e6edf3",
        "#9198a1",
        "#1c232b",
        {"#2a5d9c", "#96561a", "#69489c", "#2c7346", "#9a3848", "#23717a", "#59636e"}};
    fputs("<style>\nsvg{color-scheme:light dark}\n"
          "text{font-family:system-ui,sans-serif;font-size:12px}.right{text-anchor:end}\n"
          ".h1{font-size:18px;font-weight:600}.h2{font-size:15px;font-weight:600}.in{pointer-events:none;"
          "font-size:11px}\n"
          ".bound{stroke-width:1;stroke-dasharray:5 4;fill:none}.b{stroke-width:.6}\n",
          f);
    put_colours(f, &light);
    fputs("\n@media (prefers-color-scheme:dark){\n", f);
    put_colours(f, &dark);
    fputs("}\n</style>\n", f);
}

static void put_legend(struct svg *g) {
    double x = LEFT;
    for (int r = 0; r <= PLAN_ROLES; r++) {
        const char *name = r < PLAN_ROLES ? plan_role_name((enum plan_role)r) : "free";
        fprintf(g->f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\" rx=\"3\" class=\"", x,
                g->y - 11);
        fprintf(g->f, r < PLAN_ROLES ? "r%d\"/>\n" : "free\"/>\n", r);
        text_at(g, x + 20, g->y, "", name);
        x += 20 + LETTER * (double)strlen(name) + 28;
    }
    g->y += 20;
}

/* A rectangle with its title, and its name inside where there is room. */
static void put_box(const struct svg *g, double x, double y, double w, double h, int role, const char *name,
                    const char *title) {
    fprintf(g->f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" class=\"b r%d\"><title>", x, y,
            w, h, role);
    put_text(g->f, title);
    fputs("</title></rect>\n", g->f);
    if (w > LETTER * (double)strlen(name) + 8 && h >= 14)
        text_at(g, x + 4, y + ARITH_MIN(h / 2 + 4, 15.0), "in", name);
}

static void block_title(const struct plan *p, const struct plan_block *b, char *out, size_t n) {
    char size[UNITS_TEXT];
    char steps[64] = "always";
    if (b->end != 0)
        snprintf(steps, sizeof steps, "steps %u to %u", b->first, b->end - 1);
    snprintf(out, n, "%s\n%s (%" PRIu64 " bytes)\n%s, %s, slice %u, offset %" PRIu64 "\n%s", b->name,
             units_format_size(b->bytes, size), b->bytes, p->places[b->place].name,
             p->places[b->place].arenas[b->arena].name, b->slice, b->offset, steps);
}

static double scaled(uint64_t v, uint64_t of, double length) {
    return of > 0 ? (double)v / (double)of * length : 0;
}

static void put_slices(struct svg *g, uint32_t place, uint32_t arena) {
    const struct plan_arena *a = &g->p->places[place].arenas[arena];
    uint64_t widest = 1;
    for (uint32_t s = 0; s < a->n_slices; s++)
        widest = ARITH_MAX(widest, a->slices[s]);
    for (uint32_t s = 0; s < a->n_slices; s++) {
        char size[UNITS_TEXT];
        double y = g->y + s * (BAR + 4.0);
        text_at(g, LEFT - 8, y + 16, "right", units_format_size(a->slices[s], size));
        fprintf(g->f, "<rect x=\"%d\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" class=\"free\"/>\n", LEFT, y,
                scaled(a->slices[s], widest, PLOT), BAR);
    }
    for (uint32_t i = 0; i < g->p->n_blocks; i++) {
        const struct plan_block *b = &g->p->blocks[i];
        char title[320];
        if (b->place != place || b->arena != arena)
            continue;
        block_title(g->p, b, title, sizeof title);
        put_box(g, LEFT + scaled(b->offset, widest, PLOT), g->y + b->slice * (BAR + 4.0),
                scaled(b->bytes, widest, PLOT), BAR, plan_role_of(b), b->name, title);
    }
    g->y += a->n_slices * (BAR + 4.0) + 14;
}

static void put_steps(struct svg *g, uint32_t place, uint32_t arena, uint32_t steps) {
    const struct plan_arena *a = &g->p->places[place].arenas[arena];
    char size[UNITS_TEXT];
    char label[64];
    double bottom = g->y + STEPS_H;
    fprintf(g->f, "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\" class=\"free\"/>\n", LEFT, g->y, PLOT,
            STEPS_H);
    for (int i = 0; i <= 4; i++)
        text_at(g, LEFT - 8, bottom - i * (STEPS_H - 10) / 4.0, "right",
                units_format_size(a->bytes / 4 * (uint64_t)i, size));
    for (uint32_t i = 0; i < g->p->n_blocks; i++) {
        const struct plan_block *b = &g->p->blocks[i];
        char title[320];
        if (b->place != place || b->arena != arena)
            continue;
        block_title(g->p, b, title, sizeof title);
        double h = scaled(b->bytes, a->bytes, STEPS_H);
        put_box(g, LEFT + scaled(b->first, steps, PLOT), bottom - scaled(b->offset, a->bytes, STEPS_H) - h,
                scaled(b->end - b->first, steps, PLOT), h, plan_role_of(b), b->name, title);
    }
    double bound = bottom - scaled(a->lower_bound, a->bytes, STEPS_H);
    fprintf(g->f,
            "<path d=\"M%d %.1fH%d\" class=\"bound\"><title>lower bound: no packing needs less than "
            "%s</title></path>\n",
            LEFT, bound, LEFT + PLOT, units_format_size(a->lower_bound, size));
    uint32_t ticks = ARITH_MIN(steps, 8u);
    for (uint32_t i = 0; i <= ticks; i++) {
        uint32_t step = (uint32_t)((uint64_t)steps * i / ticks);
        snprintf(label, sizeof label, i == 0 ? "step 0" : "%u", step);
        fprintf(g->f, "<text x=\"%.1f\" y=\"%.1f\" class=\"soft\" text-anchor=\"%s\">%s</text>\n",
                LEFT + scaled(step, steps, PLOT), bottom + 16,
                i == 0       ? "start"
                : i == ticks ? "end"
                             : "middle",
                label);
    }
    g->y = bottom + 34;
}

/* The budget of a place with its arenas in it; a line marks where the budget ends. */
static void put_budget(struct svg *g, uint32_t place) {
    const struct plan_place *pl = &g->p->places[place];
    uint64_t whole = ARITH_MAX(pl->budget, pl->total);
    double x = LEFT;
    text_at(g, LEFT - 8, g->y + 16, "right", "budget");
    fprintf(g->f, "<rect x=\"%d\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" class=\"free\"/>\n", LEFT, g->y,
            scaled(pl->budget, whole, PLOT), BAR);
    for (uint32_t k = 0; k < pl->n_arenas; k++) {
        char title[160];
        char size[UNITS_TEXT];
        double w = scaled(pl->arenas[k].bytes, whole, PLOT);
        snprintf(title, sizeof title, "%s: %s, %.2f%% of the budget", pl->arenas[k].name,
                 units_format_size(pl->arenas[k].bytes, size),
                 pl->budget > 0 ? 100.0 * (double)pl->arenas[k].bytes / (double)pl->budget : 0);
        put_box(g, x, g->y, w, BAR, strcmp(pl->arenas[k].name, "kv") == 0 ? PLAN_ROLE_KV : PLAN_ROLE_OTHER,
                pl->arenas[k].name, title);
        x += w;
    }
    if (pl->total > pl->budget) {
        char size[UNITS_TEXT];
        fprintf(g->f,
                "<path d=\"M%.2f %.1fv%d\" class=\"bound\"><title>the budget ends here: %s</title></path>\n",
                LEFT + scaled(pl->budget, whole, PLOT), g->y - 4, BAR + 8,
                units_format_size(pl->budget, size));
    }
    g->y += BAR + 24;
}

static void put_place(struct svg *g, uint32_t i) {
    const struct plan_place *place = &g->p->places[i];
    char total[UNITS_TEXT];
    char budget[UNITS_TEXT];
    char line[200];
    g->y += 18;
    snprintf(line, sizeof line, "%s: %s of %s%s", place->name, units_format_size(place->total, total),
             units_format_size(place->budget, budget), place->total > place->budget ? ", too much" : "");
    text_at(g, LEFT, g->y, "h2", line);
    g->y += 12;
    put_budget(g, i);
    for (uint32_t k = 0; k < place->n_arenas; k++) {
        const struct plan_arena *a = &place->arenas[k];
        char bound[UNITS_TEXT];
        if (plan_is_reference(g->p, i, k) || a->n_slices == 0)
            continue;
        uint32_t steps = plan_steps(g->p, i, k);
        snprintf(line, sizeof line, "%s, %s: %s%s%s", place->name, a->name,
                 units_format_size(a->bytes, total),
                 steps > 0         ? ", offset against step; lower bound "
                 : a->n_slices > 1 ? ", slice by slice"
                                   : "",
                 steps > 0 ? units_format_size(a->lower_bound, bound) : "");
        text_at(g, LEFT, g->y, "", line);
        g->y += 8;
        if (steps > 0)
            put_steps(g, i, k, steps);
        else
            put_slices(g, i, k);
    }
}

/* As put_place moves y. */
static double height_of(const struct plan *p) {
    double y = 76;
    for (uint32_t i = 0; i < p->n_places; i++) {
        y += 18 + 12 + BAR + 24;
        for (uint32_t k = 0; k < p->places[i].n_arenas; k++) {
            const struct plan_arena *a = &p->places[i].arenas[k];
            if (!plan_is_reference(p, i, k) && a->n_slices > 0)
                y += 8 + (plan_steps(p, i, k) > 0 ? STEPS_H + 34.0 : a->n_slices * (BAR + 4.0) + 14);
        }
    }
    return y + 10;
}

stator_status plan_svg_write(const struct plan *p, const char *path, stator_error *e) {
    struct svg g = {.f = out_open("--svg", path, e), .p = p, .y = 30};
    char line[200];
    if (g.f == NULL)
        return e->code;
    double height = height_of(p);
    fprintf(g.f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
            "height=\"%.0f\">\n<title>memory plan %s</title>\n",
            WIDTH, height, WIDTH, height, p->hash);
    put_style(g.f);
    fprintf(g.f, "<rect width=\"100%%\" height=\"100%%\" class=\"bg\"/>\n");
    snprintf(line, sizeof line, "%s: %s", p->model, p->fits ? "fits" : "does not fit");
    text_at(&g, LEFT, g.y, "h1", line);
    snprintf(line, sizeof line, "plan %s", p->hash);
    text_at(&g, WIDTH - RIGHT, g.y, "right", line);
    g.y += 28;
    put_legend(&g);
    for (uint32_t i = 0; i < p->n_places; i++)
        put_place(&g, i);
    fputs("</svg>\n", g.f);
    return out_close(g.f, "--svg", path, STATOR_OK, e);
}
