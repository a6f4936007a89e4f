// The intrinsics of AVX-512, for the files that are compiled for it.
#pragma once
#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 warns of the undefined operands inside its own intrinsics (its bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
