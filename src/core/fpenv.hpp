// The bits of an answer assume round to nearest, ties to even, and subnormals. A caller may have changed either
// (a library linked with fast-math sets flush-to-zero for the whole process): set what is needed, restore on the way out.
#pragma once
#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace vicinal {

class FpGuard {
 public:
#if defined(__x86_64__)
  FpGuard() noexcept : saved_(_mm_getcsr()) {
    // Rounding control (13-14), flush-to-zero (15) and denormals-are-zero (6) off, exceptions (7-12) masked.
    const unsigned wanted = (saved_ & ~0xE040u) | 0x1F80u;
    if (wanted != saved_) _mm_setcsr(wanted);
  }
  ~FpGuard() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#else
  FpGuard() noexcept {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FpGuard() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif
 public:
  FpGuard(const FpGuard&) = delete;
  FpGuard& operator=(const FpGuard&) = delete;
};

}  // namespace vicinal
