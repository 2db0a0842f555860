/* See pack_csv.h. */
#include "pack/pack_csv.h"

#include "base/arith.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS 8  /* more are refused anyway */
#define SHOWN  40 /* bytes of a field in an error */

enum column { COLUMN_ID, COLUMN_LOWER, COLUMN_UPPER, COLUMN_SIZE, COLUMN_OFFSET, COLUMNS };
static const char *const column_names[COLUMNS] = {"id", "lower", "upper", "size", "offset"};

struct field {
    const char *at;
    size_t n;
};

struct reader {
    const char *at;
    const char *end;
    const char *name;
    uint64_t line; /* from 1 */
    struct field fields[FIELDS];
    size_t n_fields; /* of the line, also those without room */
};

size_t pack_csv_most_rows(const char *text, size_t n) {
    size_t lines = 1;
    for (const char *p = text, *end = text + n; n > 0 && (p = memchr(p, '\n', (size_t)(end - p))) != NULL;
         p++)
        lines++;
    return lines;
}

static struct field trimmed(const char *begin, const char *end) {
    while (begin < end && (*begin == ' ' || *begin == '\t'))
        begin++;
    while (begin < end && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    return (struct field){begin, (size_t)(end - begin)};
}

/* The next line that is not blank; false at the end. */
static bool next_line(struct reader *r) {
    while (r->at < r->end) {
        const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
        const char *begin = r->at, *end = stop != NULL ? stop : r->end;
        r->at = stop != NULL ? stop + 1 : r->end;
        r->line++;
        if (trimmed(begin, end).n == 0)
            continue;
        r->n_fields = 0;
        for (const char *comma; begin <= end; begin = comma + 1) {
            comma = begin < end ? memchr(begin, ',', (size_t)(end - begin)) : NULL;
            if (comma == NULL)
                comma = end;
            if (r->n_fields < FIELDS)
                r->fields[r->n_fields] = trimmed(begin, comma);
            r->n_fields++;
        }
        return true;
    }
    return false;
}

static stator_status refuse(const struct reader *r, stator_error *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static stator_status refuse(const struct reader *r, stator_error *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    stator_status s = error_vset(e, STATOR_USAGE, fmt, ap);
    va_end(ap);
    error_prefix(e, "%s:%" PRIu64, r->name, r->line);
    return s;
}

static int shown(struct field f) {
    return (int)ARITH_MIN(f.n, (size_t)SHOWN);
}

/* place[c]: the field of column c, or SIZE_MAX. */
static stator_status parse_header(struct reader *r, size_t place[COLUMNS], stator_error *e) {
    static const char bom[] = "\xEF\xBB\xBF";
    if (r->end - r->at >= 3 && memcmp(r->at, bom, 3) == 0)
        r->at += 3;
    for (int c = 0; c < COLUMNS; c++)
        place[c] = SIZE_MAX;
    if (!next_line(r))
        return error_set(e, STATOR_USAGE, "%s: empty; expected a header: id,lower,upper,size", r->name);
    for (size_t i = 0; i < ARITH_MIN(r->n_fields, (size_t)FIELDS); i++) {
        struct field f = r->fields[i];
        int c = 0;
        while (c < COLUMNS && !(f.n == strlen(column_names[c]) && memcmp(f.at, column_names[c], f.n) == 0))
            c++;
        if (c == COLUMNS)
            return refuse(r, e, "unknown column '%.*s'; the header is id,lower,upper,size", shown(f), f.at);
        if (place[c] != SIZE_MAX)
            return refuse(r, e, "two columns '%s'", column_names[c]);
        place[c] = i;
    }
    for (int c = 0; c < COLUMN_OFFSET; c++)
        if (place[c] == SIZE_MAX)
            return refuse(r, e, "no column '%s'; the header is id,lower,upper,size", column_names[c]);
    return STATOR_OK;
}

static stator_status parse_number(const struct reader *r, const size_t place[COLUMNS], enum column c,
                                  uint64_t *v, stator_error *e) {
    struct field f = r->fields[place[c]];
    *v = 0;
    bool fits = true, digits = f.n > 0;
    for (size_t i = 0; i < f.n && digits && fits; i++) {
        digits = f.at[i] >= '0' && f.at[i] <= '9';
        fits = arith_mul(*v, 10, v) && arith_add(*v, (uint64_t)(f.at[i] - '0'), v);
    }
    if (!digits)
        return refuse(r, e, "%s is '%.*s', expected a number from 0 on", column_names[c], shown(f), f.at);
    if (!fits || *v > INT64_MAX)
        return refuse(r, e, "%s is %.*s, expected at most %" PRId64, column_names[c], shown(f), f.at,
                      INT64_MAX);
    return STATOR_OK;
}

stator_status pack_csv_parse(const char *text, size_t n, const char *name, struct pack_csv_row *rows,
                             size_t *n_rows, stator_error *e) {
    struct reader r = {.at = text, .end = text + n, .name = name};
    size_t place[COLUMNS];
    *n_rows = 0;
    stator_status s = parse_header(&r, place, e);
    size_t columns = r.n_fields;
    while (s == STATOR_OK && next_line(&r)) {
        if (r.n_fields != columns)
            return refuse(&r, e, "%zu fields, the header has %zu", r.n_fields, columns);
        struct pack_csv_row row = {
            .id = r.fields[place[COLUMN_ID]].at, .id_length = r.fields[place[COLUMN_ID]].n, .line = r.line};
        s = parse_number(&r, place, COLUMN_LOWER, &row.lower, e);
        if (s == STATOR_OK)
            s = parse_number(&r, place, COLUMN_UPPER, &row.upper, e);
        if (s == STATOR_OK)
            s = parse_number(&r, place, COLUMN_SIZE, &row.size, e);
        if (s == STATOR_OK && row.lower > row.upper)
            s = refuse(&r, e, "upper is %" PRIu64 ", below lower, %" PRIu64, row.upper, row.lower);
        rows[(*n_rows)++] = row;
    }
    return s;
}

static int compare_ids(const struct pack_csv_row *a, const struct pack_csv_row *b) {
    int c = memcmp(a->id, b->id, ARITH_MIN(a->id_length, b->id_length));
    if (c != 0)
        return c;
    return a->id_length < b->id_length ? -1 : a->id_length > b->id_length;
}

static int by_id(const void *x, const void *y) {
    const struct pack_csv_row *a = *(const struct pack_csv_row *const *)x,
                              *b = *(const struct pack_csv_row *const *)y;
    int c = compare_ids(a, b);
    return c != 0 ? c : a->line < b->line ? -1 : a->line > b->line;
}

stator_status pack_csv_check_ids(const struct pack_csv_row *rows, size_t n, const char *name,
                                 const struct pack_csv_row **sorted, stator_error *e) {
    for (size_t i = 0; i < n; i++)
        sorted[i] = &rows[i];
    if (n > 0)
        qsort(sorted, n, sizeof *sorted, by_id);
    size_t first = 0; /* of the pairs, the one whose second line comes first */
    for (size_t i = 1; i < n; i++)
        if (compare_ids(sorted[i - 1], sorted[i]) == 0 &&
            (first == 0 || sorted[i]->line < sorted[first]->line))
            first = i;
    if (first == 0)
        return STATOR_OK;
    const struct pack_csv_row *again = sorted[first];
    struct field id = {again->id, again->id_length};
    return error_set(e, STATOR_USAGE,
                     "%s:%" PRIu64 ": id '%.*s' is that of line %" PRIu64
                     " too; every block needs an id of its own",
                     name, again->line, shown(id), id.at, sorted[first - 1]->line);
}

static int compare(const void *x, const void *y) {
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return a < b ? -1 : a > b;
}

static uint32_t rank(const uint64_t *sorted, size_t n, uint64_t v) {
    size_t low = 0, high = n; /* the first that is not below v */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sorted[middle] < v)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

void pack_csv_blocks(const struct pack_csv_row *rows, size_t n, struct pack_block *blocks, uint64_t *spare) {
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        last = ARITH_MAX(last, rows[i].upper);
        spare[2 * i] = rows[i].lower;
        spare[2 * i + 1] = rows[i].upper;
    }
    if (last > UINT32_MAX)
        qsort(spare, 2 * n, sizeof *spare, compare);
    for (size_t i = 0; i < n; i++) {
        const struct pack_csv_row *r = &rows[i];
        bool small = last <= UINT32_MAX;
        blocks[i] = (struct pack_block){.bytes = r->size,
                                        .align = 1,
                                        .first = small ? (uint32_t)r->lower : rank(spare, 2 * n, r->lower),
                                        .end = small ? (uint32_t)r->upper : rank(spare, 2 * n, r->upper)};
    }
}
