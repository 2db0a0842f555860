/* The body of a chat completion, built from another API's request. All functions run where jansson may
 * allocate (api_translate). What they make belongs to the body. */
#ifndef STATOR_SERVER_ADAPTER_CHAT_H
#define STATOR_SERVER_ADAPTER_CHAT_H

#include "server/request/api_request.h"

struct adapter_chat {
    struct api_reader *r;
    json_t *body, *messages, *tools;
    json_t *turn;     /* the assistant's message that its next parts join; NULL: none is open */
    json_t *thoughts; /* texts of its reasoning */
    json_t *parked;   /* owns what may not become a part of the body */
};

/* Reads each item of an array; param: the array's name, of which `read` gets "param[i]". False: v is no array
 * (expected says for people what it should be), or an item was refused; *r->why says it. */
bool adapter_each(struct adapter_chat *c, const char *param, const json_t *v, const char *expected,
                  bool (*read)(struct adapter_chat *c, const char *param, const json_t *item));
/* The body belongs to kept. */
void adapter_begin(struct adapter_chat *c, struct api_reader *r, json_t *kept);
/* Puts the last messages, and the tools if there are some, into the body. False: *r->why. */
bool adapter_end(struct adapter_chat *c);

/* Members of the client's body that are not among `names` become fields as they are: the table of chat
 * completions honours, ignores or refuses them. */
void adapter_hand_on(struct adapter_chat *c, const json_t *body, const char *const *names);
/* {"type": "json_schema", "schema": .., ..} as response_format; others as they are. NULL: nothing. */
bool adapter_format(struct adapter_chat *c, const char *param, json_t *format);

#define ADAPTER_PARAM 96 /* bytes of the name of a place, "messages[2].content[0]" */
/* The text of that member; NULL: there is none. */
const char *adapter_text_of(const json_t *object, const char *name);
/* text, which may be NULL, is `name`. */
bool adapter_is(const char *text, const char *name);
/* Fills *r->why with 400 and returns false: `param` is another kind of value than `expected`. */
bool adapter_wrong(struct api_reader *r, const char *param, const json_t *v, const char *expected);
/* There, and not null. */
bool adapter_given(const json_t *v);

/* A message of another role than the assistant's, which ends the assistant's turn. content: an array of parts
 * ({"type": "text", "text": ..}) that adapter_part fills. */
json_t *adapter_message(struct adapter_chat *c, const char *role, json_t *content);
/* A text as one more part. The parts of a message stand behind each other. */
void adapter_part(json_t *content, json_t *text);
/* The same for a text that a client wrote, without Claude Code's markers; a line end stands between it and
 * the part in front of it. A text of nothing but markers adds nothing. */
void adapter_block(struct adapter_chat *c, json_t *content, json_t *text);

/* Parts of the assistant's turn. Its content is an array of parts. */
json_t *adapter_turn(struct adapter_chat *c);
void adapter_thought(struct adapter_chat *c, json_t *text);
/* arguments: a text of JSON. */
void adapter_call(struct adapter_chat *c, json_t *id, json_t *name, json_t *arguments);
/* The answer to a call. */
void adapter_result(struct adapter_chat *c, json_t *id, json_t *content);

/* A function that the model may call, with what else the client's tool says: description and strict.
 * parameters may be NULL. */
void adapter_tool(struct adapter_chat *c, const json_t *from, json_t *name, json_t *parameters);
/* The model is to call the function of this name. */
void adapter_choose(struct adapter_chat *c, json_t *name);
/* A tool of a hosted service: left out, and named in the log and in X-Stator-Ignored. */
void adapter_drop_tool(struct adapter_chat *c, const char *type);

/* A value as JSON text, with numbers as the client wrote them and blanks as Python's json module has them,
 * which is what models were trained with. NULL: *r->why. */
json_t *adapter_json_text(struct api_reader *r, const json_t *v);

#endif
