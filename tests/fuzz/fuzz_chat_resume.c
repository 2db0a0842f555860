/* Any bytes as the file of `stator chat --resume`: its messages are taken, and written again they give the
 * same; or they are refused with an error that names the file. */
#include "fuzz.h"

#include "app/chat/chat_resume.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"conversation", NULL};

enum { CAPACITY = 4096 };

static struct chat_talk talk_of(void) {
    static char text[2][CAPACITY];
    static struct chat_talk_message messages[2][CHAT_TALK_MESSAGES];
    static unsigned next;
    const unsigned i = next++ % 2;
    return (struct chat_talk){.text = text[i], .capacity = CAPACITY, .messages = messages[i]};
}

/* What was taken is what is written. */
static void write_again(const struct chat_talk *t) {
    char *written = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&written, &n);
    struct chat_talk again = talk_of();
    CHECK(f != NULL);
    chat_talk_save(t, f);
    CHECK(fclose(f) == 0);
    CHECK(chat_resume_parse(&again, "talk.json", written, n, NULL) == STATOR_OK);
    CHECK(again.n == t->n && again.used == t->used && memcmp(again.text, t->text, t->used) == 0);
    free(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size > 0 ? size : 1); /* so that a byte too many shows */
    stator_error e = {0};
    CHECK(text != NULL);
    memcpy(text, data, size);
    struct chat_talk t = talk_of();
    const stator_status st = chat_resume_parse(&t, "talk.json", text, size, &e);
    if (st == STATOR_OK && t.n > 0)
        fuzz_accepted("conversation");
    if (st == STATOR_OK)
        write_again(&t);
    else
        CHECK(st == STATOR_USAGE && strncmp(e.text, "--resume talk.json: ", 20) == 0);
    free(text);
    return 0;
}
