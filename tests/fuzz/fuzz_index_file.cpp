// libFuzzer target for .vicinal files of permutation indexes. The first byte says how the rest, the file, is opened; and unless it
// says no, the checksums are made right again first. What opens must be searchable, both ways, and give the same file when saved.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "reseal.hpp"
#include "vicinal/error.hpp"
#include "vicinal/permutation_index.hpp"

namespace {

using namespace vicinal;

void place(const std::string& path, const std::string& file) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, file.data(), file.size()) != static_cast<ssize_t>(file.size()) || ::close(fd) != 0)
    std::abort();
}

void search(const PermutationIndex& index, bool exact) {
  PermutationSearch how{.k = 1, .exact = exact, .run = {.threads = 1}};
  if (!exact) how.fraction = 0.5;
  if (index.strings()) {
    const std::vector<std::string_view> texts = {"", "ab"};
    index.knn(StringList(texts).view(), how);
  } else if (index.cols() <= 16) {
    const float zeros[16] = {};
    const std::uint8_t bytes[16] = {};
    if (index.metric() == Metric::hamming) index.knn(Points(bytes, DType::u8, 1, index.cols()), how);
    else index.knn(Points(zeros, DType::f32, 1, index.cols()), how);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const std::string folder = [] {
    std::string made = "/dev/shm/vicinal-fuzz-XXXXXX";
    if (::mkdtemp(made.data()) == nullptr) std::abort();
    return made;
  }();
  const unsigned choice = data[0];
  std::string file(reinterpret_cast<const char*>(data + 1), size - 1);
  if ((choice & 1) == 0) test::reseal(file);
  const std::string path = folder + "/a.vicinal";
  place(path, file);
  try {
    const PermutationIndex index =
        PermutationIndex::open(path, {.verify = (choice & 2) == 0, .copy = (choice & 4) != 0, .run = {.threads = 1}});
    try {
      search(index, (choice & 8) != 0);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::internal) std::abort();
    }
    if ((choice & 0xf0) == 0) {  // not each time: syncing a file takes longer than all the rest
      index.save(folder + "/b.vicinal");
      if (PermutationIndex::open(folder + "/b.vicinal").permutants() != index.permutants()) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal || error.code() == ErrorCode::out_of_memory ||
        std::strchr(error.what(), '\n') != nullptr)
      std::abort();
  }
  return 0;
}
