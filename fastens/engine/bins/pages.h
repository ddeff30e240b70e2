/* Pages of files that are mapped into memory: the system takes them out of the process where it has read many. They stay
 * in the system's own cache as long as there is room, so that reading them again costs little. */
#ifndef FASTENS_PAGES_H
#define FASTENS_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/team.h"

#if !defined(_WIN32)
#include <sys/mman.h>
#include <unistd.h>
#endif

/* The system maps so many bytes around the one that is read. */
enum { PAGES_SHIFT = 16, MOST_MAPPED = 4 };

typedef struct {
    const uint8_t* begin[MOST_MAPPED];
    size_t n_bytes[MOST_MAPPED];
    int32_t n;
    int32_t most;   /* pages that may be in the process */
    int32_t n_read; /* since they were dropped, at most */
} Pages;

static inline void drop_pages(Pages* pages)
{
#if defined(MADV_DONTNEED)
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int32_t i = 0; i < pages->n; i++) {
        const uintptr_t address = (uintptr_t)pages->begin[i], start = address & ~(page - 1);
        /* What was written is not lost, for the pages are the file's. */
        (void)madvise((void*)start, pages->n_bytes[i] + (address - start), MADV_DONTNEED);
    }
#else
    (void)pages;
#endif
}

/* Before so many pages are read; by any thread. */
static inline void note_pages(Pages* pages, int64_t n)
{
    const int32_t more = (int32_t)(n < (1 << 28) ? n : 1 << 28), before = add_to_word(&pages->n_read, more);
    if (before <= pages->most && before + more > pages->most) {
        drop_pages(pages);
        add_to_word(&pages->n_read, -before - more);
    }
}

/* The page of a byte, counted from the first. */
static inline int64_t page_of(int64_t byte) { return byte >> PAGES_SHIFT; }

#endif
