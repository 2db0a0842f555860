/* The body of a request for embeddings or for the scores of documents as a checked struct. Forms of
 * embeddings: OpenAI's (input, encoding_format, dimensions), llama-server's (content) and Ollama's (input,
 * truncate; in an older one prompt, one text). Forms of scores: Jina's (query, documents, top_n,
 * return_documents) and text-embeddings-inference's (query, texts, return_text). Memory: the pool; the JSON
 * is kept until api_vectors_free. */
#ifndef STATOR_SERVER_API_VECTORS_H
#define STATOR_SERVER_API_VECTORS_H

#include "server/request/api_request.h"

#define API_INPUTS 2048 /* of a request */

enum api_vectors_kind { API_EMBEDDINGS, API_OLLAMA_EMBEDDINGS, API_OLLAMA_PROMPT, API_SCORES };

struct api_vectors_request {
    enum api_vectors_kind kind;
    json_t *kept;           /* owns the JSON that follows */
    const char *items_name; /* of the field of the texts: "input" */
    const json_t *items; /* a text, ids, or an array of texts, of ids' arrays or (SCORES) of {"text": ..} */
    uint32_t n;          /* texts */
    uint32_t dimensions; /* 0: all */
    bool base64;         /* embeddings as their bytes (f32, little-endian) */
    bool truncates;      /* texts that are too long are cut; else they are refused */
    const json_t *query; /* SCORES: a text */
    uint32_t top_n;      /* SCORES: as many results at most, at most n */
    bool returns_texts;  /* SCORES */
    bool plain;          /* SCORES: the field is texts, so the answer is an array */
    char ignored[API_IGNORED];
};

/* names: whether a name is one of the model's (api_request_names_model or its like). False: *why says it, and
 * nothing needs freeing. */
bool api_vectors_read(enum api_vectors_kind kind, const char *body, size_t n, const struct api_model *model,
                      bool (*names)(const struct api_model *m, const char *name),
                      struct api_vectors_request *out, struct api_failure *why);
/* Text i: its bytes, or (*text == NULL) an array of ids. */
const json_t *api_vectors_item(const struct api_vectors_request *r, uint32_t i, const char **text, size_t *n);
void api_vectors_free(struct api_vectors_request *r);

#endif
