/* Compiles a loop several times and dispatches by CPU at run time: a portable version, and an AVX2 version if the
 * compiler supports it.
 *
 *     FASTENS_INLINE void scale_loop(double* x, ptrdiff_t n) { ... }
 *     FASTENS_CHOOSE(scale, (double* x, ptrdiff_t n), (x, n))
 *
 * defines `scale`. Loops are plain C that the compiler vectorises. Results do not depend on the version. */
#ifndef FASTENS_DISPATCH_H
#define FASTENS_DISPATCH_H

#if defined(__GNUC__) || defined(__clang__)
#define FASTENS_NOINLINE static __attribute__((noinline, unused))
#else
#define FASTENS_NOINLINE static inline
#endif

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define FASTENS_INLINE static inline __attribute__((always_inline))
#define FASTENS_CHOOSE(name, parameters, arguments)                                                   \
    __attribute__((target("avx2"))) static void name##_avx2 parameters { name##_loop arguments; }     \
    static void name##_plain parameters { name##_loop arguments; }                                    \
    static inline void name parameters                                                                \
    {                                                                                                 \
        if (__builtin_cpu_supports("avx2"))                                                           \
            name##_avx2 arguments;                                                                    \
        else                                                                                          \
            name##_plain arguments;                                                                   \
    }
#else
#define FASTENS_INLINE static inline
#define FASTENS_CHOOSE(name, parameters, arguments) \
    static inline void name parameters { name##_loop arguments; }
#endif

#endif
