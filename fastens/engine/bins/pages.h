/* Pages of files that are mapped into memory: the system takes them out of the process where it has read many. They stay
 * in the system's own cache as long as there is room, so that reading them again costs little. */
#ifndef FASTENS_PAGES_H
#define FASTENS_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/team.h"

#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

/* The system maps so many bytes around the one that is read, or more: Linux maps as much as its cache has in one piece. */
enum { PAGES_SHIFT = 16, MOST_MAPPED = 4 };
/* So often Linux is asked for what is in the process, while as much is read as may be in it. */
enum { PAGES_ASKED = 64 };

typedef struct {
    const uint8_t* begin[MOST_MAPPED];
    size_t n_bytes[MOST_MAPPED];
    int32_t n;
    int32_t most;   /* pages that may be in the process */
    int32_t n_read; /* since they were dropped */
    int32_t others; /* of other files, in the process when they were dropped */
} Pages;

/* Pages of files in the process; -1 where the system does not tell. */
static inline int32_t mapped_pages(void)
{
#if defined(__linux__)
    char text[64];
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    const ssize_t n = read(file, text, sizeof text - 1);
    (void)close(file);
    int64_t shared = 0;
    int field = 0;
    for (ssize_t i = 0; i < n && field < 3; i++) {
        if (text[i] == ' ') field++;
        else if (field == 2) shared = 10 * shared + (text[i] - '0');
    }
    return field < 3 ? -1 : (int32_t)(shared * (int64_t)sysconf(_SC_PAGESIZE) >> PAGES_SHIFT);
#else
    return -1;
#endif
}

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
    const int32_t step = pages->most / PAGES_ASKED + 1;
    int is_over = before <= pages->most && before + more > pages->most;
    if (!is_over && before / step != (before + more) / step) {
        is_over = mapped_pages() - add_to_word(&pages->others, 0) > pages->most;
    }
    if (is_over) {
        drop_pages(pages);
        add_to_word(&pages->n_read, -before - more);
        const int32_t others = mapped_pages();
        (void)swap_word(&pages->others, others < 0 ? 0 : others);
    }
}

/* The page of a byte, counted from the first. */
static inline int64_t page_of(int64_t byte) { return byte >> PAGES_SHIFT; }

#endif
