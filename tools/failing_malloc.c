/* An allocator that fails on the n-th call: loaded before the C library's, which does the work (glibc). */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static long countdown; /* the call that fails, from now on; 0 or less: none */
static long n_bytes;   /* that are in use */

/* Fail on the n-th call from now on. */
void fail_on_call(long n) { __atomic_store_n(&countdown, n, __ATOMIC_SEQ_CST); }

/* How many calls are left until one fails; 0 or less: it has failed. */
long calls_left(void) { return __atomic_load_n(&countdown, __ATOMIC_SEQ_CST); }

long bytes_in_use(void) { return __atomic_load_n(&n_bytes, __ATOMIC_SEQ_CST); }

static int fails(void)
{
    if (calls_left() <= 0 || __atomic_fetch_sub(&countdown, 1, __ATOMIC_SEQ_CST) != 1)
        return 0;
    errno = ENOMEM;
    return 1;
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
