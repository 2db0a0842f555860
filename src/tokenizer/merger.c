/* The merge loop and its binary heap. */
#include "tokenizer/merger.h"

#include "base/check.h"

static void heap_push(struct merger *m, uint64_t key) {
    DCHECK(m->heap_n < 2 * m->n);
    uint32_t at = m->heap_n++;
    while (at > 0 && m->heap[(at - 1) / 2] > key) {
        m->heap[at] = m->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    m->heap[at] = key;
}

static uint64_t heap_pop(struct merger *m) {
    uint64_t top = m->heap[0], key = m->heap[--m->heap_n];
    uint32_t n = m->heap_n, at = 0;
    for (;;) {
        uint64_t child = 2 * (uint64_t)at + 1;
        if (child >= n)
            break;
        child += child + 1 < n && m->heap[child + 1] < m->heap[child];
        if (m->heap[child] >= key)
            break;
        m->heap[at] = m->heap[child];
        at = (uint32_t)child;
    }
    m->heap[at] = key;
    return top;
}

static void try_pair(struct merger *m, uint32_t left) {
    struct merger_symbol *s = &m->symbols[left];
    s->rank = MERGER_NONE;
    if (s->next == MERGER_END)
        return;
    m->pair(m->context, m, left);
    if (s->rank != MERGER_NONE)
        heap_push(m, (uint64_t)s->rank << 32 | left);
}

void merger_run(struct merger *m, uint32_t n) {
    m->n = n;
    m->heap_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        m->symbols[i].next = i + 1 < n ? i + 1 : MERGER_END;
        m->symbols[i].prev = i > 0 ? i - 1 : MERGER_END;
    }
    for (uint32_t i = 0; i < n; i++)
        try_pair(m, i);
    while (m->heap_n > 0) {
        uint64_t key = heap_pop(m);
        uint32_t left = (uint32_t)key;
        struct merger_symbol *s = &m->symbols[left];
        if (s->rank != (uint32_t)(key >> 32))
            continue; /* one of the two has merged with another */
        struct merger_symbol *gone = &m->symbols[s->next];
        s->id = s->merged;
        s->next = gone->next;
        gone->rank = MERGER_NONE;
        if (s->next != MERGER_END)
            m->symbols[s->next].prev = left;
        if (s->prev != MERGER_END)
            try_pair(m, s->prev);
        try_pair(m, left);
    }
}
