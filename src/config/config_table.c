/* The table of config keys, and the text of values and bounds. */
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
         .help = "The GGUF file, or the first file of a sharded model. A relative path in a config file "
                 "is relative to that file. In --set it is relative to the current folder. There is no "
                 "default."},
    [CONFIG_MODEL_POOLING] =
        {KEY(model, pooling), .kind = CONFIG_KIND_ENUM,
         .names = {"auto", "none", "mean", "cls", "last", "rank"}, .default_text = "auto", .unit = "",
         .help = "What the model makes of a text. \"none\": further tokens. \"mean\", \"cls\" and "
                 "\"last\": an embedding, of the hidden states of all tokens, of the first, or of the last "
                 "one. \"rank\": how well a document answers a query. \"auto\" is what the file says (key "
                 "pooling_type), or \"none\"."},
    [CONFIG_MODEL_VISION] =
        {TEXT(model, vision), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
         .help = "The file of the model's vision tower (mmproj), so that prompts may have pictures. It runs "
                 "on vision.device."},
    [CONFIG_MODEL_NAME] =
        {TEXT(model, name), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
         .help =
             "The model's name in the API; empty: the file's own. In a config with a list of `models` each "
             "has one, and a command that runs one model takes the one that --set model.name=NAME names "
             "(`stator help memory`)."},
    [CONFIG_VISION_MAX_PIXELS] =
        {KEY(vision, max_pixels), .kind = CONFIG_KIND_INTEGER, .min = 256, .max = 1 << 24,
         .default_text = "1500000", .unit = "pixels",
         .help = "The most pixels of a picture that the tower sees; larger pictures shrink. Memory and time "
                 "of the tower follow from it. Pictures of gemma3 towers have one size, those of gemma4v as "
                 "many pixels as this and the file (else 645120) allow."},
    [CONFIG_VISION_PICTURES] = {KEY(vision, pictures), .kind = CONFIG_KIND_INTEGER, .min = 1,
                                .max = CONFIG_MOST_PICTURES, .default_text = "4", .unit = "pictures",
                                .help = "Pictures that are held (as embeddings) at a time, of all requests "
                                        "together. A request can't have "
                                        "more."},
    [CONFIG_VISION_DECODE] =
        {KEY(vision, decode), .kind = CONFIG_KIND_SIZE, .min = MIB, .max = 4 * GIB, .default_text = "128MiB",
         .unit = "bytes",
         .help = "Memory to decode a picture's file in: four bytes per pixel, and for some files ten. A file "
                 "that needs more is refused."},
    [CONFIG_VISION_DEVICE] =
        {TEXT(vision, device), .kind = CONFIG_KIND_TEXT, .default_text = "auto", .unit = "",
         .help =
             "The device of the vision tower, as in `devices.use`: one name. On a device of the model, the "
             "tower takes its memory first. \"auto\": the model's first device, if that is a GPU that has "
             "room for the tower; else the CPU, and a line of the log says why."},
    [CONFIG_DEVICES_USE] =
        {TEXT(devices, use), .kind = CONFIG_KIND_LIST, .default_text = "auto", .unit = "",
         .help = "The devices to use, in the order of the layers: \"cpu\", \"cpu:0, cpu:1\", "
                 "\"level_zero:0\". The run fails if it cannot use a device named here. \"auto\" takes "
                 "what is there."},
    [CONFIG_DEVICES_SPLIT] =
        {TEXT(devices, split), .kind = CONFIG_KIND_LIST, .default_text = "auto", .unit = "",
         .help =
             "How the model is divided. \"auto\": by layers, in proportion to memory and bandwidth; or by "
             "tensor, where GPUs are estimated to generate at least a tenth faster so. One number per "
             "device of devices.use: \"3,1\" gives the first device three quarters of the layers. Numbers "
             "that add up to the number of layers are counts. \"auto\" assumes that a CPU of this "
             "machine has an eighth of the speed of the slowest GPU. \"tensor\" gives every device an "
             "equal share of each layer instead, and \"tensor:3,1\" shares in these proportions."},
    [CONFIG_DEVICES_GROUPS] =
        {TEXT(devices, groups), .kind = CONFIG_KIND_LIST, .default_text = "1", .unit = "",
         .help =
             "With split = \"tensor\": how many groups the devices of devices.use form, in their order. "
             "Each group has a range of the layers, by memory and bandwidth, and its devices divide each of "
             "them. With four devices and \"2\" the first two are a group, and the last two. Several "
             "numbers are one per group, the proportions of the layers: \"20,12\". With cluster.stages "
             "the devices of each host are a group."},
    [CONFIG_DEVICES_FACTS] =
        {TEXT(devices, facts), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
         .help = "The devices of a machine as `stator devices --save` writes them: "
                 "\"level_zero:0=24GiB,max_alloc=19GiB,bandwidth=456GB/s; level_zero:1=..\". `stator "
                 "plan` and `stator config` use them instead of the devices of this machine. A run warns "
                 "if they differ. \"link=31GB/s,hop=12us\" are the rate and the latency from GPU to GPU, for "
                 "the estimate of a split's speed."},
    [CONFIG_DEVICES_DEADLINE] =
        {KEY(devices, deadline), .kind = CONFIG_KIND_NUMBER, .number_min = 0.1, .number_max = 86400,
         .default_text = "60", .unit = "seconds",
         .help = "A device counts as lost if a step or a copy takes longer than this. Requests then end "
                 "with an error that names it. A step of the largest batch must take much less."},
    [CONFIG_CLUSTER_STAGES] =
        {KEY(cluster, stages), .kind = CONFIG_KIND_LIST, .capacity = CONFIG_LIST, .default_text = "none",
         .unit = "",
         .help = "Hosts that compute the model one after the other, with stator-mpi (`stator help "
                 "hosts`): ( { host = \"a\"; devices = \"cpu:0\" }, .. ), or as text \"a = cpu:0; b = "
                 "level_zero:0, level_zero:1\". Rank r takes stage r. devices.use must then be \"auto\". "
                 "With devices.split = \"tensor\" the devices of a host divide each of its layers."},
    [CONFIG_MEMORY_CONTEXT] =
        {KEY(memory, context), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = CONFIG_CONTEXT_MOST,
         .words = {{"default", 0}, {"auto", CONFIG_CONTEXT_AUTO}}, .default_text = "default",
         .unit = "tokens",
         .help = "Tokens that one sequence can hold, prompt and answer together. \"default\" is the "
                 "smaller of 4096 and the context that the model was trained for. \"auto\" is the "
                 "largest context that fits."},
    [CONFIG_MEMORY_SEQUENCES] =
        {KEY(memory, sequences), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = 1024, .default_text = "1",
         .unit = "sequences",
         .help = "Sequences that run at the same time. Each can hold `context` tokens of its own."},
    [CONFIG_MEMORY_BATCH] =
        {KEY(memory, batch), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = 65536, .default_text = "512",
         .unit = "tokens",
         .help = "The most tokens computed in one step, over all sequences. Longer prompts take several "
                 "steps. The result does not depend on it."},
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
                 "`sequences`, times `speculation.tokens` + 1 with speculation."},
    [CONFIG_MEMORY_STAGING] = {KEY(memory, staging), .kind = CONFIG_KIND_SIZE, .min = 65536, .max = SLICE,
                               .default_text = "16MiB", .unit = "bytes",
                               .help =
                                   "The window of host memory for loading weights and for staged copies."},
    [CONFIG_MEMORY_HOST_LIMIT] =
        {KEY(memory, host_limit), .kind = CONFIG_KIND_SIZE, .min = MIB, .max = INT64_MAX,
         .words = {{"auto", 0}}, .default_text = "auto", .unit = "bytes",
         .help = "The limit of all host memory, including loading. \"auto\": 90% of the smaller of the "
                 "cgroup's limit and the memory available at the start."},
    [CONFIG_MEMORY_DEVICE_LIMIT] =
        {KEY(memory, device_limit), .kind = CONFIG_KIND_SIZE, .min = MIB, .max = 1024 * GIB,
         .words = {{"all", 0}}, .default_text = "all", .unit = "bytes",
         .help = "The limit of each GPU's memory, with memory.driver_reserve: the rest stays free for other "
                 "programs. \"all\": what the GPU has."},
    [CONFIG_MEMORY_DRIVER_RESERVE] =
        {KEY(memory, driver_reserve), .kind = CONFIG_KIND_SIZE, .min = 0, .max = 1024 * GIB,
         .default_text = "256MiB", .unit = "bytes",
         .help = "Memory of each GPU that stays free for its driver (command lists, code). The report "
                 "says how much the driver took."},
    [CONFIG_MEMORY_ON_OOM] =
        {KEY(memory, on_oom), .kind = CONFIG_KIND_ENUM, .names = {"fail", "spill"}, .default_text = "fail",
         .unit = "",
         .help = "What happens if a GPU is too small: \"fail\" refuses the run and says what is short. "
                 "\"spill\" places what does not fit in host memory that the GPU reads over the bus: "
                 "first the embedding, then experts, then the KV of the last layers, then other matrices "
                 "from the end of the model."},
    [CONFIG_MEMORY_EXPERTS] =
        {KEY(memory, experts), .kind = CONFIG_KIND_ENUM, .names = {"device", "host", "auto"},
         .default_text = "device", .unit = "",
         .help = "Who computes the chosen experts of a model on GPUs: \"device\" the GPU that has the "
                 "layer. \"host\" the processors: all experts lie in host memory, and only activations "
                 "cross the bus. \"auto\" the processors where the GPUs are too small for the model. The "
                 "output is the same."},
    [CONFIG_MEMORY_EXPERT_SLOTS] =
        {KEY(memory, expert_slots), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = 1024,
         .words = {{"auto", CONFIG_SLOTS_AUTO}}, .default_text = "0", .unit = "experts",
         .help = "Where the processors compute experts (memory.experts): experts of each layer that a GPU "
                 "keeps in slots of its own memory and computes, those that were chosen last. The others are "
                 "computed by the processors and copied to slots meanwhile, a few in a step. The output is "
                 "the same. \"auto\": as many as the GPU has room for. 0: "
                 "none."},
    [CONFIG_MEMORY_EXPERT_WINDOW] =
        {KEY(memory, expert_window), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = 65536,
         .words = {{"auto", CONFIG_WINDOW_AUTO}}, .default_text = "auto", .unit = "tokens",
         .help = "Where the processors compute experts (memory.experts): a step of at least so many tokens, "
                 "which is one of a prompt, copies all experts over the bus to a window on the GPU, which "
                 "computes them. The output is the same. \"auto\": where that takes less time by the "
                 "bandwidths of bus and RAM; none if the bus is not known. 0: none."},
    [CONFIG_MEMORY_STRICT] =
        {KEY(memory, strict), .kind = CONFIG_KIND_BOOL, .default_text = "false", .unit = "",
         .help = "Makes findings of the memory audit an error (exit 3), not a warning: more host memory "
                 "than host_limit, including memory that drivers pin; more memory for a GPU's driver "
                 "than driver_reserve; at the end of a run, growth of the process outside the plan by "
                 "more than 1 MiB (4 MiB with a GPU), or of its memory on a GPU by more than 4 MiB."},
    [CONFIG_TRANSFER_MODE] =
        {KEY(transfer, mode), .kind = CONFIG_KIND_ENUM, .names = {"auto", "direct", "staged"},
         .default_text = "auto", .unit = "",
         .help = "Copies between devices: \"direct\" fails if a pair cannot copy directly. \"staged\" "
                 "always goes through the host. \"auto\" is direct where a probe has proven it, and "
                 "staged elsewhere. CPU devices are always direct."},
    [CONFIG_TRANSFER_VERIFY] =
        {KEY(transfer, verify), .kind = CONFIG_KIND_BOOL, .default_text = "true", .unit = "",
         .help = "Check the data of a direct copy between each pair of devices at the start. false "
                 "trusts the driver instead."},
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
         .help = "On machines with several NUMA nodes \"auto\" puts staging on the node of most GPUs, "
                 "and a CPU device's memory on the nodes of its threads. \"off\" leaves the placement to "
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
         .help = "Speculative decoding: draft tokens are tested in the step that computes the next "
                 "token. A draft token is accepted if it is the token that is sampled anyway, so no byte "
                 "depends on this. \"ngram\" continues as the text did after the longest ending that it "
                 "had before. \"mtp\" uses the MTP head of a qwen35, qwen35moe, qwen4exp, glm4moe, deepseek2 "
                 "or nemotron_h_moe file. \"draft\" uses a small second model, `speculation.model`."},
    [CONFIG_SPECULATION_TOKENS] =
        {KEY(speculation, tokens), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = CONFIG_MOST_GUESSES,
         .default_text = "4", .unit = "tokens",
         .help = "The most draft tokens of a sequence in one step. Each has a planned row of logits."},
    [CONFIG_SPECULATION_MODEL] =
        {TEXT(speculation, model), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
         .help = "The GGUF file of the draft model, for mode \"draft\". It must have the vocabulary of "
                 "`model.path` (an error names a difference), and is planned with it."},
    [CONFIG_SPECULATION_DEVICE] =
        {TEXT(speculation, device), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
         .help = "The device of the draft model, as in `devices.use`: one name. Empty: the first device "
                 "of the model. On a device of the model, the draft model takes its memory first."},
    [CONFIG_CACHE_DIR] = {TEXT(cache, dir), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
                          .help = "Folder for compiled GPU kernels. Empty: they are compiled at each start."},
    [CONFIG_CACHE_KV_DIR] =
        {TEXT(cache, kv_dir), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
         .help = "Folder for keys, values and checkpoints that leave the memory, also when stator ends. A "
                 "later run of the same model reads them in place of computing a prompt again, with the "
                 "same answer, also on other devices. The files contain the conversations; only this user "
                 "can read them. Slots are saved there too (POST /slots/ID?action=save). Empty: no files."},
    [CONFIG_CACHE_KV_BYTES] =
        {KEY(cache, kv_bytes), .kind = CONFIG_KIND_SIZE, .min = MIB, .max = INT64_MAX, .default_text = "8GiB",
         .unit = "bytes",
         .help = "The most that the files of cache.kv_dir take together. Those that were used longest ago "
                 "go first, those of saved slots last. There are never more than 65536 files, each with 32 "
                 "tokens."},
    [CONFIG_CHAT_TEMPLATE] =
        {TEXT(chat, template), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
         .help = "A file with the chat template (Jinja) that chat and serve use in place of the model's "
                 "own. Empty: the model's. `stator template` shows what a template renders."},
    [CONFIG_SERVER_HOST] =
        {TEXT(server, host), .kind = CONFIG_KIND_TEXT, .default_text = "127.0.0.1", .unit = "",
         .help = "The address that `stator serve` listens on: a number such as \"127.0.0.1\", "
                 "\"0.0.0.0\" (all of IPv4) or \"::\" (all of IPv4 and IPv6), or \"localhost\". An "
                 "address that other machines reach needs api_key_file or open."},
    [CONFIG_SERVER_PORT] =
        {KEY(server, port), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = 65535, .default_text = "8080",
         .unit = "",
         .help = "The TCP port. 0: the system chooses one, and the first line on standard output names "
                 "it."},
    [CONFIG_SERVER_API_KEY_FILE] =
        {TEXT(server, api_key_file), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
         .help = "A file of at most 16 keys, one per line. Lines that begin with # are comments. "
                 "Requests must then have a key as `Authorization: Bearer KEY`, except requests for / "
                 "and /health."},
    [CONFIG_SERVER_OPEN] =
        {KEY(server, open), .kind = CONFIG_KIND_BOOL, .default_text = "false", .unit = "",
         .help = "true allows an address that other machines reach without a key. Everybody who reaches "
                 "it can use the model."},
    [CONFIG_SERVER_HOSTS] =
        {TEXT(server, hosts), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
         .help = "Further names, separated by commas, by which clients may call the server "
                 "(\"box.local\"). A request is refused if its Host is neither one of them nor "
                 "localhost, this machine's name or an address, so that no web site can reach the server "
                 "through a name of its own."},
    [CONFIG_SERVER_IMAGE_HOSTS] =
        {TEXT(server, image_hosts), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
         .help =
             "Hosts, separated by commas, from which the server fetches pictures that a request gives as "
             "http:// URLs (\"cdn.example.org, 10.0.0.5:8080\"). Their addresses are looked up at the start; "
             "an address of a private network must be listed itself, not by a name. Empty: pictures come in "
             "data: URLs only. https is not spoken."},
    [CONFIG_SERVER_CORS] =
        {TEXT(server, cors), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
         .help = "Origins, separated by commas, of web pages that may use the server "
                 "(\"https://chat.example\"). \"*\": all. Requests from other origins than these and the "
                 "server's own are refused."},
    [CONFIG_SERVER_MAX_CONNECTIONS] =
        {KEY(server, max_connections), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = 4096,
         .default_text = "64", .unit = "connections",
         .help = "Connections at a time. A further one gets 503. Each takes planned memory."},
    [CONFIG_SERVER_MAX_BODY] =
        {KEY(server, max_body), .kind = CONFIG_KIND_SIZE, .min = 1024, .max = GIB, .words = {{"auto", 0}},
         .default_text = "auto", .unit = "bytes",
         .help = "The longest body of a request. \"auto\" is 8 bytes per token of memory.context, at "
                 "least 4 MiB. The server's memory has eight times as much room, because parsed requests "
                 "take more."},
    [CONFIG_SERVER_MAX_QUEUE] =
        {KEY(server, max_queue), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = 65536, .default_text = "16",
         .unit = "requests",
         .help = "Requests that may wait beside the `memory.sequences` that run. A further request is "
                 "refused as busy. Each takes planned memory: 4 bytes per token of `memory.context`."},
    [CONFIG_SERVER_MEMORY] =
        {KEY(server, memory), .kind = CONFIG_KIND_SIZE, .min = MIB, .max = 64 * GIB, .words = {{"auto", 0}},
         .default_text = "auto", .unit = "bytes",
         .help = "The memory of the server and its libraries, the row \"edge\" of the plan. \"auto\" "
                 "follows from max_connections, max_body, max_queue and memory.sequences. A request that "
                 "finds no memory gets 503."},
    [CONFIG_SERVER_REQUEST_TIMEOUT] =
        {KEY(server, request_timeout), .kind = CONFIG_KIND_NUMBER, .number_min = 1, .number_max = 86400,
         .default_text = "600", .unit = "seconds",
         .help = "The longest that a request may take, including its wait. The server then ends it. "
                 "After SIGTERM the server waits at most this long for running requests."},
    [CONFIG_SERVER_DEFAULT_MAX_TOKENS] =
        {KEY(server, default_max_tokens), .kind = CONFIG_KIND_INTEGER, .min = 1, .max = CONFIG_CONTEXT_MOST,
         .words = {{"auto", 0}}, .default_text = "auto", .unit = "tokens",
         .help = "Tokens that a request without max_tokens may generate, at most to the end of the "
                 "context. \"auto\" is to the end of the context: the plan has blocks for "
                 "memory.sequences full contexts, so such a request takes no room from others."},
    [CONFIG_SERVER_MAX_TOKENS] =
        {KEY(server, max_tokens), .kind = CONFIG_KIND_ENUM,
         .names = {"clamp", "refuse"}, .default_text = "clamp", .unit = "",
         .help = "A request with a max_tokens beyond the room that its prompt leaves: \"clamp\" "
                 "generates as many tokens as there is room for, \"refuse\" answers 400."},
    [CONFIG_SERVER_UNKNOWN_FIELDS] =
        {KEY(server, unknown_fields), .kind = CONFIG_KIND_ENUM, .names = {"ignore", "refuse"},
         .default_text = "ignore", .unit = "",
         .help = "Fields of a request that the server does not know: \"ignore\" names them in the header "
                 "X-Stator-Ignored of the answer and in the log. \"refuse\" answers 400. A known field "
                 "that would change the answer and that the server cannot honour is always refused."},
    [CONFIG_SERVER_ALIAS] =
        {TEXT(server, alias), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
         .help = "Further names of the model in the API, separated by commas. Answers and /v1/models "
                 "give the first one."},
    [CONFIG_SERVER_STRICT_MODEL] =
        {KEY(server, strict_model), .kind = CONFIG_KIND_BOOL, .default_text = "false", .unit = "",
         .help = "true: a request that names another model than this one (by its name or one of "
                 "server.alias) gets 404. A request may name none. false: every name means the model "
                 "that is loaded."},
    [CONFIG_SERVER_REASONING_BUDGET] =
        {KEY(server, reasoning_budget), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = CONFIG_CONTEXT_MOST,
         .words = {{"none", CONFIG_BUDGET_NONE}}, .default_text = "none", .unit = "tokens",
         .help = "Tokens of reasoning that an answer to a chat may have, unless the request sets its own "
                 "budget. When they are used up, server.reasoning_message and the tag that ends "
                 "reasoning come next, and the model continues with its answer."},
    [CONFIG_SERVER_REASONING_MESSAGE] =
        {TEXT(server, reasoning_message), .kind = CONFIG_KIND_TEXT, .default_text = "", .unit = "",
         .help = "Text at the end of reasoning that has used up its budget. It becomes part of the "
                 "reasoning."},
    [CONFIG_SERVER_ON_FAULT] =
        {KEY(server, on_fault), .kind = CONFIG_KIND_ENUM, .names = {"exit", "stay"}, .default_text = "exit",
         .unit = "",
         .help = "What happens after a device has failed and every request has got its error: \"exit\" "
                 "ends the server with code 5, so that systemd starts it again. \"stay\" keeps it "
                 "running, so that it can be asked what happened."},
    [CONFIG_SERVER_LOG_REQUESTS] =
        {KEY(server, log_requests), .kind = CONFIG_KIND_BOOL, .default_text = "true", .unit = "",
         .help = "Write a log line for each request: tokens, times, how it ended. Texts are never "
                 "logged."},
    [CONFIG_SERVER_PREFIX_CACHE] =
        {KEY(server, prefix_cache), .kind = CONFIG_KIND_BOOL, .default_text = "true", .unit = "",
         .help = "Keep keys and values of a request until their memory is needed. A later request with "
                 "the same beginning reuses them. The answer has the same bytes."},
    [CONFIG_SERVER_PAGE] =
        {KEY(server, page), .kind = CONFIG_KIND_BOOL, .default_text = "true", .unit = "",
         .help = "Serve the web page at /: a chat, and the map of the memory. Its files need no key, but "
                 "its requests to the server do."},
    [CONFIG_SERVER_CHECKPOINTS] =
        {KEY(server, checkpoints), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = 1024,
         .words = {{"auto", CONFIG_CHECKPOINTS_AUTO}}, .default_text = "auto", .unit = "copies",
         .help = "Checkpoints of models with windows or recurrent states: copies of what such a model "
                 "remembers beside its KV cache. They are taken near a prompt's end, where prompts part, "
                 "and in an answer. A later request continues from the longest one that is its "
                 "beginning. Each takes planned memory (`stator plan` says how much). \"auto\": for "
                 "`stator chat` and a server, 4 for each of memory.sequences, at most 16, as far as "
                 "they fit, else none. 0: none, so such a model computes every prompt again. "
                 "Other models need none."},
    [CONFIG_SERVER_GRAMMARS] =
        {KEY(server, grammars), .kind = CONFIG_KIND_INTEGER, .min = 0, .max = 4096, .default_text = "16",
         .unit = "grammars",
         .help = "Compiled JSON Schemas and regular expressions that a server holds at a time: those that "
                 "requests use, and the latest others. Each takes server.grammar_bytes of the row "
                 "\"grammars\" of the memory plan. If all are in use, a request with another one gets 503. "
                 "0: requests with one get 400."},
    [CONFIG_SERVER_GRAMMAR_BYTES] =
        {KEY(server, grammar_bytes), .kind = CONFIG_KIND_SIZE, .min = MIB, .max = GIB, .default_text = "2MiB",
         .unit = "bytes",
         .help = "Memory of one compiled grammar. A grammar that needs more is refused. A request ends "
                 "with an error if its text needs more."},
    [CONFIG_SERVER_JSON_WHITESPACE] =
        {KEY(server, json_whitespace), .kind = CONFIG_KIND_ENUM, .names = {"compact", "free"},
         .default_text = "compact", .unit = "",
         .help = "White space in answers that a JSON Schema constrains: \"compact\" allows none between "
                 "the tokens of JSON, \"free\" allows up to 16 characters wherever JSON allows them."},
    [CONFIG_LOG_LEVEL] = {KEY(log, level), .kind = CONFIG_KIND_ENUM,
                          .names = {"error", "warn", "info", "debug"}, .default_text = "info", .unit = "",
                          .help = "The least important level that is still logged."},
    [CONFIG_LOG_FORMAT] = {KEY(log, format), .kind = CONFIG_KIND_ENUM, .names = {"text", "json"},
                           .default_text = "text", .unit = "",
                           .help = "Log lines for people, or one JSON object per line."},
    [CONFIG_LOG_FILE] = {TEXT(log, file), .kind = CONFIG_KIND_PATH, .default_text = "", .unit = "",
                         .help = "File to which log lines are appended. Empty: standard error."},
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

/* The shortest text that parses to the same number. */
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
