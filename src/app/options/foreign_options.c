#include "app/options/foreign_options.h"

#include <stdio.h>
#include <string.h>

static const struct foreign_option rows[] = {
    {" m model ", NULL, NULL, "the model's file is an argument without an option before it"},
    {" hf hf-repo hf-file hfr hff mu model-url ", NULL, NULL,
     "stator downloads nothing: get the .gguf file yourself and give its path"},
    {" c ctx-size num-ctx max-model-len ", NULL, "memory.context", NULL},
    {" b batch-size ub ubatch-size ", NULL, "memory.batch", NULL},
    {" np parallel max-num-seqs ", NULL, "memory.sequences", NULL},
    {" t threads tb threads-batch ", NULL, "cpu.threads", NULL},
    {" ngl gpu-layers n-gpu-layers ", NULL, NULL,
     "stator places the layers itself: devices.use names the devices (--set devices.use=cpu:0 for the CPU "
     "alone) "
     "and devices.split divides the layers"},
    {" ts tensor-split sm split-mode ", NULL, "devices.split", NULL},
    {" dev device mg main-gpu ", NULL, "devices.use", NULL},
    {" ctk cache-type-k ", NULL, "memory.kv_type_k", NULL},
    {" ctv cache-type-v ", NULL, "memory.kv_type_v", NULL},
    {" kv-cache-dtype ", NULL, "memory.kv_type", NULL},
    {" host ", NULL, "server.host", NULL},
    {" port ", NULL, "server.port", NULL},
    {" api-key ", NULL, "server.api_key_file", "which names a file with the key"},
    {" timeout ", NULL, "server.request_timeout", NULL},
    {" chat-template chat-template-file ", "template", "chat.template", "which names a file"},
    {" temperature ", "temp", "sampling.temperature", NULL},
    {" repetition-penalty ", "repeat-penalty", "sampling.repeat_penalty", NULL},
#define SAMPLING_NUMBER(name, NAME, option, ...) {" " option " ", option, "sampling." #name, NULL},
#define SAMPLING_COUNT                           SAMPLING_NUMBER
#define SAMPLING_WINDOW                          SAMPLING_NUMBER
#define SAMPLING_SEED                            SAMPLING_NUMBER
#include "config/sampling.def"
    {" num-predict predict max-tokens ", "n-predict", "server.default_max_tokens", NULL},
    {" md model-draft ", NULL, "speculation.model", "with speculation.mode=draft"},
    {" fa flash-attn jinja no-mmap mlock ", NULL, NULL, "stator always works so; leave it out"},
};

const struct foreign_option *foreign_option_find(const char *typed) {
    char name[64];
    const char *start = typed + strspn(typed, "-");
    const int n = (int)strcspn(start, "=");
    if (n == 0 || n > (int)sizeof name - 3 || memchr(start, ' ', (size_t)n) != NULL)
        return NULL;
    snprintf(name, sizeof name, " %.*s ", n, start);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strstr(rows[i].names, name) != NULL)
            return &rows[i];
    return NULL;
}

bool foreign_option_is_word(const char *typed) {
    return strcmp(typed, "-ngl") == 0 || strcmp(typed, "-np") == 0;
}
