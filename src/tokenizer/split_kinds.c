/* The pre-tokenizer patterns, as the models' own tokenizers define them and GGUF converters name them. What
 * one pattern says about blanks is spelled out: WS is Unicode's White_Space (pcre2's \s has U+180E too). */
#include "tokenizer/split.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

#define WS          "\\t-\\r\\x{85}\\p{Z}"
#define BLANK_TAIL  "[" WS "]+(?![^" WS "])" /* leaves the last blank to a word that follows */
#define CONTRACTION "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
#define LINES       "[" WS "]*[\\r\\n]+|" BLANK_TAIL "|[" WS "]+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|" BLANK_TAIL
#define LLAMA3(digits)                                                                                       \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|" LINES
#define QWEN35                                                                                               \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" WS "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"      \
                "|" LINES
/* A word: capitals and what has no case, then the rest; or the former alone. */
#define WORDS(end)                                                                                           \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" end          \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" end
#define O200K(end, digits) WORDS(end) "|" digits "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n/]*|" LINES
#define DEEPSEEK_V3                                                                                          \
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "                                \
    "?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES

#define EAST_ASIAN "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
/* Letters with case, as deepseek-llm lists them. */
#define CASED                                                                                                \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}"          \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}"                    \
    "\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}"          \
    "\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}"          \
    "\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"        \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}"         \
    "\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"         \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}"        \
    "\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}"          \
    "\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}"                   \
    "\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"                   \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"         \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"        \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"                       \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"                   \
    "\\x{1e900}-\\x{1e943}"

static const struct split_kind kinds[] = {
    {.names = "default", .patterns = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum modern-bert mpt "
              "olmo jais exaone4 "
              "trillion granite-docling",
     .patterns = {GPT2}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
     .patterns = {LLAMA3("\\p{N}{1,3}")},
     .ignore_merges = true,
     .adds_bos = true},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .patterns = {LLAMA3("\\p{N}{1,3}")}},
    {.names = "qwen2 stablelm2 deepseek-r1-qwen megrez hunyuan solar-open grok-2 kormo",
     .patterns = {LLAMA3("\\p{N}")}},
    {.names = "qwen35", .patterns = {QWEN35}},
    {.names = "gpt-4o llama4 kanana2", .patterns = {O200K("(?:" CONTRACTION ")?", "\\p{N}{1,3}")}},
    {.names = "tekken", .patterns = {O200K("", "\\p{N}")}, .ignore_merges = true, .adds_bos = true},
    {.names = "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     .patterns = {"\\p{N}", GPT2}},
    {.names = "falcon", .patterns = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    /* The look-behind only saves work: blanks that do not reach the end are tried once, not from each of
     * them. */
    {.names = "deepseek-llm",
     .patterns = {"[\\r\\n]", "[" WS "]?[" CASED "]+",
                  "[" WS
                  "]?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
                  "(?<![" WS "])[" WS "]++\\z", EAST_ASIAN, "\\p{N}+"}},
    {.names = "deepseek-coder",
     .patterns = {"[\\r\\n]", "[" WS "]?\\p{L}+", "[" WS "]?\\p{P}+", EAST_ASIAN, "\\p{N}"}},
    {.names = "deepseek-v3",
     .patterns = {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
                  DEEPSEEK_V3}},
};

static bool has_name(const char *names, struct gguf_text name) {
    while (*names != '\0') {
        size_t n = strcspn(names, " ");
        if (n == name.length && memcmp(names, name.data, n) == 0)
            return true;
        names += n + strspn(names + n, " ");
    }
    return false;
}

const struct split_kind *split_find(struct gguf_text name) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (has_name(kinds[i].names, name))
            return &kinds[i];
    return NULL;
}

const char *split_names(char *out) {
    size_t at = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        int n = snprintf(out + at, SPLIT_NAMES_TEXT - at, "%s%.*s", i > 0 ? " " : "",
                         (int)strcspn(kinds[i].names, " "), kinds[i].names);
        CHECK(n > 0 && (size_t)n < SPLIT_NAMES_TEXT - at);
        at += (size_t)n;
    }
    return out;
}
