/* The plan drawn with letters: the picture of plan_svg.c for a terminal. */
#include "app/plan/plan_parts.h"

#include "base/arith.h"
#include "base/units.h"

#include <string.h>

#define COLUMNS 64
#define ROWS    16

/* The letter of the block that holds this byte in this step. */
static char letter_at(const struct plan *p, uint32_t place, uint32_t arena, uint32_t slice, uint64_t offset,
                      uint32_t step) {
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        const struct plan_block *b = &p->blocks[i];
        bool here = b->place == place && b->arena == arena && b->slice == slice && b->offset <= offset &&
                    offset - b->offset < b->bytes;
        if (here && (b->end == 0 || (b->first <= step && step < b->end)))
            return plan_role_letter(plan_role_of(b));
    }
    return '.';
}

static uint64_t middle(uint64_t bytes, uint64_t i, uint64_t n) {
    return bytes / n * i + bytes % n * i / n + bytes / (2 * n);
}

static void print_slices(const struct plan *p, FILE *out, uint32_t place, uint32_t arena) {
    const struct plan_arena *a = &p->places[place].arenas[arena];
    for (uint32_t s = 0; s < a->n_slices; s++) {
        char size[UNITS_TEXT];
        fprintf(out, "  slice %2u |", s);
        for (uint32_t x = 0; x < COLUMNS; x++)
            fputc(letter_at(p, place, arena, s, middle(a->slices[s], x, COLUMNS), 0), out);
        fprintf(out, "| %s\n", units_format_size(a->slices[s], size));
    }
}

static void print_steps(const struct plan *p, FILE *out, uint32_t place, uint32_t arena, uint32_t steps) {
    const struct plan_arena *a = &p->places[place].arenas[arena];
    uint32_t columns = ARITH_MIN(steps, (uint32_t)COLUMNS);
    for (uint32_t y = ROWS; y-- > 0;) {
        char size[UNITS_TEXT];
        uint64_t offset = middle(a->bytes, y, ROWS);
        fprintf(out, "%11s |", units_format_size(offset, size));
        for (uint32_t x = 0; x < columns; x++)
            fputc(letter_at(p, place, arena, 0, offset, (uint32_t)middle(steps, x, columns)), out);
        fputs("|\n", out);
    }
    fprintf(out, "%11s  step 0%*u\n", "offset", columns > 12 ? (int)columns - 6 : 6, steps);
}

void plan_ascii_print(const struct plan *p, FILE *out) {
    for (uint32_t i = 0; i < p->n_places; i++) {
        for (uint32_t k = 0; k < p->places[i].n_arenas; k++) {
            const struct plan_arena *a = &p->places[i].arenas[k];
            char size[UNITS_TEXT];
            if (plan_is_reference(p, i, k))
                continue;
            uint32_t steps = plan_steps(p, i, k);
            fprintf(out, "%s, %s: %s%s\n", p->places[i].name, a->name, units_format_size(a->bytes, size),
                    steps > 0 ? ", offset against step" : "");
            if (steps > 0)
                print_steps(p, out, i, k, steps);
            else
                print_slices(p, out, i, k);
            fputc('\n', out);
        }
    }
    for (int r = 0; r < PLAN_ROLES; r++)
        fprintf(out, "%c %s%s", plan_role_letter((enum plan_role)r), plan_role_name((enum plan_role)r),
                r + 1 < PLAN_ROLES ? ", " : ", . free\n");
}
