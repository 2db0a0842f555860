/* Pictures in the parts of messages: "image_url" of chat completions, and the shapes that the adapters' APIs
 * have. A picture's file is decoded from base64 into the request; in the message's text stands the token that
 * the model has for pictures, as templates write it. Memory: the pool. */
#ifndef STATOR_SERVER_API_PICTURES_H
#define STATOR_SERVER_API_PICTURES_H

#include "server/request/api_request.h"

/* Whether a part of this type is a picture. */
bool api_pictures_is(const char *type);
/* Takes the picture of part `param` and appends its token to *text. False: *r->why. */
bool api_pictures_take(struct api_reader *r, const char *param, const json_t *part, struct api_text *text);
/* The files for a request of the engine: out[API_PICTURES]. Returns their number. */
size_t api_pictures_files(const struct api_request *r, stator_picture *out);

#endif
