#include "app/chat/chat_line.h"

#include "app/session.h"
#include "base/error.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define READ_AHEAD   65536
#define REPLACEMENT  "\xEF\xBF\xBD"
#define NEWLINE_SIGN L'\x23CE' /* a newline inside of a line that is edited */
#define NEWLINE_UTF8 "\xE2\x8F\x8E"

struct chat_line {
    EditLine *edit; /* NULL: plain lines */
    History *history;
    bool pasting;   /* between the marks that terminals put around pasted text */
    bool continues; /* for the prompt */
    bool at_end;
    size_t from, n; /* of ahead: what was read and not yet used */
    char ahead[READ_AHEAD];
};

static atomic_int terminal_changed; /* by SIGWINCH or SIGCONT */

static void on_change(int number) {
    terminal_changed = number;
}

/* True: standard input has something, or its end. False: a signal has come. */
static bool wait_for_input(struct chat_line *l) {
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = session_signal_fd(), .events = POLLIN}};
    for (;;) {
        if (session_signal() != 0)
            return false;
        const int changed = atomic_exchange(&terminal_changed, 0);
        if (changed == SIGWINCH && l->edit != NULL)
            el_resize(l->edit);
        if (changed == SIGCONT && l->edit != NULL) { /* the shell has set the terminal to its liking */
            el_set(l->edit, EL_PREP_TERM, 0);
            el_set(l->edit, EL_PREP_TERM, 1);
            el_set(l->edit, EL_REFRESH);
        }
        const int got = poll(fds, 2, -1);
        if (got > 0 && fds[0].revents != 0)
            return true;
        if (got < 0 && errno != EINTR)
            return true; /* read says what is wrong */
    }
}

/* The next byte; 0: the end, -1: a signal, or errno is not 0. */
static int next_byte(struct chat_line *l, char *c) {
    errno = 0;
    while (l->from == l->n) {
        if (l->at_end)
            return 0;
        if (!wait_for_input(l)) {
            errno = 0;
            return -1;
        }
        /* An editor must not read beyond its line: what follows may be for the next program. */
        const ssize_t got = read(STDIN_FILENO, l->ahead, l->edit != NULL ? 1 : sizeof l->ahead);
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return -1;
        if (got == 0)
            return 0;
        l->from = 0;
        l->n = got > 0 ? (size_t)got : 0;
    }
    *c = l->ahead[l->from++];
    return 1;
}

/* libedit's way to read a character. */
static int read_character(EditLine *edit, wchar_t *out) {
    struct chat_line *l = NULL;
    mbstate_t state = {0};
    el_get(edit, EL_CLIENTDATA, (void *)&l);
    for (int bytes = 0;; bytes++) {
        char c = 0;
        const int got = next_byte(l, &c);
        if (got <= 0)
            return got;
        const size_t n = mbrtowc(out, &c, 1, &state);
        if (n == (size_t)-2 && bytes < 3)
            continue;
        if (n >= (size_t)-2)
            *out = L'\xFFFD';
        if (l->pasting && (*out == L'\r' || *out == L'\n'))
            *out = NEWLINE_SIGN;
        return 1;
    }
}

static char *prompt(EditLine *edit) {
    struct chat_line *l = NULL;
    el_get(edit, EL_CLIENTDATA, (void *)&l);
    static char first[] = "> ";
    static char further[] = ". ";
    return l->continues ? further : first;
}

static unsigned char begin_paste(EditLine *edit, int c) {
    struct chat_line *l = NULL;
    (void)c;
    el_get(edit, EL_CLIENTDATA, (void *)&l);
    l->pasting = true;
    return CC_NORM;
}

static unsigned char end_paste(EditLine *edit, int c) {
    struct chat_line *l = NULL;
    (void)c;
    el_get(edit, EL_CLIENTDATA, (void *)&l);
    l->pasting = false;
    return CC_NORM;
}

static unsigned char insert_newline(EditLine *edit, int c) {
    (void)c;
    return el_insertstr(edit, NEWLINE_UTF8) == 0 ? CC_REFRESH : CC_ERROR;
}

static stator_status open_editor(struct chat_line *l, stator_error *e) {
    /* libedit counts in characters of the locale; text is UTF-8 here, whatever the environment says. */
    if ((setlocale(LC_CTYPE, "") == NULL || strcmp(nl_langinfo(CODESET), "UTF-8") != 0) &&
        setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        setlocale(LC_CTYPE, "C");
    HistEvent event;
    l->edit = el_init("stator", stdin, stderr, stderr);
    l->history = history_init();
    if (l->edit == NULL || l->history == NULL)
        return error_set(e, STATOR_FAILED, "no memory for the line editor");
    history(l->history, &event, H_SETSIZE, CHAT_LINE_HISTORY);
    history(l->history, &event, H_SETUNIQUE, 1);
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_PROMPT, prompt);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_SIGNAL, 0);
    el_set(l->edit, EL_HIST, history, l->history);
    el_set(l->edit, EL_GETCFN, read_character);
    el_set(l->edit, EL_ADDFN, "chat-paste", "pasted text begins", begin_paste);
    el_set(l->edit, EL_ADDFN, "chat-pasted", "pasted text ends", end_paste);
    el_set(l->edit, EL_ADDFN, "chat-newline", "a newline in the message", insert_newline);
    el_set(l->edit, EL_BIND, "\\e[200~", "chat-paste", NULL);
    el_set(l->edit, EL_BIND, "\\e[201~", "chat-pasted", NULL);
    el_set(l->edit, EL_BIND, "\\e^M", "chat-newline", NULL);
    el_set(l->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(l->edit, EL_BIND, "^I", "ed-insert", NULL);
    struct sigaction a = {.sa_handler = on_change};
    sigemptyset(&a.sa_mask);
    sigaction(SIGWINCH, &a, NULL);
    sigaction(SIGCONT, &a, NULL);
    return STATOR_OK;
}

stator_status chat_line_open(struct chat_line **out, stator_error *e) {
    struct chat_line *l = calloc(1, sizeof *l);
    if (l == NULL)
        return error_set(e, STATOR_FAILED, "no memory for the lines that are read");
    if (session_signal_fd() < 0) {
        free(l);
        return error_set(e, STATOR_FAILED, "eventfd: %s", strerror(errno));
    }
    const bool terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    const stator_status st = terminal ? open_editor(l, e) : STATOR_OK;
    if (st != STATOR_OK) {
        chat_line_close(l);
        return st;
    }
    *out = l;
    return STATOR_OK;
}

void chat_line_close(struct chat_line *l) {
    if (l == NULL)
        return;
    if (l->edit != NULL)
        el_end(l->edit);
    if (l->history != NULL)
        history_end(l->history);
    free(l);
}

bool chat_line_is_terminal(const struct chat_line *l) {
    return l->edit != NULL;
}

/* A message as it grows. */
struct growing {
    char *out;
    size_t capacity, n;
    bool too_long;
};

static void add(struct growing *g, const char *text, size_t n) {
    if (g->too_long || n >= g->capacity - g->n) {
        g->too_long = true;
        return;
    }
    memcpy(g->out + g->n, text, n);
    g->n += n;
}

/* The pieces of an edited line: its newline signs become newlines. */
static void add_edited(struct growing *g, const char *text, size_t n) {
    while (n > 0) {
        const char *sign = memmem(text, n, NEWLINE_UTF8, strlen(NEWLINE_UTF8));
        const size_t before = sign != NULL ? (size_t)(sign - text) : n;
        add(g, text, before);
        if (sign == NULL)
            return;
        add(g, "\n", 1);
        text = sign + strlen(NEWLINE_UTF8);
        n -= before + strlen(NEWLINE_UTF8);
    }
}

static enum chat_line_end read_edited(struct chat_line *l, struct growing *g) {
    static const char paste_on[] = "\033[?2004h";
    static const char paste_off[] = "\033[?2004l";
    HistEvent event;
    int n = 0;
    l->pasting = false;
    el_set(l->edit, EL_PREP_TERM, 1); /* before the prompt, which would else invite keys too early */
    fputs(paste_on, stderr);
    errno = 0;
    const char *text = el_gets(l->edit, &n);
    const int why = errno;
    fputs(paste_off, stderr);
    if (text == NULL || n <= 0) {
        if (session_signal() != 0 || n == 0)
            fputc('\n', stderr);
        if (session_signal() != 0)
            return CHAT_LINE_SIGNAL;
        errno = why;
        return n == 0 ? CHAT_LINE_EOF : CHAT_LINE_FAILED;
    }
    const size_t length = (size_t)n - (text[n - 1] == '\n');
    if (length > 0)
        history(l->history, &event, H_ENTER, text);
    add_edited(g, text, length);
    return CHAT_LINE_TEXT;
}

static enum chat_line_end read_plain(struct chat_line *l, struct growing *g) {
    char c = 0;
    for (bool any = false;; any = true) {
        const int got = next_byte(l, &c);
        if (got < 0)
            return errno == 0 ? CHAT_LINE_SIGNAL : CHAT_LINE_FAILED;
        if (got == 0) {
            l->at_end = true;
            return any ? CHAT_LINE_TEXT : CHAT_LINE_EOF;
        }
        if (c == '\n')
            break;
        if (c == '\0')
            add(g, REPLACEMENT, strlen(REPLACEMENT));
        else
            add(g, &c, 1);
    }
    if (g->n > 0 && g->out[g->n - 1] == '\r')
        g->n--;
    return CHAT_LINE_TEXT;
}

enum chat_line_end chat_line_read(struct chat_line *l, char *out, size_t capacity, size_t *length) {
    struct growing g = {.out = out, .capacity = capacity};
    l->continues = false;
    enum chat_line_end end;
    for (;;) {
        end = l->edit != NULL ? read_edited(l, &g) : read_plain(l, &g);
        l->continues = end == CHAT_LINE_TEXT && g.n > 0 && g.out[g.n - 1] == '\\';
        if (!l->continues)
            break;
        g.out[g.n - 1] = '\n';
    }
    if (end == CHAT_LINE_EOF && g.n > 0) { /* behind a backslash */
        g.n--;
        end = CHAT_LINE_TEXT;
    }
    out[g.n] = '\0';
    *length = g.n;
    return end == CHAT_LINE_TEXT && g.too_long ? CHAT_LINE_TOO_LONG : end;
}
