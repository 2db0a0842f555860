/* What a compiled module exports (the symbol zesim_code), and what its kernels and built-ins share with the
 * driver. compile.c writes these structures as LLVM text, so the two must agree. */
#ifndef ZESIM_CODE_H
#define ZESIM_CODE_H

#define CODE_VALUE  0u
#define CODE_BUFFER 1u
#define CODE_LOCAL  2u

#define CODE_SLOT 64u /* bytes that a work-item can show its sub-group at once */

struct code_arg {
    unsigned long size;
    unsigned kind, unused;
};

struct code_local {
    void *at;
    unsigned long size;
};

struct code_kernel {
    const char *name;
    void (*run)(void **values); /* one work-item */
    const struct code_arg *args;
    const struct code_local *locals;
    unsigned n_args, n_locals, sub_group, fibers;
    unsigned group[4]; /* required; 0: any */
};

/* The work-item that runs, and how it waits for others. */
struct code_item {
    unsigned long local[3], group[3], local_size[3], groups[3], offset[3];
    unsigned linear;    /* in its group */
    unsigned total;     /* work-items of the group */
    unsigned sub_group; /* size */
    unsigned parity;    /* of the sub-group operation: which half of `slots` */
    /* Returns when all work-items of the group (whole != 0) or of the sub-group have come to the same
     * operation. */
    void (*wait)(unsigned whole, const char *operation);
    unsigned char *slots; /* [2][total][CODE_SLOT] */
};

struct code {
    unsigned long n_kernels;
    const struct code_kernel *kernels;
    struct code_item *item;
};

#endif
