/* Running a kernel's work-items. Kernels with barriers or sub-group operations run each work-item on a stack
 * of its own; the scheduler lets the lanes of one sub-group run until all have come to the same operation,
 * then the next sub-group, and releases a barrier when the whole group has come to it. Other kernels are a
 * plain loop.
 *
 * One kernel runs at a time (the execute token), so all state here is static. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STACK (256u << 10)

enum state { READY, AT_SUB_GROUP, AT_GROUP, DONE };

struct fiber {
    void *stack_pointer;
    enum state state;
    const char *operation;
    unsigned long local[3];
};

static struct fiber *fibers;
static unsigned n_fibers;
static char *stacks;
static void *scheduler; /* its stack pointer while a fiber runs */
static struct fiber *current;
static struct code_item *item;
static void (*body)(void **);
static void **body_values;

/* Saves the callee's registers on this stack, *from = rsp, rsp = to, restores. */
void fibers_switch(void **from, void *to);
__asm__(".text\n"
        ".globl fibers_switch\n"
        ".hidden fibers_switch\n"
        ".type fibers_switch, @function\n"
        "fibers_switch:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  pop %rcx\n  jmp *%rcx\n" /* no ret: processors would expect the caller's address */
        ".size fibers_switch, .-fibers_switch\n");

static void fiber_main(void) {
    for (;;) {
        body(body_values);
        current->state = DONE;
        fibers_switch(&current->stack_pointer, scheduler);
    }
}

/* The first number from `step` on that has no divisor in common with n. */
static size_t coprime(size_t step, size_t n) {
    for (;; step++) {
        size_t a = step, b = n;
        while (b != 0) {
            size_t r = a % b;
            a = b, b = r;
        }
        if (a == 1)
            return step;
    }
}

/* The i-th of n in the configured order. Shuffled: multiplication by a number coprime to n, no table. */
size_t fibers_order(size_t i, size_t n) {
    if (sim.order == ORDER_FORWARD || n < 2)
        return i;
    if (sim.order == ORDER_REVERSE)
        return n - 1 - i;
    static __thread size_t known, step; /* asked for every i of one n */
    if (n != known) {
        step = coprime((size_t)(sim.seed * 0x9E3779B97F4A7C15ull >> 33) % n, n);
        known = n;
    }
    return (size_t)(((unsigned __int128)i * step + sim.seed) % n);
}

/* ---- fibers */
static void fresh(unsigned i) {
    /* As if fibers_switch had been called from the beginning of fiber_main: six registers, then where to
     * return. */
    void **top = (void **)(stacks + (size_t)(i + 1) * (STACK + SIM_PAGE));
    *--top = NULL; /* fiber_main's return address: never used, keeps the stack aligned as after a call */
    *--top = (void *)(uintptr_t)fiber_main;
    for (int r = 0; r < 6; r++)
        *--top = NULL;
    fibers[i].stack_pointer = top;
}

static void provide(unsigned n) {
    if (n <= n_fibers)
        return;
    if (stacks != NULL)
        munmap(stacks, (size_t)n_fibers * (STACK + SIM_PAGE));
    fibers = realloc(fibers, n * sizeof *fibers);
    stacks = mmap(NULL, (size_t)n * (STACK + SIM_PAGE), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fibers == NULL || stacks == MAP_FAILED)
        fatal("out of memory for the stacks of %u work-items", n);
    n_fibers = n;
    for (unsigned i = 0; i < n; i++) {
        if (mprotect(stacks + (size_t)i * (STACK + SIM_PAGE), SIM_PAGE, PROT_NONE) != 0)
            fatal("mprotect failed");
        fresh(i);
    }
}

static void wait(unsigned whole, const char *operation) {
    current->state = whole ? AT_GROUP : AT_SUB_GROUP;
    current->operation = operation;
    fibers_switch(&current->stack_pointer, scheduler);
}

static void resume(unsigned i) {
    current = &fibers[i];
    memcpy(item->local, current->local, sizeof item->local);
    item->linear = i;
    fibers_switch(&scheduler, current->stack_pointer);
}

/* Names of operations: mostly the same literal. */
static bool same(const char *a, const char *b) {
    return a == b || strcmp(a, b) == 0;
}

static bool diverged(const char *kernel, unsigned first, unsigned end, enum state at) {
    const char *one = NULL, *other = NULL;
    unsigned n = 0;
    for (unsigned i = first; i < end; i++) {
        const char *where = fibers[i].state == DONE ? "the end" : fibers[i].operation;
        if (fibers[i].state == at && one == NULL)
            one = where;
        n += fibers[i].state == at;
    }
    for (unsigned i = first; i < end && other == NULL; i++)
        if (fibers[i].state != at || one == NULL || !same(fibers[i].operation, one))
            other = fibers[i].state == DONE ? "the end" : fibers[i].operation;
    sim_lock();
    violation("kernel %s, group %lu,%lu,%lu: %u of %u work-items from %u on are at %s, others at %s", kernel,
              item->group[0], item->group[1], item->group[2], n, end - first, first, one, other);
    sim_unlock();
    return false;
}

/* True: all of [first, end) in state `at` are at the same operation and are made ready. */
static bool release(unsigned first, unsigned end, enum state at) {
    for (unsigned i = first; i < end; i++)
        if (fibers[i].state != at || !same(fibers[i].operation, fibers[first].operation))
            return false;
    for (unsigned i = first; i < end; i++)
        fibers[i].state = READY;
    return true;
}

static unsigned count_at(unsigned first, unsigned end, enum state at) {
    unsigned n = 0;
    for (unsigned i = first; i < end; i++)
        n += fibers[i].state == at;
    return n;
}

/* Runs a sub-group until each of its lanes is at a barrier or done. */
static bool run_sub_group(const char *kernel, unsigned first, unsigned end) {
    item->parity = 0;
    for (;;) {
        for (unsigned i = 0; i < end - first; i++) {
            unsigned lane = first + (unsigned)fibers_order(i, end - first);
            if (fibers[lane].state == READY)
                resume(lane);
        }
        if (count_at(first, end, AT_SUB_GROUP) == 0)
            return true;
        if (!release(first, end, AT_SUB_GROUP))
            return diverged(kernel, first, end, AT_SUB_GROUP);
        item->parity ^= 1;
    }
}

static bool run_fibers(const char *kernel, unsigned n) {
    unsigned width = item->sub_group, sub_groups = (n + width - 1) / width;
    for (unsigned i = 0; i < n; i++)
        fibers[i].state = READY;
    for (;;) {
        for (unsigned s = 0; s < sub_groups; s++) {
            unsigned first = (unsigned)fibers_order(s, sub_groups) * width,
                     end = first + width < n ? first + width : n;
            if (!run_sub_group(kernel, first, end))
                return false;
        }
        if (count_at(0, n, DONE) == n)
            return true;
        if (!release(0, n, AT_GROUP))
            return diverged(kernel, 0, n, AT_GROUP);
    }
}

/* ---- groups */
static void place_items(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        fibers[i].local[0] = i % item->local_size[0];
        fibers[i].local[1] = i / item->local_size[0] % item->local_size[1];
        fibers[i].local[2] = i / item->local_size[0] / item->local_size[1];
    }
}

static void run_loop(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        unsigned at = (unsigned)fibers_order(i, n);
        memcpy(item->local, fibers[at].local, sizeof item->local);
        item->linear = at;
        body(body_values);
    }
}

/* Local memory has no defined content when a group starts. */
static void poison_locals(const struct launch *l, void **local) {
    const struct code_kernel *k = l->kernel->code;
    for (unsigned i = 0; i < k->n_locals; i++)
        memset(k->locals[i].at, 0xA5, k->locals[i].size);
    for (unsigned i = 0; i < k->n_args; i++)
        if (k->args[i].kind == CODE_LOCAL)
            memset(local[i], 0xA5, l->local_size[i]);
}

static bool run_groups(const struct launch *l, unsigned n, void **local) {
    const struct code_kernel *k = l->kernel->code;
    size_t x = l->groups.groupCountX, y = l->groups.groupCountY, groups = x * y * l->groups.groupCountZ;
    for (size_t i = 0; i < groups; i++) {
        size_t g = fibers_order(i, groups);
        item->group[0] = g % x, item->group[1] = g / x % y, item->group[2] = g / x / y;
        poison_locals(l, local);
        if (!k->fibers) {
            run_loop(n);
            continue;
        }
        if (!run_fibers(k->name, n)) {
            for (unsigned f = 0; f < n_fibers; f++)
                fresh(f); /* they stopped in the middle of the kernel */
            return false;
        }
    }
    return true;
}

bool fibers_run(const struct launch *l, uint32_t default_sub_group) {
    const struct code_kernel *k = l->kernel->code;
    unsigned n = l->group[0] * l->group[1] * l->group[2];
    provide(n);
    item = l->kernel->module->code->item;
    void **values = calloc(k->n_args + 1, sizeof *values), **local = calloc(k->n_args + 1, sizeof *local);
    item->slots = aligned_alloc(CODE_SLOT, 2 * (size_t)n * CODE_SLOT); /* vectors are shown in them */
    if (values == NULL || local == NULL || item->slots == NULL)
        fatal("out of memory for a launch");
    for (unsigned i = 0; i < k->n_args; i++) {
        values[i] = l->values + (size_t)i * MODULE_ARG_SLOT;
        if (k->args[i].kind != CODE_LOCAL)
            continue;
        local[i] = aligned_alloc(128, (l->local_size[i] + 127) / 128 * 128);
        if (local[i] == NULL)
            fatal("out of memory for local memory");
        values[i] = &local[i];
    }
    for (int d = 0; d < 3; d++) {
        item->local_size[d] = l->group[d];
        item->offset[d] = l->offset[d];
    }
    item->groups[0] = l->groups.groupCountX, item->groups[1] = l->groups.groupCountY;
    item->groups[2] = l->groups.groupCountZ;
    item->total = n;
    item->sub_group = k->sub_group != 0 ? k->sub_group : default_sub_group;
    item->wait = wait;
    body = k->run, body_values = values;
    place_items(n);
    bool done = run_groups(l, n, local);
    for (unsigned i = 0; i < k->n_args; i++)
        free(local[i]);
    free(local);
    free(values);
    free(item->slots);
    return done;
}
