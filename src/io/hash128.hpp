// XXH3 of 128 bits, fed in pieces: the checksum of a whole section. It is there for what escapes 32 bits a block; it
// is no defence against an attacker.
#pragma once
#include "io/bytes.hpp"

namespace vicinal::io {

struct Digest128 {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const Digest128&, const Digest128&) = default;
};

class Hash128 {
 public:
  Hash128() noexcept;
  void update(Bytes bytes) noexcept;
  Digest128 digest() const noexcept;

 private:
  alignas(64) std::byte state_[576];  // of the algorithm's own shape, which only hash128.cpp knows
};

}  // namespace vicinal::io
