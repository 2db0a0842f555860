/* One row per key of the config: what it may be, its default, its help text. `stator help config` prints this
 * table, the parser obeys it; there is no second list of keys. Read-only, any thread. */
#ifndef STATOR_CONFIG_CONFIG_TABLE_H
#define STATOR_CONFIG_CONFIG_TABLE_H

#include "config/config.h"

enum config_kind {
    CONFIG_KIND_INTEGER, /* uint64_t */
    CONFIG_KIND_SIZE,    /* uint64_t bytes; "2GiB" or a plain number */
    CONFIG_KIND_NUMBER,  /* double */
    CONFIG_KIND_BOOL,    /* bool */
    CONFIG_KIND_ENUM,    /* an enum: the index of its name */
    CONFIG_KIND_TEXT,    /* char[capacity] */
    CONFIG_KIND_PATH,    /* char[capacity], absolute or empty */
    CONFIG_KIND_LIST     /* char[capacity], items separated by ", " */
};

#define CONFIG_MAX_NAMES 6
#define CONFIG_MAX_WORDS 2
/* Bytes of a value as config text: every byte of a path may become an escape. */
#define CONFIG_VALUE    (4 * CONFIG_PATH + 8)
#define CONFIG_EXPECTED 200

struct config_word { /* a word that stands for a number */
    const char *word;
    uint64_t value;
};

struct config_row {
    const char *section;
    const char *name;
    enum config_kind kind;
    size_t offset;   /* in struct config */
    size_t capacity; /* TEXT, PATH, LIST */
    double number_min, number_max;
    uint64_t min, max; /* INTEGER, SIZE; what words stand for is outside */
    struct config_word words[CONFIG_MAX_WORDS];
    const char *names[CONFIG_MAX_NAMES]; /* ENUM, NULL after the last */
    const char *default_text;            /* as after --set section.key= */
    const char *unit;                    /* "tokens", or "" */
    const char *help;
};

extern const struct config_row config_table[CONFIG_KEYS];

/* "a whole number from 1 to 1024", `one of "f32", "f16"`: into out[CONFIG_EXPECTED], returns out. */
const char *config_table_expected(const struct config_row *row, char *out);
/* v against the bounds of a NUMBER key: STATOR_USAGE with name, value and what is expected. */
stator_status config_table_check_number(enum config_key key, double v, stator_error *e);
/* The key "section.name"; CONFIG_KEYS: there is none. */
enum config_key config_table_find(const char *name);
/* "integer", "size", .. */
const char *config_table_kind(const struct config_row *row);
/* The number that a word stands for: false if the row has no such word. And back: NULL if there is none. */
bool config_table_word(const struct config_row *row, const char *word, uint64_t *value);
const char *config_table_word_of(const struct config_row *row, uint64_t value);
/* The value in c is the row's default, wherever it came from. */
bool config_table_is_default(const struct config *c, enum config_key key);
/* The value in c in the syntax of the config file, into out[CONFIG_VALUE]; reads back equal. Returns out. */
const char *config_table_value(const struct config *c, enum config_key key, char *out);

#endif
