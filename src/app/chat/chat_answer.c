#include "app/chat/chat_answer.h"

#include "app/session.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_MOST (16u << 20)
#define DIM        "\033[2m"
#define NORMAL     "\033[0m"

static void find_marks(struct chat_answer *a) {
    const char *names[CHAT_FORM_MARKS];
    const size_t n_names = chat_form_marks(&a->talk->form, names);
    for (size_t i = 0; i < n_names; i++) {
        int32_t id = -1;
        size_t n = 0;
        if (stator_tokenize(a->engine, names[i], strlen(names[i]), 0, 1, &id, 1, &n, NULL) == STATOR_OK &&
            n == 1)
            a->marks[a->n_marks++] = id;
    }
}

/* In the channels of gpt-oss only what is said goes into the conversation; else all of the text does. */
static bool has_channels(const struct chat_answer *a) {
    return a->talk->form.tags.syntax == CHAT_CHANNELS;
}

stator_status chat_answer_open(struct chat_answer *a, stator_error *e) {
    find_marks(a);
    stator_error why = {0};
    for (size_t capacity = 4096; capacity <= PIECE_MOST; capacity *= 4) {
        char *piece = realloc(a->piece, capacity);
        if (piece == NULL)
            return error_set(e, STATOR_FAILED, "no memory for a token's text");
        a->piece = piece;
        a->piece_capacity = capacity;
        size_t n = 0;
        stator_decoder probe = {.size = sizeof probe};
        if (stator_decode(a->engine, &probe, -1, 0, piece, capacity, &n, &why) == STATOR_OK)
            return STATOR_OK;
        if (why.code != STATOR_USAGE)
            break;
    }
    if (e != NULL)
        *e = why;
    return why.code;
}

void chat_answer_close(struct chat_answer *a) {
    chat_parse_free(&a->parse);
    free(a->piece);
}

static bool write_out(struct chat_answer *a, const char *text, size_t n) {
    if (n == 0)
        return true;
    a->any = true;
    a->nl = text[n - 1] == '\n';
    return fwrite(text, 1, n, stdout) == n;
}

/* A piece for a terminal: what would steer it (C0, and C1, whose first byte is kept back) becomes visible. */
static bool write_safely(struct chat_answer *a, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool c1 = a->c2 && c < 0xA0;
        const bool c0 = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
        if (a->c2 && !c1 && !write_out(a, "\xC2", 1))
            return false;
        a->c2 = c == 0xC2;
        if (!a->c2 && !write_out(a, c0 || c1 ? "?" : text + i, 1))
            return false;
    }
    return true;
}

/* The parser's pieces. */
static bool show(struct chat_answer *a, const char *text, size_t n, bool thinking) {
    if (thinking && a->thinking == CHAT_ANSWER_HIDE)
        return true;
    if (!a->out_terminal)
        return write_out(a, text, n);
    if (thinking != a->dim) {
        if (!thinking && a->any && !write_out(a, "\n\n", a->nl ? 1 : 2))
            return false;
        fputs(thinking ? DIM : NORMAL, stdout);
        a->dim = thinking;
    }
    return write_safely(a, text, n);
}

static void put_content(void *context, const char *text, size_t n) {
    struct chat_answer *a = context;
    if (has_channels(a) && !chat_talk_extend(a->talk, text, n))
        a->no_room = true;
    a->broken = a->broken || !show(a, text, n, false);
}

static void put_reasoning(void *context, const char *text, size_t n) {
    struct chat_answer *a = context;
    a->broken = a->broken || !show(a, text, n, true);
}

static void *resize(void *context, void *p, size_t n) {
    (void)context;
    if (n > 0)
        return realloc(p, n);
    free(p);
    return NULL;
}

static stator_status look(const struct chat_answer *a, stator_error *e) {
    if (a->broken || fflush(stdout) != 0)
        return error_set(e, STATOR_FAILED, "the text can't be written: standard output is closed or full");
    if (a->no_room)
        return error_set(e, STATOR_USAGE, "the conversation is too long: /clear begins anew");
    if (a->parse.failed)
        return error_set(e, STATOR_FAILED, "no memory for the answer's text");
    return STATOR_OK;
}

/* A piece of the answer, whole characters: shown and kept. */
static stator_status take(struct chat_answer *a, const char *text, size_t n, stator_error *e) {
    if (!has_channels(a) && !chat_talk_extend(a->talk, text, n))
        a->no_room = true;
    /* Into a pipe everything goes as it comes, where thinking is shown. */
    if (!a->out_terminal && a->thinking == CHAT_ANSWER_SHOW && !has_channels(a))
        a->broken = a->broken || !write_out(a, text, n);
    else
        chat_parse_feed(&a->parse, text, n);
    return look(a, e);
}

static stator_status decode(struct chat_answer *a, int32_t id, stator_error *e) {
    size_t n = 0;
    bool mark = false;
    for (uint32_t i = 0; i < a->n_marks && id >= 0; i++)
        mark = mark || a->marks[i] == id;
    stator_status st = stator_decode(a->engine, &a->decoder, id, mark, a->piece, a->piece_capacity, &n, e);
    return st == STATOR_OK ? take(a, a->piece, n, e) : st;
}

static stator_status follow(struct chat_answer *a, uint64_t id, stator_error *e) {
    stator_status st = STATOR_OK;
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        stator_error why = {0};
        const stator_status polled = stator_poll(a->engine, UINT64_MAX, &ev, &have, &why);
        if (polled != STATOR_OK) {
            if (e != NULL)
                *e = why;
            return polled;
        }
        if (!have)
            continue;
        if (ev.kind == STATOR_EVENT_DONE) {
            a->done = ev;
            if (a->parse.over && ev.reason == STATOR_REASON_CANCELLED && session_signal() == 0)
                a->done.reason = STATOR_REASON_EOS;
            return st;
        }
        if (st != STATOR_OK)
            continue; /* cancelled by us: drain */
        st = decode(a, ev.token, e);
        if (st != STATOR_OK || a->parse.over) /* at the end of the model's turn, in channels */
            stator_cancel(a->engine, id);
    }
}

stator_status chat_answer_get(struct chat_answer *a, stator_error *e) {
    const stator_request q = {.size = sizeof q,
                              .kind = STATOR_GENERATE,
                              .tokens = a->talk->ids,
                              .n_tokens = a->talk->n_ids,
                              .max_new = a->max_new,
                              .sampling = a->sampling,
                              .pictures = a->talk->pictures.items,
                              .n_pictures = chat_talk_pictures(a->talk)};
    const bool opened = a->talk->opened[0] != '\0';
    a->any = a->nl = a->dim = a->c2 = a->no_room = a->broken = false;
    a->decoder = (stator_decoder){.size = sizeof a->decoder, .started = 1};
    a->done = (stator_event){.size = sizeof a->done};
    a->sink = (struct chat_sink){.content = put_content, .reasoning = put_reasoning, .context = a};
    chat_parse_free(&a->parse);
    chat_parse_begin(&a->parse, &a->talk->form, opened, false, NULL, &a->sink, resize, NULL);
    if (!chat_talk_add(a->talk, CHAT_TALK_ASSISTANT, "", 0))
        return error_set(e, STATOR_USAGE, "the conversation has too many messages: /clear begins anew");
    uint64_t id = 0;
    stator_status st = stator_submit(a->engine, &q, &id, e);
    if (st != STATOR_OK)
        return st;
    if (session_signal() != 0)
        stator_cancel(a->engine, 0); /* it came before there was a request to cancel */
    if (opened && !chat_talk_extend(a->talk, a->talk->opened, strlen(a->talk->opened)))
        a->no_room = true;
    if (opened && !a->out_terminal && a->thinking == CHAT_ANSWER_SHOW)
        (void)write_out(a, a->talk->opened, strlen(a->talk->opened));
    st = follow(a, id, e);
    if (st == STATOR_OK)
        st = decode(a, -1, e);
    if (st == STATOR_OK) {
        chat_parse_end(&a->parse);
        st = look(a, e);
    }
    if (a->dim)
        fputs(NORMAL, stdout);
    a->dim = false;
    if (a->any && !a->nl)
        putchar('\n');
    if (fflush(stdout) != 0 && st == STATOR_OK)
        st = error_set(e, STATOR_FAILED, "the text can't be written: standard output is closed or full");
    if (st == STATOR_OK && a->done.reason == STATOR_REASON_FAILED)
        st = error_set(e, a->done.status, "%s", a->done.text);
    return st;
}
