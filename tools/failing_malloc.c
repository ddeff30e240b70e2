/* An allocator that fails on the n-th call: loaded before the C library's, which does the work (glibc). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static long countdown; /* the call that fails, from now on; 0 or less: none */
static long n_bytes;   /* that are in use */
static void *frames[16]; /* where the last one failed */
static int n_frames;

/* Fail on the n-th call from now on. */
void fail_on_call(long n) { __atomic_store_n(&countdown, n, __ATOMIC_SEQ_CST); }

/* How many calls are left until one fails; 0 or less: it has failed. */
long calls_left(void) { return __atomic_load_n(&countdown, __ATOMIC_SEQ_CST); }

long bytes_in_use(void) { return __atomic_load_n(&n_bytes, __ATOMIC_SEQ_CST); }

/* The library and function that asked for the memory that was not given, C's own left out. */
const char *failed_in(void)
{
    static char found[512];
    Dl_info info;
    for (int i = 2; i < n_frames; i++) {
        if (!dladdr(frames[i], &info) || !info.dli_fname || strstr(info.dli_fname, "libc.so"))
            continue;
        const char *name = strrchr(info.dli_fname, '/');
        snprintf(found, sizeof found, "%s %s", name ? name + 1 : info.dli_fname, info.dli_sname ? info.dli_sname : "");
        return found;
    }
    return "";
}

static int fails(void)
{
    if (calls_left() <= 0 || __atomic_fetch_sub(&countdown, 1, __ATOMIC_SEQ_CST) != 1)
        return 0;
    n_frames = backtrace(frames, 16);
    errno = ENOMEM;
    return 1;
}

static void on_crash(int number)
{
    char line[600];
    int n = snprintf(line, sizeof line, "signal %d: no memory for %s\n", number, failed_in());
    if (write(2, line, (size_t)n) < n || strstr(line, "_multiarray_umath") || strstr(line, "_sparsetools"))
        _exit(3);
    _exit(4);
}

/* End with status 3 where the process crashes and NumPy or SciPy was the one to get no memory, 4 where another was. */
void tell_crashes(void)
{
    signal(SIGSEGV, on_crash);
    signal(SIGABRT, on_crash);
    signal(SIGFPE, on_crash);
}

static void *counted(void *memory)
{
    if (memory)
        __atomic_fetch_add(&n_bytes, (long)malloc_usable_size(memory), __ATOMIC_RELAXED);
    return memory;
}

static void forget(void *memory)
{
    if (memory)
        __atomic_fetch_sub(&n_bytes, (long)malloc_usable_size(memory), __ATOMIC_RELAXED);
}

void *malloc(size_t size) { return fails() ? NULL : counted(__libc_malloc(size)); }

void *calloc(size_t n, size_t size) { return fails() ? NULL : counted(__libc_calloc(n, size)); }

void *memalign(size_t alignment, size_t size) { return fails() ? NULL : counted(__libc_memalign(alignment, size)); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    void *found = memalign(alignment, size);
    if (!found)
        return ENOMEM;
    *memory = found;
    return 0;
}

void *realloc(void *memory, size_t size)
{
    long before = memory ? (long)malloc_usable_size(memory) : 0;
    void *found;
    if (fails())
        return NULL;
    found = __libc_realloc(memory, size);
    if (found || size == 0)
        __atomic_fetch_sub(&n_bytes, before, __ATOMIC_RELAXED);
    return counted(found);
}

void free(void *memory)
{
    forget(memory);
    __libc_free(memory);
}
