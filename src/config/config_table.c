/* The rows, and how values and bounds are written. */
#include "config/config_table.h"

#include "base/check.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(s, n)  .section = #s, .name = #n, .offset = offsetof(struct config, s.n)
#define TEXT(s, n) KEY(s, n), .capacity = sizeof((struct config *)0)->s.n
#define MIB        ((uint64_t)1 << 20)
#define GIB        ((uint64_t)1 << 30)
#define SLICE      (4 * GIB - 65536) /* the largest slice of an arena */
#define KV_TYPES                                                                                             \
    { "f32", "f16", "q8_0", "q4_0" }

const struct config_row config_table[CONFIG_KEYS] = {
    [CONFIG_MODEL_PATH] =
        {TEXT(model, path), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
         .help = "The GGUF file, or the first file of a sharded model. Relative paths in a config file "
                 "are relative to that file, in --set to the current folder. It has no default."},
    [CONFIG_DEVICES_USE] =
        {TEXT(devices, use), .kind = CONFIG_KIND_LIST, .default_text = "auto", .unit = "",
         .help = "The devices to use, in the order of the layers: \"cpu\", \"cpu:0, cpu:1\", "
                 "\"level_zero:0\". A device named here is used or the run fails; only \"auto\" "
                 "takes what is there."},
    [CONFIG_DEVICES_SPLIT] =
        {TEXT(devices, split), .kind = CONFIG_KIND_LIST, .default_text = "auto", .unit = "",
         .help = "How the layers are divided: \"auto\" by memory and bandwidth, or one number per "
                 "device of devices.use. \"3,1\" gives the first device three quarters of the "
                 "layers; numbers that add up to the number of layers are counts. \"auto\" assumes that a "
                 "CPU of this machine has an eighth of the speed of the slowest GPU."},
    [CONFIG_DEVICES_FACTS] =
        {TEXT(devices, facts), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
         .help =
             "The devices of a machine as `stator devices --save` writes them: "
             "\"level_zero:0=24GiB,max_alloc=19GiB,bandwidth=456GB/s; level_zero:1=..\". `stator plan` and "
             "`stator config` take them instead of what is here; a run warns when they differ."},
    [CONFIG_DEVICES_DEADLINE] =
        {KEY(devices, deadline), .kind = CONFIG_KIND_NUMBER, .number_min = 0.1, .number_max = 86400,
         .default_text = "60", .unit = "seconds",
         .help = "A device that has not ended a step or a copy after this time is taken to be lost: requests "
                 "end with an error that names it. A step of the largest batch must take much less."},
    [CONFIG_CLUSTER_STAGES] =
        {KEY(cluster, stages), .kind = CONFIG_KIND_LIST, .capacity = CONFIG_LIST, .default_text = "none",
         .unit = "",
         .help = "Hosts that compute the model one after the other, with stator-mpi (`stator help hosts`): "
                 "( { host = \"a\"; devices = \"cpu:0\" }, .. ), or as text \"a = cpu:0; b = level_zero:0, "
                 "level_zero:1\". Rank r takes stage r; then devices.use stays \"auto\"."},
    [CONFIG_MEMORY_CONTEXT] =
        {KEY(memory, context), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = CONFIG_CONTEXT_MOST,
         .words = {{"default", 0}, {"auto", CONFIG_CONTEXT_AUTO}}, .default_text = "default",
         .unit = "tokens",
         .help = "Tokens that one sequence can hold, prompt and answer. \"default\" is the smaller of "
                 "4096 and what the model was trained for, \"auto\" is the largest that fits."},
    [CONFIG_MEMORY_SEQUENCES] =
        {KEY(memory, sequences), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = 1024, .default_text = "1",
         .unit = "sequences",
         .help = "Sequences that run at the same time. Each can hold `context` tokens of its own."},
    [CONFIG_MEMORY_BATCH] =
        {KEY(memory, batch), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = 65536, .default_text = "512",
         .unit = "tokens",
         .help = "The most tokens computed in one step, over all sequences. Longer prompts take several "
                 "steps; the result does not depend on it."},
    [CONFIG_MEMORY_KV_TYPE] =
        {KEY(memory, kv_type), .kind = CONFIG_KIND_ENUM, .names = KV_TYPES, .default_text = "f16", .unit = "",
         .help = "The type in which keys and values of attention are stored. Sets kv_type_k and "
                 "kv_type_v together."},
    [CONFIG_MEMORY_KV_TYPE_K] =
        {KEY(memory, kv_type_k), .kind = CONFIG_KIND_ENUM, .names = KV_TYPES, .default_text = "f16",
         .unit = "", .help = "The type of keys alone, in place of kv_type. Default: that of kv_type."},
    [CONFIG_MEMORY_KV_TYPE_V] =
        {KEY(memory, kv_type_v), .kind = CONFIG_KIND_ENUM, .names = KV_TYPES, .default_text = "f16",
         .unit = "", .help = "The type of values alone, in place of kv_type. Default: that of kv_type."},
    [CONFIG_MEMORY_LOGITS_ROWS] =
        {KEY(memory, logits_rows), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = 65536,
         .words = {{"auto", 0}}, .default_text = "auto", .unit = "rows",
         .help = "Rows of logits that one step can give, at most `batch`. \"auto\": as many as "
                 "`sequences`, with speculation times `speculation.tokens` + 1."},
    [CONFIG_MEMORY_STAGING] =
        {KEY(memory, staging), .kind = CONFIG_KIND_SIZE, .min = 65536, .max = SLICE, .default_text = "16MiB",
         .unit = "bytes",
         .help = "The window of host memory through which weights are loaded and staged copies go."},
    [CONFIG_MEMORY_HOST_LIMIT] =
        {KEY(memory, host_limit), .kind = CONFIG_KIND_SIZE, .min = MIB, .max = INT64_MAX,
         .words = {{"auto", 0}}, .default_text = "auto", .unit = "bytes",
         .help = "The ceiling of all host memory, loading included. \"auto\": 90% of the smaller of "
                 "the cgroup's limit and the memory available at the start."},
    [CONFIG_MEMORY_DRIVER_RESERVE] = {KEY(memory, driver_reserve), .kind = CONFIG_KIND_SIZE, .min = 0,
                                      .max = 1024 * GIB, .default_text = "256MiB", .unit = "bytes",
                                      .help = "Memory of each GPU that is left to its driver for command "
                                              "lists and code. The report says how much the driver took."},
    [CONFIG_MEMORY_ON_OOM] =
        {KEY(memory, on_oom), .kind = CONFIG_KIND_ENUM, .names = {"fail", "spill"}, .default_text = "fail",
         .unit = "",
         .help =
             "When a GPU is too small: \"fail\" refuses and says what is short; \"spill\" places what does "
             "not fit in host memory that the GPU reads over the bus: the embedding, then experts, then the "
             "KV of "
             "the last layers, then other matrices from the end of the model."},
    [CONFIG_MEMORY_STRICT] =
        {KEY(memory, strict), .kind = CONFIG_KIND_BOOL, .default_text = "false", .unit = "",
         .help =
             "Makes what the audit of memory finds an error (exit 3), not a warning: more host memory than "
             "host_limit, including what drivers pin; more for a GPU's driver than driver_reserve; at the "
             "end of a run, growth of the process outside the plan by more than 1 MiB (with a GPU 4 MiB), or "
             "of its memory on a GPU by more than 4 MiB."},
    [CONFIG_TRANSFER_MODE] = {KEY(transfer, mode), .kind = CONFIG_KIND_ENUM,
                              .names = {"auto", "direct", "staged"}, .default_text = "auto", .unit = "",
                              .help =
                                  "Copies between devices: \"direct\" fails if a pair cannot do it, "
                                  "\"staged\" always goes through the host, \"auto\" is direct where a probe "
                                  "has proven it and staged elsewhere. CPU devices are always direct."},
    [CONFIG_TRANSFER_VERIFY] =
        {KEY(transfer, verify), .kind = CONFIG_KIND_BOOL, .default_text = "true", .unit = "",
         .help = "Check the data that each device pushes to the next at the start, before copies go "
                 "direct; false trusts the driver instead."},
    [CONFIG_CPU_THREADS] =
        {KEY(cpu, threads), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = 256, .words = {{"auto", 0}},
         .default_text = "auto", .unit = "threads",
         .help = "Threads that compute. \"auto\": one for each physical core that the process may use. "
                 "Results do not depend on it."},
    [CONFIG_CPU_TIER] =
        {KEY(cpu, tier), .kind = CONFIG_KIND_ENUM, .names = {"auto", "scalar", "avx2", "avx512", "amx"},
         .default_text = "auto", .unit = "",
         .help = "The highest instruction set to use. \"auto\": the best that the processor has. Results do "
                 "not depend on it."},
    [CONFIG_CPU_NUMA] =
        {KEY(cpu, numa), .kind = CONFIG_KIND_ENUM, .names = {"auto", "off"}, .default_text = "auto",
         .unit = "",
         .help =
             "On machines with several NUMA nodes \"auto\" puts staging on the node of the GPUs (of most of "
             "them) and a CPU device's memory on the nodes of its threads; \"off\" leaves it to "
             "the kernel. A policy set by numactl is kept. The log and the report say what was done."},
#define SAMPLING_NUMBER(name_, NAME_, option_, value_, min_, max_, default_, help_)                          \
    [CONFIG_SAMPLING_##NAME_] = {KEY(sampling, name_), .kind = CONFIG_KIND_NUMBER, .number_min = (min_),     \
                                 .number_max = (max_), .default_text = default_,   .unit = "",               \
                                 .help = help_},
#define SAMPLING_COUNT(name_, NAME_, option_, value_, max_, default_, unit_, help_)                          \
    [CONFIG_SAMPLING_##NAME_] = {KEY(sampling, name_), .kind = CONFIG_KIND_INTEGER,                          \
                                 .max = (max_),        .default_text = default_,                             \
                                 .unit = unit_,        .help = help_},
#define SAMPLING_WINDOW(name_, NAME_, option_, value_, default_, unit_, help_)                               \
    [CONFIG_SAMPLING_##NAME_] = {KEY(sampling, name_),                                                       \
                                 .kind = CONFIG_KIND_INTEGER,                                                \
                                 .max = INT32_MAX,                                                           \
                                 .words = {{"all", UINT32_MAX}},                                             \
                                 .default_text = default_,                                                   \
                                 .unit = unit_,                                                              \
                                 .help = help_},
#define SAMPLING_SEED(name_, NAME_, option_, value_, help_)                                                  \
    [CONFIG_SAMPLING_##NAME_] = {KEY(sampling, name_),                                                       \
                                 .kind = CONFIG_KIND_INTEGER,                                                \
                                 .max = CONFIG_SEED_RANDOM - 1,                                              \
                                 .words = {{"random", CONFIG_SEED_RANDOM}},                                  \
                                 .default_text = "random",                                                   \
                                 .unit = "",                                                                 \
                                 .help = help_},
#include "config/sampling.def"
    [CONFIG_SPECULATION_MODE] =
        {KEY(speculation, mode), .kind = CONFIG_KIND_ENUM, .names = {"off", "ngram", "mtp", "draft"},
         .default_text = "off", .unit = "",
         .help =
             "Guesses the next tokens and tests them in the step that would compute one. \"ngram\" "
             "continues as the text did after the longest ending that it had before. A guess "
             "is kept if it is the token that is sampled anyway, so no byte depends on this. \"mtp\" asks "
             "the block of nextn of a qwen35 or qwen35moe file. "
             "\"draft\" lets a small second model guess, `speculation.model`."},
    [CONFIG_SPECULATION_TOKENS] =
        {KEY(speculation, tokens), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = CONFIG_MOST_GUESSES,
         .default_text = "4", .unit = "tokens",
         .help = "The most guesses of a sequence in one step. Each is a planned row of logits."},
    [CONFIG_SPECULATION_MODEL] =
        {TEXT(speculation, model), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
         .help = "The GGUF file of the model that guesses with mode \"draft\": small, with the vocabulary of "
                 "`model.path` (what differs is named), and planned with it."},
    [CONFIG_SPECULATION_DEVICE] =
        {TEXT(speculation, device), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
         .help = "The device of that model, as in `devices.use`: one name. Empty: the first device of the "
                 "model. On a device of the model it takes its part of the memory first."},
    [CONFIG_CACHE_DIR] =
        {TEXT(cache, dir), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
         .help = "Folder in which compiled GPU kernels are kept; empty: they are compiled at each start."},
    [CONFIG_CHAT_TEMPLATE] =
        {TEXT(chat, template), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
         .help = "A file with the chat template (Jinja) that chat and serve use in place of the model's own; "
                 "`stator template` shows what one renders. Empty: the model's."},
    [CONFIG_SERVER_HOST] =
        {TEXT(server, host), .kind = CONFIG_KIND_TEXT, .default_text = "127.0.0.1", .unit = "",
         .help = "The address that `stator serve` listens on: a number such as \"127.0.0.1\", \"0.0.0.0\" "
                 "(all of "
                 "IPv4) or \"::\" (all of both), or \"localhost\". Others than this machine's own need "
                 "api_key_file or open."},
    [CONFIG_SERVER_PORT] =
        {KEY(server, port), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = 65535, .default_text = "8080",
         .unit = "",
         .help = "The TCP port; 0: the system chooses one, which the first line on standard output tells."},
    [CONFIG_SERVER_API_KEY_FILE] =
        {TEXT(server, api_key_file), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
         .help = "A file of keys, one per line (16 at most; lines that begin with # are none). Requests must "
                 "then "
                 "have one as `Authorization: Bearer KEY`, except those for / and /health."},
    [CONFIG_SERVER_OPEN] = {KEY(server, open), .kind = CONFIG_KIND_BOOL, .default_text = "false", .unit = "",
                            .help = "true allows an address that other machines reach without a key: whoever "
                                    "reaches it uses the model."},
    [CONFIG_SERVER_HOSTS] = {TEXT(server, hosts), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
                             .help = "Further names, separated by commas, by which clients may call the "
                                     "server (\"box.local\"). Requests "
                                     "whose Host is neither one of them nor localhost, this machine's name "
                                     "or an address are refused, "
                                     "so that no web site can reach the server through a name of its own."},
    [CONFIG_SERVER_CORS] = {TEXT(server, cors), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
                            .help = "Origins, separated by commas, whose web pages may use the server "
                                    "(\"https://chat.example\"); \"*\": "
                                    "all. Requests from other origins than the server's own are refused."},
    [CONFIG_SERVER_MAX_CONNECTIONS] =
        {KEY(server, max_connections), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = 4096,
         .default_text = "64", .unit = "connections",
         .help = "Connections at a time; one more is told to come back (503). Each is planned memory."},
    [CONFIG_SERVER_MAX_BODY] =
        {KEY(server, max_body), .kind = CONFIG_KIND_SIZE, .min = 1024, .max = GIB, .words = {{"auto", 0}},
         .default_text = "auto", .unit = "bytes",
         .help = "The longest body of a request. \"auto\" is 8 bytes per token of memory.context, at least 4 "
                 "MiB. The server's memory has room for eight times as much, for what becomes of it."},
    [CONFIG_SERVER_MAX_QUEUE] =
        {KEY(server, max_queue), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = 65536, .default_text = "16",
         .unit = "requests",
         .help =
             "Requests that may wait beside the `memory.sequences` that run; one more is refused as busy. "
             "The tokens of each are planned memory: 4 bytes per token of `memory.context`."},
    [CONFIG_SERVER_MEMORY] = {KEY(server, memory), .kind = CONFIG_KIND_SIZE, .min = MIB, .max = 64 * GIB,
                              .words = {{"auto", 0}}, .default_text = "auto", .unit = "bytes",
                              .help = "The memory of the server and its libraries, the row \"edge\" of the "
                                      "plan. \"auto\" follows from "
                                      "max_connections, max_body, max_queue and memory.sequences. A request "
                                      "that finds none left gets 503."},
    [CONFIG_SERVER_REQUEST_TIMEOUT] = {KEY(server, request_timeout), .kind = CONFIG_KIND_NUMBER,
                                       .number_min = 1, .number_max = 86400, .default_text = "600",
                                       .unit = "seconds",
                                       .help = "The longest that a request may take, waiting included; then "
                                               "it is ended. After SIGTERM the server "
                                               "waits no longer than that for running requests."},
    [CONFIG_SERVER_DEFAULT_MAX_TOKENS] =
        {KEY(server, default_max_tokens), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = CONFIG_CONTEXT_MOST,
         .words = {{"auto", 0}}, .default_text = "auto", .unit = "tokens",
         .help =
             "Tokens that a request without max_tokens may generate, as far as the context has room. "
             "\"auto\" is all of that room: the plan has blocks for memory.sequences times the context, so "
             "such a request takes no room from others."},
    [CONFIG_SERVER_MAX_TOKENS] =
        {KEY(server, max_tokens), .kind = CONFIG_KIND_ENUM,
         .names = {"clamp", "refuse"}, .default_text = "clamp", .unit = "",
         .help = "A request whose max_tokens asks for more than the room that its prompt leaves: \"clamp\" "
                 "generates as many tokens as there is room for, \"refuse\" answers 400."},
    [CONFIG_SERVER_UNKNOWN_FIELDS] =
        {KEY(server, unknown_fields), .kind = CONFIG_KIND_ENUM, .names = {"ignore", "refuse"},
         .default_text = "ignore", .unit = "",
         .help =
             "Fields of a request that the server does not know: \"ignore\" names them in the header "
             "X-Stator-Ignored of the answer and in the log, \"refuse\" answers 400. A field that the server "
             "knows, that would change the answer and that it can't honour is refused either way."},
    [CONFIG_SERVER_ALIAS] = {TEXT(server, alias), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
                             .help =
                                 "Further names of the model in the API, separated by commas. The first one "
                                 "is the name that answers and /v1/models give."},
    [CONFIG_SERVER_STRICT_MODEL] =
        {KEY(server, strict_model), .kind = CONFIG_KIND_BOOL, .default_text = "false", .unit = "",
         .help =
             "true: a request must name the model by its name or one of server.alias, or not at all, else it "
             "gets 404. false: every name means the model that is loaded."},
    [CONFIG_SERVER_REASONING_BUDGET] =
        {KEY(server, reasoning_budget), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = CONFIG_CONTEXT_MOST,
         .words = {{"none", CONFIG_BUDGET_NONE}}, .default_text = "none", .unit = "tokens",
         .help =
             "Tokens of reasoning that an answer to a chat may have, where the request does not say it. When "
             "they are used up, server.reasoning_message and the tag that ends reasoning come next, and the "
             "model goes on behind them."},
    [CONFIG_SERVER_REASONING_MESSAGE] =
        {TEXT(server, reasoning_message), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
         .help = "What reasoning ends with when its budget is used up. It becomes part of the reasoning."},
    [CONFIG_SERVER_ON_FAULT] =
        {KEY(server, on_fault), .kind = CONFIG_KIND_ENUM, .names = {"exit", "stay"}, .default_text = "exit",
         .unit = "",
         .help =
             "After the failure of a device, when every request has got its error: \"exit\" ends the server "
             "with "
             "code 5, so that systemd starts it again; \"stay\" leaves it there to be asked what happened."},
    [CONFIG_SERVER_LOG_REQUESTS] =
        {KEY(server, log_requests), .kind = CONFIG_KIND_BOOL, .default_text = "true", .unit = "",
         .help = "A log line for each request: tokens, times, how it ended. Texts are never logged."},
    [CONFIG_SERVER_PREFIX_CACHE] =
        {KEY(server, prefix_cache), .kind = CONFIG_KIND_BOOL, .default_text = "true", .unit = "",
         .help = "Keys and values that a request leaves behind are kept while nobody needs the memory, and a "
                 "request with the same beginning starts behind them. The answer has the same bytes."},
    [CONFIG_SERVER_PAGE] =
        {KEY(server, page), .kind = CONFIG_KIND_BOOL, .default_text = "true", .unit = "",
         .help =
             "The web page at /: a chat, and the map of the memory. Its files need no key, what it asks the "
             "server does."},
    [CONFIG_SERVER_CHECKPOINTS] =
        {KEY(server, checkpoints), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = 1024,
         .words = {{"auto", CONFIG_CHECKPOINTS_AUTO}}, .default_text = "auto", .unit = "copies",
         .help =
             "Copies of what a model with windows or recurrent states remembers beside its KV cache, taken "
             "near a prompt's end, where prompts part, and in an answer: a later request goes on from the "
             "longest that is its beginning. Each is planned memory (`stator plan` says how much). \"auto\": "
             "for `stator chat` and a server 2 for each of memory.sequences and 2 more, at most 16, as far "
             "as "
             "they fit, else none; 0: none, so such a model computes every prompt again. Models with a KV "
             "cache alone need none."},
    [CONFIG_SERVER_GRAMMARS] =
        {KEY(server, grammars), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = 4096, .default_text = "0",
         .unit = "grammars",
         .help = "Compiled JSON Schemas and regular expressions that a server holds at "
                 "a time. Each takes server.grammar_bytes of the row \"grammars\" of "
                 "the memory plan. Requests over HTTP cannot use one yet, so this is "
                 "for programs that use the C API."},
    [CONFIG_SERVER_GRAMMAR_BYTES] = {KEY(server, grammar_bytes), .kind = CONFIG_KIND_SIZE, .min = MIB,
                                     .max = GIB, .default_text = "2MiB", .unit = "bytes",
                                     .help = "Memory of one compiled grammar. A grammar that needs more is "
                                             "refused, and a request ends with an error "
                                             "where its text needs more."},
    [CONFIG_LOG_LEVEL] = {KEY(log, level), .kind = CONFIG_KIND_ENUM,
                          .names = {"error", "warn", "info", "debug"}, .default_text = "info", .unit = "",
                          .help = "The least important level that is still logged."},
    [CONFIG_LOG_FORMAT] = {KEY(log, format), .kind = CONFIG_KIND_ENUM, .names = {"text", "json"},
                           .default_text = "text", .unit = "",
                           .help = "Log lines for people, or one JSON object per line."},
    [CONFIG_LOG_FILE] = {TEXT(log, file), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
                         .help = "File that log lines are appended to; empty: standard error."},
};

const char *config_table_kind(const struct config_row *row) {
    static const char *const names[] = {"integer", "size", "number", "bool", "enum", "text", "path", "list"};
    return names[row->kind];
}

bool config_table_word(const struct config_row *row, const char *word, uint64_t *value) {
    for (size_t i = 0; i < CONFIG_MAX_WORDS && row->words[i].word != NULL; i++) {
        if (strcmp(row->words[i].word, word) == 0) {
            *value = row->words[i].value;
            return true;
        }
    }
    return false;
}

const char *config_table_word_of(const struct config_row *row, uint64_t value) {
    for (size_t i = 0; i < CONFIG_MAX_WORDS && row->words[i].word != NULL; i++)
        if (row->words[i].value == value)
            return row->words[i].word;
    return NULL;
}

/* Exactly: "16MiB" where the bytes are whole units, plain bytes elsewhere. */
static void exact_size(uint64_t bytes, char *out, size_t n) {
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (bytes != 0 && bytes % ((uint64_t)1 << units[i].shift) == 0) {
            snprintf(out, n, "%" PRIu64 "%s", bytes >> units[i].shift, units[i].unit);
            return;
        }
    }
    snprintf(out, n, "%" PRIu64, bytes);
}

/* Shortest text that reads back equal. */
static void exact_number(double v, char *out, size_t n) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(out, n, "%.*g", digits, v);
        if (strtod(out, NULL) == v)
            return;
    }
}

static void append(char *out, size_t capacity, const char *text) {
    size_t have = strlen(out);
    snprintf(out + have, capacity - have, "%s", text);
}

static void append_quoted(char *out, size_t capacity, const char *text) {
    append(out, capacity, "\"");
    append(out, capacity, text);
    append(out, capacity, "\"");
}

const char *config_table_expected(const struct config_row *row, char *out) {
    char low[32];
    char high[32];
    out[0] = '\0';
    switch (row->kind) {
    case CONFIG_KIND_INTEGER:
        snprintf(out, CONFIG_EXPECTED, "a whole number from %" PRIu64 " to %" PRIu64, row->min, row->max);
        break;
    case CONFIG_KIND_SIZE:
        exact_size(row->min, low, sizeof low);
        exact_size(row->max, high, sizeof high);
        snprintf(out, CONFIG_EXPECTED, "a size such as \"512MiB\", from %s to %s", low, high);
        break;
    case CONFIG_KIND_NUMBER:
        exact_number(row->number_min, low, sizeof low);
        exact_number(row->number_max, high, sizeof high);
        snprintf(out, CONFIG_EXPECTED, "a number from %s to %s", low, high);
        break;
    case CONFIG_KIND_BOOL:
        append(out, CONFIG_EXPECTED, "true or false");
        break;
    case CONFIG_KIND_ENUM:
        append(out, CONFIG_EXPECTED, "one of ");
        for (size_t i = 0; i < CONFIG_MAX_NAMES && row->names[i] != NULL; i++) {
            append(out, CONFIG_EXPECTED, i == 0 ? "" : ", ");
            append_quoted(out, CONFIG_EXPECTED, row->names[i]);
        }
        break;
    case CONFIG_KIND_TEXT:
    case CONFIG_KIND_PATH:
        snprintf(out, CONFIG_EXPECTED, "%s in quotes, shorter than %zu bytes",
                 row->kind == CONFIG_KIND_PATH ? "a path" : "text", row->capacity);
        break;
    case CONFIG_KIND_LIST:
        append(out, CONFIG_EXPECTED, "\"auto\" or items separated by commas, as one text");
        break;
    }
    for (size_t i = 0; i < CONFIG_MAX_WORDS && row->words[i].word != NULL; i++) {
        bool last = i + 1 == CONFIG_MAX_WORDS || row->words[i + 1].word == NULL;
        append(out, CONFIG_EXPECTED, last ? " or " : ", ");
        append_quoted(out, CONFIG_EXPECTED, row->words[i].word);
    }
    return out;
}

stator_status config_table_check_number(enum config_key key, double v, stator_error *e) {
    const struct config_row *row = &config_table[key];
    char expected[CONFIG_EXPECTED];
    CHECK(row->kind == CONFIG_KIND_NUMBER);
    if (v >= row->number_min && v <= row->number_max) /* false for NaN */
        return STATOR_OK;
    return error_set(e, STATOR_USAGE, "%s is %g; expected %s", row->name, v,
                     config_table_expected(row, expected));
}

enum config_key config_table_find(const char *name) {
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        size_t n = strlen(config_table[i].section);
        if (strncmp(name, config_table[i].section, n) == 0 && name[n] == '.' &&
            strcmp(name + n + 1, config_table[i].name) == 0)
            return (enum config_key)i;
    }
    return CONFIG_KEYS;
}

/* As libconfig reads it back: quoted, control characters as escapes. */
static void quoted(const char *text, char *out, size_t capacity) {
    size_t n = 0;
    out[n++] = '"';
    for (const char *s = text; *s != '\0'; s++) {
        CHECK(n + 6 < capacity);
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            n += (size_t)snprintf(out + n, capacity - n, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            n += (size_t)snprintf(out + n, capacity - n, "\\x%02X", c);
        else
            out[n++] = (char)c;
    }
    out[n++] = '"';
    out[n] = '\0';
}

const char *config_table_value(const struct config *c, enum config_key key, char *out) {
    const struct config_row *row = &config_table[key];
    const char *field = (const char *)c + row->offset;
    char text[32];
    uint64_t v = 0;
    switch (row->kind) {
    case CONFIG_KIND_INTEGER:
    case CONFIG_KIND_SIZE:
        memcpy(&v, field, sizeof v);
        if (config_table_word_of(row, v) != NULL)
            snprintf(out, CONFIG_VALUE, "\"%s\"", config_table_word_of(row, v));
        else if (v > INT64_MAX)
            snprintf(out, CONFIG_VALUE, "\"%" PRIu64 "\"", v);
        else if (row->kind == CONFIG_KIND_SIZE) {
            exact_size(v, text, sizeof text);
            snprintf(out, CONFIG_VALUE, "\"%s\"", text);
        } else
            snprintf(out, CONFIG_VALUE, "%" PRIu64 "%s", v, v > INT32_MAX ? "L" : "");
        break;
    case CONFIG_KIND_NUMBER: {
        double number = 0;
        memcpy(&number, field, sizeof number);
        exact_number(number, out, CONFIG_VALUE);
        break;
    }
    case CONFIG_KIND_BOOL:
        snprintf(out, CONFIG_VALUE, "%s", *(const bool *)field ? "true" : "false");
        break;
    case CONFIG_KIND_ENUM: {
        int index = 0;
        memcpy(&index, field, sizeof index);
        snprintf(out, CONFIG_VALUE, "\"%s\"", config_enum_name(key, index));
        break;
    }
    case CONFIG_KIND_TEXT:
    case CONFIG_KIND_PATH:
    case CONFIG_KIND_LIST:
        quoted(field, out, CONFIG_VALUE);
        break;
    }
    return out;
}

bool config_table_is_default(const struct config *c, enum config_key key) {
    char value[CONFIG_VALUE];
    const char *is = config_table_value(c, key, value);
    const char *text = config_table[key].default_text;
    if (*is != '"')
        return strcmp(is, text) == 0;
    const size_t n = strlen(text);
    return strncmp(is + 1, text, n) == 0 && is[n + 1] == '"' && is[n + 2] == '\0';
}
