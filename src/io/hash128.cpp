// See hash128.hpp. xxhash.h is compiled into this file alone, so libvicinal depends on no shared library for it.
#include "io/hash128.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <new>

namespace vicinal::io {
namespace {

XXH3_state_t* state_at(void* bytes) noexcept { return std::launder(static_cast<XXH3_state_t*>(bytes)); }
const XXH3_state_t* state_at(const void* bytes) noexcept {
  return std::launder(static_cast<const XXH3_state_t*>(bytes));
}

}  // namespace

Hash128::Hash128() noexcept {
  static_assert(sizeof(XXH3_state_t) <= sizeof state_ && alignof(XXH3_state_t) <= 64);
  auto* state = ::new (static_cast<void*>(state_)) XXH3_state_t;
  XXH3_INITSTATE(state);
  XXH3_128bits_reset(state);
}

void Hash128::update(Bytes bytes) noexcept {
  if (!bytes.empty()) XXH3_128bits_update(state_at(state_), bytes.data(), bytes.size());
}

Digest128 Hash128::digest() const noexcept {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_at(static_cast<const void*>(state_)));
  return {hash.low64, hash.high64};
}

}  // namespace vicinal::io
