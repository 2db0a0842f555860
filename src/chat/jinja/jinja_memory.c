/* See jinja_memory.h. */
#include "chat/jinja/jinja_memory.h"

#include "base/check.h"

#include <string.h>

#define CHUNK 4096u /* bytes of rendered text */
#define SHARE 3     /* a collection is due when one in so many of the free bytes is taken */

void *jinja_take(struct jinja *j, size_t count, size_t size) {
    const size_t left = j->top - j->used;
    if (size != 0 && count > left / size)
        jinja_fail_memory(j);
    const size_t bytes = (count * size + 15) & ~(size_t)15;
    if (bytes > left)
        jinja_fail_memory(j);
    void *p = j->memory + j->used;
    j->used += bytes;
    memset(p, 0, bytes);
    return p;
}

/* --- the rendered text */

void jinja_memory_write(struct jinja *j, const char *p, size_t n) {
    while (n > 0) {
        const size_t in_chunk = j->rendered.n % CHUNK, some = n < CHUNK - in_chunk ? n : CHUNK - in_chunk;
        if (in_chunk == 0 && j->top - j->used < CHUNK)
            jinja_fail_memory(j);
        if (in_chunk == 0)
            j->top -= CHUNK;
        memcpy(j->memory + j->top + in_chunk, p, some);
        j->rendered.n += some;
        p += some;
        n -= some;
    }
}

static void swap(uint8_t *a, uint8_t *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = a[i];
        a[i] = b[i];
        b[i] = c;
    }
}

struct jinja_string jinja_memory_end(struct jinja *j) {
    const size_t chunks = (j->rendered.n + CHUNK - 1) / CHUNK;
    uint8_t *text = j->memory + j->top; /* the last chunk lies first */
    for (size_t k = 0; k < chunks / 2; k++)
        swap(text + k * CHUNK, text + (chunks - 1 - k) * CHUNK, CHUNK);
    return (struct jinja_string){j->rendered.n > 0 ? (const char *)text : "", j->rendered.n};
}

/* --- collections */

/* Copies are written to [to, to + used), but refer to each other by where they will lie in the end: as much
 * lower as `to` is above `low`. */
struct collection {
    struct jinja *j;
    uint8_t *low, *high; /* what is to move */
    uint8_t *to;
    size_t used, room;
    struct jinja_object *waiting; /* copies whose contents still have to move */
};

static bool moves(const struct collection *c, const void *p) {
    return (const uint8_t *)p >= c->low && (const uint8_t *)p < c->high;
}

/* The copy that will lie at p. */
static void *copy_at(const struct collection *c, const void *p) {
    return c->to + ((const uint8_t *)p - c->low);
}

/* Copies n bytes; returns where they will lie. */
static void *copy(struct collection *c, const void *p, size_t n, size_t capacity) {
    const size_t bytes = (capacity + 15) & ~(size_t)15;
    CHECK(n <= capacity);
    if (bytes < capacity || bytes > c->room - c->used)
        jinja_fail_memory(c->j);
    uint8_t *at = c->to + c->used;
    memcpy(at, p, n);
    memset(at + n, 0, bytes - n);
    uint8_t *final = c->low + c->used;
    c->used += bytes;
    return final;
}

static void *move_object(struct collection *c, struct jinja_object *o) {
    static const size_t sizes[] = {
        [JINJA_OF_LIST] = sizeof(struct jinja_list),   [JINJA_OF_DICT] = sizeof(struct jinja_dict),
        [JINJA_OF_BOUND] = sizeof(struct jinja_bound), [JINJA_OF_MACRO] = sizeof(struct jinja_macro),
        [JINJA_OF_LOOP] = sizeof(struct jinja_loop),   [JINJA_OF_SCOPE] = sizeof(struct jinja_scope),
    };
    if (o == NULL || !moves(c, o))
        return o;
    if (o->moved == NULL) {
        o->moved = copy(c, o, sizes[o->kind], sizes[o->kind]);
        struct jinja_object *there = copy_at(c, o->moved);
        there->moved = NULL;
        there->next = c->waiting;
        c->waiting = there;
    }
    return o->moved;
}

static void move_string(struct collection *c, struct jinja_string *s) {
    if (s->p == NULL || !moves(c, s->p))
        return;
    s->p = s->n > 0 ? copy(c, s->p, s->n, s->n) : "";
}

static void move_value(struct collection *c, struct jinja_value *v) {
    switch (v->kind) {
    case JINJA_LIST:
        v->list = move_object(c, &v->list->object);
        break;
    case JINJA_DICT:
    case JINJA_NAMESPACE:
        v->dict = move_object(c, &v->dict->object);
        break;
    case JINJA_MACRO:
        v->macro = move_object(c, (struct jinja_object *)(uintptr_t)&v->macro->object);
        break;
    case JINJA_METHOD:
        v->bound = move_object(c, (struct jinja_object *)(uintptr_t)&v->bound->object);
        break;
    case JINJA_LOOP:
        v->loop = move_object(c, &v->loop->object);
        break;
    default:
        break;
    }
    move_string(c, &v->s);
}

static void move_items(struct collection *c, struct jinja_list *l) {
    if (!moves(c, l->items)) {
        CHECK(l->n == 0); /* the items of a list are not older than it */
        return;
    }
    l->items = l->n > 0 ? copy(c, l->items, l->n * sizeof *l->items, l->n * sizeof *l->items) : NULL;
    l->capacity = l->n;
    struct jinja_value *items = l->n > 0 ? copy_at(c, l->items) : NULL;
    for (size_t i = 0; i < l->n; i++)
        move_value(c, &items[i]);
}

static void move_entries(struct collection *c, struct jinja_dict *d) {
    struct jinja_entry *entries = d->entries;
    if (moves(c, entries)) {
        d->entries = d->n > 0 ? copy(c, entries, d->n * sizeof *entries, d->n * sizeof *entries) : NULL;
        d->capacity = d->n;
        entries = d->n > 0 ? copy_at(c, d->entries) : NULL;
    }
    for (size_t i = 0; i < d->n; i++) {
        move_value(c, &entries[i].key);
        move_value(c, &entries[i].value);
    }
}

static void move_variables(struct collection *c, struct jinja_scope *s) {
    for (struct jinja_variable **at = &s->first, *v; (v = *at) != NULL; at = &v->next) {
        if (moves(c, v)) {
            *at = copy(c, v, sizeof *v, sizeof *v);
            v = copy_at(c, *at);
        }
        move_value(c, &v->v);
    }
}

/* What the running statements refer to. */
static void move_roots(struct collection *c) {
    struct jinja *j = c->j;
    for (struct jinja_place *p = j->places; p != NULL; p = p->outer) {
        if (!moves(c, p->scope))
            move_variables(c, p->scope);
        p->scope = move_object(c, &p->scope->object);
    }
    for (struct jinja_held *h = j->held; h != NULL; h = h->outer)
        h->list = move_object(c, &h->list->object);
    for (struct jinja_text *t = j->out; t != NULL; t = t->outer)
        if (t->p != NULL && moves(c, t->p)) {
            t->capacity = t->n;
            t->p = t->n > 0 ? copy(c, t->p, t->n, t->n) : NULL;
        }
    for (struct jinja_dict *d = j->changed; d != NULL; d = d->next_changed)
        if (!moves(c, d))
            move_entries(c, d);
}

static void move_contents(struct collection *c, struct jinja_object *o) {
    switch (o->kind) {
    case JINJA_OF_LIST:
        move_items(c, (struct jinja_list *)(void *)o);
        break;
    case JINJA_OF_DICT:
        move_entries(c, (struct jinja_dict *)(void *)o);
        break;
    case JINJA_OF_BOUND:
        move_value(c, &((struct jinja_bound *)(void *)o)->self);
        break;
    case JINJA_OF_LOOP: {
        struct jinja_loop *l = (struct jinja_loop *)(void *)o;
        l->items = move_object(c, &l->items->object);
        l->scope = move_object(c, &l->scope->object);
        break;
    }
    case JINJA_OF_MACRO: {
        struct jinja_macro *m = (struct jinja_macro *)(void *)o;
        m->scope = move_object(c, &m->scope->object);
        break;
    }
    case JINJA_OF_SCOPE: {
        struct jinja_scope *s = (struct jinja_scope *)(void *)o;
        s->outer = move_object(c, s->outer != NULL ? &s->outer->object : NULL);
        move_variables(c, s);
        break;
    }
    }
}

/* Forgets namespaces that nothing reaches. */
static void keep_changed(struct collection *c) {
    struct jinja_dict *d = c->j->changed;
    c->j->changed = NULL;
    while (d != NULL) {
        struct jinja_dict *next = d->next_changed, *kept = d, *now = d;
        if (moves(c, d)) {
            kept = (struct jinja_dict *)(void *)d->object.moved;
            now = kept != NULL ? copy_at(c, kept) : NULL;
        }
        if (now != NULL) {
            now->next_changed = c->j->changed;
            c->j->changed = kept;
        }
        d = next;
    }
}

static void set_due(struct jinja *j) {
    j->collect_at = j->used + (j->top - j->used) / SHARE;
}

void jinja_memory_begin(struct jinja *j) {
    j->keep = j->used;
    set_due(j);
}

void jinja_memory_tidy(struct jinja *j) {
    CHECK(j->keep <= j->used && j->used <= j->top);
    if (j->used < j->collect_at)
        return;
    struct collection c = {.j = j,
                           .low = j->memory + j->keep,
                           .high = j->memory + j->used,
                           .to = j->memory + j->used,
                           .room = j->top - j->used};
    move_roots(&c);
    while (c.waiting != NULL) {
        struct jinja_object *o = c.waiting;
        c.waiting = o->next;
        o->next = NULL;
        move_contents(&c, o);
    }
    keep_changed(&c);
    memmove(c.low, c.to, c.used);
    j->used = j->keep + c.used;
    set_due(j);
    jinja_step(j, 1 + c.used / 64);
}
