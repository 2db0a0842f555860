/* Texts that somebody has saved under a name, beside the blocks of kvstore.h.
 *
 * A save is a small file: the root of its blocks' keys (which tells models and KV types apart), the tokens,
 * and the keys of the blocks that had files. The blocks themselves are those of the store. They may be gone
 * when the text is restored, so the reader looks for them by the tokens, as for every other text.
 *
 * The blocks of saved texts are pinned: of a full folder they go last. A name that is replaced or removed
 * gives its pins back when the folder is opened again. The files of saves count into the store's budget, and
 * only the user removes them.
 *
 * Nothing here allocates. */
#ifndef STATOR_KVSTORE_KVSAVE_H
#define STATOR_KVSTORE_KVSAVE_H

#include "base/error.h"
#include "kvstore/kvstore.h"

#define KVSAVE_NAME 128 /* bytes of a name at most */
#define KVSAVE_END  ".save"

struct kvsave {
    const char *name;
    const struct kvstore_key *root;
    const int32_t *tokens;
    uint32_t n_tokens;
    const struct kvstore_key *keys; /* of the text's first blocks */
    uint32_t n_keys;
};

/* NULL, or what is wrong with a name: "has a slash". */
const char *kvsave_name_is_wrong(const char *name);

/* Writes the file, and pins the blocks. *bytes: of the file. STATOR_FAILED: the disk's words; then a save of
 * this name is what it was before. By the store's thread. */
stator_status kvsave_write(struct kvstore *s, const struct kvsave *v, uint64_t *bytes, stator_error *e);

/* Reads the tokens of a save of this root: *n, at most `capacity`. STATOR_USAGE: there is none of that name,
 * it is damaged, of another root, or longer; *n is its tokens then, if it is longer. Any thread while the
 * store is open: it reads the one file alone. */
stator_status kvsave_read(const struct kvstore *s, const char *name, const struct kvstore_key *root,
                          int32_t *tokens, uint32_t capacity, uint32_t *n, uint64_t *bytes, stator_error *e);

/* When the folder is opened, for a file of it: pins the blocks of a save. Files of other names are left
 * alone. */
void kvsave_take_in(struct kvstore *s, const char *file);

#endif
