#include "arch/arch.h"

#include "base/check.h"
#include "base/nearest.h"

#include <stdio.h>
#include <string.h>

const struct arch *arch_find(const char *name) {
    for (uint32_t i = 0; arch_list[i] != NULL; i++)
        if (strcmp(arch_list[i]->name, name) == 0)
            return arch_list[i];
    return NULL;
}

/* The known architecture whose name is most like this one: by edits, else by the longest common beginning of
 * at least LIKE characters; NULL: none. */
static const char *relative(const char *name) {
    enum { LIKE = 4, MOST = 128 };
    const char *names[MOST], *best;
    size_t n = 0, common = LIKE - 1;
    for (; arch_list[n] != NULL; n++) {
        CHECK(n < MOST);
        names[n] = arch_list[n]->name;
    }
    best = nearest_name(name, names, n);
    for (size_t i = 0; i < n && (best == NULL || common >= LIKE); i++) {
        size_t same = 0;
        while (name[same] != '\0' && name[same] == names[i][same])
            same++;
        if (same > common) {
            common = same;
            best = names[i];
        }
    }
    return best;
}

static stator_status unknown(const struct gguf *g, struct gguf_text name, stator_error *e) {
    char shown[GGUF_SHOWN], known[512] = "";
    for (uint32_t i = 0; arch_list[i] != NULL; i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", arch_list[i]->name);
    }
    const char *near = relative(gguf_show(name, shown));
    return gguf_error(
        g, e,
        "the architecture '%s' is not supported (%s%s%s`stator help models` names the models that are); "
        "known ones: %s",
        shown, near != NULL ? "its nearest relative that is: " : "", near != NULL ? near : "",
        near != NULL ? "; " : "", known);
}

stator_status arch_read(const struct gguf *g, struct shape *s, stator_error *e) {
    struct gguf_text name;
    memset(s, 0, sizeof *s);
    stator_status st = gguf_read_text(g, "general.architecture", &name, e);
    if (st != STATOR_OK)
        return st;
    for (uint32_t i = 0; arch_list[i] != NULL && s->arch == NULL; i++)
        if (gguf_text_is(name, arch_list[i]->name))
            s->arch = arch_list[i];
    s->arch_unknown = s->arch == NULL;
    if (s->arch_unknown)
        return unknown(g, name, e);
    snprintf(s->arch_name, sizeof s->arch_name, "%s", s->arch->name);
    st = shape_read_name(g, s, e);
    if (st == STATOR_OK)
        st = s->arch->read(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_pooling(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_tensors(g, &s->arch->tensors, s, e);
    return st == STATOR_OK && s->arch->check != NULL ? s->arch->check(g, s, e) : st;
}

void arch_layout(struct graph *g, struct carve *c, const struct shape *s, uint32_t parts) {
    CHECK(s->arch != NULL);
    graph_layout(g, c, s, &s->arch->layer, parts, 0);
}

void arch_layout_shares(struct graph *g, struct carve *c, const struct shape *s, uint32_t stages,
                        uint32_t shares) {
    CHECK(s->arch != NULL);
    graph_layout(g, c, s, &s->arch->layer, stages, shares);
}

stator_status arch_build(struct graph *g, const struct shape *s, const struct graph_want *want,
                         stator_error *e) {
    CHECK(s->arch != NULL);
    return graph_build(g, s, s->arch->build, want, e);
}
