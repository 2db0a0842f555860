#include "server/request/api_pictures.h"

#include "base/arith.h"
#include "base/clock.h"
#include "chat/chat_json.h"
#include "server/http/http_fetch.h"

#include <string.h>

bool api_pictures_is(const char *type) {
    return strcmp(type, "image_url") == 0 || strcmp(type, "input_image") == 0 || strcmp(type, "image") == 0;
}

static bool fail(struct api_reader *r, const char *param, const char *what) {
    return api_failure_set(r->why, 400, param, "%s: %s", param, what);
}

/* The value of a digit; -1: it is none. Both alphabets of RFC 4648. */
static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

/* Appends what n characters of base64 stand for; line breaks are skipped, padding ends it. */
static bool decode(const char *text, size_t n, struct api_text *to, bool *valid) {
    char *out = api_text_room(to, n / 4 * 3 + 3);
    uint32_t bits = 0, have = 0;
    size_t at = 0, i = 0;
    *valid = true;
    if (out == NULL)
        return false;
    for (; i < n && text[i] != '='; i++) {
        const int digit = digit_of(text[i]);
        if (text[i] == '\n' || text[i] == '\r')
            continue;
        if (digit < 0) {
            *valid = false;
            return true;
        }
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[at++] = (char)(bits >> have & 255);
        }
    }
    for (; i < n; i++)
        *valid = *valid && (text[i] == '=' || text[i] == '\n' || text[i] == '\r');
    *valid = *valid && at > 0 && have < 6;
    to->n += at;
    return true;
}

/* The base64 of a data: URL; NULL: it is none. */
static const char *data_of(const char *url, size_t length, size_t *n) {
    static const char scheme[] = "data:", coding[] = ";base64,";
    if (length < sizeof scheme - 1 || memcmp(url, scheme, sizeof scheme - 1) != 0)
        return NULL;
    const char *comma = memchr(url, ',', length);
    const size_t head = comma != NULL ? (size_t)(comma + 1 - url) : 0;
    if (head < sizeof coding - 1 || memcmp(comma + 1 - (sizeof coding - 1), coding, sizeof coding - 1) != 0)
        return NULL;
    *n = length - head;
    return comma + 1;
}

/* Where the part has its picture: a URL, or (Anthropic's `source`) base64 alone or a URL. */
static const json_t *find_text(const json_t *part, bool *bare) {
    const json_t *url = json_object_get(part, "image_url"), *source = json_object_get(part, "source");
    const char *type = json_string_value(json_object_get(source, "type"));
    *bare = type != NULL && strcmp(type, "base64") == 0;
    if (*bare)
        return json_object_get(source, "data");
    if (type != NULL && strcmp(type, "url") == 0)
        return json_object_get(source, "url");
    return json_is_object(url) ? json_object_get(url, "url") : url;
}

/* Keeps the URL of a picture whose file will be fetched. */
static bool take_url(struct api_reader *r, const char *param, const char *url, size_t n) {
    struct http_fetch_url parts;
    char why[HTTP_FETCH_WHY];
    if (http_fetch_find(r->model->image_hosts, url, n, &parts, why) == NULL)
        return fail(r, param, why);
    r->out->fetches[r->out->n_pictures] = true;
    api_text_put(&r->out->pictures, url, n);
    return !r->out->pictures.failed ||
           api_failure_set(r->why, 503, NULL, "the server's memory has no room for the picture now");
}

bool api_pictures_take(struct api_reader *r, const char *param, const json_t *part, struct api_text *text) {
    struct api_request *out = r->out;
    bool bare = false, valid = false;
    const json_t *found = find_text(part, &bare);
    if (r->model->pictures == 0)
        return api_failure_set(
            r->why, 400, param,
            "%s is of the type \"%s\": the server has no vision tower (model.vision), it reads "
            "texts only",
            param, json_string_value(json_object_get(part, "type")));
    if (out->n_pictures == API_PICTURES || out->n_pictures == r->model->pictures)
        return api_failure_set(r->why, 400, param, "%s: a request may have %u pictures (vision.pictures)",
                               param, r->model->pictures);
    if (!chat_json_is_text(found))
        return fail(r, param, "a picture is expected as a data: URL in image_url, or as source of base64");
    size_t n = json_string_length(found);
    const char *data = bare ? json_string_value(found) : data_of(json_string_value(found), n, &n);
    if (data == NULL && !http_fetch_is_url(json_string_value(found), n))
        return fail(r, param, "only data: URLs of base64 are read, and http:// URLs of server.image_hosts");
    if (data == NULL && !take_url(r, param, json_string_value(found), n))
        return false;
    if (data != NULL && !decode(data, n, &out->pictures, &valid))
        return api_failure_set(r->why, 503, NULL, "the server's memory has no room for the picture now");
    if (data != NULL && !valid)
        return fail(r, param, "the picture's data is no base64");
    out->picture_ends[out->n_pictures++] = out->pictures.n;
    api_text_put(text, r->model->marker, r->model->marker_length);
    return true;
}

size_t api_pictures_files(const struct api_request *r, stator_picture *out) {
    for (uint32_t i = 0; i < r->n_pictures; i++) {
        const size_t begin = i > 0 ? r->picture_ends[i - 1] : 0;
        out[i] = (stator_picture){r->pictures.p + begin, r->picture_ends[i] - begin};
    }
    return r->n_pictures;
}

static bool refuse(struct api_failure *why, stator_status st, const stator_error *e) {
    return api_failure_set(why,
                           st == STATOR_BUSY    ? 429
                           : st == STATOR_USAGE ? 400
                                                : 500,
                           NULL, "%s", e->text);
}

/* The file whose URL `file` is, in its place. */
static bool fetch(const struct api_model *m, stator_picture *file, struct api_picture_room room,
                  uint64_t until_ns, const atomic_int *stop, struct api_failure *why) {
    struct http_fetch_url url;
    char text[HTTP_FETCH_WHY];
    size_t n = 0;
    const struct http_fetch_host *h = http_fetch_find(m->image_hosts, file->data, file->length, &url, text);
    if (h == NULL)
        return api_failure_set(why, 400, NULL, "%s", text);
    const size_t most = (size_t)ARITH_MIN(room.bytes, room.most);
    if (!http_fetch(h, &url, room.memory, most, &n, until_ns, stop, text))
        return api_failure_set(why, 400, NULL, "a picture can't be fetched from %s: %s", h->name, text);
    *file = (stator_picture){room.memory, n};
    return true;
}

bool api_pictures_load(stator *engine, const struct api_model *m, struct api_request *r,
                       struct api_picture_room room, const atomic_int *stop, struct api_failure *why) {
    stator_picture files[API_PICTURES];
    const size_t n = api_pictures_files(r, files);
    const uint64_t until_ns = clock_ns() + HTTP_FETCH_NS;
    for (size_t i = 0; i < n && atomic_load(stop) == 0; i++) {
        stator_error e = {0};
        if (r->fetches[i] && !fetch(m, &files[i], room, until_ns, stop, why))
            return false;
        stator_picture_size size = {.size = sizeof size};
        stator_status st = stator_measure_picture(engine, &files[i], &size, &e);
        r->picture_tokens[i] = size.tokens;
        if (st == STATOR_OK && r->loads_pictures)
            st = stator_load_picture(engine, &files[i], &r->loaded[i], &e);
        if (st != STATOR_OK)
            return refuse(why, st, &e);
    }
    return true;
}

void api_pictures_unload(stator *engine, struct api_request *r) {
    for (uint32_t i = 0; i < r->n_pictures; i++) {
        stator_drop_picture(engine, r->loaded[i]);
        r->loaded[i] = 0;
    }
}

uint64_t api_pictures_more(const struct api_request *r) {
    uint64_t more = 0;
    for (uint32_t i = 0; i < r->n_pictures; i++)
        more += r->picture_tokens[i] - 1;
    return more;
}
