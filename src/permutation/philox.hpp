// Philox4x32-10 (Salmon and others 2011): random words from a key and a counter, so that the i-th is known without the
// others.
#pragma once
#include <array>
#include <cstdint>

namespace vicinal {

inline std::array<std::uint32_t, 4> philox(std::uint64_t key, std::array<std::uint32_t, 4> counter) noexcept {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0], b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

/// Numbers for one purpose; streams of different purposes do not meet.
class Random {
 public:
  enum class Purpose : std::uint32_t { permutants, sample };
  Random(std::uint64_t seed, Purpose purpose) noexcept : seed_(seed), purpose_(static_cast<std::uint32_t>(purpose)) {}
  /// The i-th number, below `bound`: the high half of its product with 64 random bits.
  std::int64_t below(std::int64_t i, std::int64_t bound) const noexcept {
    const auto at = static_cast<std::uint64_t>(i);
    const auto words =
        philox(seed_, {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), purpose_, 0});
    const std::uint64_t bits = std::uint64_t{words[1]} << 32 | words[0];
    __extension__ using wide = unsigned __int128;
    return static_cast<std::int64_t>(static_cast<wide>(bits) * static_cast<wide>(bound) >> 64);
  }

 private:
  std::uint64_t seed_;
  std::uint32_t purpose_;
};

}  // namespace vicinal
