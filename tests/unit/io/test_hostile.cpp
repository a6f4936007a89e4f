// Files that lie: cut at every byte, with bits turned over, with counts that nothing could hold. The answer is
// FormatError (or another Error for a flip that makes a type unsupported), never a crash, never a large allocation.
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "files.hpp"

namespace vicinal::test {
namespace {

const std::string four_ids = npy("<i4", "(4, 2)", raw(std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
const std::string rows = npy("<f4", "(4, 2)", raw(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));

/// A small valid file of each kind, and whether it can be read as vectors and as a result.
struct Sample {
  std::string suffix, content;
  bool vectors, result;
};

std::vector<Sample> samples() {
  std::string fvecs, bvecs, ivecs;
  for (int row = 0; row < 4; ++row) {
    fvecs += raw(2) + raw(1.5f) + raw(-2.5f);
    bvecs += raw(2) + "ab";
    ivecs += raw(2) + raw(row) + raw(7);
  }
  const std::string head = raw(4) + raw(2);
  return {{".npy", rows, true, false},
          {".npy", four_ids, false, true},
          {".npy", npy(">f8", "(4, 2)", std::string(64, '\1'), true, 2), true, false},
          {".npz", zip({{"x.npy", rows}}), true, false},
          {".npz", zip({{"x.npy", rows, true}}), true, false},
          {".npz", zip({{"ids.npy", four_ids}, {"distances.npy", rows}}, true), true, true},
          {".npz", zip({{"ids.npy", four_ids, true}, {"distances.npy", rows, true}}), true, true},
          {".fvecs", fvecs, true, false},
          {".bvecs", bvecs, true, false},
          {".ivecs", ivecs, false, true},
          {".fbin", head + std::string(32, 'f'), true, false},
          {".f16bin", head + std::string(16, 'h'), true, false},
          {".u8bin", head + std::string(8, 'u'), true, false},
          {".i8bin", head + std::string(8, 'i'), true, false},
          {".ibin", head + std::string(32, 'j'), false, true},
          {".u64bin", head + std::string(64, '\1'), false, true},
          {".bin", head + std::string(64, 'b'), false, true},
          {".idx", std::string("\0\0\x08\x03\0\0\0\4\0\0\0\2\0\0\0\2", 16) + std::string(16, 'p'), true, false},
          {".idx", std::string("\0\0\x0D\x02\0\0\0\4\0\0\0\2", 12) + std::string(32, 'q'), true, false}};
}

/// Reads every value, so that a view that reaches outside its file is seen by the sanitizer or by SIGBUS.
std::optional<Error> read_all(const Sample& sample, const std::string& path, bool as_result) {
  return error_of([&] {
    if (as_result) read_result(path);
    else if (sample.vectors) elements(read_matrix(path).points());
  });
}

TEST(Hostile, SamplesAreValid) {
  TemporaryDirectory directory;
  for (const Sample& sample : samples()) {
    const std::string path = directory.file("a" + sample.suffix);
    spit(path, sample.content);
    EXPECT_FALSE(read_all(sample, path, false)) << sample.suffix;
    EXPECT_FALSE(sample.result && read_all(sample, path, true)) << sample.suffix;
  }
}

TEST(Hostile, EveryTruncationIsNoticed) {
  TemporaryDirectory directory;
  for (const Sample& sample : samples()) {
    const std::string path = directory.file("a" + sample.suffix);
    const bool vecs = sample.suffix.ends_with("vecs");
    const std::size_t row = vecs ? sample.content.size() / 4 : 0;
    for (std::size_t size = 0; size < sample.content.size(); ++size) {
      spit(path, sample.content.substr(0, size));
      const auto error = read_all(sample, path, sample.result);
      if (vecs && size > 0 && size % row == 0) {
        EXPECT_FALSE(error) << sample.suffix << " is whole with fewer rows, at " << size;
        continue;
      }
      ASSERT_TRUE(error) << sample.suffix << " cut at " << size;
      EXPECT_EQ(error->code(), ErrorCode::format_error) << sample.suffix << " cut at " << size << ": " << error->what();
    }
  }
}

TEST(Hostile, EveryTurnedBitIsAnErrorOrAValue) {
  TemporaryDirectory directory;
  for (const Sample& sample : samples()) {
    const std::string path = directory.file("a" + sample.suffix);
    int refused = 0;
    for (std::size_t bit = 0; bit < 8 * sample.content.size(); ++bit) {
      std::string damaged = sample.content;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      spit(path, damaged);
      const auto error = read_all(sample, path, sample.result);
      if (!error) continue;
      ++refused;
      EXPECT_NE(error->code(), ErrorCode::internal) << error->what();
      EXPECT_NE(error->code(), ErrorCode::out_of_memory) << error->what();
      EXPECT_EQ(std::string(error->what()).find('\n'), std::string::npos);
    }
    EXPECT_GT(refused, 20) << sample.suffix;
  }
}

TEST(Hostile, RandomDamageIsAnErrorOrAValue) {
  TemporaryDirectory directory;
  std::mt19937 random(4242);
  for (const Sample& sample : samples()) {
    const std::string path = directory.file("a" + sample.suffix);
    for (int round = 0; round < 300; ++round) {
      std::string damaged = sample.content;
      for (unsigned i = 0, n = 1 + random() % 12; i < n; ++i)
        damaged[random() % damaged.size()] = static_cast<char>(random());
      if (random() % 2)
        damaged.insert(random() % damaged.size(), std::string(random() % 40, static_cast<char>(random())));
      spit(path, damaged);
      const auto error = read_all(sample, path, sample.result && round % 2 == 0);
      EXPECT_FALSE(error && error->code() == ErrorCode::internal) << error->what();
    }
  }
}

/// Pages of address space that `read_all` added at its peak, found in a child so that nothing earlier hides it.
long peak_growth_kib(const Sample& sample, const std::string& path, ErrorCode expected) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto field = [](const std::string& name) {
      std::ifstream status("/proc/self/status");
      for (std::string line; std::getline(status, line);) {
        if (line.rfind(name, 0) == 0) return std::stol(line.substr(name.size()));
      }
      return -1L;
    };
    const long before = field("VmSize:");
    const auto error = read_all(sample, path, sample.result);
    const long growth = error && error->code() == expected ? field("VmPeak:") - before : 1L << 40;
    ::_exit(::write(ends[1], &growth, sizeof growth) == sizeof growth ? 0 : 1);
  }
  ::close(ends[1]);
  long growth = -1;
  const bool answered = ::read(ends[0], &growth, sizeof growth) == sizeof growth;
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return answered ? growth : -1;
}

TEST(Hostile, HugeCountsAllocateNothing) {
  TemporaryDirectory directory;
  const auto with_size = [](std::string file, std::uint32_t size) {  // of the first member, both copies
    file.replace(file.rfind("PK\x01\x02") + 24, 4, raw(size));
    return file.replace(22, 4, raw(size));
  };
  const std::string tiny = std::string("\x93NUMPY\x01\x00", 8) + raw(std::uint16_t{80});
  const auto claim = [&](std::string header) { return tiny + header.append(79 - header.size(), ' ') + "\n"; };
  const std::vector<Sample> claims = {
      {".npy", claim("{'descr':'<f4','fortran_order':False,'shape':(1152921504606846976,1)}"), true, false},
      {".npy", claim("{'descr':'<f4','fortran_order':False,'shape':(4611686018427387904,4)}"), true, false},
      {".npy", claim("{'descr':'<i8','fortran_order':False,'shape':(1152921504606846976,1)}"), false, true},
      {".npy", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'", 20), true, false},
      {".fvecs", raw(INT32_MAX) + std::string(86, 'x'), true, false},
      {".ivecs", raw(INT32_MAX) + std::string(86, 'x'), false, true},
      {".fbin", raw(UINT32_MAX) + raw(UINT32_MAX) + std::string(82, 'x'), true, false},
      {".u64bin", raw(std::uint64_t{1} << 60) + raw(std::uint64_t{16}) + std::string(74, 'x'), false, true},
      {".ibin", raw(UINT32_MAX) + raw(2) + std::string(82, 'x'), false, true},
      {".u8bin", raw(INT32_MAX) + raw(INT32_MAX) + std::string(82, 'x'), true, false},
      {".bin", raw(UINT32_MAX) + raw(UINT32_MAX) + std::string(82, 'x'), false, true},
      {".bin", raw(INT32_MAX) + raw(1) + std::string(82, 'x'), false, true},
      {".idx", std::string("\0\0\x0E\x04", 4) + std::string(86, '\xff'), true, false},
      {".idx", std::string("\0\0\x08\xff", 4) + std::string(86, '\xff'), true, false},
      {".mtx", "%%MatrixMarket matrix array real general\n1152921504606846976 1\n1\n", true, false},
      {".mtx", "%%MatrixMarket matrix array integer general\n4294967296 4294967296\n1\n", true, false},
      {".mtx", "%%MatrixMarket matrix coordinate real general\n2147483647 2147483647 1\n1 1 1\n", true, false},
      {".mtx", "%%MatrixMarket matrix coordinate real general\n9 9 9223372036854775807\n1 1 1\n", true, false},
      {".npz", with_size(zip({{"x.npy", rows, true}}), 0xFFFFFFFE), true, false},
      {".npz", with_size(zip({{"x.npy", rows}}), 0xFFFFFFFE), true, false},
      {".npz", zip({{"x.npy", claim("{'descr':'<f4','fortran_order':False,'shape':(1152921504606846976,1)}"), true}}),
       true, false}};
  for (const Sample& sample : claims) {
    const std::string path = directory.file("a" + sample.suffix);
    spit(path, sample.content);
    const long growth = peak_growth_kib(sample, path, ErrorCode::format_error);
    EXPECT_GE(growth, 0) << sample.suffix;
    EXPECT_LT(growth, 1024) << sample.suffix << " of " << sample.content.size() << " bytes";
  }
}

}  // namespace
}  // namespace vicinal::test
