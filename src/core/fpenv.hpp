// The bits of an answer assume round to nearest, ties to even, and subnormals. A caller may have changed either
// (a library linked with fast-math sets flush-to-zero for the whole process): set what is needed, restore on the way
// out.
#pragma once
#if defined(__x86_64__)
#include <xmmintrin.h>

#include <cstdint>
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
    // The C library's conversions of numbers from and to text ask the x87 unit for the rounding mode: rounding control
    // (10-11) off, precision (8-9) full, exceptions (0-5) masked.
    asm volatile("fnstcw %0" : "=m"(saved_x87_));
    const auto x87 = static_cast<std::uint16_t>((saved_x87_ & ~0x0C00u) | 0x033Fu);
    if (x87 != saved_x87_) asm volatile("fldcw %0" : : "m"(x87));
  }
  ~FpGuard() {
    _mm_setcsr(saved_);
    asm volatile("fldcw %0" : : "m"(saved_x87_));
  }

 private:
  unsigned saved_;
  std::uint16_t saved_x87_;
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
