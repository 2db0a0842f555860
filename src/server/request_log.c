#include "server/request_log.h"

#include "base/error.h"
#include "base/json_writer.h"
#include "server/server_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE 2048
#define PATH 200 /* bytes of a path that are logged */

stator_status request_log_open(struct request_log *l, const struct server_settings *s, stator_error *e) {
    *l = (struct request_log){.fd = -1, .json = s->log_json};
    if (!s->log_requests)
        return STATOR_OK;
    l->fd = STDERR_FILENO;
    if (s->log_file[0] == '\0')
        return STATOR_OK;
    l->fd = open(s->log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (l->fd < 0)
        return error_set(e, STATOR_USAGE, "log.file = \"%.300s\" can't be opened: %s", s->log_file,
                         strerror(errno));
    l->owns = true;
    return STATOR_OK;
}

static double seconds(uint64_t ns) {
    return (double)(ns / 1000) * 1e-6;
}

static size_t write_json(const struct http_log_line *line, char out[LINE]) {
    const struct http_account *a = line->account;
    struct timespec now;
    struct json j;
    clock_gettime(CLOCK_REALTIME, &now);
    json_to_buffer(&j, out, LINE - 1, false);
    json_open_object(&j, NULL);
    json_put_double(&j, "time", (double)now.tv_sec + (double)(now.tv_nsec / 1000000) * 1e-3);
    json_put_string(&j, "level", "info");
    json_put_string(&j, "message", "request");
    json_put_string(&j, "peer", line->peer);
    json_put_string(&j, "method", line->method);
    json_put_string_n(&j, "path", line->path, strnlen(line->path, PATH));
    json_put_u64(&j, "status", (uint64_t)line->status);
    json_put_bool(&j, "complete", !line->gone);
    json_put_u64(&j, "bytes", line->bytes);
    json_put_double(&j, "seconds", seconds(line->duration_ns));
    if (a->model[0] != '\0')
        json_put_string(&j, "model", a->model);
    if (a->id[0] != '\0') {
        json_put_string(&j, "id", a->id);
        json_put_u64(&j, "prompt_tokens", a->n_prompt);
        json_put_u64(&j, "cached_tokens", a->n_cached);
        json_put_u64(&j, "generated_tokens", a->n_generated);
        json_put_double(&j, "queue_seconds", seconds(a->queue_ns));
        json_put_double(&j, "prompt_seconds", seconds(a->prompt_ns));
        json_put_double(&j, "generate_seconds", seconds(a->generate_ns));
        json_put_string(&j, "reason", a->reason);
    }
    if (a->ignored[0] != '\0')
        json_put_string(&j, "ignored", a->ignored);
    json_close(&j);
    return json_end(&j) ? j.length : 0;
}

static size_t write_text(const struct http_log_line *line, char out[LINE]) {
    const struct http_account *a = line->account;
    int n = snprintf(out, LINE - 1, "request %s%s%.16s %.*s: %d%s, %llu bytes, %.3f s", a->id,
                     a->id[0] != '\0' ? " " : "", line->method, PATH, line->path, line->status,
                     line->gone ? " (the client left)" : "", (unsigned long long)line->bytes,
                     seconds(line->duration_ns));
    if (n > 0 && n < LINE - 1 && a->id[0] != '\0')
        n += snprintf(out + n, (size_t)(LINE - 1 - n),
                      "; prompt %u tokens (%u cached), generated %u, queue %.3f s, prompt %.3f s, generation "
                      "%.3f s, %s",
                      a->n_prompt, a->n_cached, a->n_generated, seconds(a->queue_ns), seconds(a->prompt_ns),
                      seconds(a->generate_ns), a->reason);
    if (n > 0 && n < LINE - 1 && a->model[0] != '\0')
        n += snprintf(out + n, (size_t)(LINE - 1 - n), "; model %s", a->model);
    if (n > 0 && n < LINE - 1 && a->ignored[0] != '\0')
        n += snprintf(out + n, (size_t)(LINE - 1 - n), "; ignored fields: %s", a->ignored);
    return n > 0 && n < LINE - 1 ? (size_t)n : 0;
}

void request_log_write(void *context, const struct http_log_line *line) {
    struct request_log *l = context;
    char out[LINE];
    if (l->fd < 0)
        return;
    size_t n = l->json ? write_json(line, out) : write_text(line, out);
    if (n == 0)
        return;
    out[n++] = '\n';
    /* A pipe that is writable takes so many bytes at once. */
    _Static_assert(LINE <= PIPE_BUF, "one write");
    struct pollfd ready = {.fd = l->fd, .events = POLLOUT};
    if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0 || write(l->fd, out, n) != (ssize_t)n)
        l->lost++;
}

void request_log_close(struct request_log *l) {
    if (l->owns)
        close(l->fd);
    *l = (struct request_log){.fd = -1};
}
