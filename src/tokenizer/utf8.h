/* Well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF) and its repair:
 * every byte that belongs to no character becomes U+FFFD. Encoding and streaming use the same rule, so that
 * they agree. */
#ifndef STATOR_TOKENIZER_UTF8_H
#define STATOR_TOKENIZER_UTF8_H

#include <stdint.h>
#include <string.h>

#define UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* Bytes of the character at p (n > 0 bytes are there): 1 to 4; 0: the first byte belongs to no character; -1:
 * a character begins here that the end of the text cuts off. */
static inline int utf8_length(const char *text, uint64_t n) {
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return 0;
    int more = p[0] < 0xE0 ? 1 : p[0] < 0xF0 ? 2 : 3;
    unsigned char low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i <= more; i++) {
        if ((uint64_t)i >= n)
            return -1;
        if (p[i] < low || p[i] > high)
            return 0;
        low = 0x80;
        high = 0xBF;
    }
    return more + 1;
}

/* Bytes at the front of the text that are well-formed. */
static inline uint64_t utf8_valid_prefix(const char *text, uint64_t n) {
    uint64_t i = 0;
    while (i < n) {
        int length = utf8_length(text + i, n - i);
        if (length <= 0)
            return i;
        i += (uint64_t)length;
    }
    return n;
}

/* Writes the repaired text to out (3 * n bytes at most) and returns its length; *repairs counts the bytes
 * replaced. */
static inline uint64_t utf8_repair(const char *text, uint64_t n, char *out, uint64_t *repairs) {
    uint64_t at = 0;
    *repairs = 0;
    for (uint64_t i = 0; i < n;) {
        int length = utf8_length(text + i, n - i);
        if (length > 0) {
            memcpy(out + at, text + i, (size_t)length);
            at += (uint64_t)length;
            i += (uint64_t)length;
        } else {
            memcpy(out + at, UTF8_REPLACEMENT, 3);
            at += 3;
            i++;
            ++*repairs;
        }
    }
    return at;
}

#endif
