/* How many tokens of an answer may be reasoning. When they are used up, server.reasoning_message and the tag
 * that closes reasoning come next, and the model goes on behind them (stator_budget). */
#ifndef STATOR_SERVER_API_BUDGET_H
#define STATOR_SERVER_API_BUDGET_H

#include "chat/chat_form.h"
#include "stator.h"

struct api_budget { /* all zero: the model does not think in a way that is known */
    uint32_t n_open, n_message, n_close;
    int32_t tokens[STATOR_FORCED]; /* that open reasoning, those of the message, that close it */
};

/* After stator_prepare. STATOR_USAGE: the message is too long. */
stator_status api_budget_open(struct api_budget *b, const stator *engine, const struct chat_form *form,
                              const char *message, stator_error *e);
/* begun: the prompt has opened reasoning. False: nothing can be limited. *out points to b. */
bool api_budget_of(const struct api_budget *b, uint32_t tokens, bool begun, stator_budget *out);

#endif
