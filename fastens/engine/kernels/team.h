/* What threads that wait for each other need: words that both see, and to wait without keeping others from work. */
#ifndef FASTENS_TEAM_H
#define FASTENS_TEAM_H

#include <stdint.h>

#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#define FASTENS_SLEEP() SwitchToThread()
#else
#include <time.h>
#define FASTENS_SLEEP() nanosleep(&(const struct timespec){0, 50000}, 0)
#endif

#if defined(__GNUC__) || defined(__clang__)

static inline int32_t load_word(const int32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline void store_word(int32_t* word, int32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static inline int32_t add_to_word(int32_t* word, int32_t n) { return __atomic_fetch_add(word, n, __ATOMIC_RELAXED); }
static inline int change_word(int32_t* word, int32_t from, int32_t to)
{
    return __atomic_compare_exchange_n(word, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
#if defined(__x86_64__) || defined(__i386__)
#define FASTENS_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__) || defined(__arm__)
#define FASTENS_PAUSE() __asm__ volatile("yield")
#else
#define FASTENS_PAUSE() ((void)0)
#endif

#else /* Microsoft's compiler */

static inline int32_t load_word(const int32_t* word)
{
    int32_t value = *(const volatile int32_t*)word;
    MemoryBarrier();
    return value;
}
static inline void store_word(int32_t* word, int32_t value)
{
    MemoryBarrier();
    *(volatile int32_t*)word = value;
}
static inline int32_t add_to_word(int32_t* word, int32_t n) { return InterlockedExchangeAdd((volatile LONG*)word, n); }
static inline int change_word(int32_t* word, int32_t from, int32_t to)
{
    return InterlockedCompareExchange((volatile LONG*)word, to, from) == from;
}
#define FASTENS_PAUSE() YieldProcessor()

#endif

/* Wait a moment, after n others: at first awake, then asleep. To give way would not do: on a machine with other work, the
 * system makes who gives way wait for all others' turns, but lets who sleeps come back soon. */
static inline void wait_a_moment(int32_t* n)
{
    if (*n < 30000) {
        FASTENS_PAUSE();
        ++*n;
    } else {
        FASTENS_SLEEP();
    }
}

#endif
