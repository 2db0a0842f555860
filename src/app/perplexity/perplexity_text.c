#include "app/perplexity/perplexity_text.h"

#include "base/arith.h"
#include "base/error.h"
#include "config/config.h"
#include "os/pages.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A text has hardly more ids than bytes; where it has (bytes that are not UTF-8) the second try has room. */
static stator_status encode(const struct tokenizer *t, const char *text, size_t bytes, int32_t **ids,
                            size_t *n, stator_error *e) {
    const uint64_t work_bytes = tokenizer_work_bytes(t, bytes);
    uint64_t room = bytes + 5;
    uint64_t count = 0;
    void *work = NULL;
    stator_status st = pages_map(work_bytes, "the tokenizer's work", &work, e);
    for (int attempt = 0; st == STATOR_OK && attempt < 2; attempt++) {
        free(*ids);
        *ids = malloc(room * sizeof **ids);
        if (*ids == NULL)
            st = error_set(e, STATOR_DOES_NOT_FIT, "no memory for %" PRIu64 " token ids", room);
        else
            st = tokenizer_encode(t, text, bytes, TOKENIZER_ADD_SPECIAL, work, work_bytes, *ids, room, &count,
                                  e);
        if (st != STATOR_USAGE || count <= room)
            break;
        room = count;
        st = STATOR_OK;
    }
    pages_unmap(work, work_bytes);
    if (st != STATOR_OK)
        return st;
    int32_t *less = realloc(*ids, (count + 1) * sizeof **ids);
    *ids = less != NULL ? less : *ids;
    *n = count;
    const uint64_t unknown = tokenizer_count_unknown(t, *ids, count);
    if (unknown > 0)
        fprintf(stderr,
                "stator perplexity: warning: the unknown token stands %" PRIu64
                " times in the text: the vocabulary has nothing for what is there\n",
                unknown);
    return STATOR_OK;
}

stator_status perplexity_text_ids(const char *config, const struct options_list *set, const char *text,
                                  size_t bytes, int32_t **ids, size_t *n, int32_t *bos, stator_error *e) {
    struct config *c = malloc(sizeof *c);
    struct gguf *g = NULL;
    struct tokenizer *t = NULL;
    void *memory = NULL;
    uint64_t memory_bytes = 0;
    *ids = NULL;
    stator_status st = c != NULL ? config_load(config, set->items, set->n, c, e)
                                 : error_set(e, STATOR_DOES_NOT_FIT, "no memory for the config");
    if (st == STATOR_OK)
        st = gguf_open(c->model.path, &g, e);
    if (st == STATOR_OK)
        st = tokenizer_measure(g, &memory_bytes, e);
    if (st == STATOR_OK)
        st = pages_map(memory_bytes, "the tokenizer", &memory, e);
    if (st == STATOR_OK)
        st = tokenizer_create(g, memory, memory_bytes, &t, e);
    if (st == STATOR_OK)
        st = encode(t, text, bytes, ids, n, e);
    if (st == STATOR_OK)
        *bos = tokenizer_adds_bos(t) ? tokenizer_bos(t) : PERPLEXITY_NO_BOS;
    pages_unmap(memory, memory_bytes);
    gguf_close(g);
    free(c);
    return st;
}
