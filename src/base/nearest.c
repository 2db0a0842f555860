#include "base/nearest.h"

#include "base/arith.h"

#include <ctype.h>
#include <string.h>

#define LONGEST 64

/* Optimal string alignment distance, three rows. Longer texts are compared by their first LONGEST characters.
 */
static size_t distance(const char *a, size_t na, const char *b, size_t nb) {
    size_t row[3][LONGEST + 1];
    for (size_t j = 0; j <= nb; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *now = row[i % 3];
        const size_t *last = row[(i + 2) % 3];
        const size_t *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            int ca = tolower((unsigned char)a[i - 1]);
            int cb = tolower((unsigned char)b[j - 1]);
            size_t v = last[j - 1] + (ca != cb);
            v = ARITH_MIN(v, last[j] + 1);
            v = ARITH_MIN(v, now[j - 1] + 1);
            if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
                cb == tolower((unsigned char)a[i - 2]))
                v = ARITH_MIN(v, before[j - 2] + 1);
            now[j] = v;
        }
    }
    return row[na % 3][nb];
}

const char *nearest_name(const char *typed, const char *const *candidates, size_t n) {
    size_t nt = strnlen(typed, LONGEST);
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t nc = strnlen(candidates[i], LONGEST);
        size_t d = distance(typed, nt, candidates[i], nc);
        size_t allowed = ARITH_MAX(ARITH_MAX(nt, nc) / 3, (size_t)1);
        if (d <= allowed && d < best_distance) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}
