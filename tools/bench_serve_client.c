/* Clients of a server of OpenAI's completions, for tools/bench_serve: connections that ask, read their stream
 * and ask again, on one thread, so that little of the machine is theirs. usage: bench_serve_client PORT
 * CLIENTS REQUESTS TOKENS SYSTEM-WORDS. Every client asks REQUESTS times for TOKENS tokens; prompts begin
 * with the same SYSTEM-WORDS words. Prints one line of figures; exit 1: an answer was none. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 1024
#define LINE 65536

struct client {
    int fd;
    int left;       /* requests */
    bool in_answer; /* else: in the head */
    double asked, last;
    size_t n; /* of line */
    char line[LINE];
};

static struct client clients[MOST];
static int n_clients, n_tokens, n_words, n_asked;
static double *firsts, *gaps;
static size_t n_firsts, n_gaps, most_gaps;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what, const char *more) {
    fprintf(stderr, "bench_serve_client: %s: %s\n", what, more);
    exit(1);
}

static void ask(struct client *c) {
    static const char *const words[] = {"the", "fox",  "found", "a",   "small", "house", "near", "river",
                                        "and", "took", "every", "red", "stone", "that",  "lay",  "there"};
    static char body[1 << 20], head[256];
    size_t n = (size_t)sprintf(body, "{\"prompt\":\"");
    for (int i = 0; i < n_words; i++)
        n += (size_t)sprintf(body + n, "%s ", words[(unsigned)(i * 7 + i / 5) % 16]);
    n += (size_t)sprintf(body + n,
                         "Number %d asks: what did the fox number %d say to the bird?\",\"max_tokens\":%d,"
                         "\"temperature\":0,\"ignore_eos\":true,\"stream\":true}",
                         n_asked, n_asked * 31 % 1009, n_tokens);
    n_asked++;
    const int head_n = snprintf(head, sizeof head,
                                "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                "application/json\r\nContent-Length: %zu\r\n\r\n",
                                n);
    memmove(body + head_n, body, n);
    memcpy(body, head, (size_t)head_n);
    n += (size_t)head_n;
    c->asked = now();
    c->last = 0;
    c->in_answer = false;
    for (size_t at = 0; at < n;) {
        const ssize_t did = send(c->fd, body + at, n - at, MSG_NOSIGNAL);
        if (did <= 0)
            die("send", strerror(errno));
        at += (size_t)did;
    }
}

/* A line of an answer; true: the answer is over. */
static bool take(struct client *c, const char *line) {
    if (!c->in_answer) {
        if (strncmp(line, "HTTP/1.1 ", 9) == 0 && strncmp(line + 9, "200", 3) != 0)
            die("an answer", line);
        c->in_answer = line[0] == '\0';
        return false;
    }
    if (strncmp(line, "data: ", 6) != 0)
        return false;
    if (strncmp(line, "data: [DONE]", 12) == 0)
        return true;
    if (strstr(line, "\"error\"") != NULL)
        die("an event", line);
    const char *text = strstr(line, "\"text\":\"");
    if (text == NULL || text[8] == '"')
        return false;
    const double t = now();
    if (c->last == 0) {
        firsts[n_firsts++] = t - c->asked;
    } else {
        if (n_gaps == most_gaps) {
            most_gaps = 2 * most_gaps + 1024;
            gaps = realloc(gaps, most_gaps * sizeof *gaps);
            if (gaps == NULL)
                die("memory", "none");
        }
        gaps[n_gaps++] = t - c->last;
    }
    c->last = t;
    return false;
}

static void read_some(struct client *c) {
    static char buffer[65536];
    const ssize_t got = recv(c->fd, buffer, sizeof buffer, 0);
    if (got <= 0)
        die("a connection ended", got < 0 ? strerror(errno) : "by the server");
    for (ssize_t i = 0; i < got; i++) {
        if (buffer[i] != '\n') {
            if (c->n == LINE - 1)
                die("a line", "too long");
            c->line[c->n++] = buffer[i];
            continue;
        }
        c->line[c->n - (c->n > 0 && c->line[c->n - 1] == '\r')] = '\0';
        c->n = 0;
        if (!take(c, c->line))
            continue;
        /* What is left of the chunks comes in front of the next head, whose lines it does not look like. */
        if (--c->left > 0)
            ask(c);
    }
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double of(const double *v, size_t n, double part) {
    return n > 0 ? v[(size_t)((double)(n - 1) * part)] * 1e3 : 0;
}

int main(int argc, char **argv) {
    if (argc != 6 || (n_clients = atoi(argv[2])) < 1 || n_clients > MOST)
        die("usage", "PORT CLIENTS REQUESTS TOKENS SYSTEM-WORDS");
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[1]))};
    static struct pollfd polled[MOST];
    const int requests = atoi(argv[3]), on = 1;
    n_tokens = atoi(argv[4]);
    n_words = atoi(argv[5]);
    firsts = calloc((size_t)(n_clients * requests), sizeof *firsts);
    inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
    for (int i = 0; i < n_clients; i++) {
        struct client *c = &clients[i];
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof a) != 0)
            die("connect", strerror(errno));
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        c->left = requests;
    }
    const double begin = now();
    for (int i = 0; i < n_clients; i++)
        ask(&clients[i]);
    for (;;) {
        int busy = 0;
        for (int i = 0; i < n_clients; i++) {
            polled[i] = (struct pollfd){.fd = clients[i].left > 0 ? clients[i].fd : -1, .events = POLLIN};
            busy += clients[i].left > 0;
        }
        if (busy == 0)
            break;
        if (poll(polled, (nfds_t)n_clients, 120000) <= 0)
            die("waiting", "nothing came for two minutes");
        for (int i = 0; i < n_clients; i++)
            if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
                read_some(&clients[i]);
    }
    const double took = now() - begin;
    qsort(firsts, n_firsts, sizeof *firsts, by_size);
    qsort(gaps, n_gaps, sizeof *gaps, by_size);
    printf("%.2f %.1f %.1f %.1f %.2f %.2f\n", n_clients * requests / took,
           (double)n_clients * requests * n_tokens / took, of(firsts, n_firsts, 0.5),
           of(firsts, n_firsts, 0.95), of(gaps, n_gaps, 0.5), of(gaps, n_gaps, 0.95));
    return 0;
}
