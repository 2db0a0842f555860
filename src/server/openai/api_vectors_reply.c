/* /v1/embeddings in OpenAI's form, /embeddings in llama-server's, /v1/rerank in Jina's, and, for texts, in
 * that of text-embeddings-inference. */
#include "server/openai/api_vector_jobs.h"

#include "base/json_writer.h"

#include <stdio.h>

#define BASE64_STEP 3072 /* bytes that are written at a time; a multiple of 3 */

/* A result that is being written. */
struct result {
    const struct api_vector_job *job;
    uint32_t i;
};

static size_t base64(const uint8_t *p, size_t n, char *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t at = 0;
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t left = (uint32_t)(n - i);
        const uint32_t bits =
            (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
        out[at++] = digits[bits >> 18];
        out[at++] = digits[bits >> 12 & 63];
        out[at++] = left > 1 ? digits[bits >> 6 & 63] : '=';
        out[at++] = left > 2 ? digits[bits & 63] : '=';
    }
    return at;
}

/* Its name and a quoted text; the writer has no strings in pieces, so the text is put as a raw value. */
static void put_base64(struct api_text *out, const struct api_vector_job *job, uint32_t i) {
    const uint8_t *p = (const uint8_t *)(job->values + (size_t)i * job->width);
    const size_t n = job->width * sizeof *job->values;
    for (size_t at = 0; at < n; at += BASE64_STEP) {
        const size_t part = n - at < BASE64_STEP ? n - at : BASE64_STEP;
        char *room = api_text_room(out, (part + 2) / 3 * 4);
        if (room == NULL)
            return;
        out->n += base64(p + at, part, room);
    }
}

void api_vectors_put(struct json *j, const char *name, const struct api_vector_job *job, uint32_t i) {
    json_open_array(j, name);
    for (uint32_t k = 0; k < job->width; k++)
        json_put_float(j, NULL, job->values[(size_t)i * job->width + k]);
    json_close(j);
}

static void build_usage(struct json *j, const void *of) {
    const struct api_vector_job *job = of;
    json_open_object(j, NULL);
    json_put_u64(j, "prompt_tokens", job->tokens);
    json_put_u64(j, "total_tokens", job->tokens);
    json_close(j);
}

static void build_model(struct json *j, const void *of) {
    json_put_string(j, NULL, ((const struct api_vector_job *)of)->api->model.name);
}

static void comma(struct api_text *out, uint32_t i) {
    if (i > 0)
        api_text_puts(out, ",");
}

static void openai_begin(struct api_text *out, const struct api_vector_job *job) {
    api_text_puts(out, "{\"object\":\"list\",\"model\":");
    api_text_json(out, build_model, job);
    api_text_puts(out, ",\"usage\":");
    api_text_json(out, build_usage, job);
    api_text_puts(out, ",\"data\":[");
}

static void build_openai(struct json *j, const void *of) {
    const struct result *r = of;
    json_open_object(j, NULL);
    json_put_string(j, "object", "embedding");
    json_put_u64(j, "index", r->i);
    api_vectors_put(j, "embedding", r->job, r->i);
    json_close(j);
}

static void openai_item(struct api_text *out, const struct api_vector_job *job, uint32_t i) {
    comma(out, i);
    if (!job->request.base64) {
        api_text_json(out, build_openai, &(struct result){job, i});
        return;
    }
    char head[96];
    snprintf(head, sizeof head, "{\"object\":\"embedding\",\"index\":%u,\"embedding\":\"", i);
    api_text_puts(out, head);
    put_base64(out, job, i);
    api_text_puts(out, "\"}");
}

static void list_end(struct api_text *out, const struct api_vector_job *job) {
    (void)job;
    api_text_puts(out, "]}");
}

static void array_begin(struct api_text *out, const struct api_vector_job *job) {
    (void)job;
    api_text_puts(out, "[");
}

static void array_end(struct api_text *out, const struct api_vector_job *job) {
    (void)job;
    api_text_puts(out, "]");
}

/* An array in an array: llama-server has one vector for each token there without pooling. */
static void build_llama(struct json *j, const void *of) {
    const struct result *r = of;
    json_open_object(j, NULL);
    json_put_u64(j, "index", r->i);
    json_open_array(j, "embedding");
    api_vectors_put(j, NULL, r->job, r->i);
    json_close(j);
    json_close(j);
}

static void llama_item(struct api_text *out, const struct api_vector_job *job, uint32_t i) {
    comma(out, i);
    api_text_json(out, build_llama, &(struct result){job, i});
}

static void scores_begin(struct api_text *out, const struct api_vector_job *job) {
    if (job->request.plain) {
        array_begin(out, job);
        return;
    }
    api_text_puts(out, "{\"object\":\"list\",\"id\":\"");
    api_text_puts(out, job->id);
    api_text_puts(out, "\",\"model\":");
    api_text_json(out, build_model, job);
    api_text_puts(out, ",\"usage\":");
    api_text_json(out, build_usage, job);
    api_text_puts(out, ",\"results\":[");
}

static void build_score(struct json *j, const void *of) {
    const struct result *r = of;
    const struct api_vectors_request *request = &r->job->request;
    const uint32_t i = r->job->order[r->i];
    const char *text = NULL;
    size_t n = 0;
    (void)api_vectors_item(request, i, &text, &n);
    json_open_object(j, NULL);
    json_put_u64(j, "index", i);
    json_put_float(j, request->plain ? "score" : "relevance_score", r->job->values[i]);
    if (request->returns_texts && request->plain) {
        json_put_string_n(j, "text", text, n);
    } else if (request->returns_texts) {
        json_open_object(j, "document");
        json_put_string_n(j, "text", text, n);
        json_close(j);
    }
    json_close(j);
}

static void scores_item(struct api_text *out, const struct api_vector_job *job, uint32_t i) {
    comma(out, i);
    api_text_json(out, build_score, &(struct result){job, i});
}

static void scores_end(struct api_text *out, const struct api_vector_job *job) {
    if (job->request.plain)
        array_end(out, job);
    else
        list_end(out, job);
}

void api_vectors_openai(void *context, struct http_exchange *x) {
    static const struct api_vector_form form = {"/v1/embeddings", API_EMBEDDINGS, api_request_names_model,
                                                openai_begin,     openai_item,    list_end};
    api_vector_jobs_answer(context, x, &form);
}

void api_vectors_llama(void *context, struct http_exchange *x) {
    static const struct api_vector_form form = {"/embeddings", API_EMBEDDINGS, api_request_names_model,
                                                array_begin,   llama_item,     array_end};
    api_vector_jobs_answer(context, x, &form);
}

void api_vectors_scores(void *context, struct http_exchange *x) {
    static const struct api_vector_form form = {"/v1/rerank", API_SCORES,  api_request_names_model,
                                                scores_begin, scores_item, scores_end};
    api_vector_jobs_answer(context, x, &form);
}
