/* The commands that are linked in, in the order of `stator help`. */
#include "app/commands.h"
#include "app/help_topics.h"

#include <string.h>

const struct command commands_table[] = {
    {"plan", plan_command, "the memory plan, without touching a device"},
    {"run", run_command, "generate text from a prompt"},
    {"chat", chat_command, "a conversation on the model's chat template"},
    {"serve", serve_command, "an HTTP server: OpenAI's API, a web page, figures for operators"},
    {"logits", logits_command, "logits of every position of given token ids"},
    {"embed", embed_command, "embeddings of texts"},
    {"bench", bench_command, "rates of prompt processing and generation"},
    {"perplexity", perplexity_command, "how well a model predicts a text, and against another run"},
    {"quantize", quantize_command, "a model in another block format, or in a mixture of them"},
    {"tokenize", tokenize_command, "text to token ids, and back"},
    {"config", config_command, "every key of a config with its resolved value and where it came from"},
    {"inspect", inspect_command, "metadata, tensors, types and sizes of a GGUF file"},
    {"template", template_command, "a chat template on an input, as a model's prompt"},
    {"grammar", grammar_command,
     "whether a JSON Schema or regular expression is supported, and texts against it"},
    {"pack", pack_command, "the packer alone: offsets for the blocks of a CSV file"},
    {"devices", devices_command, "GPUs and CPU of this machine, their properties, copies between them"},
    {"doctor", doctor_command, "what stands in the way of a run on a GPU, and what to do"},
    {"selftest", selftest_command, "every kernel on a GPU, bit by bit against the CPU"},
    {"help", help_command, "this list, the options of a command, or a topic of those below"},
    {"version", version_command, "version, compiler, back ends"},
};
const size_t commands_table_size = sizeof commands_table / sizeof commands_table[0];

void commands_print_list(FILE *f) {
    fprintf(f, "usage: stator COMMAND [ARGUMENT]...\n\ncommands:\n");
    for (size_t i = 0; i < commands_table_size; i++)
        fprintf(f, "  %-12s%s\n", commands_table[i].name, commands_table[i].help);
    fprintf(f, "\ntopics of `stator help TOPIC`:\n  %-12sEvery key of a config file: bounds, default, unit\n",
            "config");
    fprintf(f, "  %-12sModels that are supported, and their architectures\n", "models");
    for (size_t i = 0; i < help_n_topics; i++) {
        const char *title = help_topics[i].text + strspn(help_topics[i].text, "# ");
        fprintf(f, "  %-12s%.*s\n", help_topics[i].name, (int)strcspn(title, "\n"), title);
    }
    fprintf(
        f, "\nCONFIG is a config file or a .gguf file. `stator COMMAND --help` lists a command's options.\n");
}
