/* Which of several models a request is for: the member "model" of its body (in Ollama's API also "name"),
 * else the parameter "model" of its query, else the first. */
#ifndef STATOR_SERVER_CHOICE_H
#define STATOR_SERVER_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_exchange;
struct server;

/* For http_set_choice; context: any model's server. An unknown name gets 404 with those that there are. */
uint32_t server_choose(void *context, struct http_exchange *x);

/* Into out, with an end: the text that the body, a JSON object, has as its member `name`; as much of it as
 * there is room for. False: there is no such text in it. No JSON at all is for those who read the body. */
bool server_choice_member(const char *body, size_t n, const char *name, char *out, size_t capacity);
/* Writes the names of all models, as "a", "b" and "c"; as many as there is room for. Returns out. */
const char *server_choice_names(const struct server *any, char *out, size_t capacity);

#endif
