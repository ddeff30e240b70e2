/* Memory-mapped pages of files. After many have been read, they are released from the process. They stay in the
 * operating system's page cache while memory allows, so reading them again is cheap. */
#ifndef FASTENS_PAGES_H
#define FASTENS_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/thread_pool.h"

#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

/* The system maps at least this many bytes around the one that is read: Linux maps the whole folio of its page
 * cache. */
enum { PAGES_SHIFT = 16, MAX_MAPPED = 4 };
/* Linux is asked for the number of resident pages about this many times while the permitted number of pages is read. */
enum { PAGES_ASKED = 64 };

typedef struct {
    const uint8_t* begin[MAX_MAPPED];
    size_t n_bytes[MAX_MAPPED];
    int32_t n;
    int32_t most;   /* limit of resident pages */
    int32_t n_read; /* since the pages were last released */
    int32_t others; /* pages of other files that were resident when the pages were last released */
} Pages;

/* Returns the number of resident file pages, or -1 if the system does not report it. */
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
        /* Modified pages are not lost, because they belong to the file. */
        (void)madvise((void*)start, pages->n_bytes[i] + (address - start), MADV_DONTNEED);
    }
#else
    (void)pages;
#endif
}

/* Must be called before n pages are read, from any thread. */
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

/* Index of the page that holds a byte. */
static inline int64_t page_of(int64_t byte) { return byte >> PAGES_SHIFT; }

#endif
