/* The role of a block, from its name: tensors have the names of the GGUF file, values those that the graph's
 * builders give. */
#include "app/plan/plan_parts.h"

#include <string.h>

enum plan_role plan_role_of(const struct plan_block *b) {
    static const struct {
        const char *part;
        enum plan_role role;
    } parts[] = {
        {".kv", PLAN_ROLE_KV},         {"norm", PLAN_ROLE_NORM},       {"attn", PLAN_ROLE_ATTENTION},
        {"qkv", PLAN_ROLE_ATTENTION},  {"ffn", PLAN_ROLE_FFN},         {"residual", PLAN_ROLE_STREAM},
        {"landing", PLAN_ROLE_STREAM}, {"outgoing", PLAN_ROLE_STREAM}, {"token_embd", PLAN_ROLE_TOKENS},
        {"output", PLAN_ROLE_TOKENS},  {"logits", PLAN_ROLE_TOKENS},   {"picks", PLAN_ROLE_TOKENS}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(b->name, parts[i].part) != NULL)
            return parts[i].role;
    return PLAN_ROLE_OTHER;
}

const char *plan_role_name(enum plan_role r) {
    static const char *const names[PLAN_ROLES] = {
        "attention", "feed-forward",    "norms", "embedding, output, logits",
        "KV cache",  "residual stream", "other"};
    return names[r];
}

char plan_role_letter(enum plan_role r) {
    return "AFNTKRo"[r];
}

uint32_t plan_steps(const struct plan *p, uint32_t place, uint32_t arena) {
    uint32_t steps = 0;
    for (uint32_t i = 0; i < p->n_blocks; i++)
        if (p->blocks[i].place == place && p->blocks[i].arena == arena && p->blocks[i].end > steps)
            steps = p->blocks[i].end;
    return steps;
}

bool plan_is_reference(const struct plan *p, uint32_t place, uint32_t arena) {
    if (!p->places[place].is_host)
        return false;
    for (uint32_t i = 0; i + 1 < p->n_places; i++)
        if (strcmp(p->places[i].name, p->places[place].arenas[arena].name) == 0)
            return true;
    return false;
}
