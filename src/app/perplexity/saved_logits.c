#include "app/perplexity/saved_logits.h"

#include "app/out.h"

#include "base/arith.h"
#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are written as they lie in memory");

#define MAGIC   "STATORLP"
#define VERSION 1
#define CODES   65535
#define FRONT   (2 * sizeof(float)) /* of a row */

struct header {
    char magic[8];
    uint32_t version, vocab, window, scored, windows;
    char text[HASH_TEXT], ids[HASH_TEXT];
    char zero[SAVED_LOGITS_HEADER - 28 - 2 * HASH_TEXT];
};
_Static_assert(sizeof(struct header) == SAVED_LOGITS_HEADER, "no gaps");

static stator_status begin(struct saved_logits *s, stator_error *e) {
    s->row_bytes = FRONT + (uint64_t)s->key.vocab * sizeof(uint16_t);
    s->row = malloc(s->row_bytes);
    return s->row != NULL ? STATOR_OK
                          : error_set(e, STATOR_DOES_NOT_FIT,
                                      "no memory for a row of logits (%" PRIu64 " bytes)", s->row_bytes);
}

static stator_status seek(struct saved_logits *s, uint64_t at, stator_error *e) {
    if (fseeko(s->file, (off_t)at, SEEK_SET) == 0)
        return STATOR_OK;
    return error_set(e, STATOR_FAILED, "%.300s: %s", s->path, strerror(errno));
}

/* A position that is there already is not sought: the buffer of the file stays. */
static stator_status go_to_row(struct saved_logits *s, uint64_t index, stator_error *e) {
    const uint64_t at = SAVED_LOGITS_HEADER + arith_must_mul(index, s->row_bytes);
    return ftello(s->file) == (off_t)at ? STATOR_OK : seek(s, at, e);
}

stator_status saved_logits_create(struct saved_logits *s, const char *path,
                                  const struct saved_logits_key *key, stator_error *e) {
    *s = (struct saved_logits){.path = path, .key = *key};
    stator_status st = begin(s, e);
    if (st != STATOR_OK)
        return st;
    s->file = out_open("--save-logits", path, e);
    struct stat about;
    if (s->file == NULL)
        return e->code;
    if (fstat(fileno(s->file), &about) != 0 || !S_ISREG(about.st_mode))
        return error_set(e, STATOR_USAGE,
                         "--save-logits %.300s is not a regular file: rows are not written "
                         "in their order",
                         path);
    return STATOR_OK;
}

static stator_status check_header(const struct saved_logits *s, const struct header *h, uint64_t bytes,
                                  stator_error *e) {
    const struct saved_logits_key *k = &s->key;
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0)
        return error_set(e, STATOR_USAGE,
                         "it holds no saved logits (those of stator perplexity --save-logits begin with "
                         "\"" MAGIC "\"), or was not finished");
    if (h->version != VERSION)
        return error_set(e, STATOR_USAGE, "its format has version %" PRIu32 ", expected %d: save it again",
                         h->version, VERSION);
    if (h->vocab != k->vocab)
        return error_set(e, STATOR_USAGE,
                         "its vocabulary has %" PRIu32 " tokens, the model's %" PRIu32
                         ": only models with the same vocabulary can be compared",
                         h->vocab, k->vocab);
    if (memchr(h->text, '\0', HASH_TEXT) == NULL || memchr(h->ids, '\0', HASH_TEXT) == NULL)
        return error_set(e, STATOR_USAGE, "its header is damaged");
    if (strcmp(h->text, k->text) != 0)
        return error_set(e, STATOR_USAGE, "it was saved for another text");
    if (h->window != k->window || h->scored != k->scored)
        return error_set(e, STATOR_USAGE,
                         "it was saved with windows of %" PRIu32 " tokens, memory.context is %" PRIu32
                         ": they must be equal",
                         h->window, k->window);
    if (h->windows < k->windows)
        return error_set(e, STATOR_USAGE,
                         "it holds %" PRIu32 " windows, fewer than the %" PRIu32
                         " that are asked for: give --chunks %" PRIu32,
                         h->windows, k->windows, h->windows);
    if (strcmp(h->ids, k->ids) != 0)
        return error_set(e, STATOR_USAGE,
                         "the text has other token ids there: the vocabulary, or its rules, are another");
    uint64_t need = 0;
    const uint64_t rows = (uint64_t)h->windows * h->scored; /* 32 x 32 bits */
    if (!arith_mul(rows, s->row_bytes, &need) || !arith_add(need, SAVED_LOGITS_HEADER, &need) ||
        need != bytes)
        return error_set(e, STATOR_USAGE,
                         "it has %" PRIu64 " bytes, its header promises %" PRIu64 ": it is damaged", bytes,
                         need);
    return STATOR_OK;
}

stator_status saved_logits_open(struct saved_logits *s, const char *path, const struct saved_logits_key *key,
                                stator_error *e) {
    *s = (struct saved_logits){.path = path, .key = *key};
    stator_status st = begin(s, e);
    if (st != STATOR_OK)
        return st;
    struct stat about;
    s->file = fopen(path, "re");
    if (s->file == NULL || fstat(fileno(s->file), &about) != 0)
        return error_set(e, STATOR_USAGE, "--kl-base %.300s can't be opened: %s", path, strerror(errno));
    struct header h;
    if (!S_ISREG(about.st_mode))
        st = error_set(e, STATOR_USAGE, "it is not a regular file");
    else if (fread(&h, 1, sizeof h, s->file) != sizeof h)
        st = error_set(e, STATOR_USAGE, "it is shorter than a header of %d bytes", SAVED_LOGITS_HEADER);
    else
        st = check_header(s, &h, (uint64_t)about.st_size, e);
    if (st != STATOR_OK)
        error_prefix(e, "--kl-base %.200s", path);
    return st;
}

stator_status saved_logits_write(struct saved_logits *s, uint64_t index, const float *log_p,
                                 stator_error *e) {
    float top = -INFINITY;
    float least = 0;
    for (uint32_t i = 0; i < s->key.vocab; i++) {
        top = log_p[i] > top ? log_p[i] : top;
        least = log_p[i] < least ? log_p[i] : least;
    }
    const float range = ARITH_MIN(top - least, SAVED_LOGITS_RANGE);
    const float front[2] = {top, range / CODES};
    const float scale = range > 0 ? CODES / range : 0;
    memcpy(s->row, front, FRONT);
    for (uint32_t i = 0; i < s->key.vocab; i++) {
        const float code = rintf((top - log_p[i]) * scale);
        const uint16_t c = (uint16_t)(code < CODES ? code : CODES);
        memcpy(s->row + FRONT + i * sizeof c, &c, sizeof c);
    }
    stator_status st = go_to_row(s, index, e);
    if (st == STATOR_OK && fwrite(s->row, 1, s->row_bytes, s->file) != s->row_bytes)
        st = error_set(e, STATOR_FAILED, "--save-logits %.300s can't be written: %s", s->path,
                       strerror(errno));
    return st;
}

stator_status saved_logits_read(struct saved_logits *s, uint64_t index, float *log_p, stator_error *e) {
    stator_status st = go_to_row(s, index, e);
    if (st != STATOR_OK)
        return st;
    errno = 0;
    if (fread(s->row, 1, s->row_bytes, s->file) != s->row_bytes)
        return error_set(e, STATOR_FAILED, "--kl-base %.300s: row %" PRIu64 " can't be read%s%s", s->path,
                         index, errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    float front[2];
    memcpy(front, s->row, FRONT);
    /* The likeliest of vocab tokens has at least 1 / vocab. */
    if (!(front[0] <= 1e-3f && front[0] >= -23.0f && front[1] >= 0 &&
          front[1] <= 1.001f * SAVED_LOGITS_RANGE / CODES))
        return error_set(e, STATOR_USAGE,
                         "--kl-base %.300s: row %" PRIu64 " begins with %g and a step of %g: it is damaged",
                         s->path, index, (double)front[0], (double)front[1]);
    double sum = 0;
    for (uint32_t i = 0; i < s->key.vocab; i++) {
        uint16_t c;
        memcpy(&c, s->row + FRONT + i * sizeof c, sizeof c);
        log_p[i] = front[0] - (float)c * front[1];
        sum += (double)expf(log_p[i]);
    }
    // cppcheck-suppress invalidFunctionArg ; each is above exp(-48)
    const float log_sum = (float)log(sum);
    for (uint32_t i = 0; i < s->key.vocab; i++)
        log_p[i] -= log_sum;
    return STATOR_OK;
}

stator_status saved_logits_close(struct saved_logits *s, bool written, stator_status st, stator_error *e) {
    if (s->file != NULL && written) {
        struct header h = {.version = VERSION,
                           .vocab = s->key.vocab,
                           .window = s->key.window,
                           .scored = s->key.scored,
                           .windows = s->key.windows};
        memcpy(h.magic, MAGIC, sizeof h.magic);
        memcpy(h.text, s->key.text, HASH_TEXT);
        memcpy(h.ids, s->key.ids, HASH_TEXT);
        if (st == STATOR_OK)
            st = seek(s, 0, e);
        if (st == STATOR_OK && fwrite(&h, 1, sizeof h, s->file) != sizeof h)
            st = error_set(e, STATOR_FAILED, "--save-logits %.300s can't be written: %s", s->path,
                           strerror(errno));
        st = out_close(s->file, "--save-logits", s->path, st, e);
    } else if (s->file != NULL) {
        fclose(s->file);
    }
    free(s->row);
    *s = (struct saved_logits){.file = NULL};
    return st;
}
