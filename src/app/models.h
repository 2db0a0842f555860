/* The models of a config: of models = ( {..}, {..} ), or the only one. Commands that take all of them open an
 * engine for each, one beside the other (stator_options.beside). */
#ifndef STATOR_APP_MODELS_H
#define STATOR_APP_MODELS_H

#include "app/options/options.h"
#include "app/session.h"

#define MODELS_MOST 8

struct models {
    uint32_t n;                           /* 1 or more */
    bool several;                         /* they are of a list, of which none is chosen */
    char name[MODELS_MOST][64];           /* several: of each; else "" */
    char choice[MODELS_MOST][80];         /* "model.name=NAME" */
    struct options_list set[MODELS_MOST]; /* what each is opened with */
    stator *engine[MODELS_MOST];          /* those that are open */
};

/* Reads which there are; an error of the config itself comes when they are opened. */
stator_status models_read(const char *config, const struct options_list *set, struct models *out,
                          stator_error *e);
/* *e says which model it is about. */
void models_blame(const struct models *m, uint32_t index, stator_error *e);
/* The hash of all plans; of one alone it is that plan's. hash: 33 bytes. */
stator_status models_hash(const struct models *m, char *hash, stator_error *e);
/* Writes the reports of all as JSON to the file: {"models": [{"name", "report": as of one}]}. */
stator_status models_report(const struct models *m, const char *path, stator_error *e);
/* Closes all that are open, the last one first. */
void models_close(struct models *m);

#endif
