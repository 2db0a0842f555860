/* The body of a request of OpenAI's API as a checked struct. What would change the answer and can't be
 * honoured is refused with the name of the field (the table in api_fields.c). Members that are not known are
 * noted, for the header X-Stator-Ignored and the log, or refused (server.unknown_fields).
 *
 * Memory: the pool. jansson's allocations happen in one place (edge_pool_try_json): reading builds all that
 * the template will see, so that nothing has to be built later. */
#ifndef STATOR_SERVER_API_REQUEST_H
#define STATOR_SERVER_API_REQUEST_H

#include "server/kept/kept.h"
#include "server/request/api_stop.h"
#include "server/request/api_structure.h"
#include "chat/chat_form.h"
#include "stator.h"

#include <stdatomic.h>
#include <jansson.h>

#define API_PROMPTS  128 /* of a request, and answers (n) to each */
#define API_MESSAGES 4096
#define API_VARIANTS 3
#define API_TOOLS    128
#define API_PICTURES 64         /* of a request */
#define API_IGNORED  256        /* bytes of the names of what was ignored, with the end */
#define API_REST     UINT32_MAX /* max_tokens: all that there is room for */

/* Where the prompt ends: in front of a new message of the assistant, or within the last one of the history,
 * which the answer goes on with. */
enum api_goes_on { API_NEW_MESSAGE, API_ON_CONTENT, API_ON_REASONING };

/* Stands at that place in the variables, so that it can be found in what the template makes of them. */
#define API_PLACE "StatorGoesOnHere7261"

enum api_endpoint { API_CHAT = 1, API_COMPLETION = 2, API_TEMPLATE = 4 };

/* What reading depends on; of the server, the same for all requests. */
struct api_model {
    const char *name;     /* in answers */
    const char *own_name; /* the file's; NULL: as `name` */
    const char *source;   /* the chat template; NULL: there is none */
    size_t source_length;
    const char *bos, *eos; /* texts of these tokens; NULL: the model has none */
    size_t bos_length, eos_length;
    struct chat_form form; /* how its answers are read, and its history is written */
    struct api_marks marks;
    uint32_t context, vocab;
    uint32_t default_max_tokens; /* 0: all that there is room for */
    bool clamp_tokens;           /* max_tokens beyond the room is cut, not refused */
    bool refuse_unknown;         /* members of a body that are not known are refused */
    bool limits_reasoning;       /* to reasoning_budget tokens, where a request does not say it */
    uint32_t reasoning_budget;
    const char *marker; /* text that stands for a picture */
    size_t marker_length;
    uint32_t pictures;                          /* that a request may have; 0: it takes none */
    const struct http_fetch_hosts *image_hosts; /* of those that are fetched; NULL: none is */
    bool infills;                               /* it has tokens for filling in (stator_infill_tokens) */
    bool strict_model;                          /* other names of the model are refused */
    const char *alias;                          /* further names, separated by commas; NULL: none */
    size_t idle;             /* bytes that a template can have while nobody else is served */
    const struct kept *kept; /* texts of earlier answers by id; NULL: none */
    const atomic_int *stop;  /* not 0 once the process is asked to end */
};

/* Why a request is refused. */
struct api_failure {
    int status;     /* of HTTP */
    char param[96]; /* "": none */
    char text[600];
};
/* Fills *why and returns false. */
__attribute__((format(printf, 4, 5))) bool api_failure_set(struct api_failure *why, int status,
                                                           const char *param, const char *fmt, ...);

struct api_request {
    enum api_endpoint endpoint;
    bool stream, include_usage, echo, ignore_eos, one_call;
    bool tools;        /* calls are looked for in the answer */
    bool tagged_calls; /* and only behind the tags that open them */
    enum api_goes_on goes_on;
    bool returns_reasoning; /* Responses: reasoning also as encrypted_content, for clients that keep that */
    bool limits_reasoning;  /* to reasoning_budget tokens */
    uint32_t reasoning_budget;
    bool logprobs;
    uint32_t top_logprobs;
    bool return_tokens; /* the answer has the ids of its tokens, where its API has a place for them */
    uint32_t n;
    uint32_t slot;                                         /* 1 + the slot whose text it becomes; 0: any */
    uint32_t max_tokens, max_completion_tokens, n_predict; /* 0: not given; or API_REST */
    stator_sampling sampling;                              /* logit_bias points to bias */
    stator_logit_bias *bias;
    struct api_stops *stops; /* NULL: none */
    int32_t *stop_ids;       /* tokens that end the answer, the pool's; NULL: none */
    uint32_t n_stop_ids;
    struct api_structure structure;
    struct api_text repeated; /* settings that the answer repeats, in the adapter's form */
    struct api_text pictures; /* files, behind each other */
    size_t picture_ends[API_PICTURES];
    bool fetches[API_PICTURES]; /* it is a URL, whose file is fetched */
    uint32_t n_pictures;
    bool loads_pictures;                   /* the engine decodes them before the prompt is submitted, */
    uint64_t loaded[API_PICTURES];         /* and these are stator_load_picture's; 0: none */
    uint32_t picture_tokens[API_PICTURES]; /* of the prompt: api_pictures_load */
    struct api_text types;                 /* of the tools' parameters: rows of chat_types.h */
    char ignored[API_IGNORED];             /* names of members that were ignored, separated by commas */
    json_t *kept;                          /* owns all JSON that follows */
    const json_t *body;
    const json_t *prompt; /* COMPLETION: a text, an array of texts, of ids, or of arrays of ids */
    bool infill;          /* COMPLETION: the answer stands between the prompt and suffix */
    const json_t *suffix; /* a text; NULL: an empty one */
    const json_t *extra;  /* [{"text", "filename"?}, ..] of other files, in front of the prompt; NULL: none */
    /* CHAT: the variables of the template, in several forms where messages have calls: as the form says it,
     * then the others of: arguments as objects, as the client's texts, as objects beside a content of null.
     * The first one that the template takes counts; NULL: there is none. */
    const json_t *variables[API_VARIANTS];
};

/* api_form.c: finds model->form by rendering the template. Before the weights are loaded: takes
 * CHAT_FORM_BYTES from the system and gives them back. */
stator_status api_form_find(struct api_model *model, stator_error *e);

struct api_reader;
/* Makes of another API's body the one of chat completions, whose fields are then read: runs where jansson may
 * allocate, appends it to kept. It may set r->out->endpoint to API_COMPLETION: then it is one of completions.
 * NULL: *r->why. */
typedef const json_t *api_translate(struct api_reader *r, const json_t *body, json_t *kept);

/* False: *why says it, and nothing needs freeing. */
bool api_request_read(enum api_endpoint endpoint, const char *body, size_t n, const struct api_model *model,
                      struct api_request *out, struct api_failure *why);
bool api_request_read_other(api_translate *translate, const char *body, size_t n,
                            const struct api_model *model, struct api_request *out, struct api_failure *why);
void api_request_free(struct api_request *r);
/* Only the JSON, when the prompt has been taken. */
void api_request_drop_json(struct api_request *r);

/* COMPLETION: prompts, and one of them: its text, or (*text == NULL) an array of ids. */
uint32_t api_request_prompts(const struct api_request *r);
const json_t *api_request_prompt(const struct api_request *r, uint32_t i, const char **text, size_t *n);

/* The body as JSON within the bounds of depth and number: the first item of *kept, which is the caller's to
 * json_decref. `build` may be NULL; it runs where jansson may allocate, appends to kept what it builds, and
 * returns false with *why. */
bool api_request_load(const char *body, size_t n, const struct api_model *model,
                      bool (*build)(void *context, const json_t *body, json_t *kept), void *context,
                      json_t **kept, struct api_failure *why);

/* What api_request.c's parts are to each other. */
struct api_reader {
    const struct api_model *model;
    struct api_request *out;
    struct api_failure *why;
    struct api_text scratch;
    api_translate *translate; /* NULL: the body is OpenAI's */
};
/* api_fields.c: every field of the body but messages and tools is known, of its type and range. Allocates
 * nothing with jansson. */
bool api_fields_read(struct api_reader *r);
/* api_messages.c: checks messages, tools and kwargs, and builds the variables. */
bool api_messages_build(struct api_reader *r, const json_t *body, json_t *kept);
/* api_history.c: calls, results and system messages in all lists become what the template takes. The lists
 * are alike but for their calls: arguments as objects in the first and the third, as texts in the second.
 * False: some would be lost. */
bool api_history_fit(struct api_reader *r, json_t *const lists[API_VARIANTS]);
/* Decides by the body's fields and the last message whether the answer goes on with it (r->out->goes_on), and
 * then puts API_PLACE there. *prompt: whether the template is to begin a new message. */
bool api_history_continue(struct api_reader *r, const json_t *body, json_t *const lists[API_VARIANTS],
                          bool *prompt);
/* A name is added to a list of API_IGNORED bytes, once: without indices, in characters that a header may
 * have, and ".." where there is no more room. */
void api_request_ignore(char list[API_IGNORED], const char *name);
/* A member that is not known: noted, or refused by this name. */
bool api_request_unknown(struct api_reader *r, const char *param);
/* What a 404 says: the name that was asked for, and the model's. */
#define API_NO_MODEL                                                                                         \
    "there is no model \"%.100s\" here: this server runs \"%s\" (\"default\", or leave the field out)"
/* Whether `name` is one of the model's. */
bool api_request_names_model(const struct api_model *m, const char *name);
/* "a text", "an object", ..: for people. */
const char *api_request_kind(const json_t *v);

#endif
