// Saved corpora as things to work with: as files of vectors, with a copy that outlives its file, cancelled, killed while
// they are written, on a full disk; and the two checksums by their published values.
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "files.hpp"
#include "io/crc32c.hpp"
#include "io/hash128.hpp"
#include "killed_saves.hpp"
#include "vicinal/corpus.hpp"

namespace vicinal::test {
namespace {

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 1000);
  return values;
}

TEST(Crc32c, HasThePublishedValues) {  // RFC 3720, B.4
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending += static_cast<char>(i);
  for (const auto& crc : {io::crc32c, io::crc32c_by_table}) {
    EXPECT_EQ(crc(bytes_of(""), 0), 0u);
    EXPECT_EQ(crc(bytes_of("123456789"), 0), 0xE3069283u);
    EXPECT_EQ(crc(bytes_of(std::string(32, '\0')), 0), 0x8A9136AAu);
    EXPECT_EQ(crc(bytes_of(std::string(32, '\xff')), 0), 0x62A8AB43u);
    EXPECT_EQ(crc(bytes_of(ascending), 0), 0x46DD794Eu);
  }
}

TEST(Crc32c, InstructionAndTableAgreeOnAnyCutting) {
  std::mt19937 random(3);
  std::string text(4096, '\0');
  for (char& c : text) c = static_cast<char>(random());
  for (int round = 0; round < 2000; ++round) {
    const std::size_t first = random() % 64, size = random() % (text.size() - first), cut = random() % (size + 1);
    const io::Bytes all = bytes_of(text).subspan(first, size);
    const std::uint32_t whole = io::crc32c(all);
    ASSERT_EQ(io::crc32c_by_table(all), whole);
    ASSERT_EQ(io::crc32c(all.subspan(cut), io::crc32c(all.first(cut))), whole);
    ASSERT_EQ(io::crc32c_by_table(all.subspan(cut), io::crc32c_by_table(all.first(cut))), whole);
  }
}

TEST(Hash128, HasThePublishedValueAndTakesPieces) {
  EXPECT_EQ(io::Hash128().digest(), (io::Digest128{0x6001C324468D497F, 0x99AA06D3014798D8}));  // of nothing
  std::mt19937 random(4);
  std::string text(5000, '\0');
  for (char& c : text) c = static_cast<char>(random());
  io::Hash128 whole;
  whole.update(bytes_of(text));
  for (int round = 0; round < 200; ++round) {
    io::Hash128 pieces;
    for (io::Bytes rest = bytes_of(text); !rest.empty();) {
      const std::size_t size = std::min<std::size_t>(rest.size(), random() % 1500);
      pieces.update(rest.first(size));
      rest = rest.subspan(size);
    }
    ASSERT_EQ(pieces.digest(), whole.digest());
  }
}

TEST(CorpusFormat, IsReadAndWrittenAsVectors) {
  TemporaryDirectory directory;
  const std::string path = directory.file("A.Vicinal"), content(48, 'x');
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i8}) {
    const auto cols = static_cast<std::int64_t>(16 / dtype_size(type));
    write_matrix(path, Points(content.data(), type, 3, cols));
    const Matrix read = read_matrix(path);
    EXPECT_TRUE(read.mapped());
    EXPECT_EQ(read.points().dtype, type);
    EXPECT_EQ(read.points().rows, 3);
    EXPECT_EQ(read.points().cols, cols);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.points().data) % 64, 0u);
    EXPECT_EQ(elements(read.points()), content);
    EXPECT_EQ(Corpus::open(path).metric(), Metric::euclidean);
  }
  expect_error(ErrorCode::unsupported, ".vicinal is not for ids", [&] { read_result(path); });
  expect_error(ErrorCode::unsupported, ".vicinal is not for ids",
               [&] { write_neighbors(path, make_neighbors(1, 1, DistanceType::f32)); });
  expect_error(ErrorCode::invalid_argument, "dimension is 0",
               [&] { write_matrix(path, Points(nullptr, DType::f32, 3, 0)); });
  EXPECT_EQ(elements(read_matrix(path).points()), content) << "the old file is there";
  std::filesystem::copy(path, directory.file("b.npy"));
  expect_error(ErrorCode::format_error, "it looks like .vicinal", [&] { read_matrix(directory.file("b.npy")); });
}

TEST(CorpusSave, WantsItsSuffix) {
  TemporaryDirectory directory;
  const auto values = numbers(8, 1);
  const Corpus corpus(MatrixView<float>{values.data(), 4, 2});
  expect_error(ErrorCode::unsupported, "a corpus is saved with the suffix .vicinal",
               [&] { corpus.save(directory.file("a.npy")); });
  expect_error(ErrorCode::unsupported, "unknown suffix \".corpus\"", [&] { corpus.save(directory.file("a.corpus")); });
  expect_error(ErrorCode::invalid_argument, "NUL", [&] { corpus.save(std::string("a\0.vicinal", 10)); });
  expect_error(ErrorCode::io_error, "No such file or directory",
               [&] { corpus.save(directory.file("none/a.vicinal")); });
  EXPECT_EQ(directory.entries(), 0u);
}

TEST(CorpusOpen, ACopyOutlivesItsFile) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.vicinal");
  const auto values = numbers(5000 * 32, 2);
  const Points rows = MatrixView<float>{values.data(), 5000, 32};
  const Corpus original(rows);
  original.save(path);
  const Corpus copied = Corpus::open(path, {.copy = true}), mapped = Corpus::open(path);
  EXPECT_GT(copied.bytes(), mapped.bytes() + 5000 * 32 * 4 - 1);
  std::filesystem::resize_file(path, 0);
  std::filesystem::remove(path);
  const Neighbors want = original.knn(rows.slice(0, 20)), got = copied.knn(rows.slice(0, 20));
  for (std::int64_t i = 0; i < 200; ++i) ASSERT_EQ(got.ids()[i], want.ids()[i]);
}

TEST(CorpusOpen, SavesOverTheFileThatItHasMapped) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.vicinal");
  const auto values = numbers(1000 * 32, 3);
  Corpus(MatrixView<float>{values.data(), 1000, 32}).save(path);
  const std::string before = slurp(path);
  const Corpus mapped = Corpus::open(path);
  mapped.save(path);
  mapped.save(path);
  EXPECT_EQ(slurp(path), before);
}

TEST(CorpusOpen, ReportsProgressAndCanBeStopped) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.vicinal");
  const auto values = numbers(100000 * 32, 4);
  Corpus(MatrixView<float>{values.data(), 100000, 32}).save(path);
  for (const bool verify : {true, false}) {
    std::vector<std::uint64_t> heard;
    std::uint64_t whole = 0;
    const auto listen = [&](std::uint64_t done, std::uint64_t total) {
      heard.push_back(done);
      whole = total;
      return true;
    };
    Corpus::open(path, {.verify = verify, .progress = listen});
    EXPECT_TRUE(std::is_sorted(heard.begin(), heard.end()));
    ASSERT_FALSE(heard.empty());
    EXPECT_EQ(heard.front(), 0u);
    EXPECT_EQ(heard.back(), whole);
    std::stop_source source;
    source.request_stop();
    expect_error(ErrorCode::cancelled, "cancelled",
                 [&] { Corpus::open(path, {.verify = verify, .stop = source.get_token()}); });
  }
  expect_error(ErrorCode::invalid_argument, "threads", [&] { Corpus::open(path, {.run = {.threads = -1}}); });
  expect_error(ErrorCode::invalid_value, "NaN", [&] {
    std::vector<float> bad = {0, NAN};
    write_matrix(path, MatrixView<float>{bad.data(), 2, 1});
    Corpus::open(path);
  });
}

TEST(CorpusSave, KillingItLeavesTheOldFileOrTheNew) {
  constexpr std::size_t count = 3;  // of three in turn, the file before the last finished save's is no answer
  TemporaryDirectory directory;
  const std::string path = directory.file("a.vicinal");
  std::string whole[count];
  std::vector<float> values[count];
  std::vector<Corpus> corpora;
  std::int64_t save_us = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t rows = 20000 + 2500 * static_cast<std::int64_t>(i);
    values[i] = numbers(static_cast<std::size_t>(rows) * 32, static_cast<unsigned>(5 + i));
    corpora.emplace_back(MatrixView<float>{values[i].data(), rows, 32}, CorpusOptions{.memory = {.host = 64 << 20}});
    save_us = time_of([&] { corpora[i].save(path); });
    whole[i] = slurp(path);
  }
  std::mt19937 random(20261121);
  std::size_t last = count - 1;  // whose file is shown
  for (int round = 0; round < 50; ++round) {
    const std::size_t finished =
        saves_until(SIGKILL, random, save_us, [&](std::size_t i) { corpora[(last + 1 + i) % count].save(path); });
    last = (last + finished) % count;
    const std::size_t next = (last + 1) % count;
    const std::string shown = slurp(path);
    if (shown == whole[next]) last = next;
    EXPECT_TRUE(shown == whole[last]) << "round " << round << ", after " << finished << " saves";
  }
  EXPECT_GT(directory.entries(), 1u) << "no save was killed while it wrote its temporary file";
  corpora[0].save(path);
  EXPECT_TRUE(slurp(path) == whole[0]);
  EXPECT_EQ(Corpus::open(path).rows(), 20000);
}

TEST(CorpusSave, AFullDiskLeavesTheOldFile) {
  TemporaryDirectory directory;
  constexpr int not_allowed = 77;
  const auto small = numbers(100 * 32, 7), large = numbers(20000 * 32, 8);
  const Corpus fits(MatrixView<float>{small.data(), 100, 32}), does_not(MatrixView<float>{large.data(), 20000, 32});
  const pid_t child = ::fork();
  if (child == 0) {
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!mounted) ::_exit(not_allowed);
    const std::string path = directory.file("a.vicinal");
    fits.save(path);
    const std::string before = slurp(path);
    const auto error = error_of([&] { does_not.save(path); });
    const bool good = error && error->code() == ErrorCode::io_error && error->system_errno() == ENOSPC &&
                      std::string(error->what()).find(" of 2.4 MiB: No space left on device") != std::string::npos &&
                      directory.entries() == 1 && slurp(path) == before;
    if (!good && error) std::fprintf(stderr, "%s\n", error->what());
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == not_allowed) GTEST_SKIP() << "not allowed to mount a tmpfs here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace vicinal::test
