/* The tokenizer as the rest of the engine sees it: reading the keys, laying out memory, special tokens, and
 * the walk over a text from one special token to the next. What follows llama.cpp's behaviour says so. */
#include "tokenizer/tokenizer.h"

#include "tokenizer/bpe.h"
#include "tokenizer/infill.h"
#include "tokenizer/specials.h"
#include "tokenizer/spm.h"
#include "tokenizer/utf8.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX (1ull << 30) /* bytes: three times that still has 32-bit offsets */

struct tokenizer {
    struct vocab vocab;
    struct specials user;    /* without TOKENIZER_PARSE_SPECIAL */
    struct specials control; /* with it */
    bool is_spm;
    bool by_merges;  /* of SentencePiece's kind: gemma4 */
    bool adds_blank; /* SentencePiece: a blank in front of the text and after special tokens */
    bool adds_bos, adds_eos;
    int32_t bos, eos;
    struct infill infill;
    int32_t unknown; /* stands for what has no token; -1: none */
    int32_t spm_byte_ids[256];
    struct bpe bpe;
};

/* What the file says, before anything is placed. */
struct plan {
    bool is_spm, by_merges;
    struct vocab_file vocab;
    uint64_t special_limit;
    struct gguf_value merges;
    const struct split_kind *split;
    uint64_t split_bytes;
    uint64_t total;
};

/* Tokens that are control tokens by their text, whatever the file says of their kind (as llama.cpp knows
 * them). */
static const struct known {
    const char *text;
    bool ends;
} known_controls[] = {
    {"<|eot_id|>", true},
    {"<|im_end|>", true},
    {"<|end|>", true},
    {"<|return|>", true},
    {"<|call|>", true},
    {"<|calls|>", true},
    {"<|flush|>", true},
    {"<end_of_turn>", true},
    {"<|endoftext|>", true},
    {"</s>", true},
    {"<|eom_id|>", true},
    {"<EOT>", true},
    {"_<EOT>", true},
    {"[EOT]", true},
    {"[EOS]", true},
    {"<|end_of_text|>", true},
    {"<end_of_utterance>", true},
    {"<eos>", true},
    {"<turn|>", true},
    {"<|tool_response>", true},
    {"[e~[", true},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     true},
    {"<|fim_prefix|>", false},
    {"<fim-prefix>", false},
    {"<fim_prefix>", false},
    {"<PRE>", false},
    {"\xE2\x96\x81<PRE>", false},
    {"<|fim_suffix|>", false},
    {"<fim-suffix>", false},
    {"<fim_suffix>", false},
    {"<SUF>", false},
    {"\xE2\x96\x81<SUF>", false},
    {"<|fim_middle|>", false},
    {"<fim-middle>", false},
    {"<fim_middle>", false},
    {"<MID>", false},
    {"\xE2\x96\x81<MID>", false},
    {"<|fim_pad|>", true},
    {"<fim-pad>", true},
    {"<fim_pad>", true},
    {"<|fim_repo|>", true},
    {"<|repo_name|>", true},
    {"<fim-repo>", true},
    {"<reponame>", true},
    {"<|file_sep|>", true},
};
#define N_KNOWN (sizeof known_controls / sizeof known_controls[0])

static stator_status read_plan(const struct gguf *g, struct plan *p, stator_error *e) {
    memset(p, 0, sizeof *p);
    struct gguf_text model;
    stator_status s = gguf_read_text(g, "tokenizer.ggml.model", &model, e);
    if (s != STATOR_OK)
        return s;
    p->by_merges = gguf_text_is(model, "gemma4");
    p->is_spm = p->by_merges || gguf_text_is(model, "llama");
    if (!p->is_spm && !gguf_text_is(model, "gpt2"))
        return error_set(e, STATOR_BAD_MODEL,
                         "%s: tokenizer.ggml.model is \"%.*s\"; known are \"llama\", \"gpt2\" and \"gemma4\"",
                         gguf_path(g, 0), (int)ARITH_MIN(model.length, 64), model.data);
    s = vocab_read(g, &p->vocab, e);
    if (s != STATOR_OK)
        return s;
    p->special_limit = p->vocab.n_special + N_KNOWN + 8;
    if (!p->is_spm || p->by_merges)
        s = merge_table_read(g, &p->merges, e);
    if (p->is_spm || s != STATOR_OK)
        return s;
    struct gguf_text pre = {"default", 7};
    struct gguf_value there;
    if (gguf_find(g, "tokenizer.ggml.pre", &there) &&
        (s = gguf_read_text(g, "tokenizer.ggml.pre", &pre, e)) != STATOR_OK)
        return s;
    p->split = split_find(pre);
    if (p->split == NULL) {
        char names[SPLIT_NAMES_TEXT];
        return error_set(e, STATOR_BAD_MODEL,
                         "%s: tokenizer.ggml.pre is \"%.*s\", which is unknown here; known are %s",
                         gguf_path(g, 0), (int)ARITH_MIN(pre.length, 64), pre.data, split_names(names));
    }
    return split_measure(p->split, &p->split_bytes, e);
}

/* The one layout, for counting and for placing. `splitter` is where split_create goes. */
static struct tokenizer *lay_out(const struct plan *p, struct carve *c, void **splitter, char **buffer) {
    struct tokenizer dummy = {0}, *t = carve_take(c, 1, sizeof *t);
    if (t != NULL)
        memset(t, 0, sizeof *t);
    struct tokenizer *place = t != NULL ? t : &dummy;
    vocab_carve(&place->vocab, &p->vocab, c);
    specials_carve(&place->user, p->special_limit, c);
    specials_carve(&place->control, p->special_limit, c);
    if (!p->is_spm || p->by_merges) {
        merge_table_carve(&place->bpe.merges, &p->merges, c);
        *buffer = carve_take(c, VOCAB_TEXT_MAX, 1);
    }
    if (!p->is_spm)
        *splitter = carve_take(c, p->split_bytes, 1);
    return t;
}

stator_status tokenizer_measure(const struct gguf *g, uint64_t *bytes, stator_error *e) {
    struct plan p;
    stator_status s = read_plan(g, &p, e);
    if (s != STATOR_OK)
        return s;
    struct carve c = carve_count();
    void *splitter;
    char *buffer;
    lay_out(&p, &c, &splitter, &buffer);
    *bytes = c.used;
    return STATOR_OK;
}

static void set_bits(struct vocab *v, const char *name, uint8_t clear, uint8_t set) {
    int32_t id = vocab_find_name(v, name);
    if (id >= 0)
        v->bits[id] = (uint8_t)((v->bits[id] & ~clear) | set);
}

/* Kinds that follow from texts rather than from the file, as in llama.cpp. */
static void mark_known(struct vocab *v) {
    for (size_t i = 0; i < N_KNOWN; i++)
        set_bits(v, known_controls[i].text, 0,
                 known_controls[i].ends ? VOCAB_CONTROL | VOCAB_END : VOCAB_CONTROL);
    static const char *const shown[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        set_bits(v, shown[i], 0xFF, VOCAB_USER);
    bool has_call = vocab_find_name(v, "<|call|>") >= 0 || vocab_find_name(v, "<|calls|>") >= 0;
    /* Formats with channels: the end of a message is not the end of the turn. */
    if (has_call && (vocab_find_name(v, "<|return|>") >= 0 || vocab_find_name(v, "<|flush|>") >= 0))
        set_bits(v, "<|end|>", 0xFF, VOCAB_USER);
    if (vocab_find_name(v, "<|tool_response>") >= 0)
        set_bits(v, "</s>", 0xFF, VOCAB_NORMAL);
}

static bool is_phi3(const struct gguf *g) {
    struct gguf_value there;
    struct gguf_text name;
    if (!gguf_find(g, "general.name", &there) || gguf_read_text(g, "general.name", &name, NULL) != STATOR_OK)
        return false;
    for (uint64_t i = 0; i + 4 <= name.length; i++) {
        const char *p = name.data + i;
        if (tolower((unsigned char)p[0]) != 'p' || tolower((unsigned char)p[1]) != 'h' ||
            tolower((unsigned char)p[2]) != 'i')
            continue;
        if (p[3] == '3' || (i + 5 <= name.length && p[3] == '-' && p[4] == '3'))
            return true;
    }
    return false;
}

/* phi-3's special tokens swallow the blanks that follow them; no key of the file says so. */
static void mark_phi3(struct vocab *v) {
    for (uint32_t i = 0; i < v->n; i++)
        if ((v->bits[i] & VOCAB_SPECIAL) != 0)
            v->bits[i] |= VOCAB_STRIP;
    set_bits(v, "</s>", 0, VOCAB_STRIP);
    set_bits(v, "<unk>", VOCAB_STRIP, 0);
    set_bits(v, "<s>", VOCAB_STRIP, 0);
    set_bits(v, "<|endoftext|>", VOCAB_STRIP, 0);
}

/* Ids, flags and kinds of the special tokens. */
static stator_status read_specials(struct tokenizer *t, const struct plan *p, const struct gguf *g,
                                   stator_error *e) {
    struct vocab *v = &t->vocab;
    int32_t eot, eom, unknown;
    stator_status s;
    if ((s = vocab_read_id(g, v, "tokenizer.ggml.bos_token_id", t->is_spm ? 1 : -1, &t->bos, e)) !=
            STATOR_OK ||
        (s = vocab_read_id(g, v, "tokenizer.ggml.eos_token_id", t->is_spm ? 2 : -1, &t->eos, e)) !=
            STATOR_OK ||
        (s = vocab_read_id(g, v, "tokenizer.ggml.eot_token_id", -1, &eot, e)) != STATOR_OK ||
        (s = vocab_read_id(g, v, "tokenizer.ggml.eom_token_id", -1, &eom, e)) != STATOR_OK ||
        (s = vocab_read_id(g, v, "tokenizer.ggml.unknown_token_id", t->is_spm ? 0 : -1, &unknown, e)) !=
            STATOR_OK)
        return s;
    if ((s = infill_read(g, v, &t->infill, e)) != STATOR_OK)
        return s;
    t->unknown = t->bpe.unknown = unknown;
    bool bos = t->is_spm || p->split->adds_bos;
    if ((s = gguf_read_bool_or(g, "tokenizer.ggml.add_bos_token", bos, &t->adds_bos, e)) != STATOR_OK ||
        (s = gguf_read_bool_or(g, "tokenizer.ggml.add_eos_token", false, &t->adds_eos, e)) != STATOR_OK ||
        (s = gguf_read_bool_or(g, "tokenizer.ggml.add_space_prefix", true, &t->adds_blank, e)) != STATOR_OK)
        return s;
    t->adds_blank = t->adds_blank && t->is_spm && !t->by_merges;
    if ((t->adds_bos && t->bos < 0) || (t->adds_eos && t->eos < 0))
        return error_set(e, STATOR_BAD_MODEL,
                         "%s: tokenizer.ggml.%s_token_id is missing, but every text %s with that token "
                         "(tokenizer.ggml.add_%s_token)",
                         gguf_path(g, 0), t->adds_bos && t->bos < 0 ? "bos" : "eos",
                         t->adds_bos && t->bos < 0 ? "begins" : "ends",
                         t->adds_bos && t->bos < 0 ? "bos" : "eos");
    mark_known(v);
    int32_t ends[] = {t->eos, eot, eom};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends[i] >= 0)
            v->bits[ends[i]] |= VOCAB_END;
    if (is_phi3(g))
        mark_phi3(v);
    specials_fill(&t->user, v, false, p->special_limit);
    specials_fill(&t->control, v, true, p->special_limit);
    for (int byte = 0; t->is_spm && byte < 256; byte++) {
        char name[8];
        int n = snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        int32_t id = vocab_find(v, name, (uint64_t)n);
        char raw = (char)byte;
        if (id < 0)
            id = vocab_find(v, &raw, 1);
        t->spm_byte_ids[byte] = id >= 0 ? id : unknown;
    }
    return STATOR_OK;
}

stator_status tokenizer_create(const struct gguf *g, void *memory, uint64_t bytes, struct tokenizer **out,
                               stator_error *e) {
    struct plan p;
    stator_status s = read_plan(g, &p, e);
    if (s != STATOR_OK)
        return s;
    struct carve c = carve_in(memory, bytes);
    void *splitter = NULL;
    char *buffer = NULL;
    struct tokenizer *t = lay_out(&p, &c, &splitter, &buffer);
    t->is_spm = p.is_spm;
    t->by_merges = p.by_merges;
    s = vocab_fill(&t->vocab, &p.vocab, g, e);
    if (s == STATOR_OK && (!t->is_spm || t->by_merges))
        s = merge_table_fill(&t->bpe.merges, &p.merges, &t->vocab, buffer, g, e);
    if (s == STATOR_OK && !t->is_spm) {
        t->bpe.ignore_merges = p.split->ignore_merges;
        bpe_fill_bytes(&t->bpe, &t->vocab);
        s = split_create(p.split, splitter, p.split_bytes, &t->bpe.splitter, e);
    }
    if (s == STATOR_OK)
        s = read_specials(t, &p, g, e);
    if (s == STATOR_OK)
        *out = t;
    return s;
}

/* One of the two, by the tokenizer's kind. */
struct work {
    struct spm_work spm;
    struct bpe_work bpe;
};

static uint64_t carve_work(const struct tokenizer *t, uint64_t length, struct carve *c, struct work *w) {
    if (t->is_spm)
        spm_carve(&w->spm, length, c);
    else
        bpe_carve(&w->bpe, &t->vocab, length, c);
    return c->used;
}

uint64_t tokenizer_work_bytes(const struct tokenizer *t, uint64_t length) {
    struct carve c = carve_count();
    struct work w;
    return carve_work(t, length, &c, &w) + CARVE_ALIGN; /* the workspace itself may begin anywhere */
}

static stator_status encode_piece(const struct tokenizer *t, struct work *w, const char *text,
                                  uint64_t length, bool after_special, struct ids *ids, stator_error *e) {
    if (length == 0)
        return STATOR_OK;
    if (t->is_spm) {
        spm_encode(&t->vocab, t->spm_byte_ids, t->by_merges ? &t->bpe.merges : NULL, &w->spm, text, length,
                   t->adds_blank && after_special, ids);
        return STATOR_OK;
    }
    return bpe_encode(&t->bpe, &t->vocab, &w->bpe, text, length, ids, e);
}

static stator_status encode_all(const struct tokenizer *t, const char *text, uint64_t length, uint32_t flags,
                                struct work *w, struct ids *ids, stator_error *e) {
    const struct specials *specials = (flags & TOKENIZER_PARSE_SPECIAL) != 0 ? &t->control : &t->user;
    bool after_special = true; /* the start counts as one */
    uint64_t begin = 0;
    for (uint64_t i = 0; specials->n > 0 && i < length;) {
        int32_t id = specials_match(specials, &t->vocab, text + i, length - i);
        if (id < 0) {
            i++;
            continue;
        }
        stator_status s = encode_piece(t, w, text + begin, i - begin, after_special, ids, e);
        if (s != STATOR_OK)
            return s;
        ids_put(ids, id);
        after_special = true;
        i += t->vocab.length[id];
        if ((t->vocab.bits[id] & VOCAB_STRIP) != 0)
            while (i < length && (text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r')))
                i++;
        begin = i;
    }
    return encode_piece(t, w, text + begin, length - begin, after_special, ids, e);
}

stator_status tokenizer_encode(const struct tokenizer *t, const char *text, uint64_t length, uint32_t flags,
                               void *work, uint64_t work_bytes, int32_t *ids, uint64_t capacity, uint64_t *n,
                               stator_error *e) {
    *n = 0;
    if (length > TEXT_MAX)
        return error_set(e, STATOR_USAGE,
                         "the text has %" PRIu64 " bytes, more than the %llu that can be tokenized at once",
                         length, TEXT_MAX);
    uint64_t needed = tokenizer_work_bytes(t, length);
    if (work_bytes < needed)
        return error_set(e, STATOR_USAGE,
                         "the text of %" PRIu64 " bytes needs %" PRIu64
                         " bytes of workspace, there are %" PRIu64,
                         length, needed, work_bytes);
    uintptr_t skip = (CARVE_ALIGN - (uintptr_t)work % CARVE_ALIGN) % CARVE_ALIGN;
    struct carve c = carve_in((uint8_t *)work + skip, work_bytes - skip);
    struct work w;
    carve_work(t, length, &c, &w);
    struct ids out = {ids, capacity, 0};
    if ((flags & TOKENIZER_ADD_SPECIAL) != 0 && t->adds_bos)
        ids_put(&out, t->bos);
    stator_status s = encode_all(t, text, length, flags, &w, &out, e);
    if (s != STATOR_OK)
        return s;
    if ((flags & TOKENIZER_ADD_SPECIAL) != 0 && t->adds_eos)
        ids_put(&out, t->eos);
    *n = out.n;
    if (out.n > capacity)
        return error_set(e, STATOR_USAGE, "the text has %" PRIu64 " tokens, but there is room for %" PRIu64,
                         out.n, capacity);
    return STATOR_OK;
}

static uint64_t put_bytes(const char *text, uint64_t n, char *out, uint64_t capacity) {
    if (capacity > 0 && n > 0)
        memcpy(out, text, ARITH_MIN(n, capacity));
    return n;
}

/* SentencePiece: U+2581 is a blank. */
static uint64_t unescape(struct gguf_text text, char *out, uint64_t capacity) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < text.length; n++) {
        bool blank = text.length - i >= 3 && memcmp(text.data + i, "\xE2\x96\x81", 3) == 0;
        if (n < capacity)
            out[n] = blank ? ' ' : text.data[i];
        i += blank ? 3 : 1;
    }
    return n;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The byte of "<0xNN>", or -1. */
static int byte_of_name(struct gguf_text text) {
    if (text.length != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>')
        return -1;
    int high = hex_digit(text.data[3]), low = hex_digit(text.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

uint64_t tokenizer_piece(const struct tokenizer *t, int32_t id, bool special, char *out, uint64_t capacity) {
    if (id < 0 || (uint32_t)id >= t->vocab.n)
        return 0;
    uint8_t bits = t->vocab.bits[id];
    struct gguf_text text = vocab_text(&t->vocab, id);
    if ((bits & (VOCAB_CONTROL | VOCAB_UNKNOWN)) != 0 && !special)
        return 0;
    if ((bits & VOCAB_SPECIAL) != 0)
        return put_bytes(text.data, text.length, out, capacity);
    if ((bits & VOCAB_NORMAL) != 0)
        return t->is_spm ? unescape(text, out, capacity) : bpe_piece(&t->bpe, text, out, capacity);
    int byte = (bits & VOCAB_BYTE) != 0 ? byte_of_name(text) : -1;
    char c = (char)byte;
    return byte >= 0 ? put_bytes(&c, 1, out, capacity) : 0;
}

uint64_t tokenizer_longest_piece(const struct tokenizer *t) {
    return t->vocab.longest;
}

uint64_t tokenizer_stream_next(const struct tokenizer *t, struct tokenizer_stream *s, int32_t id,
                               bool special, char *out) {
    /* The bytes go to the end of the buffer, the characters to its front: a byte becomes three at most. */
    uint64_t room = tokenizer_longest_piece(t) + sizeof s->tail;
    char *bytes = out + 2 * room;
    CHECK(s->pending <= sizeof s->tail);
    memcpy(bytes, s->tail, s->pending);
    uint64_t n = id >= 0 ? tokenizer_piece(t, id, special, bytes + s->pending, room - s->pending) : 0;
    if (n > 0 && !s->started) {
        s->started = true;
        if (t->adds_blank && bytes[s->pending] == ' ')
            memmove(bytes + s->pending, bytes + s->pending + 1, --n);
    }
    n += s->pending;
    s->pending = 0;
    uint64_t at = 0;
    for (uint64_t i = 0; i < n;) {
        int length = utf8_length(bytes + i, n - i);
        if (length < 0 && id >= 0) {
            s->pending = (uint32_t)(n - i);
            memcpy(s->tail, bytes + i, n - i);
            break;
        }
        if (length > 0) {
            memmove(out + at, bytes + i, (size_t)length);
            at += (uint64_t)length;
            i += (uint64_t)length;
        } else {
            memcpy(out + at, UTF8_REPLACEMENT, 3);
            at += 3;
            i++;
        }
    }
    return at;
}

uint32_t tokenizer_vocab(const struct tokenizer *t) {
    return t->vocab.n;
}

int32_t tokenizer_bos(const struct tokenizer *t) {
    return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t) {
    return t->eos;
}

const struct infill *tokenizer_infill(const struct tokenizer *t) {
    return &t->infill;
}

uint64_t tokenizer_count_unknown(const struct tokenizer *t, const int32_t *ids, uint64_t n) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < n && t->unknown >= 0; i++)
        count += ids[i] == t->unknown;
    return count;
}

bool tokenizer_adds_bos(const struct tokenizer *t) {
    return t->adds_bos;
}

bool tokenizer_is_end(const struct tokenizer *t, int32_t id) {
    return id >= 0 && (uint32_t)id < t->vocab.n && (t->vocab.bits[id] & VOCAB_END) != 0;
}

bool tokenizer_is_control(const struct tokenizer *t, int32_t id) {
    return id >= 0 && (uint32_t)id < t->vocab.n && (t->vocab.bits[id] & VOCAB_CONTROL) != 0;
}
