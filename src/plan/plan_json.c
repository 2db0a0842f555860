/* The plan as JSON; plan.h describes the format. */
#include "plan/plan.h"

#include "base/check.h"

static void blocks_to_json(const struct plan *p, uint32_t place, uint32_t arena, struct json *j) {
    json_open_array(j, "blocks");
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        const struct plan_block *b = &p->blocks[i];
        if (b->place != place || b->arena != arena)
            continue;
        CHECK(b->slice < p->places[place].arenas[arena].n_slices && (b->end == 0 || b->first < b->end));
        json_open_object(j, NULL);
        json_put_string(j, "name", b->name);
        json_put_u64(j, "slice", b->slice);
        json_put_u64(j, "offset", b->offset);
        json_put_u64(j, "bytes", b->bytes);
        json_put_u64(j, "first", b->first);
        json_put_u64(j, "end", b->end);
        json_close(j);
    }
    json_close(j);
}

static void arena_to_json(const struct plan *p, uint32_t place, uint32_t arena, struct json *j) {
    const struct plan_arena *a = &p->places[place].arenas[arena];
    json_open_object(j, NULL);
    json_put_string(j, "name", a->name);
    json_put_u64(j, "bytes", a->bytes);
    json_put_u64(j, "lower_bound", a->lower_bound);
    json_open_array(j, "slices");
    for (uint32_t i = 0; i < a->n_slices; i++)
        json_put_u64(j, NULL, a->slices[i]);
    json_close(j);
    if (p->blocks != NULL)
        blocks_to_json(p, place, arena, j);
    json_close(j);
}

static void spill_to_json(const struct plan_spill *x, struct json *j) {
    json_open_object(j, "spill");
    json_put_u64(j, "bytes", x->weights + x->kv);
    json_put_u64(j, "weights", x->weights);
    json_put_u64(j, "kv", x->kv);
    json_put_u64(j, "kv_layers", x->kv_layers);
    json_put_u64(j, "bus_bytes_per_step", x->per_step);
    json_put_u64(j, "bus_bytes_per_token", x->per_token);
    json_put_u64(j, "bus_bytes_per_token_most", x->per_token_most);
    json_put_u64(j, "bus_bytes_per_batch", x->per_batch);
    if (x->stream_tokens > 0)
        json_put_u64(j, "stream_from_tokens", x->stream_tokens);
    json_put_u64(j, "bus_bytes_per_token_of_context", x->kv_per_token);
    if (x->kv_per_sequence > 0)
        json_put_u64(j, "bus_bytes_per_sequence", x->kv_per_sequence);
    json_put_u64(j, "bus_bytes_at_full_context", x->far);
    json_close(j);
}

static void hosted_to_json(const struct plan_spill *x, struct json *j) {
    json_open_object(j, "experts");
    json_put_string(j, "on", "host");
    json_put_u64(j, "bytes", x->hosted);
    json_put_u64(j, "ram_bytes_per_token", x->hosted_ram);
    json_put_u64(j, "bus_bytes_per_token", x->hosted_bus);
    if (x->slots > 0) {
        json_put_u64(j, "slots", x->slots);
        json_put_u64(j, "copied_bytes_per_step_most", x->slot_copies);
    }
    if (x->window_bytes > 0) {
        json_put_u64(j, "window_from_tokens", x->stream_tokens);
        json_put_u64(j, "window_bytes_per_step", x->window_bytes);
    }
    if (x->window_seconds > 0) {
        json_put_double(j, "window_seconds_per_batch", x->window_seconds);
        json_put_double(j, "processors_seconds_per_batch", x->processors_seconds);
    }
    json_close(j);
}

static void estimates_to_json(const struct plan_hosted *h, struct json *j) {
    json_open_object(j, "hosted");
    json_put_u64(j, "ram_bytes_per_second", h->ram);
    json_put_bool(j, "ram_assumed", h->ram_assumed);
    json_open_array(j, "estimates");
    for (uint32_t i = 0; i < h->n; i++) {
        json_open_object(j, NULL);
        json_put_double(j, "hits", h->hits[i]);
        json_put_double(j, "tokens_per_second", h->tokens[i]);
        json_close(j);
    }
    json_close(j);
    json_close(j);
}

static void place_to_json(const struct plan *p, uint32_t i, struct json *j, const char *name) {
    const struct plan_place *place = &p->places[i];
    json_open_object(j, name);
    CHECK(place->n_shares == 0 || place->share < place->n_shares);
    json_put_string(j, "name", place->name);
    json_put_u64(j, place->is_host ? "limit" : "budget", place->budget);
    json_put_u64(j, "total", place->total);
    if (place->is_draft)
        json_put_bool(j, "draft", true);
    if (place->is_vision)
        json_put_bool(j, "vision", true);
    if (!place->is_host) {
        json_open_object(j, "layers");
        json_put_u64(j, "first", place->first_layer);
        json_put_u64(j, "count", place->n_layers);
        json_close(j);
        if (place->n_shares > 0) {
            json_open_object(j, "share");
            json_put_u64(j, "index", place->share);
            json_put_u64(j, "of", place->n_shares);
            json_put_u64(j, "received_bytes_per_token", place->received_per_token);
            json_put_u64(j, "given_bytes_per_token", place->given_per_token);
            json_put_u64(j, "received_bytes_per_row", place->received_per_row);
            json_put_u64(j, "given_bytes_per_row", place->given_per_row);
            json_put_u64(j, "exchanges_per_token", place->exchanges);
            json_put_string(j, "route", place->to_group.route);
            json_put_string(j, "why", place->to_group.why);
            json_close(j);
        }
        json_open_object(j, "weights");
        json_put_u64(j, "in_file", place->weights_in_file);
        json_put_u64(j, "packed", place->weights_packed);
        json_put_u64(j, "padding", place->weights_padding);
        json_close(j);
        json_put_u64(j, "kv_bytes_per_token", place->kv_per_token);
        if (place->kv_per_sequence > 0)
            json_put_u64(j, "kv_bytes_per_sequence", place->kv_per_sequence);
        if (place->kv_per_checkpoint > 0)
            json_put_u64(j, "kv_bytes_per_checkpoint", place->kv_per_checkpoint);
        if (place->spill.weights + place->spill.kv > 0)
            spill_to_json(&place->spill, j);
        if (place->spill.hosted > 0)
            hosted_to_json(&place->spill, j);
        if (place->to_next.route[0] != '\0') {
            json_open_object(j, "to_next");
            json_put_string(j, "route", place->to_next.route);
            json_put_string(j, "why", place->to_next.why);
            json_put_u64(j, "bytes_per_token", place->next_per_token);
            json_close(j);
        }
    }
    json_open_array(j, "arenas");
    for (uint32_t k = 0; k < place->n_arenas; k++)
        arena_to_json(p, i, k, j);
    json_close(j);
    json_close(j);
}

static void rates_to_json(const struct plan_rates *r, struct json *j) {
    json_open_object(j, "estimate");
    json_put_u64(j, "link_bytes_per_second", r->link);
    json_put_bool(j, "link_assumed", r->link_assumed);
    json_put_u64(j, "hop_ns", r->hop_ns);
    json_put_bool(j, "hop_assumed", r->hop_assumed);
    json_put_double(j, "layers_tokens_per_second", r->layers);
    if (r->tensor > 0)
        json_put_double(j, "tensor_tokens_per_second", r->tensor);
    else
        json_put_string(j, "no_tensor", r->no_tensor);
    if (r->choice[0] != '\0')
        json_put_string(j, "choice", r->choice);
    if (r->groups > 0) {
        json_put_u64(j, "groups", r->n_groups);
        json_put_double(j, "groups_tokens_per_second", r->groups);
    }
    json_close(j);
}

void plan_to_json(const struct plan *p, struct json *j, const char *name) {
    CHECK(p->n_places > 0 && p->places[p->n_places - 1].is_host);
    CHECK(p->fits || p->missing.where[0] != '\0');
    json_open_object(j, name);
    json_put_u64(j, "format", PLAN_FORMAT);
    json_put_string(j, "model", p->model);
    json_put_string(j, "hash", p->hash);
    json_put_bool(j, "fits", p->fits);
    static const char *const purposes[] = {
        [PLAN_TO_RUN] = "run", [PLAN_TO_CHAT] = "chat", [PLAN_TO_SERVE] = "serve"};
    json_put_string(j, "for", purposes[p->purpose]);
    json_open_object(j, "inputs");
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        if (p->inputs[i].is_number)
            json_put_u64(j, p->inputs[i].name, p->inputs[i].number);
        else
            json_put_string(j, p->inputs[i].name, p->inputs[i].text);
    }
    json_close(j);
    json_open_array(j, "devices");
    for (uint32_t i = 0; i + 1 < p->n_places; i++)
        place_to_json(p, i, j, NULL);
    json_close(j);
    place_to_json(p, p->n_places - 1, j, "host");
    json_open_object(j, "kv");
    json_put_u64(j, "tokens", p->kv_tokens);
    if (p->room_known) {
        json_put_u64(j, "room_tokens", p->room_tokens);
        json_put_u64(j, "sequences_fit", p->sequences_fit);
    }
    json_close(j);
    if (p->checkpoints > 0)
        json_put_u64(j, "checkpoints", p->checkpoints);
    if (p->in_file.bytes > 0) {
        json_open_object(j, "in_file");
        json_put_u64(j, "bytes", p->in_file.bytes);
        json_put_u64(j, "rows_per_token", p->in_file.rows);
        json_put_u64(j, "row_bytes", p->in_file.row_bytes);
        json_close(j);
    }
    if (p->slowdown > 0)
        json_put_double(j, "spill_slowdown", p->slowdown);
    if (p->rates.known)
        rates_to_json(&p->rates, j);
    if (p->hosted.n > 0)
        estimates_to_json(&p->hosted, j);
    if (!p->fits) {
        json_open_object(j, "short");
        json_put_string(j, "where", p->missing.where);
        json_put_u64(j, "bytes", p->missing.bytes);
        if (p->missing.slice_limit > 0) {
            json_put_u64(j, "slice_bytes", p->missing.slice_bytes);
            json_put_u64(j, "slice_limit", p->missing.slice_limit);
        }
        json_put_u64(j, "largest_context", p->missing.largest_context);
        json_put_u64(j, "largest_batch", p->missing.largest_batch);
        json_put_u64(j, "largest_sequences", p->missing.largest_sequences);
        if (p->missing.kv_type != NULL)
            json_put_string(j, "kv_type", p->missing.kv_type);
        json_close(j);
    }
    json_close(j);
}
