/* Private to the packer: its strategies. pack.c has the table of them. */
#ifndef STATOR_PACK_PACK_STRATEGY_H
#define STATOR_PACK_PACK_STRATEGY_H

#include "pack/pack_part.h"

/* One way to lower the peak of a part. can: whether it is any use for this part as it is now. bytes: of work
 * memory for parts of at most n items. run: carves from `work`, puts better packings into the part until its
 * peak is at or below the target or the budget is spent, and raises `proven` if it can. */
struct pack_strategy {
    const char *name;
    bool (*can)(const struct pack_part *p);
    uint64_t (*bytes)(uint32_t n);
    void (*run)(struct pack_part *p, struct pack_budget *budget, struct carve work);
};

/* Whole packings, fast. They make one even if the budget is spent already. */
bool pack_greedy_can(const struct pack_part *p);
uint64_t pack_greedy_bytes(uint32_t n);
void pack_greedy_run(struct pack_part *p, struct pack_budget *budget, struct carve work);
bool pack_skyline_can(const struct pack_part *p);
uint64_t pack_skyline_bytes(uint32_t n);
void pack_skyline_run(struct pack_part *p, struct pack_budget *budget, struct carve work);

/* A tree search, which can also prove that no lower peak exists. It sees only uniform parts of at most
 * PACK_VALLEY_LARGEST items, because its lists of sections may be quadratic: of any other part, pack.c shows
 * it a copy with sizes rounded up to the largest alignment. */
#define PACK_VALLEY_LARGEST 1024
bool pack_valley_can(const struct pack_part *p);
uint64_t pack_valley_bytes(uint32_t n);
void pack_valley_run(struct pack_part *p, struct pack_budget *budget, struct carve work);

/* Last of all, for parts with several alignments: lowers every block as far as its own alignment allows. */
uint64_t pack_compact_bytes(uint32_t n);
void pack_compact(struct pack_part *p, struct carve work);

#endif
