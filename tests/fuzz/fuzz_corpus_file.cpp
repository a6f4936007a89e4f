// libFuzzer target for .vicinal files. The first byte says how the rest, the file, is opened; and unless it says no, the
// checksums are made right again first, so that mutations get past them to the checks behind. What opens must be readable to its
// last byte, searchable, and give the same file when it is saved again.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "reseal.hpp"
#include "vicinal/corpus.hpp"
#include "vicinal/error.hpp"
#include "vicinal/io.hpp"

namespace {

using namespace vicinal;

const std::string& folder() {
  static const std::string name = [] {
    std::string made = "/dev/shm/vicinal-fuzz-XXXXXX";
    if (::mkdtemp(made.data()) == nullptr) std::abort();
    return made;
  }();
  return name;
}

void place(const std::string& path, const std::string& file) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, file.data(), file.size()) != static_cast<ssize_t>(file.size()) || ::close(fd) != 0)
    std::abort();
}

void touch(const Points& p) {
  volatile unsigned sum = 0;
  const auto* bytes = static_cast<const unsigned char*>(p.data);
  for (std::int64_t i = 0; i < p.rows * p.row_stride; ++i) sum = sum + bytes[i];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const unsigned choice = data[0];
  std::string file(reinterpret_cast<const char*>(data + 1), size - 1);
  if ((choice & 1) == 0) test::reseal(file);
  const std::string path = folder() + "/a.vicinal", again = folder() + "/b.vicinal";
  place(path, file);
  try {
    if ((choice & 2) != 0) touch(read_matrix(path).points());
    OpenOptions options;
    options.verify = (choice & 4) == 0;
    options.copy = (choice & 8) != 0;
    options.run.threads = 1;
    options.memory.host = 64 << 20;
    const Corpus corpus = Corpus::open(path, options);
    if ((choice & 0x40) == 0 && corpus.rows() > 0 && corpus.dtype() == DType::f32 && corpus.cols() <= 16) {
      const float zeros[16] = {};
      try {
        corpus.knn(Points(zeros, DType::f32, 1, corpus.cols()),
                   {.k = 1, .memory = {.host = 64 << 20}, .run = {.threads = 1}});
      } catch (const Error& error) {
        if (error.code() == ErrorCode::internal) std::abort();
      }
    }
    if ((choice & 0x30) == 0) {  // not each time: syncing a file takes longer than all the rest
      corpus.save(again);
      const Corpus twin = Corpus::open(again, options);
      if (twin.rows() != corpus.rows() || twin.cols() != corpus.cols() || twin.metric() != corpus.metric())
        std::abort();
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal || error.code() == ErrorCode::out_of_memory ||
        std::strchr(error.what(), '\n') != nullptr)
      std::abort();
  }
  return 0;
}
