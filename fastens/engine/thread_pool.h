/* Primitives of the thread pool: atomic words, a clock, and short spin waits. */
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
#undef near /* remove the macro of the Windows headers, because kernels use its name */
#undef far

static inline int64_t nanoseconds(void)
{
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    return (int64_t)((double)ticks.QuadPart * 1e9 / (double)per_second.QuadPart);
}

static inline int32_t core_at_hand(void) { return (int32_t)GetCurrentProcessorNumber(); }

#else
#include <time.h>

static inline int64_t nanoseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Returns the core that this thread runs on, or -1 if the system does not report it. */
#if defined(__linux__)
#include <sched.h>
static inline int32_t core_at_hand(void) { return sched_getcpu(); }
#else
static inline int32_t core_at_hand(void) { return -1; }
#endif

#endif

#if defined(__GNUC__) || defined(__clang__)

static inline int32_t load_word(const int32_t* word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
static inline void store_word(int32_t* word, int32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static inline int32_t add_to_word(int32_t* word, int32_t n) { return __atomic_fetch_add(word, n, __ATOMIC_RELAXED); }
static inline int32_t swap_word(int32_t* word, int32_t value)
{
    return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
}
static inline int change_word(int32_t* word, int32_t from, int32_t to)
{
    return __atomic_compare_exchange_n(word, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}
static inline int64_t load_time(const int64_t* time) { return __atomic_load_n(time, __ATOMIC_RELAXED); }
static inline void store_time(int64_t* time, int64_t value) { __atomic_store_n(time, value, __ATOMIC_RELAXED); }
#if defined(__x86_64__) || defined(__i386__)
#define FASTENS_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__) || defined(__arm__)
#define FASTENS_PAUSE() __asm__ volatile("yield")
#else
#define FASTENS_PAUSE() ((void)0)
#endif

#else /* MSVC */

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
static inline int32_t swap_word(int32_t* word, int32_t value)
{
    return InterlockedExchange((volatile LONG*)word, value);
}
static inline int change_word(int32_t* word, int32_t from, int32_t to)
{
    return InterlockedCompareExchange((volatile LONG*)word, to, from) == from;
}
static inline int64_t load_time(const int64_t* time) { return *(const volatile int64_t*)time; }
static inline void store_time(int64_t* time, int64_t value) { *(volatile int64_t*)time = value; }
#define FASTENS_PAUSE() YieldProcessor()

#endif

/* Spins while a word keeps its value, for at most `most` nanoseconds; returns true if the value changed. */
static inline int changes_within(const int32_t* word, int32_t value, int64_t most)
{
    int64_t end = nanoseconds() + most;
    int i;
    do {
        for (i = 0; i < 64; ++i) {
            if (load_word(word) != value)
                return 1;
            FASTENS_PAUSE();
        }
    } while (nanoseconds() < end);
    return 0;
}

#endif
