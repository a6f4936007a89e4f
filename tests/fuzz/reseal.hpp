// Makes the checksums of a .vicinal file right again after its contents were changed, so that tests and the fuzzer get past
// them to what else a reader must check. Written by docs/file-format.md; offsets are spelled out on purpose.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>

#include "io/crc32c.hpp"
#include "io/hash128.hpp"

namespace vicinal::test {

template <class T>
T number_at(const std::string& file, std::size_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}
template <class T>
void put(std::string& file, std::size_t at, T value) {
  std::memcpy(file.data() + at, &value, sizeof value);
}

inline io::Bytes part(const std::string& file, std::uint64_t at, std::uint64_t size) {
  return io::as_bytes(file.data() + at, size);
}

/// As far as the file is large enough for the things to be where it says; what lies outside stays as it is.
inline void reseal(std::string& file) {
  constexpr std::uint64_t block = 1 << 20;
  const auto inside = [&](std::uint64_t at, std::uint64_t size) {
    return size <= file.size() && at <= file.size() - size;
  };
  if (file.size() < 256) return;
  const auto sections = number_at<std::uint32_t>(file, 40);
  const auto table = number_at<std::uint64_t>(file, 48);
  if (sections <= 64 && inside(table, 64 * sections)) {
    for (std::uint64_t entry = table; entry < table + 64 * sections; entry += 64) {
      const auto offset = number_at<std::uint64_t>(file, entry + 8),
                 length = number_at<std::uint64_t>(file, entry + 16), list = number_at<std::uint64_t>(file, entry + 24);
      if (!inside(offset, length)) continue;
      const std::uint64_t blocks = (length + block - 1) / block;
      if (inside(list, 4 * blocks) && list >= table + 64 * sections) {
        for (std::uint64_t b = 0; b < blocks; ++b)
          put(file, list + 4 * b, io::crc32c(part(file, offset + b * block, std::min(block, length - b * block))));
        put(file, entry + 4, io::crc32c(part(file, list, 4 * blocks)));
      }
      io::Hash128 hash;
      hash.update(part(file, offset, length));
      put(file, entry + 32, hash.digest().low);
      put(file, entry + 40, hash.digest().high);
    }
    put(file, 44, io::crc32c(part(file, table, 64 * sections)));
  }
  put(file, 252, io::crc32c(part(file, 0, 252)));
}

}  // namespace vicinal::test
