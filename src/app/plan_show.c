/* stator plan: the memory plan, without touching a device or reading a weight. */
#include "app/commands.h"
#include "app/options.h"
#include "app/out.h"
#include "app/session.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

static stator_status print_json(const stator *s, stator_error *e)
{
    size_t n = 0;
    (void)stator_plan_json(s, NULL, 0, &n, NULL);
    char *text = malloc(n + 1);
    if (text == NULL)
        return error_set(e, STATOR_FAILED, "no memory for the plan's text");
    stator_status st = stator_plan_json(s, text, n + 1, &n, e);
    if (st == STATOR_OK)
        puts(text);
    free(text);
    return st;
}

static void print_table(const stator *s)
{
    stator_info info = {.size = sizeof info};
    if (stator_get_info(s, &info, NULL) != STATOR_OK)
        return;
    printf("model %s (%s), context %u, sequences %u, batch %u, logits rows %u\n", info.model_name, info.architecture, info.context,
           info.sequences, info.batch, info.logits_rows);
    session_print_memory(s, stdout, false);
    printf("plan %s\n", info.plan_hash);
}

int plan_command(int argc, char **argv)
{
    struct options_list set = {.n = 0};
    bool json = false;
    const struct options_row rows[] = {OPTIONS_JSON(&json), OPTIONS_SET(&set)};
    struct options o = {.command = "plan",
                        .usage = "CONFIG",
                        .summary = "Prints the memory plan: every arena of every device and of the host, in bytes. CONFIG is a config file or "
                                   "a .gguf file. Exit 3 when the plan does not fit.",
                        .rows = rows,
                        .n_rows = sizeof rows / sizeof rows[0],
                        .min_arguments = 1,
                        .max_arguments = 1};
    int code = 0;
    if (!options_parse(&o, argc, argv, &code))
        return code;
    stator *s = NULL;
    stator_error e;
    stator_status st = session_open(o.arguments[0], &set, NULL, &s, &e);
    if (st != STATOR_OK)
        return out_error("plan", &e);
    st = stator_plan(s, &e);
    if (st == STATOR_OK || st == STATOR_DOES_NOT_FIT) {
        stator_error print_error;
        if (json && print_json(s, &print_error) != STATOR_OK)
            st = out_error("plan", &print_error);
        else if (!json)
            print_table(s);
    }
    if (st != STATOR_OK)
        out_error("plan", &e);
    stator_close(s);
    return out_finish("plan", st);
}
