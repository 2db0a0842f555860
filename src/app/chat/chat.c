/* stator chat: a conversation on the model's chat template.
 *
 * One thread. Each turn renders the whole conversation and submits it; what the engine has kept of the
 * beginning is not computed again. On a terminal errors are told and the chat goes on; from a pipe the first
 * one ends it with its exit code, so that scripts notice. */
#include "app/chat/chat_answer.h"
#include "app/chat/chat_command.h"
#include "app/chat/chat_line.h"
#include "app/chat/chat_resume.h"
#include "app/chat/chat_talk.h"
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/options/sampling_rows.h"
#include "app/session.h"

#include "base/error.h"
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEARLY_FULL 4 /* a warning from this on: less than a quarter of the context is left */

struct chat {
    const char *config, *system, *template_file, *report, *expect_plan, *thinking, *resume;
    struct options_list set;
    struct sampling_rows sampling;
    uint64_t max_new;

    stator *engine;
    stator_info info;
    struct chat_talk talk;
    struct chat_answer answer;
    struct chat_command_place place;
    struct chat_line *line;
    bool terminal;
    char *typed; /* what was read last */
    size_t typed_capacity;
    /* For the report. */
    uint32_t turns;
    uint64_t n_prompt, n_cached, prompt_ns, n_generated, n_stepped, generate_ns;
};

static double rate(uint64_t n, uint64_t ns) {
    return ns > 0 ? (double)n / ((double)ns * 1e-9) : 0;
}

/* What to do about a context that is too small. */
static const char *advice(const struct chat *c, char *out, size_t n) {
    char size[UNITS_TEXT];
    const uint64_t more = c->info.context_read_bytes * c->info.context * c->info.sequences;
    if (more > 0)
        snprintf(out, n, "/clear begins anew; memory.context=%" PRIu64 " would take about %s more",
                 2 * (uint64_t)c->info.context, units_format_size(more, size));
    else
        snprintf(out, n, "/clear begins anew, a larger memory.context has room for more");
    return out;
}

/* A conversation from a file or an option has no pictures. */
static stator_status refuse_markers(const struct chat *c, stator_error *e) {
    uint32_t n = 0;
    for (size_t i = 0; i < c->talk.n_ids && i < c->info.context; i++)
        n += c->talk.pictures.most > 0 && c->talk.ids[i] == c->talk.pictures.marker_id;
    return n == 0 ? STATOR_OK
                  : error_set(e, STATOR_USAGE,
                              "the conversation begins with %u places for pictures (%.*s), but without "
                              "pictures: --resume and --system take texts only",
                              n, (int)c->talk.pictures.marker_length, c->talk.pictures.marker);
}

/* Options and what the conversation begins with, before the weights are loaded. */
static stator_status prepare_talk(struct chat *c, stator_error *e) {
    stator_status st = chat_talk_open(&c->talk, c->engine, c->template_file, e);
    if (st != STATOR_OK)
        return st;
    c->typed_capacity = c->talk.capacity;
    c->typed = malloc(c->typed_capacity);
    if (c->typed == NULL)
        return error_set(e, STATOR_FAILED, "no memory for what is typed");
    memset(c->typed, 0, c->typed_capacity); /* in RAM from now on */
    st = stator_prepare(c->engine, e);
    if (st != STATOR_OK)
        return st;
    st = chat_pictures_open(&c->talk.pictures, c->engine, e);
    if (st == STATOR_OK && c->resume != NULL)
        st = chat_resume_read(&c->talk, c->resume, e);
    if (st != STATOR_OK)
        return st;
    const bool resumes = c->talk.n > 0;
    if (resumes && c->system != NULL)
        return error_set(e, STATOR_USAGE,
                         "--system and --resume: %s has a conversation already, and its system message stays",
                         c->resume);
    if (c->system != NULL && !chat_talk_add(&c->talk, CHAT_TALK_SYSTEM, c->system, strlen(c->system)))
        return error_set(e, STATOR_USAGE, "--system is longer than what the context can hold");
    c->place = (struct chat_command_place){.engine = c->engine,
                                           .talk = &c->talk,
                                           .keeps = c->resume != NULL,
                                           .n_system = resumes ? c->talk.messages[0].role == CHAT_TALK_SYSTEM
                                                               : c->talk.n};
    const uint32_t begun = c->talk.n;
    c->answer = (struct chat_answer){.engine = c->engine,
                                     .talk = &c->talk,
                                     .sampling = sampling_rows_get(&c->sampling),
                                     .max_new = (uint32_t)c->max_new,
                                     .thinking = c->thinking != NULL && strcmp(c->thinking, "show") != 0
                                                     ? CHAT_ANSWER_HIDE
                                                     : CHAT_ANSWER_SHOW};
    const char *term = getenv("TERM");
    c->answer.out_terminal =
        isatty(STDOUT_FILENO) && term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
    st = chat_answer_open(&c->answer, e);
    /* A first turn for trial: a template that refuses the system's message does so now. */
    if (st == STATOR_OK && chat_talk_add(&c->talk, CHAT_TALK_USER, "?", 1))
        st = chat_talk_prompt(&c->talk, e);
    if (st == STATOR_OK)
        st = refuse_markers(c, e);
    if (st == STATOR_OK && c->talk.n_ids >= c->info.context)
        st = error_set(e, STATOR_USAGE,
                       "the conversation begins with %zu tokens, memory.context is %u: shorten --system or "
                       "make the context larger",
                       c->talk.n_ids, c->info.context);
    stator_request q = {.size = sizeof q,
                        .tokens = c->talk.ids,
                        .n_tokens = c->talk.n_ids,
                        .max_new = c->answer.max_new,
                        .sampling = c->answer.sampling};
    if (st == STATOR_OK)
        st = stator_check(c->engine, &q, e);
    chat_talk_cut(&c->talk, begun);
    return st;
}

static void count(struct chat *c) {
    const stator_event *d = &c->answer.done;
    c->turns++;
    c->n_prompt += d->n_prompt;
    c->n_cached += d->n_cached;
    c->prompt_ns += d->prompt_ns;
    c->n_generated += d->n_generated;
    c->n_stepped += d->n_generated > 0 ? d->n_generated - 1 : 0; /* the first comes with the prompt */
    c->generate_ns += d->generate_ns;
}

/* One line about the turn, and what the next one will meet. */
static void tell_turn(const struct chat *c) {
    const stator_event *d = &c->answer.done;
    const uint64_t fill = (uint64_t)d->n_prompt + d->n_generated;
    char todo[160];
    const bool colour = c->answer.out_terminal;
    if (c->terminal)
        fprintf(stderr,
                "%s[%u tokens, %.1f/s; prompt %u, of them %u there already, %.2f s; context %" PRIu64
                " of %u]%s\n",
                colour ? "\033[2m" : "", d->n_generated,
                rate(d->n_generated > 0 ? d->n_generated - 1 : 0, d->generate_ns), d->n_prompt, d->n_cached,
                (double)d->prompt_ns * 1e-9, fill, c->info.context, colour ? "\033[0m" : "");
    if (d->reason == STATOR_REASON_LENGTH && fill >= c->info.context)
        fprintf(stderr, "the answer is cut off: the context of %u tokens is full; %s\n", c->info.context,
                advice(c, todo, sizeof todo));
    else if (fill + c->info.context / NEARLY_FULL > c->info.context)
        fprintf(stderr, "the context is nearly full: %" PRIu64 " of %u tokens; %s\n", fill, c->info.context,
                advice(c, todo, sizeof todo));
    else if (d->reason == STATOR_REASON_LENGTH)
        fprintf(stderr, "the answer is cut off after %u tokens (-n)\n", d->n_generated);
    else if (d->reason == STATOR_REASON_CANCELLED && c->terminal)
        fprintf(stderr, "the answer was ended; what is there stays in the conversation\n");
}

/* The user's message and the answer. After an error the conversation is what it was before. */
static stator_status take_turn(struct chat *c, size_t length, stator_error *e) {
    const uint32_t before = c->talk.n;
    char todo[160];
    stator_status st = STATOR_OK;
    if (!chat_talk_add(&c->talk, CHAT_TALK_USER, c->typed, length))
        return error_set(e, STATOR_USAGE, "the conversation has no room for this message; %s",
                         advice(c, todo, sizeof todo));
    st = chat_talk_prompt(&c->talk, e);
    if (st == STATOR_OK && chat_talk_tokens(&c->talk) >= c->info.context)
        st = error_set(e, STATOR_USAGE,
                       "with this message the conversation has %" PRIu64 " tokens, memory.context is %u; %s",
                       chat_talk_tokens(&c->talk), c->info.context, advice(c, todo, sizeof todo));
    if (st == STATOR_OK)
        st = chat_answer_get(&c->answer, e);
    if (c->answer.done.kind == STATOR_EVENT_DONE && st == STATOR_OK) {
        count(c);
        tell_turn(c);
    }
    /* What was never answered is not part of the talk: templates want questions and answers in turn. */
    if (st != STATOR_OK || c->answer.done.n_generated == 0)
        chat_talk_cut(&c->talk, before);
    c->answer.done.kind = STATOR_EVENT_TOKEN;
    if (st == STATOR_OK && c->resume != NULL && c->talk.n > before)
        st = chat_resume_write(&c->talk, c->resume, e);
    return st;
}

static bool is_blank(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isspace((unsigned char)text[i]))
            return false;
    return true;
}

/* A message or a command. */
static stator_status take_line(struct chat *c, size_t length, stator_error *e) {
    if (is_blank(c->typed, length))
        return STATOR_OK;
    if (chat_command_is(c->typed) && strlen(c->typed) == length)
        return chat_command_run(&c->place, c->typed, e);
    return take_turn(c, length, e);
}

/* The chat goes on after an error that a user of a terminal can do something about. */
static bool goes_on(const struct chat *c, stator_status st) {
    return c->terminal && (st == STATOR_USAGE || st == STATOR_FAILED || st == STATOR_DOES_NOT_FIT) &&
           !ferror(stdout);
}

/* After a signal: true ends the chat. At a prompt the first Ctrl-C only drops what was typed. */
static bool signal_ends(struct chat *c, bool in_answer, bool *warned) {
    const int number = session_signal();
    session_forget_signal();
    if (number == SIGTERM || !c->terminal)
        return true;
    if (in_answer || !*warned) {
        if (!in_answer)
            fprintf(stderr, "Ctrl-C once more, or Ctrl-D, ends the chat\n");
        *warned = true;
        return false;
    }
    return true;
}

static stator_status converse(struct chat *c, stator_error *e) {
    bool warned = false; /* of Ctrl-C, since the last message */
    while (!c->place.leaves) {
        size_t length = 0;
        stator_status st = STATOR_OK;
        const enum chat_line_end end = chat_line_read(c->line, c->typed, c->typed_capacity, &length);
        if (end == CHAT_LINE_EOF)
            break;
        if (end == CHAT_LINE_SIGNAL) {
            if (signal_ends(c, false, &warned))
                break;
            continue;
        }
        warned = false;
        if (end == CHAT_LINE_FAILED)
            return error_set(e, STATOR_FAILED, "standard input can't be read: %s", strerror(errno));
        if (end == CHAT_LINE_TOO_LONG)
            st =
                error_set(e, STATOR_USAGE, "the message is longer than the %zu bytes that a conversation has",
                          c->typed_capacity - 1);
        else
            st = take_line(c, length, e);
        if (st == STATOR_BUSY && session_signal() != 0)
            st = STATOR_OK; /* the template was stopped */
        if (st != STATOR_OK && !goes_on(c, st))
            return st;
        if (st != STATOR_OK)
            (void)out_error("chat", e);
        if (session_signal() != 0 && signal_ends(c, true, &warned))
            break;
    }
    return STATOR_OK;
}

static void print_report(const struct chat *c) {
    fprintf(stderr, "\nload         %.2f s (%s, %u threads)\n", (double)c->info.load_ns * 1e-9, c->info.tier,
            c->info.threads);
    fprintf(stderr, "turns       %u\n", c->turns);
    fprintf(
        stderr, "prompts     %" PRIu64 " tokens, of them %" PRIu64 " there already, %.2f s, %.1f tokens/s\n",
        c->n_prompt, c->n_cached, (double)c->prompt_ns * 1e-9, rate(c->n_prompt - c->n_cached, c->prompt_ns));
    fprintf(stderr, "answers     %" PRIu64 " tokens, %.2f s, %.1f tokens/s\n", c->n_generated,
            (double)c->generate_ns * 1e-9, rate(c->n_stepped, c->generate_ns));
    session_print_memory(c->engine, stderr, true);
}

static void greet(const struct chat *c) {
    fprintf(stderr, "%s, a context of %u tokens. /help lists the commands, Ctrl-D ends the chat.\n",
            c->info.model_name[0] != '\0' ? c->info.model_name : c->config, c->info.context);
}

/* The blocks of a conversation that goes on later. Without them it goes on, too. */
static void keep(const struct chat *c) {
    stator_error e = {0};
    if (c->resume == NULL || c->info.slots == 0 || c->turns == 0 ||
        chat_resume_keep(c->engine, c->answer.done.slot, c->resume, &e) == STATOR_OK)
        return;
    fprintf(stderr, "--resume %s: cache.kv_dir keeps its blocks no longer than others: %s\n", c->resume,
            e.text);
}

static stator_status chat_with_engine(struct chat *c, stator_error *e) {
    stator_status st = chat_line_open(&c->line, e); /* first: its memory is the audit's "before the engine" */
    if (st == STATOR_OK)
        st = session_open_as(SESSION_CHAT, c->config, &c->set, c->expect_plan, NULL, &c->engine, e);
    if (st != STATOR_OK)
        return st;
    c->terminal = chat_line_is_terminal(c->line);
    session_catch_signals(c->engine);
    st = stator_plan(c->engine, e);
    c->info.size = sizeof c->info;
    if (st == STATOR_OK)
        st = stator_get_info(c->engine, &c->info, e);
    if (st == STATOR_OK)
        st = prepare_talk(c, e);
    if (st == STATOR_OK)
        st = stator_start(c->engine, e);
    if (st == STATOR_OK)
        st = stator_get_info(c->engine, &c->info, e);
    if (st != STATOR_OK)
        return st;
    if (c->terminal)
        greet(c);
    st = converse(c, e);
    keep(c);
    print_report(c);
    return session_finish(c->engine, stderr, c->report, st, e);
}

static bool parse(struct chat *c, int argc, char **argv, int *code) {
    const struct options_row rows[] = {
        {.name = "system",
         .kind = OPTIONS_TEXT,
         .target = &c->system,
         .value = "TEXT",
         .help = "the system's message, in front of the conversation"},
        {.name = "resume",
         .kind = OPTIONS_TEXT,
         .target = &c->resume,
         .value = "FILE",
         .help =
             "go on with the conversation in this file, and keep it there after every answer; with "
             "cache.kv_dir its beginning is read and not computed again, and saved there under the file's "
             "name"},
        {.name = "template",
         .kind = OPTIONS_TEXT,
         .target = &c->template_file,
         .value = "FILE",
         .help = "a chat template (Jinja) in place of the config's chat.template or the model's own"},
        {.name = "think",
         .kind = OPTIONS_TEXT,
         .target = &c->thinking,
         .value = "show|hide|off",
         .help = "what the model thinks: shown (the default), hidden, or not done (the template's "
                 "enable_thinking is false)"},
        {.name = "n-predict",
         .letter = 'n',
         .kind = OPTIONS_U64,
         .target = &c->max_new,
         .value = "N",
         .max = INT32_MAX,
         .help = "most tokens of an answer (0: until it ends or the context is full)"},
#define SAMPLING_TARGET c->sampling
#include "app/options/sampling_rows.def"
        OPTIONS_EXPECT_PLAN(&c->expect_plan),
        OPTIONS_REPORT(&c->report),
        OPTIONS_SET(&c->set),
    };
    struct options o = {
        .command = "chat",
        .usage = "CONFIG [--system TEXT] [--resume FILE] [--template FILE]",
        .summary = "A conversation on the model's own chat template. On a terminal lines can be edited and "
                   "recalled; from a pipe every line is a message, and the first error ends the chat. "
                   "Answers go to standard output, the report and everything else to standard error. A line "
                   "that ends with a backslash goes on in the next one. /help lists the commands: /clear, "
                   "/image FILE, /save FILE, /memory, /exit. Ctrl-C ends an answer, a second one or Ctrl-D "
                   "the chat. "
                   "`stator plan --chat` prints the plan and its hash.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof rows[0]};
    if (!options_parse_one(&o, argc, argv, &c->config, code))
        return false;
    if (c->thinking != NULL && strcmp(c->thinking, "show") != 0 && strcmp(c->thinking, "hide") != 0 &&
        strcmp(c->thinking, "off") != 0) {
        *code =
            out_fail("chat", STATOR_USAGE, "--think is \"%.40s\"; expected show, hide or off", c->thinking);
        return false;
    }
    c->talk.no_thinking = c->thinking != NULL && strcmp(c->thinking, "off") == 0;
    return true;
}

int chat_command(int argc, char **argv) {
    struct chat c = {0};
    int code = 0;
    if (!parse(&c, argc, argv, &code))
        return code;
    stator_error e = {0};
    stator_status st = chat_with_engine(&c, &e);
    session_close(c.engine);
    chat_answer_close(&c.answer);
    chat_talk_close(&c.talk);
    free(c.typed);
    chat_line_close(c.line);
    return out_end("chat", st, &e);
}
