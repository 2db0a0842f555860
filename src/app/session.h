/* What run, logits, plan and others share: opening an engine with its log and progress bar, signals, the
 * report file, the memory table. Uses only stator.h and base. */
#ifndef STATOR_APP_SESSION_H
#define STATOR_APP_SESSION_H

#include "app/options/options.h"
#include "stator.h"

#include <stdatomic.h>
#include <stdio.h>

/* Opens an engine on a config; log lines go to stderr. expect_plan and trace may be NULL. */
stator_status session_open(const char *config, const struct options_list *set, const char *expect_plan,
                           const char *trace, stator **s, stator_error *e);
/* The same with memory for so many compiled grammars. */
stator_status session_open_grammars(const char *config, const struct options_list *set,
                                    const char *expect_plan, const char *trace, uint32_t grammars, stator **s,
                                    stator_error *e);

/* What an engine opened so would be (info->size is given): for a command that chooses sizes by it and then
 * opens once more. No rank begins to serve here. */
stator_status session_look(const char *config, const struct options_list *set, stator_info *info,
                           stator_error *e);

/* What requests will come: one after the other with nothing in common, a conversation's, a server's, whose
 * memory is then planned. */
enum session_purpose { SESSION_RUN, SESSION_CHAT, SESSION_SERVE };
/* beside: as in stator_options. */
stator_status session_open_as(enum session_purpose purpose, const char *config,
                              const struct options_list *set, const char *expect_plan, stator *beside,
                              stator **s, stator_error *e);
/* The same for devices that may only be described (`--device`, devices.facts); such an engine can plan but
 * not start. stage: as in stator_options. */
stator_status session_open_for(const char *config, const struct options_list *set,
                               const struct options_list *devices, uint32_t stage,
                               enum session_purpose purpose, stator *beside, stator **s, stator_error *e);

/* SIGINT and SIGTERM cancel all requests of s (NULL: no longer); a second one ends the process at once. */
void session_catch_signals(stator *s);
/* The same without an engine: the first signal is only stored in the variable that is returned (0: none
 * yet). */
const atomic_int *session_note_signals(void);
int session_signal(void);                    /* the signal that came, or 0 */
const atomic_int *session_signal_flag(void); /* the variable that session_signal reads */
/* The signal was heard: the next one is a first one again. */
void session_forget_signal(void);
/* A descriptor that is readable when a signal has come, until it is forgotten; -1: there is none. */
int session_signal_fd(void);

/* The memory table: planned, and with_use also what was allocated and used. */
void session_print_memory(const stator *s, FILE *out, bool with_use);
/* Takes the audit of memory; prints it when out is not NULL. STATOR_DOES_NOT_FIT: memory.strict forbids what
 * it found. */
stator_status session_audit(const stator *s, FILE *out, stator_error *e);
/* After the work of a started engine, which went as st and e say: the audit (printed when audit is not NULL)
 * and the report as JSON to the file `report` (or NULL); then the engine stops. All come whatever st is; the
 * first error stays. */
stator_status session_finish(stator *s, FILE *audit, const char *report, stator_status st, stator_error *e);
/* Lets go of the signals and closes s, which may be NULL. */
void session_close(stator *s);

/* Ids of a text of numbers separated by blanks or commas; *ids is malloced. what: names the source in errors.
 */
stator_status session_parse_ids(const char *text, const char *what, int32_t **ids, size_t *n,
                                stator_error *e);
/* The whole file ("-": standard input, "stdin" in errors), malloced with a NUL behind; *text is NULL when it
 * fails. Longer than limit is STATOR_USAGE: nothing is read without one. */
#define SESSION_TEXT_LIMIT ((uint64_t)256 << 20) /* bytes of texts, ids, tables: more is a mistake */
#define SESSION_JSON_LIMIT ((uint64_t)64 << 20)  /* of a plan */
stator_status session_read_file(const char *path, uint64_t limit, char **text, size_t *n, stator_error *e);

#endif
