#include "chat/chat_render.h"

#include "chat/chat_json.h"
#include "chat/jinja.h"

static stator_status add_defaults(const struct chat_render_input *in, json_t *variables, stator_error *e) {
    for (size_t i = 0; i < in->n_defaults; i++) {
        const struct chat_render_default *d = &in->defaults[i];
        if (json_object_get(variables, d->name) != NULL)
            continue;
        json_t *value = json_stringn(d->value, d->length);
        if (value != NULL && json_object_set_new(variables, d->name, value) != 0)
            return error_set(e, STATOR_FAILED, "no memory for the template's variables");
    }
    return STATOR_OK;
}

stator_status chat_render(const struct chat_render_input *in, void *memory, size_t bytes, const char **text,
                          size_t *length, stator_error *e) {
    json_error_t why;
    json_t *variables = chat_json_load(in->json, in->json_length, JSON_REJECT_DUPLICATES, &why);
    if (variables == NULL)
        return error_set(e, STATOR_USAGE, "%s, line %d, column %d: %s", in->json_name, why.line, why.column,
                         why.text);
    stator_status st = STATOR_OK;
    if (!json_is_object(variables))
        st = error_set(e, STATOR_USAGE, "%s: a JSON object {\"messages\": [..], ..} is expected",
                       in->json_name);
    if (st == STATOR_OK)
        st = add_defaults(in, variables, e);
    const struct jinja_input jinja = {
        .source = in->source, .length = in->length, .variables = variables, .now = in->now, .stop = in->stop};
    if (st == STATOR_OK)
        st = jinja_render(&jinja, memory, bytes, text, length, e);
    json_decref(variables);
    return st;
}
