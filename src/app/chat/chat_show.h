/* An answer as it is shown: what the model thinks is told from what it says, in a stream of text that may be
 * cut anywhere. Two ways of writing are known: <think>..</think> in front of the answer, and the channels of
 * gpt-oss. Pure, but for the function that it gives its pieces to. */
#ifndef STATOR_APP_CHAT_CHAT_SHOW_H
#define STATOR_APP_CHAT_CHAT_SHOW_H

#include <stdbool.h>
#include <stddef.h>

enum chat_show_style {
    CHAT_SHOW_PLAIN,   /* nothing is thinking */
    CHAT_SHOW_TAGS,    /* <think> .. </think> */
    CHAT_SHOW_CHANNELS /* <|channel|>analysis<|message|> ..
                        * <|end|><|start|>assistant<|channel|>final<|message|> ..
                        */
};

enum chat_show_state {
    CHAT_SHOW_BEFORE,
    CHAT_SHOW_THINKING,
    CHAT_SHOW_AFTER_THINKING,
    CHAT_SHOW_SAYING,
    CHAT_SHOW_HEADER
};

struct chat_show {
    enum chat_show_style style;
    enum chat_show_state state;
    /* A piece of the answer. Blanks in front of the first word are no part of it. False: no more. */
    bool (*put)(void *context, const char *text, size_t n, bool thinking);
    void *context;
    char held[64]; /* what may be the beginning of a mark, or a channel's header */
    size_t n_held;
};

/* The style of models with this template. */
enum chat_show_style chat_show_style_of(const char *text, size_t n);
/* thinks: the prompt has opened the thinking already. */
void chat_show_begin(struct chat_show *s, enum chat_show_style style, bool thinks,
                     bool (*put)(void *context, const char *text, size_t n, bool thinking), void *context);
/* False: put said so. */
bool chat_show_feed(struct chat_show *s, const char *text, size_t n);
bool chat_show_end(struct chat_show *s);

#endif
