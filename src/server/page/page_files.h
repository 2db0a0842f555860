/* The files of the web page, carried in the binary (tools/embed_text, PAGE_FILES in the Makefile). */
#ifndef STATOR_SERVER_PAGE_FILES_H
#define STATOR_SERVER_PAGE_FILES_H

#include <stddef.h>

struct page_file {
    const char *name; /* "html" */
    const char *file; /* "src/server/page/page.html" */
    const char *text;
};

extern const struct page_file page_files[];
extern const size_t page_n_files;

#endif
