// The total order of selection (semantics C12) as unsigned integers: a value's key is smaller when the value comes
// earlier.
// -0 and +0 have one key; every NaN has the largest there is, in both directions; ties are for positions to decide.
// Plain C++ that CUDA compiles too.
#pragma once
#include <cstdint>
#include <type_traits>

#include "core/both.hpp"
#include "vicinal/select.hpp"

namespace vicinal {

VICINAL_BOTH constexpr bool is_floating_point(ValueType type) {
  return type == ValueType::f32 || type == ValueType::f64 || type == ValueType::f16 || type == ValueType::bf16;
}

VICINAL_BOTH constexpr bool is_signed_integer(ValueType type) {
  return type == ValueType::i8 || type == ValueType::i16 || type == ValueType::i32 || type == ValueType::i64;
}

/// A floating-point value of `Bits` by its bits, `infinity` those of +inf.
template <class Bits>
VICINAL_BOTH Bits ordered_float(Bits bits, Bits infinity, bool largest) {
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  const Bits magnitude = static_cast<Bits>(bits & static_cast<Bits>(~sign));
  if (magnitude > infinity) return static_cast<Bits>(~Bits{0});
  if (magnitude == 0) bits = 0;
  const Bits key = static_cast<Bits>((bits & sign) != 0 ? ~bits : bits | sign);
  return largest ? static_cast<Bits>(~key) : key;
}

template <class Bits>
VICINAL_BOTH Bits ordered_integer(Bits bits, bool is_signed, bool largest) {
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  const Bits key = is_signed ? static_cast<Bits>(bits ^ sign) : bits;
  return largest ? static_cast<Bits>(~key) : key;
}

/// Unsigned integers of the size of a value.
template <ValueType T>
struct ValueBits {
  using type =
      std::conditional_t<value_size(T) == 8, std::uint64_t,
                         std::conditional_t<value_size(T) == 4, std::uint32_t,
                                            std::conditional_t<value_size(T) == 2, std::uint16_t, std::uint8_t>>>;
};

/// The key of a value given by its bits; as wide as the value.
template <ValueType T>
VICINAL_BOTH typename ValueBits<T>::type ordered(typename ValueBits<T>::type bits, bool largest) {
  using Bits = typename ValueBits<T>::type;
  if constexpr (T == ValueType::f32) return ordered_float<Bits>(bits, 0x7f800000u, largest);
  else if constexpr (T == ValueType::f64) return ordered_float<Bits>(bits, 0x7ff0000000000000u, largest);
  else if constexpr (T == ValueType::f16) return ordered_float<Bits>(bits, 0x7c00, largest);
  else if constexpr (T == ValueType::bf16) return ordered_float<Bits>(bits, 0x7f80, largest);
  else return ordered_integer<Bits>(bits, is_signed_integer(T), largest);
}

/// The bits of the value that has a key; of a zero and of a NaN, which share keys, one of them (see keeps_bits).
template <ValueType T>
VICINAL_BOTH typename ValueBits<T>::type unordered(typename ValueBits<T>::type key, bool largest) {
  using Bits = typename ValueBits<T>::type;
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  if (largest) key = static_cast<Bits>(~key);
  if constexpr (is_floating_point(T)) return static_cast<Bits>((key & sign) != 0 ? key ^ sign : ~key);
  else return is_signed_integer(T) ? static_cast<Bits>(key ^ sign) : key;
}

/// Whether unordered() gives back the very bits of the value behind `key`: not for zeros, of either sign, and NaNs.
template <ValueType T>
VICINAL_BOTH bool keeps_bits(typename ValueBits<T>::type key, bool largest) {
  using Bits = typename ValueBits<T>::type;
  if constexpr (is_floating_point(T)) return key != static_cast<Bits>(~Bits{0}) && key != ordered<T>(Bits{0}, largest);
  else return true;
}

/// Calls body.template operator()<T>() for a type known at run time only.
template <class Body>
VICINAL_BOTH auto with_type(ValueType type, const Body& body) {
  switch (type) {
    case ValueType::f32: return body.template operator()<ValueType::f32>();
    case ValueType::f64: return body.template operator()<ValueType::f64>();
    case ValueType::f16: return body.template operator()<ValueType::f16>();
    case ValueType::bf16: return body.template operator()<ValueType::bf16>();
    case ValueType::u8: return body.template operator()<ValueType::u8>();
    case ValueType::i8: return body.template operator()<ValueType::i8>();
    case ValueType::u16: return body.template operator()<ValueType::u16>();
    case ValueType::i16: return body.template operator()<ValueType::i16>();
    case ValueType::u32: return body.template operator()<ValueType::u32>();
    case ValueType::i32: return body.template operator()<ValueType::i32>();
    case ValueType::u64: return body.template operator()<ValueType::u64>();
    case ValueType::i64: break;
  }
  return body.template operator()<ValueType::i64>();
}

}  // namespace vicinal
