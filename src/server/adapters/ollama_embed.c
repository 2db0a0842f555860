/* Ollama's /api/embed, and /api/embeddings, which has one text. */
#include "server/adapters/ollama.h"

#include "base/json_writer.h"
#include "server/openai/api_vector_jobs.h"

#include <stdio.h>

/* A result that is being written. */
struct vector {
    const struct api_vector_job *job;
    uint32_t i;
};

static void build_vector(struct json *j, const void *of) {
    const struct vector *v = of;
    api_vectors_put(j, NULL, v->job, v->i);
}

static void put_vector(struct api_text *out, const struct api_vector_job *job, uint32_t i) {
    if (i > 0)
        api_text_puts(out, ",");
    api_text_json(out, build_vector, &(struct vector){job, i});
}

static void build_model(struct json *j, const void *of) {
    json_put_string(j, NULL, ((const struct api_vector_job *)of)->api->model.name);
}

static void embed_begin(struct api_text *out, const struct api_vector_job *job) {
    char numbers[160];
    api_text_puts(out, "{\"model\":");
    api_text_json(out, build_model, job);
    snprintf(numbers, sizeof numbers,
             ",\"total_duration\":%llu,\"load_duration\":0,\"prompt_eval_count\":%llu,\"embeddings\":[",
             (unsigned long long)job->took_ns, (unsigned long long)job->tokens);
    api_text_puts(out, numbers);
}

static void embed_end(struct api_text *out, const struct api_vector_job *job) {
    (void)job;
    api_text_puts(out, "]}");
}

static void one_begin(struct api_text *out, const struct api_vector_job *job) {
    (void)job;
    api_text_puts(out, "{\"embedding\":");
}

static void one_end(struct api_text *out, const struct api_vector_job *job) {
    (void)job;
    api_text_puts(out, "}");
}

void ollama_embed(void *context, struct http_exchange *x) {
    static const struct api_vector_form form = {
        "/api/embed", API_OLLAMA_EMBEDDINGS, ollama_names, embed_begin, put_vector, embed_end};
    api_vector_jobs_answer(context, x, &form);
}

void ollama_embeddings(void *context, struct http_exchange *x) {
    static const struct api_vector_form form = {"/api/embeddings", API_OLLAMA_PROMPT, ollama_names,
                                                one_begin,         put_vector,        one_end};
    api_vector_jobs_answer(context, x, &form);
}
