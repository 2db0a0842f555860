#include "engine/start/log_sink.h"

#include "base/check.h"
#include "base/json_writer.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static void format_json(char *out, size_t n, stator_log_level level, const char *line) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct json j;
    json_to_buffer(&j, out, n, false);
    json_open_object(&j, NULL);
    json_put_double(&j, "time", (double)now.tv_sec + (double)(now.tv_nsec / 1000000) * 1e-3);
    json_put_string(&j, "level", names[level]);
    json_put_string(&j, "message", line);
    json_close(&j);
    (void)json_end(&j);
    out[n - 1] = '\0';
}

static void sink_write(void *context, stator_log_level level, const char *line) {
    struct log_sink *k = context;
    char text[4096];
    if (k->json) {
        format_json(text, sizeof text, level, line);
        line = text;
    }
    if (k->file != NULL) {
        errno = 0;
        if (fprintf(k->file, "%s\n", line) < 0 || ferror(k->file))
            atomic_store(&k->failed, errno != 0 ? errno : EIO);
    } else if (k->out.write != NULL)
        k->out.write(k->out.context, level, line);
}

stator_status log_sink_open(struct log_sink *k, const struct config *c, struct log *l, stator_error *e) {
    CHECK(k->file == NULL && l->write != sink_write); /* once */
    k->out = *l;
    k->json = c->log.format == CONFIG_LOG_JSON;
    if (c->log.file[0] != '\0') {
        k->file = fopen(c->log.file, "ae");
        if (k->file == NULL)
            return error_set(e, STATOR_USAGE, "log.file = \"%s\" can't be opened: %s", c->log.file,
                             strerror(errno));
        setvbuf(k->file, NULL, _IOLBF, BUFSIZ);
    }
    *l = (struct log){.write = sink_write, .context = k, .level = c->log.level};
    return STATOR_OK;
}

stator_status log_sink_result(const struct log_sink *k, const struct config *c, stator_error *e) {
    int why = atomic_load(&k->failed);
    if (why == 0)
        return STATOR_OK;
    return error_set(e, STATOR_FAILED, "log.file = \"%.300s\" can't be written, lines are missing: %s",
                     c->log.file, strerror(why));
}

void log_sink_close(struct log_sink *k) {
    if (k->file != NULL)
        fclose(k->file);
    k->file = NULL;
}
