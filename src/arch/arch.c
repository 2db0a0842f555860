#include "arch/arch.h"

#include <stdio.h>
#include <string.h>

const struct arch *arch_find(const char *name) {
    for (uint32_t i = 0; arch_list[i] != NULL; i++)
        if (strcmp(arch_list[i]->name, name) == 0)
            return arch_list[i];
    return NULL;
}

static stator_status unknown(const struct gguf *g, struct gguf_text name, stator_error *e) {
    char shown[GGUF_SHOWN], known[256] = "";
    for (uint32_t i = 0; arch_list[i] != NULL; i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", arch_list[i]->name);
    }
    return gguf_error(g, e, "the architecture '%s' is not supported; known ones: %s", gguf_show(name, shown),
                      known);
}

stator_status arch_read(const struct gguf *g, struct shape *s, stator_error *e) {
    struct gguf_text name;
    memset(s, 0, sizeof *s);
    stator_status rc = gguf_read_text(g, "general.architecture", &name, e);
    if (rc != STATOR_OK)
        return rc;
    for (uint32_t i = 0; arch_list[i] != NULL && s->arch == NULL; i++)
        if (gguf_text_is(name, arch_list[i]->name))
            s->arch = arch_list[i];
    s->arch_unknown = s->arch == NULL;
    if (s->arch_unknown)
        return unknown(g, name, e);
    snprintf(s->arch_name, sizeof s->arch_name, "%s", s->arch->name);
    rc = shape_read_name(g, s, e);
    if (rc == STATOR_OK)
        rc = s->arch->read(g, s, e);
    if (rc == STATOR_OK)
        rc = shape_read_tensors(g, &s->arch->tensors, s, e);
    return rc == STATOR_OK && s->arch->check != NULL ? s->arch->check(g, s, e) : rc;
}

void arch_layout(struct graph *g, struct carve *c, const struct shape *s, uint32_t parts) {
    CHECK(s->arch != NULL);
    graph_layout(g, c, s, &s->arch->layer, parts);
}

stator_status arch_build(struct graph *g, const struct shape *s, const struct graph_want *want,
                         stator_error *e) {
    CHECK(s->arch != NULL);
    return graph_build(g, s, s->arch->build, want, e);
}
