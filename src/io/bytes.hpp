// Loads, stores and checked products of sizes that come from files. Every format here is little-endian, or says
// which order it uses; items may lie at any address, so nothing is read through a typed pointer.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>

namespace vicinal::io {

static_assert(std::endian::native == std::endian::little, "big-endian machines are not supported");
static_assert(sizeof(std::size_t) == 8, "files are mapped whole: 64-bit addresses are needed");

using Bytes = std::span<const std::byte>;

template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void store(std::byte* to, T value) noexcept {
  std::memcpy(to, &value, sizeof(T));
}

/// The product of all factors, or nothing when it does not fit an int64 (so that it is safe as a stride as well).
inline std::optional<std::uint64_t> product(std::initializer_list<std::uint64_t> factors) noexcept {
  std::int64_t total = 1;
  for (const std::uint64_t factor : factors) {
    if (__builtin_mul_overflow(total, factor, &total)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(total);
}

inline Bytes as_bytes(const void* data, std::size_t size) noexcept {
  return {static_cast<const std::byte*>(data), size};
}

}  // namespace vicinal::io
