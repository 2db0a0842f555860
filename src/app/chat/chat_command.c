#include "app/chat/chat_command.h"

#include "app/out.h"
#include "app/session.h"
#include "base/error.h"
#include "base/nearest.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef stator_status command_function(struct chat_command_place *p, const char *argument, stator_error *e);

static stator_status run_help(struct chat_command_place *p, const char *argument, stator_error *e) {
    (void)p;
    (void)argument;
    (void)e;
    chat_command_help(stderr);
    return STATOR_OK;
}

static stator_status run_clear(struct chat_command_place *p, const char *argument, stator_error *e) {
    (void)argument;
    (void)e;
    chat_talk_cut(p->talk, p->n_system);
    chat_pictures_cut(&p->talk->pictures, 0);
    fprintf(stderr, "the conversation is empty%s\n", p->n_system > 0 ? " but for the system's message" : "");
    return STATOR_OK;
}

static stator_status run_image(struct chat_command_place *p, const char *argument, stator_error *e) {
    struct chat_pictures *all = &p->talk->pictures;
    const uint32_t sent = chat_talk_pictures(p->talk);
    if (argument[0] == '\0' && all->n == sent)
        return error_set(e, STATOR_USAGE, "/image needs the name of a file: /image photo.jpg");
    if (argument[0] == '\0') {
        fprintf(stderr, "%u pictures are dropped\n", all->n - sent);
        chat_pictures_cut(all, sent);
        return STATOR_OK;
    }
    if (p->keeps)
        return error_set(e, STATOR_USAGE,
                         "/image: the file of --resume keeps texts only: start the chat without --resume");
    stator_status st = chat_pictures_attach(all, argument, e);
    if (st != STATOR_OK)
        return st;
    const stator_picture_size *is = &all->are[all->n - 1];
    fprintf(stderr,
            "%s: %ux%u pixels, seen as %ux%u: %u tokens of the prompt; it goes with the next message\n",
            argument, is->width, is->height, is->seen_width, is->seen_height, is->tokens);
    return STATOR_OK;
}

static stator_status run_save(struct chat_command_place *p, const char *argument, stator_error *e) {
    if (argument[0] == '\0')
        return error_set(e, STATOR_USAGE, "/save needs the name of a file: /save talk.json");
    FILE *f = out_open("/save", argument, e);
    if (f == NULL)
        return e->code;
    chat_talk_save(p->talk, f);
    const stator_status st = out_close(f, "/save", argument, STATOR_OK, e);
    if (st == STATOR_OK && f != stdout)
        fprintf(stderr, "%u messages are in %s%s\n", p->talk->n, argument,
                chat_talk_pictures(p->talk) > 0 ? ", without their pictures" : "");
    return st;
}

static stator_status run_memory(struct chat_command_place *p, const char *argument, stator_error *e) {
    (void)argument;
    session_print_memory(p->engine, stderr, true);
    (void)session_audit(p->engine, stderr, e); /* the end of the program judges it */
    return STATOR_OK;
}

static stator_status run_exit(struct chat_command_place *p, const char *argument, stator_error *e) {
    (void)argument;
    (void)e;
    p->leaves = true;
    return STATOR_OK;
}

static const struct row {
    const char *name, *argument, *help;
    command_function *run;
} rows[] = {
    {"help", "", "this list", run_help},
    {"clear", "", "begin a new conversation", run_clear},
    {"image", " [FILE]", "show a picture with the next message; without FILE drop those that wait",
     run_image},
    {"save", " FILE", "write the messages as JSON, as `stator template -f` takes them", run_save},
    {"memory", "", "the memory: planned, allocated, used, and what the kernel says of it", run_memory},
    {"exit", "", "end the chat, as Ctrl-D does", run_exit},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

void chat_command_help(FILE *f) {
    for (size_t i = 0; i < N_ROWS; i++)
        fprintf(f, "  /%s%-*s%s\n", rows[i].name, (int)(14 - strlen(rows[i].name)), rows[i].argument,
                rows[i].help);
    fprintf(f, "A line that ends with a backslash goes on in the next one. Ctrl-C ends an answer, Ctrl-D the "
               "chat.\n");
}

bool chat_command_is(const char *line) {
    if (line[0] != '/' || !isalpha((unsigned char)line[1]))
        return false;
    size_t n = 1;
    while (isalpha((unsigned char)line[n]))
        n++;
    return line[n] == '\0' || line[n] == ' ' || line[n] == '\t';
}

stator_status chat_command_run(struct chat_command_place *p, const char *line, stator_error *e) {
    const char *names[N_ROWS];
    char typed[32];
    const size_t n = strcspn(line + 1, " \t");
    snprintf(typed, sizeof typed, "%.*s", n < sizeof typed ? (int)n : (int)sizeof typed - 1, line + 1);
    char *argument = strdup(line + 1 + n + strspn(line + 1 + n, " \t"));
    if (argument == NULL)
        return error_set(e, STATOR_FAILED, "no memory for a command");
    for (size_t end = strlen(argument); end > 0 && isspace((unsigned char)argument[end - 1]); end--)
        argument[end - 1] = '\0';
    for (size_t i = 0; i < N_ROWS; i++) {
        names[i] = rows[i].name;
        if (strcmp(typed, rows[i].name) != 0)
            continue;
        stator_status st =
            argument[0] != '\0' && rows[i].argument[0] == '\0'
                ? error_set(e, STATOR_USAGE, "/%s takes nothing after it: \"%.60s\"", typed, argument)
                : rows[i].run(p, argument, e);
        free(argument);
        return st;
    }
    free(argument);
    const char *near = nearest_name(typed, names, N_ROWS);
    if (near != NULL)
        return error_set(e, STATOR_USAGE, "unknown command /%s; did you mean /%s?", typed, near);
    return error_set(e, STATOR_USAGE,
                     "unknown command /%s (/help lists them; a blank in front makes it a message)", typed);
}
