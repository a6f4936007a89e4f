// The few compiler spellings that the vector files share. Macros only: a function here would have external copies
// compiled with several instruction sets, and the linker keeps one of them for all.
#pragma once

#define VICINAL_INLINE inline __attribute__((always_inline))
#define VICINAL_APART __attribute__((noinline))

// Arrays of vectors become registers only where every index is a constant, so the loops over them must be unrolled.
#if defined(__clang__)
#define VICINAL_UNROLL _Pragma("unroll")
#else
#define VICINAL_UNROLL _Pragma("GCC unroll 32")
#endif
