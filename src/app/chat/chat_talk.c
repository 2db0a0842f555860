#include "app/chat/chat_talk.h"

#include "app/session.h"
#include "base/arith.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "chat/chat_render.h"
#include "os/pages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define TEMPLATE_MAX      ((uint64_t)1 << 20) /* bytes of a template */
#define TEXT_PER_TOKEN    8                   /* bytes of the conversation, and a base for small contexts */
#define TEXT_BASE         (256u << 10)
#define SCRATCH_PER_TOKEN 512 /* what a template's values take at most */
#define SCRATCH_BASE      (32u << 20)

static stator_status find_template(struct chat_talk *t, const char *file, stator_error *e) {
    t->model = (stator_chat_template){.size = sizeof t->model};
    stator_status st = stator_get_chat_template(t->engine, &t->model, e);
    if (st != STATOR_OK)
        return st;
    if (file == NULL && t->model.file[0] != '\0')
        file = t->model.file;
    if (file != NULL) {
        st = session_read_file(file, TEMPLATE_MAX, &t->template_file, &t->template_length, e);
        t->template_text = t->template_file;
        return st;
    }
    if (t->model.text == NULL)
        return error_set(e, STATOR_USAGE,
                         "the model has no chat template (key tokenizer.chat_template): name a file with "
                         "--template or chat.template, or use `stator run`, which takes any text as it is");
    if (t->model.length > TEMPLATE_MAX)
        return error_set(e, STATOR_USAGE,
                         "the model's chat template has %zu bytes, at most %" PRIu64 " are read",
                         t->model.length, TEMPLATE_MAX);
    t->template_text = t->model.text;
    t->template_length = t->model.length;
    return STATOR_OK;
}

static void find_form(struct chat_talk *t) {
    const time_t seconds = time(NULL);
    struct tm now;
    const struct chat_form_input in = {.source = t->template_text,
                                       .length = t->template_length,
                                       .bos = t->model.bos,
                                       .eos = t->model.eos,
                                       .bos_length = t->model.bos_length,
                                       .eos_length = t->model.eos_length,
                                       .now = localtime_r(&seconds, &now),
                                       .stop = session_signal_flag(),
                                       .memory = t->scratch};
    _Static_assert(SCRATCH_BASE >= CHAT_FORM_BYTES, "scratch has room for trial renderings");
    chat_form_find(&in, &t->form);
    (void)madvise(t->scratch, CHAT_FORM_BYTES, MADV_DONTNEED);
}

stator_status chat_talk_open(struct chat_talk *t, stator *engine, const char *file, stator_error *e) {
    stator_info info = {.size = sizeof info};
    t->engine = engine;
    stator_status st = find_template(t, file, e);
    if (st == STATOR_OK)
        st = stator_get_info(engine, &info, e);
    if (st != STATOR_OK)
        return st;
    const size_t messages = CHAT_TALK_MESSAGES * sizeof *t->messages;
    const size_t ids = ((size_t)info.context + 1) * sizeof *t->ids;
    t->capacity = TEXT_BASE + (size_t)info.context * TEXT_PER_TOKEN;
    t->context = info.context;
    t->bytes = messages + ids + t->capacity;
    t->scratch_bytes = SCRATCH_BASE + (uint64_t)info.context * SCRATCH_PER_TOKEN;
    st = pages_map(t->bytes, "the conversation", &t->memory, e);
    if (st == STATOR_OK)
        st = pages_map(t->scratch_bytes, "the template's values", &t->scratch, e);
    if (st != STATOR_OK)
        return st;
    find_form(t);
    memset(t->memory, 0, t->bytes); /* in RAM from now on */
    t->messages = t->memory;
    t->ids = (int32_t *)((char *)t->memory + messages);
    t->text = (char *)t->memory + messages + ids;
    return STATOR_OK;
}

void chat_talk_close(struct chat_talk *t) {
    pages_unmap(t->memory, t->bytes);
    pages_unmap(t->scratch, t->scratch_bytes);
    chat_pictures_close(&t->pictures);
    free(t->template_file);
}

uint32_t chat_talk_pictures(const struct chat_talk *t) {
    return t->n > 0 ? t->messages[t->n - 1].pictures : 0;
}

uint64_t chat_talk_tokens(const struct chat_talk *t) {
    return t->n_ids + chat_pictures_tokens(&t->pictures, chat_talk_pictures(t));
}

bool chat_talk_extend(struct chat_talk *t, const char *text, size_t n) {
    if (n > t->capacity - t->used)
        return false;
    memcpy(t->text + t->used, text, n);
    t->used += n;
    t->messages[t->n - 1].length += n;
    return true;
}

bool chat_talk_add(struct chat_talk *t, enum chat_talk_role role, const char *text, size_t n) {
    const struct chat_pictures *p = &t->pictures;
    const uint32_t before = chat_talk_pictures(t);
    const uint32_t pictures = role == CHAT_TALK_USER ? p->n : before;
    const size_t markers = (pictures - before) * p->marker_length;
    if (t->n == CHAT_TALK_MESSAGES || markers > t->capacity - t->used || n > t->capacity - t->used - markers)
        return false;
    t->messages[t->n++] = (struct chat_talk_message){.role = role, .at = t->used, .pictures = pictures};
    for (uint32_t i = before; i < pictures; i++)
        (void)chat_talk_extend(t, p->marker, p->marker_length);
    return chat_talk_extend(t, text, n);
}

void chat_talk_cut(struct chat_talk *t, uint32_t n) {
    if (n >= t->n)
        return;
    t->used = t->messages[n].at;
    t->n = n;
}

const char *chat_talk_role_name(enum chat_talk_role role) {
    static const char *const names[] = {"system", "user", "assistant"};
    return names[role];
}

static void put_messages(const struct chat_talk *t, struct json *j) {
    json_open_array(j, "messages");
    for (uint32_t i = 0; i < t->n; i++) {
        const struct chat_talk_message *m = &t->messages[i];
        json_open_object(j, NULL);
        json_put_string(j, "role", chat_talk_role_name(m->role));
        json_put_string_n(j, "content", t->text + m->at, m->length);
        json_close(j);
    }
    json_close(j);
}

void chat_talk_save(const struct chat_talk *t, FILE *f) {
    struct json j;
    json_to_file(&j, f, true);
    json_open_object(&j, NULL);
    put_messages(t, &j);
    json_put_bool(&j, "add_generation_prompt", false);
    json_close(&j);
    (void)json_end(&j);
}

/* The template's input, at the beginning of scratch. */
static stator_status write_input(struct chat_talk *t, size_t *length, stator_error *e) {
    struct json j;
    const size_t capacity = t->scratch_bytes / 2;
    json_to_buffer(&j, t->scratch, capacity, false);
    json_open_object(&j, NULL);
    put_messages(t, &j);
    json_put_bool(&j, "add_generation_prompt", true);
    if (t->no_thinking)
        json_put_bool(&j, "enable_thinking", false);
    json_close(&j);
    if (!json_end(&j))
        return error_set(e, STATOR_USAGE,
                         "the conversation is too long for its template: /clear begins anew");
    *length = j.length;
    return STATOR_OK;
}

/* Some templates open the model's thinking in the prompt. */
static void look_for_opened(struct chat_talk *t, const char *text, size_t n) {
    const size_t tag = strlen(t->form.think_open);
    size_t end = n;
    t->opened[0] = '\0';
    if (!chat_form_thinks(&t->form, text, n))
        return;
    while (strchr(" \t\r\n", text[end - 1]) != NULL)
        end--;
    const size_t begin = end - tag;
    if (n - begin < sizeof t->opened) {
        memcpy(t->opened, text + begin, n - begin);
        t->opened[n - begin] = '\0';
    }
}

static stator_status tokenize(struct chat_talk *t, const char *text, size_t n, stator_error *e) {
    t->n_ids = 0;
    stator_status st = stator_tokenize(t->engine, text, n, 0, 1, t->ids, t->context, &t->n_ids, e);
    return st == STATOR_USAGE && t->n_ids > t->context ? STATOR_OK : st;
}

stator_status chat_talk_prompt(struct chat_talk *t, stator_error *e) {
    const time_t seconds = time(NULL);
    struct tm now;
    const struct chat_render_default defaults[] = {{"bos_token", t->model.bos, t->model.bos_length},
                                                   {"eos_token", t->model.eos, t->model.eos_length}};
    const char *text = NULL;
    size_t n = 0, json = 0;
    stator_status st = write_input(t, &json, e);
    if (st == STATOR_OK) {
        const size_t from = arith_round_up(json + 1, PAGES_SIZE);
        const struct chat_render_input in = {.source = t->template_text,
                                             .length = t->template_length,
                                             .json = t->scratch,
                                             .json_length = json,
                                             .json_name = "the conversation",
                                             .defaults = defaults,
                                             .n_defaults = 2,
                                             .now = localtime_r(&seconds, &now),
                                             .stop = session_signal_flag()};
        st = chat_render(&in, (char *)t->scratch + from, t->scratch_bytes - from, &text, &n, e);
    }
    if (st == STATOR_OK) {
        look_for_opened(t, text, n);
        st = tokenize(t, text, n, e);
    }
    /* Pages that come back as zeros: nothing of it stays in RAM. */
    if (madvise(t->scratch, pages_rounded(t->scratch_bytes), MADV_DONTNEED) != 0 && st == STATOR_OK)
        st = error_set(e, STATOR_FAILED, "the template's memory can't be given back");
    return st;
}
