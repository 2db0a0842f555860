#include "server/adapters/adapter_reply.h"

#include "base/json_writer.h"
#include "chat/json_scan.h"

#include <stdio.h>
#include <string.h>

void adapter_event(struct api_text *out, const char *name, void (*build)(struct json *j, const void *of),
                   const void *of) {
    api_text_puts(out, "event: ");
    api_text_puts(out, name);
    api_text_puts(out, "\ndata: ");
    api_text_json(out, build, of);
    api_text_puts(out, "\n\n");
}

void adapter_count(const struct api_choice *c, uint64_t *prompt, uint64_t *cached) {
    stator_request_stats r = {.size = sizeof r};
    *prompt = c->end.n_prompt;
    *cached = c->end.n_cached;
    if (c->done || c->request == 0 ||
        stator_get_request(c->job->api->engine, c->request, &r, NULL) != STATOR_OK)
        return;
    *prompt = r.n_prompt;
    *cached = r.n_cached;
}

void adapter_put_arguments(struct json *j, const char *name, const char *p, size_t n) {
    const size_t blank = json_scan_blank(p, n);
    const size_t length = json_scan_value(p + blank, n - blank);
    if (length > 0 && p[blank] == '{') {
        json_put_raw(j, name, p + blank, length);
        return;
    }
    json_open_object(j, name);
    if (blank < n)
        json_put_string_n(j, "arguments", p, n);
    json_close(j);
}

const char *adapter_text(const struct api_choice *c, const struct api_part *part) {
    const struct api_text *of = part->kind == API_PIECE_REASONING ? &c->reasoning : &c->content;
    return part->n > 0 ? of->p + part->at : "";
}

void adapter_id(const struct api_choice *c, const char *prefix, uint32_t i, char out[48]) {
    snprintf(out, 48, "%s%.20s_%u", prefix, c->job->id + strlen(c->job->voice->id), i);
}
