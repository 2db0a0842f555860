/* Pictures in the parts of messages: "image_url" of chat completions, and the shapes that the adapters' APIs
 * have. A picture's file is decoded from base64 into the request, or its URL is kept there, and the file is
 * fetched from a host of server.image_hosts just before it is decoded; in the message's text stands the token
 * that the model has for pictures, as templates write it. The engine decodes the file before the prompt is
 * submitted, on the thread that renders templates: /health must not wait for a large one. Memory: the pool.
 */
#ifndef STATOR_SERVER_API_PICTURES_H
#define STATOR_SERVER_API_PICTURES_H

#include "server/request/api_request.h"

#include <stdatomic.h>

/* Whether a part of this type is a picture. */
bool api_pictures_is(const char *type);
/* Takes the picture of part `param` and appends its token to *text. False: *r->why. */
bool api_pictures_take(struct api_reader *r, const char *param, const json_t *part, struct api_text *text);
/* The files of the request: out[API_PICTURES]. Returns their number. */
size_t api_pictures_files(const struct api_request *r, stator_picture *out);

/* Where fetched files go, one after the other. */
struct api_picture_room {
    void *memory;
    size_t bytes;
    uint64_t most; /* bytes of a file (server.max_body) */
};

/* Fetches what is to be fetched, counts the pictures' tokens and, if the request loads them, has the engine
 * decode them. That can take seconds: on the thread that renders templates. Ends early, with true, once *stop
 * is not 0. False: *why. */
bool api_pictures_load(stator *engine, const struct api_model *m, struct api_request *r,
                       struct api_picture_room room, const atomic_int *stop, struct api_failure *why);
/* The engine's requests hold what they need themselves. */
void api_pictures_unload(stator *engine, struct api_request *r);
/* Tokens that the pictures become, less their markers. After api_pictures_load. */
uint64_t api_pictures_more(const struct api_request *r);

#endif
