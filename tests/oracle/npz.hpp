// A small reader of .npz for the golden files, independent of src/io: the zip directory, stored or deflated members,
// and C-ordered little-endian .npy v1 to v3. Throws std::runtime_error on anything else.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace oracle {

struct Array {
  std::string descr;  // NumPy's "<f4", "|u1", ...
  std::vector<std::int64_t> shape;
  std::vector<unsigned char> bytes;
};
std::map<std::string, Array> read_npz(const std::string& path);

}  // namespace oracle
