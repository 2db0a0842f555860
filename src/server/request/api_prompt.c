#include "server/request/api_prompt.h"

#include "base/arith.h"
#include "chat/jinja.h"
#include "server/http/edge_pool.h"

#include <string.h>
#include <time.h>

#define ALIGN 16

/* The server's memory was too small for the template's values. */
static bool fail_memory(const struct api_model *model, bool alone, size_t bytes, struct api_failure *why) {
    if (alone && bytes >= model->idle / 3)
        return api_failure_set(
            why, 413, "messages",
            "the conversation needs more memory than the server has for it: shorten it, or start "
            "the server with a larger server.max_body or server.memory");
    return api_failure_set(why, 503, NULL, "the server's memory has no room for the prompt now");
}

size_t api_prompt_room(void) {
    return edge_pool_largest() / 4 * 3 / ALIGN * ALIGN;
}

/* Cuts the text where the last message goes on; false: the template does not write it. */
static bool cut_at_place(const char *text, size_t *length) {
    const size_t n = sizeof API_PLACE - 1;
    for (size_t at = *length >= n ? *length - n + 1 : 0; at > 0; at--)
        if (memcmp(text + at - 1, API_PLACE, n) == 0) {
            *length = at - 1;
            return true;
        }
    return false;
}

bool api_prompt_render(const struct api_model *model, const struct api_request *r, const atomic_int *stop,
                       void *memory, size_t bytes, bool alone, const char **text, size_t *length,
                       struct api_failure *why) {
    stator_error first = {0}, e;
    const time_t seconds = time(NULL);
    struct tm now;
    for (int i = 0; i < API_VARIANTS && r->variables[i] != NULL; i++) {
        const struct jinja_input in = {.source = model->source,
                                       .length = model->source_length,
                                       .variables = r->variables[i],
                                       .now = localtime_r(&seconds, &now),
                                       .stop = stop};
        const stator_status st = jinja_render(&in, memory, bytes, text, length, &e);
        if (st == STATOR_OK && (r->goes_on == API_NEW_MESSAGE || cut_at_place(*text, length)))
            return true;
        if (st == STATOR_OK)
            error_set(&e, STATOR_USAGE,
                      "it does not write the %s of the last message, which the answer is to go on with",
                      r->goes_on == API_ON_CONTENT ? "content" : "reasoning");
        if (atomic_load(stop) != 0)
            return api_failure_set(why, 503, NULL, "the server is asked to end");
        if (st == STATOR_DOES_NOT_FIT)
            return fail_memory(model, alone, bytes, why);
        if (i == 0)
            first = e;
    }
    return api_failure_set(why, 400, "messages", "the model's chat template refuses the request: %s",
                           first.text);
}

bool api_prompt_ids(stator *engine, const char *text, size_t length, bool add_special, int32_t *ids,
                    size_t capacity, size_t *n, struct api_failure *why) {
    stator_error e = {0};
    stator_status st = stator_tokenize(engine, text, length, add_special, 1, ids, capacity, n, &e);
    if (st == STATOR_OK || *n > capacity) /* too many: whoever counts says so */
        return true;
    return api_failure_set(why, 400, NULL, "%s", e.text);
}

/* Ids behind each other. What does not fit is counted. */
struct writer {
    const stator *engine;
    const stator_infill_tokens *t;
    int32_t *ids;
    size_t capacity, n;
    stator_error e; /* of the first text that is refused */
    bool failed;
};

static void put_id(struct writer *w, int32_t id) {
    if (id < 0)
        return;
    if (w->n < w->capacity)
        w->ids[w->n] = id;
    w->n++;
}

static void put_text(struct writer *w, const char *text, size_t length, bool add_special) {
    const size_t room = w->n < w->capacity ? w->capacity - w->n : 0;
    size_t more = 0;
    stator_error e = {0};
    if (stator_tokenize(w->engine, text, length, add_special, 0, w->ids + (w->capacity - room), room, &more,
                        &e) != STATOR_OK &&
        more <= room && !w->failed) {
        w->failed = true;
        w->e = e;
    }
    w->n += more;
}

static void put_json(struct writer *w, const json_t *text) {
    if (json_string_length(text) > 0)
        put_text(w, json_string_value(text), json_string_length(text), false);
}

static void put_file(struct writer *w, const json_t *file) {
    static const char snippet[] = "\n\n--- snippet ---\n\n";
    const json_t *name = json_object_get(file, "filename");
    if (w->t->file < 0) {
        put_text(w, snippet, sizeof snippet - 1, false);
    } else {
        put_id(w, w->t->file);
        put_json(w, name);
        put_text(w, "\n", 1, false);
    }
    put_json(w, json_object_get(file, "text"));
}

/* What stands around the files: in front of them, and behind. */
static void put_begin(struct writer *w, bool files) {
    put_text(w, "", 0, true);
    if (!files || w->t->repository < 0)
        return;
    put_id(w, w->t->repository);
    put_text(w, "myproject\n", 10, false);
}

static void put_rest(struct writer *w, const struct api_request *r, uint32_t prompt, bool files) {
    const char *text = NULL;
    size_t length = 0;
    const json_t *one = api_request_prompt(r, prompt, &text, &length);
    if (files && w->t->file >= 0) {
        put_id(w, w->t->file);
        put_text(w, "filename\n", 9, false);
    }
    put_id(w, w->t->prefix);
    if (text != NULL && length > 0)
        put_text(w, text, length, false);
    for (size_t i = 0; text == NULL && i < length; i++)
        put_id(w, (int32_t)json_integer_value(json_array_get(one, i)));
    put_id(w, w->t->suffix);
    put_json(w, r->suffix);
    put_id(w, w->t->middle);
}

/* The first of the files that are kept. */
static size_t first_file(struct writer count, const struct api_request *r, uint32_t prompt, size_t capacity) {
    const size_t wanted = r->max_tokens == API_REST ? 0 : ARITH_MIN(r->max_tokens, capacity);
    size_t first = json_array_size(r->extra);
    put_begin(&count, true);
    put_rest(&count, r, prompt, true);
    while (first > 0) {
        put_file(&count, json_array_get(r->extra, first - 1));
        if (count.n + wanted > capacity)
            break;
        first--;
    }
    return first;
}

bool api_prompt_infill(const stator *engine, const stator_infill_tokens *t, const struct api_request *r,
                       uint32_t prompt, int32_t *ids, size_t capacity, size_t *n, struct api_failure *why) {
    struct writer w = {.engine = engine, .t = t, .ids = ids, .capacity = capacity};
    const struct writer count = {.engine = engine, .t = t, .ids = ids};
    const size_t files = json_array_size(r->extra);
    const size_t first = files > 0 ? first_file(count, r, prompt, capacity) : 0;
    put_begin(&w, first < files);
    for (size_t i = first; i < files; i++)
        put_file(&w, json_array_get(r->extra, i));
    put_rest(&w, r, prompt, first < files);
    *n = w.n;
    return !w.failed || api_failure_set(why, 400, NULL, "%s", w.e.text);
}

bool api_prompt_fits(const struct api_model *model, size_t n, uint32_t wanted, uint32_t *max_new,
                     struct api_failure *why) {
    const uint32_t context = model->context;
    if (n == 0)
        return api_failure_set(why, 400, NULL, "the prompt is empty: at least one token is needed");
    if (n > context)
        return api_failure_set(
            why, 400, NULL,
            "the prompt has %zu tokens, but a sequence holds %u (memory.context): shorten it, or "
            "start the server with more",
            n, context);
    const uint32_t most = context - (uint32_t)n + 1; /* the last token is told, not computed with */
    if (wanted > most && wanted != API_REST && !model->clamp_tokens)
        return api_failure_set(
            why, 400, "max_tokens",
            "the prompt has %zu tokens and max_tokens asks for %u more, together %llu, but a "
            "sequence holds %u (memory.context): at most %u more are possible, and server.max_tokens is "
            "\"refuse\"",
            n, wanted, (unsigned long long)n + wanted, context, most);
    const uint32_t by_default = model->default_max_tokens != 0 ? model->default_max_tokens : API_REST;
    *max_new = ARITH_MIN(wanted != 0 ? wanted : by_default, most);
    return true;
}
