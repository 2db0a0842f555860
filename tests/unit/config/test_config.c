/* config/: the table, the parser, --set, cross-checks, errors. */
#include "testing.h"

#include "config/config.h"
#include "config/config_table.h"

#include <sys/stat.h>

static struct config c;
static stator_error e;

#define MODEL "model = { path = \"m.gguf\" }\n"

static stator_status parse(const char *text, const char *const *set, size_t n_set) {
    memset(&e, 0, sizeof e);
    return config_parse(text, strlen(text), "x.cfg", "/folder", set, n_set, &c, &e);
}

static stator_status with_set(const char *text, const char *set) {
    return parse(text, &set, 1);
}

static void defaults(void **state) {
    (void)state;
    assert_int_equal(parse(MODEL, NULL, 0), STATOR_OK);
    assert_string_equal(c.model.path, "/folder/m.gguf");
    assert_string_equal(c.devices.use, "auto");
    assert_int_equal(c.devices.n, 0);
    assert_int_equal(c.memory.context, 0);
    assert_int_equal(c.memory.sequences, 1);
    assert_int_equal(c.memory.batch, 512);
    assert_int_equal(c.memory.kv_type_k, CONFIG_KV_F16);
    assert_int_equal(c.memory.kv_type_v, CONFIG_KV_F16);
    assert_int_equal(c.memory.logits_rows, 0);
    assert_int_equal(c.memory.staging, 16 << 20);
    assert_int_equal(c.memory.host_limit, 0);
    assert_int_equal(c.memory.driver_reserve, 256 << 20);
    assert_int_equal(c.memory.on_oom, CONFIG_OOM_FAIL);
    assert_false(c.memory.strict);
    assert_int_equal(c.transfer.mode, CONFIG_TRANSFER_AUTO);
    assert_true(c.transfer.verify);
    assert_int_equal(c.cpu.threads, 0);
    assert_int_equal(c.cpu.tier, CONFIG_TIER_AUTO);
    assert_true(c.sampling.temperature == 0.8);
    assert_int_equal(c.sampling.top_k, 40);
    assert_true(c.sampling.top_p == 0.95 && c.sampling.min_p == 0.05 && c.sampling.repeat_penalty == 1.0);
    assert_true(c.sampling.seed == CONFIG_SEED_RANDOM);
    assert_int_equal(c.log.level, STATOR_LOG_INFO);
    assert_int_equal(c.log.format, CONFIG_LOG_TEXT);
    assert_string_equal(c.log.file, "");
    assert_string_equal(c.cache.dir, "");
    for (int k = CONFIG_MODEL_PATH + 1; k < CONFIG_KEYS; k++)
        assert_int_equal(c.origin[k].source, CONFIG_FROM_DEFAULT);
}

/* The table itself: every row whole, names and enums in step. */
static void table_is_whole(void **state) {
    (void)state;
    char expected[CONFIG_EXPECTED];
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        const struct config_row *row = &config_table[i];
        assert_non_null(row->section);
        assert_non_null(row->name);
        assert_non_null(row->default_text);
        assert_non_null(row->unit);
        assert_true(strlen(row->help) > 20 && row->help[strlen(row->help) - 1] == '.');
        assert_true(strlen(config_table_expected(row, expected)) < CONFIG_EXPECTED - 1);
        assert_int_equal(row->kind == CONFIG_KIND_ENUM, row->names[0] != NULL);
    }
    assert_string_equal(config_enum_name(CONFIG_MEMORY_KV_TYPE_V, CONFIG_KV_Q4_0), "q4_0");
    assert_string_equal(config_enum_name(CONFIG_CPU_TIER, CONFIG_TIER_AMX), "amx");
    assert_string_equal(config_enum_name(CONFIG_LOG_LEVEL, STATOR_LOG_DEBUG), "debug");
    assert_string_equal(config_enum_name(CONFIG_TRANSFER_MODE, CONFIG_TRANSFER_STAGED), "staged");
    assert_string_equal(config_enum_name(CONFIG_MEMORY_ON_OOM, CONFIG_OOM_SPILL), "spill");
    assert_string_equal(config_enum_name(CONFIG_CPU_NUMA, CONFIG_NUMA_OFF), "off");
    assert_string_equal(config_enum_name(CONFIG_LOG_FORMAT, CONFIG_LOG_JSON), "json");
}

static void every_kind_from_a_file(void **state) {
    (void)state;
    static const char text[] =
        "/* a comment with \"quotes\" and @include \"x\" */\n"
        "model = { path = \"/abs/\" \"m.gguf\" };\n"
        "devices = { use = \"level_zero:0, cpu\"; split = [12, 20]; groups = 1; };\n"
        "memory = { context = \"auto\"; sequences = 4; batch = 0x100; kv_type_k = \"q8_0\";\n"
        "  host_limit = 8589934592; staging = \"1.5 MiB\"; driver_reserve = 0L; strict = TRUE; }\n"
        "cpu : { threads = 3, tier = \"scalar\" } # commas are fine\n"
        "sampling = { temperature = 0; top_p = .5; min_p = 1e-2; seed = \"18446744073709551614\" }\n"
        "log = { file = \"./a\\\\b\\\"c.log\"; level = \"debug\" } // end";
    assert_int_equal(parse(text, NULL, 0), STATOR_OK);
    assert_string_equal(c.model.path, "/abs/m.gguf");
    assert_int_equal(c.devices.n, 2);
    assert_string_equal(c.devices.list[0].name, "level_zero:0");
    assert_string_equal(c.devices.list[1].name, "cpu:0");
    assert_int_equal(c.devices.n_shares, 2);
    assert_int_equal(c.devices.share[0], 12);
    assert_int_equal(c.devices.share[1], 20);
    assert_true(!c.devices.tensor && c.devices.n_groups == 1 && c.devices.n_group_layers == 0);
    assert_true(c.memory.context == CONFIG_CONTEXT_AUTO);
    assert_int_equal(c.memory.batch, 256);
    assert_int_equal(c.memory.kv_type_k, CONFIG_KV_Q8_0);
    assert_int_equal(c.memory.kv_type_v, CONFIG_KV_F16);
    assert_true(c.memory.host_limit == 8589934592ull); /* libconfig alone makes 0 of it */
    assert_int_equal(c.memory.staging, 3 << 19);
    assert_int_equal(c.memory.driver_reserve, 0);
    assert_true(c.memory.strict);
    assert_int_equal(c.cpu.threads, 3);
    assert_int_equal(c.cpu.tier, CONFIG_TIER_SCALAR);
    assert_true(c.sampling.temperature == 0.0 && c.sampling.top_p == 0.5 && c.sampling.min_p == 0.01);
    assert_true(c.sampling.seed == UINT64_MAX - 1);
    assert_string_equal(c.log.file, "/folder/a\\b\"c.log");
    assert_int_equal(c.origin[CONFIG_MEMORY_BATCH].source, CONFIG_FROM_FILE);
    assert_int_equal(c.origin[CONFIG_MEMORY_BATCH].line, 4);
    assert_int_equal(c.origin[CONFIG_MEMORY_STRICT].line, 5);
    char origin[64];
    assert_string_equal(config_origin_text(&c, CONFIG_CPU_TIER, origin, sizeof origin), "x.cfg:6");
}

static void set_wins(void **state) {
    (void)state;
    const char *const set[] = {"memory.context=100",   "memory.context = 200",    "memory.host_limit=2GiB",
                               "cpu.tier=\"avx2\"",    "transfer.verify=no",      "memory.strict=yes",
                               "sampling.top_p=1",     "devices.use=cpu:0,cpu:1", "devices.split=1,3",
                               "sampling.seed=random", "model.path=other.gguf",   "log.file="};
    assert_int_equal(parse(MODEL "memory = { context = 50 }", set, sizeof set / sizeof set[0]), STATOR_OK);
    assert_int_equal(c.memory.context, 200);
    assert_int_equal(c.origin[CONFIG_MEMORY_CONTEXT].source, CONFIG_FROM_SET);
    assert_true(c.memory.host_limit == 2ull << 30);
    assert_int_equal(c.cpu.tier, CONFIG_TIER_AVX2);
    assert_false(c.transfer.verify);
    assert_true(c.memory.strict);
    assert_string_equal(c.devices.list[1].name, "cpu:1");
    assert_int_equal(c.devices.share[1], 3);
    assert_true(c.sampling.seed == CONFIG_SEED_RANDOM);
    char cwd[CONFIG_PATH - 16];
    char expected[CONFIG_PATH];
    assert_non_null(getcwd(cwd, sizeof cwd));
    snprintf(expected, sizeof expected, "%s/other.gguf",
             cwd); /* the command line is relative to where it is typed */
    assert_string_equal(c.model.path, expected);
}

static void kv_types_from_several_places(void **state) {
    (void)state;
    const char *set = "memory.kv_type=f32"; /* over what the file says about keys alone */
    assert_int_equal(parse(MODEL "memory = { kv_type_k = \"q8_0\" }", &set, 1), STATOR_OK);
    assert_int_equal(c.memory.kv_type_k, CONFIG_KV_F32);
    assert_int_equal(c.memory.kv_type_v, CONFIG_KV_F32);
    set = "memory.kv_type_k=q4_0";
    assert_int_equal(parse(MODEL "memory = { kv_type = \"f32\" }", &set, 1), STATOR_OK);
    assert_int_equal(c.memory.kv_type_k, CONFIG_KV_Q4_0);
    assert_int_equal(c.memory.kv_type_v, CONFIG_KV_F32);
    assert_int_equal(parse(MODEL "memory = { kv_type = \"f32\"; kv_type_v = \"f16\" }", NULL, 0),
                     STATOR_USAGE);
    assert_non_null(strstr(e.text, "both given"));
    assert_int_equal(parse(MODEL "memory = { kv_type_v = \"f32\"; kv_type = \"f16\" }", NULL, 0),
                     STATOR_USAGE);
}

static void errors_say_where_and_what(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *says[3];
    } bad[] = {
        {"", {"x.cfg", "model.path is missing"}},
        {"# nothing", {"model.path is missing"}},
        {MODEL "\nmemry = { }", {"x.cfg:3", "memry", "did you mean \"memory\""}},
        {MODEL "zzzzzzzz = { }", {"x.cfg:2", "unknown section \"zzzzzzzz\""}},
        {MODEL "memory = {\n contxt = 5 }", {"x.cfg:3", "contxt", "did you mean \"context\""}},
        {MODEL "cpu = { context = 5 }", {"x.cfg:2", "\"context\"", "memory.context"}},
        {MODEL "context = 5", {"x.cfg:2", "outside its section", "memory.context"}},
        {MODEL "memory = 5", {"x.cfg:2", "memory is a section"}},
        {MODEL "memory = { context = \"12\" }",
         {"x.cfg:2", "the text 12", "whole number from 1 to 16777216"}},
        {MODEL "memory = { context = 1.5 }", {"x.cfg:2", "the number 1.5", "whole number"}},
        {MODEL "memory = { context = true }", {"x.cfg:2", "truth value true"}},
        {MODEL "memory = { context = -1 }", {"x.cfg:2", "context is -1", "from 1 to"}},
        {MODEL "memory = { context = 16777217 }", {"x.cfg:2", "16777217"}},
        {MODEL "memory = { context = 0 }", {"x.cfg:2", "context is 0", "from 1 to"}}, /* no word's number */
        {MODEL "memory = { host_limit = 0 }", {"x.cfg:2", "host_limit is 0", "from 1MiB"}},
        {MODEL "memory = { logits_rows = 0 }", {"x.cfg:2", "logits_rows is 0", "from 1 to"}},
        {MODEL "cpu = { threads = 0 }", {"x.cfg:2", "threads is 0", "from 1 to"}},
        {MODEL "sampling = { seed = \"18446744073709551615\" }",
         {"x.cfg:2", "from 0 to 18446744073709551614"}},
        {MODEL "memory.context = 5", {"x.cfg:2", "a dot after a name", "write memory = { context"}},
        {MODEL "memory = { context = 4294967297 }", {"x.cfg:2", "4294967297"}},
        {MODEL "memory = { context = [1, 2] }", {"x.cfg:2", "a list"}},
        {MODEL "memory = { context = { } }", {"x.cfg:2", "a group"}},
        {MODEL "memory = { batch = 99999999999999999999 }", {"x.cfg:2", "beyond 64 bits"}},
        {MODEL "memory = { batch = 0xFFFFFFFFFFFFFFFFF }", {"x.cfg:2", "beyond 64 bits"}},
        {MODEL "memory = { kv_type = \"f61\" }", {"x.cfg:2", "f61", "did you mean \"f16\""}},
        {MODEL "memory = { kv_type = 16 }", {"x.cfg:2", "the number 16", "one of \"f32\""}},
        {MODEL "memory = { strict = 1 }", {"x.cfg:2", "true or false"}},
        {MODEL "memory = { strict = \"yes\" }", {"x.cfg:2", "true or false"}},
        {MODEL "memory = { host_limit = \"2 Gigs\" }", {"x.cfg:2", "2 Gigs", "such as"}},
        {MODEL "memory = { host_limit = \"1KiB\" }", {"x.cfg:2", "1KiB", "from 1MiB"}},
        {MODEL "memory = { sequences = 9; batch = 8 }", {"memory.sequences", "x.cfg:2", "memory.batch"}},
        {MODEL "memory = { logits_rows = 9; batch = 8 }", {"memory.logits_rows", "memory.batch"}},
        {MODEL "memory = { host_limit = \"2MiB\"; staging = \"2MiB\" }",
         {"memory.staging", "memory.host_limit"}},
        {MODEL "sampling = { top_p = 1.5 }", {"x.cfg:2", "1.5", "from 0 to 1"}},
        {MODEL "sampling = { temperature = 1e999 }", {"x.cfg:2", "inf"}},
        {MODEL "server = { port = 65536 }", {"x.cfg:2", "65536", "from 0 to 65535"}},
        {MODEL "speculation = { mode = \"guess\" }", {"x.cfg:2", "guess", "one of \"off\""}},
        {MODEL "speculation = { tokens = 0 }", {"x.cfg:2", "from 1 to 16"}},
        {MODEL "speculation = { tokens = 17 }", {"x.cfg:2", "from 1 to 16"}},
        {MODEL "speculation = { mode = \"ngram\"; tokens = 8 }\nmemory = { batch = 8 }",
         {"speculation.tokens", "x.cfg:2", "memory.batch"}},
        {MODEL "speculation = { mode = \"ngram\" }\nmemory = { logits_rows = 4 }",
         {"speculation.tokens", "memory.logits_rows"}},
        {MODEL "speculation = { mode = \"mtp\" }\ncluster = { stages = \"a = cpu:0; b = cpu:0\" }",
         {"speculation.mode", "nextn", "cluster.stages"}},
        {MODEL "speculation = { mode = \"draft\" }", {"speculation.mode", "x.cfg:2", "speculation.model"}},
        {MODEL "devices = { split = \"1,2\" }", {"devices.split", "devices.use"}},
        {MODEL "devices = { use = \"cpu\"; split = \"1,2\" }", {"devices.split", "one number per device"}},
        {MODEL "devices = { use = \"cpu:0,cpu:1\"; split = \"1,x\" }", {"devices.split", "whole number"}},
        {MODEL "devices = { use = \"cpu:0,cpu:1,cpu:2,cpu:3\"; groups = 2 }",
         {"devices.groups", "\"tensor\""}},
        {MODEL "devices = { use = \"cpu:0,cpu:1,cpu:2,cpu:3\"; split = \"tensor\"; groups = 3 }",
         {"devices.groups", "groups of one size"}},
        {MODEL "devices = { use = \"cpu:0,cpu:1,cpu:2,cpu:3\"; split = \"tensor\"; groups = [1, 1, 1, 1] }",
         {"devices.groups", "of two devices or more"}},
        {MODEL "devices = { use = \"cpu:0,cpu:1,cpu:2,cpu:3\"; split = \"tensor\"; groups = 0 }",
         {"devices.groups", "whole number"}},
        {MODEL "devices = { use = \"cpu,,cpu:1\" }", {"devices.use", "not a list of devices"}},
        {MODEL "devices = { use = \"\" }", {"devices.use", "not a list of devices"}},
        {MODEL "devices = { use = \"cpu, auto\" }", {"devices.use", "\"auto\" alone"}},
        {MODEL "devices = { use = \"cpu:0, cpu\" }", {"devices.use", "twice"}},
        {MODEL "devices = { use = \"cpu:x\" }", {"devices.use", "not a list of devices"}},
        {MODEL "devices = { use = (\"cpu\", (1, 2)) }", {"x.cfg:2", "list inside a list"}},
        {MODEL "cpu = { threads = 1; threads = 2 }", {"x.cfg:2", "duplicate", "once"}},
        {MODEL "cpu = { threads = 1 }\ncpu = { tier = \"avx2\" }", {"x.cfg:3", "duplicate"}},
        {MODEL "cpu = { threads = }", {"x.cfg:2", "syntax error: found `}`", "a value"}},
        {MODEL "cpu = {", {"x.cfg:2", "the end of the file"}},
        {MODEL "cpu = { tier = yes }", {"x.cfg:2", "found `yes }`", "a value"}},
        {MODEL "cpu { }", {"x.cfg:2", "found `{ }`", "= after a name"}},
        {MODEL "memory = { host_limit = 2GiB }", {"x.cfg:2", "in quotes"}},
        {"\"memory\" = { }", {"x.cfg:1", "the name of a section"}},
        {MODEL "cpu = { threads = 2 ) }", {"x.cfg:2", "found `) }`"}},
        {MODEL "devices = { split = [1, 2; 3] }", {"x.cfg:2", "a comma or the list's end"}},
        {MODEL "devices = { split = [1, ] }", {"x.cfg:2", "a list's element"}},
        {MODEL "cpu = { threads = - }", {"x.cfg:2", "without digits"}},
        {MODEL "sampling = { top_p = 1e }", {"x.cfg:2", "without digits"}},
        {MODEL "cpu = { } }", {"x.cfg:2", "found `}`"}},
        {MODEL "cpu = { tier & \"avx2\" }", {"x.cfg:2", "found `& "}},
        {MODEL "\n\ncpu = { tier = \"avx2 }\n", {"x.cfg:4", "no closing quote"}},
        {MODEL "/* never closed\n\n", {"x.cfg:2", "no closing */"}},
        {MODEL "@include \"other.cfg\"\n", {"x.cfg:2", "@include", "one file"}},
        {MODEL "cpu = { a = {b={c={d={e={f={g={h={i=1}}}}}}}} }", {"x.cfg:2", "nested"}},
        {MODEL "log = { file = \"a\\x00b\" }", {"x.cfg:2", "zero character"}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (parse(bad[i].text, NULL, 0) != STATOR_USAGE)
            fail_msg("accepted: %s", bad[i].text);
        assert_int_equal(e.code, STATOR_USAGE);
        for (size_t k = 0; k < 3 && bad[i].says[k] != NULL; k++)
            if (strstr(e.text, bad[i].says[k]) == NULL)
                fail_msg("no \"%s\" in: %s", bad[i].says[k], e.text);
    }
}

static void set_errors(void **state) {
    (void)state;
    static const struct {
        const char *set;
        const char *says[2];
    } bad[] = {
        {"", {"--set", "section.key=value"}},
        {"memory.context", {"--set memory.context", "section.key=value"}},
        {"=5", {"section.key=value"}},
        {"context=5", {"memory.context"}},
        {"memory=5", {"--set memory=5: memory is a section", "memory.key=value"}},
        {"memory.=5", {"unknown key \"\""}},
        {"memroy.context=5", {"memroy", "did you mean \"memory\""}},
        {"memory.contxt=5", {"contxt", "did you mean \"context\""}},
        {"memory.context=", {"context is \"\"", "whole number"}},
        {"memory.context=abc", {"abc", "whole number"}},
        {"memory.context=5x", {"5x"}},
        {"memory.context=99999999999999999999999", {"9999", "whole number"}},
        {"sampling.seed=18446744073709551616", {"whole number"}},
        {"memory.context=18446744073709551615", {"whole number from 1 to"}}, /* stands for "auto" */
        {"sampling.temperature=nan", {"nan", "from 0 to 100"}},
        {"sampling.temperature=0x1p3", {"0x1p3"}},
        {"sampling.temperature=-0.1", {"-0.1"}},
        {"transfer.verify=maybe", {"maybe", "true or false"}},
        {"cpu.tier=avx3", {"avx3", "did you mean \"avx2\""}},
        {"server.hsot=::1", {"--set: unknown key \"hsot\"", "did you mean \"host\""}},
        {"speculation.mode=ngrams", {"ngrams", "did you mean \"ngram\""}},
        {"model.path=", {"model.path is missing"}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (with_set(MODEL, bad[i].set) != STATOR_USAGE)
            fail_msg("accepted: --set %s", bad[i].set);
        for (size_t k = 0; k < 2 && bad[i].says[k] != NULL; k++)
            if (strstr(e.text, bad[i].says[k]) == NULL)
                fail_msg("no \"%s\" in: %s", bad[i].says[k], e.text);
    }
    assert_int_equal(with_set(MODEL, "sampling.seed=18446744073709551614"), STATOR_OK);
    assert_true(c.sampling.seed == UINT64_MAX - 1);
}

/* Long names, long values, control characters: whole, bounded texts. */
static void errors_stay_short_and_clean(void **state) {
    (void)state;
    static char big[200000];
    memset(big, 'a', sizeof big);
    memcpy(big, MODEL "log = { file = \"", sizeof(MODEL "log = { file = \"") - 1);
    memcpy(big + sizeof big - 4, "\" }", 4);
    assert_int_equal(parse(big, NULL, 0), STATOR_USAGE);
    assert_true(strlen(e.text) < 400);
    assert_int_equal(with_set(MODEL, "cpu.tier=\x1b[31mred\n"), STATOR_USAGE);
    assert_null(strchr(e.text, 0x1b));
    assert_null(strchr(e.text, '\n'));
    memset(big, 'd', 5000);
    big[5000] = '\0';
    assert_int_equal(config_parse(MODEL, strlen(MODEL), big, "/", NULL, 0, &c, &e), STATOR_USAGE);
    assert_int_equal(config_load(big, NULL, 0, &c, &e), STATOR_USAGE);
    assert_int_equal(config_load("", NULL, 0, &c, &e), STATOR_USAGE);
}

/* Inputs that would keep a naive parser busy end soon. */
static void bounded_work(void **state) {
    (void)state;
    static char text[CONFIG_MAX_FILE + 1];
    size_t n = 0;
    for (int i = 0; i < 90000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "a%d=1;", i);
    assert_int_equal(config_parse(text, n, "x.cfg", "/", NULL, 0, &c, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "more settings"));
    memset(text, '(', CONFIG_MAX_FILE);
    assert_int_equal(config_parse(text, CONFIG_MAX_FILE, "x.cfg", "/", NULL, 0, &c, &e), STATOR_USAGE);
    memset(text, '9', CONFIG_MAX_FILE);
    assert_int_equal(config_parse(text, CONFIG_MAX_FILE, "x.cfg", "/", NULL, 0, &c, &e), STATOR_USAGE);
    memset(text, ';', CONFIG_MAX_FILE);
    assert_int_equal(config_parse(text, CONFIG_MAX_FILE, "x.cfg", "/", NULL, 0, &c, &e), STATOR_USAGE);
    memset(text, 0, CONFIG_MAX_FILE);
    assert_int_equal(config_parse(text, CONFIG_MAX_FILE, "x.cfg", "/", NULL, 0, &c, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "not a config file"));
}

static void write_file(const char *path, const char *text, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

static void files_and_models(void **state) {
    (void)state;
    char folder[] = "/tmp/stator-config-XXXXXX";
    char path[64];
    char expected[80];
    assert_non_null(mkdtemp(folder));

    snprintf(path, sizeof path, "%s/a.cfg", folder);
    write_file(path, MODEL, strlen(MODEL));
    assert_int_equal(config_load(path, NULL, 0, &c, &e), STATOR_OK);
    snprintf(expected, sizeof expected, "%s/m.gguf", folder);
    assert_string_equal(c.model.path, expected);
    assert_string_equal(c.file, path);

    /* a model by its first bytes, and one by its name alone (the reader will say what is wrong with it) */
    static const char *const names[] = {"model.bin", "broken.gguf"};
    static const char *const bytes[] = {"GGUF\3\0\0\0", "not a model"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        write_file(path, bytes[i], 8);
        const char *set = "memory.batch=7";
        assert_int_equal(config_load(path, &set, 1, &c, &e), STATOR_OK);
        assert_string_equal(c.model.path, path);
        assert_int_equal(c.memory.batch, 7);
        assert_int_equal(c.memory.context, 0);
        unlink(path);
    }

    static char big[CONFIG_MAX_FILE + 1];
    memset(big, '#', sizeof big);
    snprintf(path, sizeof path, "%s/big.cfg", folder);
    write_file(path, big, sizeof big);
    assert_int_equal(config_load(path, NULL, 0, &c, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "larger than 1 MiB"));
    unlink(path);
    assert_int_equal(config_load(path, NULL, 0, &c, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "can't open"));
    assert_int_equal(config_load(folder, NULL, 0, &c, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "folder"));
    snprintf(path, sizeof path, "%s/a.cfg", folder);
    unlink(path);
    rmdir(folder);
}

static void derived_values(void **state) {
    (void)state;
    char origin[64];
    assert_int_equal(parse(MODEL "memory = { context = 77 }", NULL, 0), STATOR_OK);
    config_derive(&c, CONFIG_MEMORY_CONTEXT, 77);
    assert_string_equal(config_origin_text(&c, CONFIG_MEMORY_CONTEXT, origin, sizeof origin), "x.cfg:2");
    config_derive(&c, CONFIG_CPU_THREADS, 6);
    assert_int_equal(c.cpu.threads, 6);
    assert_string_equal(config_origin_text(&c, CONFIG_CPU_THREADS, origin, sizeof origin), "derived");
}

/* Random values of every number key, written and read back. */
static void values_round_trip(void **state) {
    (void)state;
    uint64_t seed = testing_seed("values_round_trip");
    static struct config first;
    static char value[CONFIG_VALUE];
    static char text[2 * CONFIG_VALUE];
    for (int round = 0; round < 500; round++) {
        assert_int_equal(parse(MODEL, NULL, 0), STATOR_OK);
        first = c;
        first.sampling.seed = testing_random(&seed) >> testing_below(&seed, 64);
        first.memory.host_limit = (64ull << 20) + (testing_random(&seed) >> (1 + testing_below(&seed, 38)));
        first.sampling.temperature = (double)(testing_random(&seed) >> 11) * 0x1p-53 * 100;
        first.sampling.min_p = (double)(testing_random(&seed) >> 11) * 0x1p-53;
        for (size_t i = 0; i < 40; i++)
            first.log.file[i] = (char)(1 + testing_below(&seed, 255));
        first.log.file[0] = '/';
        size_t n = (size_t)snprintf(text, sizeof text, MODEL "sampling={seed=%s;",
                                    config_table_value(&first, CONFIG_SAMPLING_SEED, value));
        n += (size_t)snprintf(text + n, sizeof text - n, "temperature=%s;",
                              config_table_value(&first, CONFIG_SAMPLING_TEMPERATURE, value));
        n += (size_t)snprintf(text + n, sizeof text - n, "min_p=%s}\n",
                              config_table_value(&first, CONFIG_SAMPLING_MIN_P, value));
        n += (size_t)snprintf(text + n, sizeof text - n, "memory={host_limit=%s}\n",
                              config_table_value(&first, CONFIG_MEMORY_HOST_LIMIT, value));
        snprintf(text + n, sizeof text - n, "log={file=%s}\n",
                 config_table_value(&first, CONFIG_LOG_FILE, value));
        if (parse(text, NULL, 0) != STATOR_OK)
            fail_msg("%s in %s", e.text, text);
        assert_true(c.sampling.seed == first.sampling.seed);
        assert_true(c.memory.host_limit == first.memory.host_limit);
        assert_true(c.sampling.temperature == first.sampling.temperature &&
                    c.sampling.min_p == first.sampling.min_p);
        assert_string_equal(c.log.file, first.log.file);
    }
}

#define TWO                                                                                                  \
    "memory = { batch = 32; context = 100 }\n"                                                               \
    "models = (\n"                                                                                           \
    "  { name = \"chat\"; path = \"a.gguf\"; memory = { context = 200 } },\n"                                \
    "  { name = \"embed\"; path = \"b.gguf\"; pooling = \"last\"; cpu = { threads = 2 } } )\n"

/* What a model says counts over what is said for all, and --set over both. */
static void several_models(void **state) {
    (void)state;
    assert_int_equal(with_set(TWO, "model.name=chat"), STATOR_OK);
    assert_string_equal(c.model.path, "/folder/a.gguf");
    assert_string_equal(c.model.name, "chat");
    assert_int_equal(c.memory.context, 200);
    assert_int_equal(c.memory.batch, 32);
    assert_int_equal(c.cpu.threads, 0);
    assert_int_equal(c.origin[CONFIG_MEMORY_CONTEXT].line, 3);
    assert_int_equal(c.models.n, 2);
    assert_int_equal(c.models.index, 0);
    assert_string_equal(c.models.name[1], "embed");
    const char *const set[] = {" model.name = \"embed\" ", "memory.batch=16"};
    assert_int_equal(parse(TWO, set, 2), STATOR_OK);
    assert_string_equal(c.model.path, "/folder/b.gguf");
    assert_int_equal(c.models.index, 1);
    assert_int_equal(c.model.pooling, CONFIG_POOLING_LAST);
    assert_int_equal(c.memory.context, 100);
    assert_int_equal(c.memory.batch, 16);
    assert_int_equal(c.cpu.threads, 2);
    assert_false(c.models.none_chosen);
    assert_int_equal(parse(TWO, NULL, 0), STATOR_USAGE);
    assert_true(c.models.none_chosen);
    assert_non_null(strstr(e.text, "x.cfg has 2 models (chat, embed)"));
    assert_non_null(strstr(e.text, "--set model.name=chat"));
    assert_int_equal(with_set(TWO, "model.name=x"), STATOR_USAGE);
    assert_non_null(strstr(e.text, "no such model; it has chat, embed"));
    const char *const path[] = {"model.name=chat", "model.path=c.gguf"};
    assert_int_equal(parse(TWO, path, 2), STATOR_USAGE);
    assert_non_null(strstr(e.text, "list of models"));
    /* One alone is meant without being named; a config without a list may name its model. */
    assert_int_equal(parse("models = ( { name = \"a\"; path = \"a.gguf\" } )", NULL, 0), STATOR_OK);
    assert_string_equal(c.model.path, "/folder/a.gguf");
    assert_int_equal(with_set(MODEL, "model.name=mine"), STATOR_OK);
    assert_string_equal(c.model.name, "mine");
    assert_int_equal(c.models.n, 0);
}

#define ONE(rest)    "models = ( { name = \"a\"; path = \"a\"" rest " } )"
#define FIRST(other) "models = ( { name = \"a\"; path = \"a\" },\n" other " )"

static void bad_lists_of_models(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *says[2];
    } bad[] = {
        {MODEL "models = ( { name = \"a\"; path = \"a\" } )", {"x.cfg:1", "model and models are both given"}},
        {"models = { name = \"a\" }", {"x.cfg:1", "list of 1 to 8 groups"}},
        {"models = ( )", {"x.cfg:1", "list of 1 to 8 groups"}},
        {"models = 5", {"x.cfg:1", "list of 1 to 8 groups"}},
        {FIRST("5"), {"models[1] has no name"}},
        {FIRST("{ path = \"b\" }"), {"x.cfg:2", "models[1] has no name"}},
        {FIRST("{ name = \"\" }"), {"x.cfg:2", "models[1].name is \"\""}},
        {FIRST("{ name = \"b c\" }"), {"x.cfg:2", "models[1].name is \"b c\""}},
        {FIRST("{ name = \"a\" }"), {"x.cfg:2", "models[0] and models[1] have the same name"}},
        {ONE("; contxt = 5"), {"x.cfg:1", "unknown key \"contxt\""}},
        {ONE("; memory = { contxt = 5 }"), {"contxt", "did you mean \"context\""}},
        {ONE("; memory = { context = 0 }"), {"context is 0"}},
        {ONE("; memory = { host_limit = \"1GiB\" }"), {"memory.host_limit", "write it outside"}},
        {ONE("; server = { port = 1 }"), {"server can't stand", "write it outside"}},
        {ONE("; log = { file = \"a\" }"), {"log can't stand", "write it outside"}},
        {ONE("; model = { path = \"a\" }"), {"model can't stand", "themselves"}},
        {ONE("; zzzzzzzzz = { }"), {"unknown section"}},
        {"models = ( { name = \"a\" } )", {"model.path is missing"}},
        {"models = "
         "({name=\"a\"},{name=\"b\"},{name=\"c\"},{name=\"d\"},{name=\"e\"},{name=\"f\"},{name=\"g\"},"
         "{name=\"h\"},{name=\"i\"})",
         {"list of 1 to 8 groups"}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (parse(bad[i].text, NULL, 0) != STATOR_USAGE)
            fail_msg("accepted: %s", bad[i].text);
        for (size_t k = 0; k < 2 && bad[i].says[k] != NULL; k++)
            if (strstr(e.text, bad[i].says[k]) == NULL)
                fail_msg("no \"%s\" in: %s", bad[i].says[k], e.text);
    }
    assert_int_equal(with_set(TWO "cache = { kv_dir = \"kv\" }", "model.name=chat"), STATOR_USAGE);
    assert_non_null(strstr(e.text, "each with a folder of its own"));
    assert_int_equal(with_set(TWO "server = { alias = \"x\" }", "model.name=chat"), STATOR_USAGE);
    assert_non_null(strstr(e.text, "server.alias"));
    assert_int_equal(with_set(TWO "cluster = { stages = \"a = cpu:0\" }", "model.name=chat"), STATOR_USAGE);
    assert_non_null(strstr(e.text, "cluster.stages"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(table_is_whole),
        cmocka_unit_test(every_kind_from_a_file),
        cmocka_unit_test(set_wins),
        cmocka_unit_test(kv_types_from_several_places),
        cmocka_unit_test(errors_say_where_and_what),
        cmocka_unit_test(set_errors),
        cmocka_unit_test(errors_stay_short_and_clean),
        cmocka_unit_test(bounded_work),
        cmocka_unit_test(files_and_models),
        cmocka_unit_test(derived_values),
        cmocka_unit_test(values_round_trip),
        cmocka_unit_test(several_models),
        cmocka_unit_test(bad_lists_of_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
