// .vicinal files by docs/file-format.md: the layout to the byte, and every way to be wrong. Damage is tried both as it
// comes (a checksum must notice) and with the checksums made right again (the reader itself must notice).
#include <sys/wait.h>
#include <unistd.h>

#include "files.hpp"
#include "fuzz/reseal.hpp"
#include "io/corpus_file.hpp"
#include "vicinal/corpus.hpp"

namespace vicinal::test {
namespace {

const std::vector<float> values = {0, 1, 2, 3, 4, 5};
Points three_rows() { return MatrixView<float>{values.data(), 3, 2}; }

/// What Corpus::save must write for three_rows, metric cosine, degenerate one: spelled out but for two checksums of XXH3.
std::string expected_file() {
  std::string file = std::string("\x89VIC\r\n\x1a\n", 8) + raw(std::uint16_t{1}) + raw(std::uint16_t{0}) + raw(1) +
                     raw(1) + std::string("\0\2\1\0", 4) + raw(std::int64_t{3}) + raw(std::int64_t{2}) + raw(1) +
                     raw(0) + raw(std::int64_t{256}) + raw(std::int64_t{388});
  file.resize(256);
  file +=
      raw(1) + raw(0) + raw(std::int64_t{320}) + raw(std::int64_t{24}) + raw(std::int64_t{384}) + std::string(32, '\0');
  file += raw(values) + std::string(40, '\0') + raw(0);
  reseal(file);
  return file;
}

struct Saved {
  TemporaryDirectory directory;
  std::string path = directory.file("a.vicinal");
  std::string content;
  explicit Saved(const Points& rows = three_rows(), const CorpusOptions& options = {.metric = Metric::euclidean}) {
    Corpus(rows, options).save(path);
    content = slurp(path);
  }
  void write(const std::string& changed) const { spit(path, changed); }
};

std::optional<Error> open_error(const std::string& path, bool verify = true, bool copy = false) {
  return error_of([&] { Corpus::open(path, {.verify = verify, .copy = copy}); });
}

TEST(CorpusFile, IsLaidOutAsTheDocumentSays) {
  const Saved saved(three_rows(), {.metric = Metric::cosine, .degenerate = Degenerate::one});
  EXPECT_EQ(saved.content, expected_file());
  EXPECT_EQ(saved.directory.entries(), 1u);
}

TEST(CorpusFile, OpensAsItWasSaved) {
  const Saved saved(three_rows(), {.metric = Metric::cosine, .degenerate = Degenerate::one});
  for (const bool copy : {false, true}) {
    for (const bool verify : {false, true}) {
      const Corpus corpus = Corpus::open(saved.path, {.verify = verify, .copy = copy});
      EXPECT_EQ(corpus.rows(), 3);
      EXPECT_EQ(corpus.cols(), 2);
      EXPECT_EQ(corpus.dtype(), DType::f32);
      EXPECT_EQ(corpus.metric(), Metric::cosine);
      EXPECT_EQ(corpus.owns_rows(), copy);
      const std::string again = saved.directory.file("b.vicinal");
      corpus.save(again);
      EXPECT_EQ(slurp(again), saved.content);
    }
  }
}

TEST(CorpusFile, StoresAnyLayoutOfRowsDense) {
  const Saved plain;
  std::vector<float> reversed;
  for (std::size_t i = values.size(); i-- > 0;) reversed.push_back(values[i]);
  Points points(reversed.data() + 5, DType::f32, 3, 2);
  points.row_stride = -8;
  points.col_stride = -4;
  EXPECT_EQ(Saved(points).content, plain.content);
  const std::string swapped = reversed_items(raw(values), 4);
  points = Points(swapped.data(), DType::f32, 3, 2);
  points.byte_swapped = true;
  EXPECT_EQ(Saved(points).content, plain.content);
}

TEST(CorpusFile, TakesNoRowsAndManyBlocks) {
  const Saved none(Points(nullptr, DType::u8, 0, 5));
  EXPECT_EQ(Corpus::open(none.path).rows(), 0);
  EXPECT_EQ(Corpus::open(none.path, {.copy = true}).cols(), 5);
  for (const std::int64_t rows :
       {1024, 1023, 1025, 66 * 1024}) {  // of 1 KiB: a whole block, less, more, above a window
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(rows * 1024));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 1024);
    const Saved saved(MatrixView<std::uint8_t>{bytes.data(), rows, 1024});
    EXPECT_EQ(elements(read_matrix(saved.path).points().slice(rows - 1, 1)),
              std::string(bytes.end() - 1024, bytes.end()));
    EXPECT_EQ(saved.content.size(), (320 + bytes.size() + 63) / 64 * 64 + 4 * ((bytes.size() + (1 << 20) - 1) >> 20));
  }
}

TEST(CorpusFile, EveryTurnedBitIsNoticed) {
  const Saved saved;
  for (std::size_t bit = 0; bit < 8 * saved.content.size(); ++bit) {
    std::string damaged = saved.content;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    saved.write(damaged);
    const auto error = open_error(saved.path, true, bit % 2 != 0);
    ASSERT_TRUE(error) << "bit " << bit % 8 << " of byte " << bit / 8;
    EXPECT_EQ(error->code(), ErrorCode::format_error) << error->what();
    const auto trusted = open_error(saved.path, false);  // a bit of a row may make a NaN of it
    EXPECT_EQ(trusted && trusted->code() == ErrorCode::format_error, bit / 8 < 320) << "byte " << bit / 8;
  }
}

TEST(CorpusFile, EveryTruncationIsNoticed) {
  const Saved saved;
  for (std::size_t size = 0; size < saved.content.size(); ++size) {
    for (const bool sealed : {false, true}) {
      std::string cut = saved.content.substr(0, size);
      if (sealed) reseal(cut);
      saved.write(cut);
      for (const bool verify : {true, false}) {
        const auto error = open_error(saved.path, verify, sealed);
        ASSERT_TRUE(error) << "cut at " << size;
        EXPECT_EQ(error->code(), ErrorCode::format_error) << error->what();
      }
    }
  }
  for (const std::size_t more : {1, 63, 64, 5000}) {
    saved.write(saved.content + std::string(more, '\0'));
    ASSERT_TRUE(open_error(saved.path, false)) << more << " bytes more";
    EXPECT_EQ(open_error(saved.path, false)->code(), ErrorCode::format_error);
  }
}

TEST(CorpusFile, SaysWhatIsWrong) {
  const Saved saved;
  const auto expect_text = [&](const std::string& content, const std::string& text) {
    saved.write(content);
    expect_error(ErrorCode::format_error, text, [&] { Corpus::open(saved.path); });
  };
  expect_text("", "not a vicinal file (the file is empty)");
  expect_text("\x93NUMPY and so on", "not a vicinal file (first bytes 93 4E 55 4D 50 59)");
  expect_text(saved.content.substr(0, 90), "the header needs 256 bytes, the file has 90: truncated?");
  expect_text(saved.content.substr(0, 300), "the section table needs 64 bytes at 256, file has 300: truncated?");
  expect_text(saved.content.substr(0, 340), "section 0 needs 24 bytes at 320, file has 340");
  expect_text(saved.content.substr(0, 384), "section 0's checksums needs 4 bytes at 384, file has 384");
  expect_error(ErrorCode::io_error, "No such file or directory", [&] { Corpus::open(saved.path + "-not-here"); });
  expect_error(ErrorCode::io_error, "Is a directory", [&] { Corpus::open(saved.directory.path()); });
  expect_error(ErrorCode::io_error, "Is a directory", [&] { Corpus::open(saved.directory.path(), {.copy = true}); });
  expect_error(ErrorCode::io_error, "not a regular file", [&] { Corpus::open("/dev/null", {.copy = true}); });
}

// One field after another gets a wrong value, and all checksums are made right again.
struct Wrong {
  std::size_t at;
  std::string bytes, text;
  ErrorCode code = ErrorCode::format_error;
};

TEST(CorpusFile, EveryFieldIsChecked) {
  const Saved saved;
  constexpr std::size_t entry = 256;
  const auto i64 = [](std::int64_t value) { return raw(value); };
  const std::int64_t huge = std::int64_t{1} << 60;
  const std::vector<Wrong> wrongs = {
      {8, raw(std::uint16_t{0}), "file format 0.0 does not exist"},
      {8, raw(std::uint16_t{3}), "file format 3.0, this build reads 1", ErrorCode::version_error},
      {12, raw(2), "it is a permutation index, not a corpus"},
      {12, raw(3), "kind 3 is unknown"},
      {16, raw(0), "semantics version 0"},
      {16, raw(2), "semantics version 2, this build has 1", ErrorCode::version_error},
      {20, "\6", "element type 6 is unknown"},
      {20, "\xff", "element type 255 is unknown"},
      {20, "\1", "n=3 and d=2 of f64 are 48 bytes, section 0 has 24"},
      {21, "\xff", "metric 255 is unknown"},
      {21, "\x8", "metric levenshtein, which does not compare rows; it is one of sqeuclidean, "},
      {21, "\7", "hamming with f32 rows"},
      {22, "\2", "degenerate rule 2 is unknown"},
      {23, "\1", "reserved bytes"},
      {24, i64(huge), "n=2^60 does not fit a file of 388 bytes"},
      {24, i64(-1), "does not fit a file of 388 bytes"},
      {24, i64(4), "n=4 and d=2 of f32 are 32 bytes, section 0 has 24"},
      {24, i64(0), "n=0 and d=2 of f32 are 0 bytes, section 0 has 24"},
      {32, i64(0), "d=0"},
      {32, i64(huge), "d=2^60 does not fit a file of 388 bytes"},
      {32, i64(INT64_MAX), "does not fit"},
      {24, i64(0) + i64(huge / 16), "d=2^56, a row has at most 2^40 columns"},
      {40, raw(0), "0 sections"},
      {40, raw(33), "33 sections"},
      {40, raw(2), "section 1 needs"},  // the rows taken as an entry
      {48, i64(320), "the section table lies at 320"},
      {48, i64(huge), "the section table lies at"},
      {56, i64(387), "the header speaks of 387 bytes, file has 388"},
      {56, i64(huge), "the header speaks of 2^60 bytes"},
      {64, "\1", "reserved bytes"},
      {251, "\1", "reserved bytes"},
      {entry, raw(9), "section 0 has unknown type 9"},
      {entry + 8, i64(321), "not a multiple of 64"},
      {entry + 8, i64(1024), "section 0 needs 24 bytes at 1024, file has 388"},
      {entry + 8, i64(-64), "section 0 needs 24 bytes at"},
      {entry + 8, i64(256), "sections overlap"},
      {entry + 8, i64(0), "sections overlap"},
      {entry + 16, i64(huge), "section 0 needs 2^60 bytes at 320"},
      {entry + 16, i64(-1), "section 0 needs"},
      {entry + 16, i64(16), "are 24 bytes, section 0 has 16"},
      {entry + 24, i64(385), "not a multiple of 64"},
      {entry + 24, i64(huge), "section 0's checksums"},
      {entry + 24, i64(320), "sections overlap"},
      {entry + 24, i64(0), "sections overlap"},
      {entry + 48, "\1", "section 0: reserved bytes"},
      {entry + 63, "\1", "section 0: reserved bytes"},
      {350, "\1", "the padding at 344 is not zero"}};
  for (const Wrong& wrong : wrongs) {
    std::string damaged = saved.content;
    damaged.replace(wrong.at, wrong.bytes.size(), wrong.bytes);
    reseal(damaged);
    saved.write(damaged);
    for (const bool copy : {false, true}) {
      const auto error = open_error(saved.path, true, copy);
      ASSERT_TRUE(error) << "byte " << wrong.at << ": no error, expected " << wrong.text;
      EXPECT_EQ(error->code(), wrong.code) << error->what();
      EXPECT_NE(std::string(error->what()).find(wrong.text), std::string::npos)
          << error->what() << "\nlacks: " << wrong.text;
    }
  }
}

TEST(CorpusFile, ALaterMinorVersionMayUseWhatIsReserved) {
  const Saved saved;
  std::string later = saved.content;
  put(later, 10, std::uint16_t{7});
  put(later, 100, 99);
  put(later, 256 + 50, 99);
  reseal(later);
  saved.write(later);
  EXPECT_EQ(Corpus::open(saved.path).rows(), 3);
}

TEST(CorpusFile, NamesTheBlockThatDiffers) {
  std::vector<std::uint8_t> bytes(3 << 20);
  const Saved saved(MatrixView<std::uint8_t>{bytes.data(), 3072, 1024});
  std::string damaged = saved.content;
  damaged[320 + (2 << 20)] = 1;
  saved.write(damaged);
  expect_error(ErrorCode::format_error, "section 0 block 2: checksum differs", [&] { Corpus::open(saved.path); });
  damaged[320 + (2 << 20) - 1] = 1;
  saved.write(damaged);
  expect_error(ErrorCode::format_error, "section 0 block 1: checksum differs", [&] { Corpus::open(saved.path); });
  expect_error(ErrorCode::format_error, "section 0 block 1: checksum differs", [&] { read_matrix(saved.path); });
  EXPECT_EQ(Corpus::open(saved.path, {.verify = false}).rows(), 3072);
  damaged = saved.content;
  put(damaged, 256 + 32, std::uint64_t{1});
  put(damaged, 44, io::crc32c(part(damaged, 256, 64)));
  put(damaged, 252, io::crc32c(part(damaged, 0, 252)));
  saved.write(damaged);
  expect_error(ErrorCode::format_error, "section 0: hash differs", [&] { Corpus::open(saved.path); });
}

/// Address space that opening adds at its peak, in KiB, in a child with no past.
long growth_of_opening(const std::string& path, bool copy) {
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
    const bool refused = open_error(path, true, copy).has_value();
    const long growth = refused ? field("VmPeak:") - before : 1L << 40;
    ::_exit(::write(ends[1], &growth, sizeof growth) == sizeof growth ? 0 : 1);
  }
  ::close(ends[1]);
  long growth = -1;
  const bool answered = ::read(ends[0], &growth, sizeof growth) == sizeof growth;
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return answered ? growth : -1;
}

TEST(CorpusFile, HugeClaimsAllocateNothing) {
  const Saved saved;
  const std::int64_t huge = std::int64_t{1} << 60, large = std::int64_t{1} << 40;
  for (const std::size_t at : {24u, 32u, 56u, 256u + 8, 256u + 16, 256u + 24}) {
    for (const std::int64_t claim : {huge, large, std::int64_t{-1}, INT64_MAX}) {
      std::string damaged = saved.content;
      put(damaged, at, claim);
      if (at <= 32) put(damaged, 56, INT64_MAX), put(damaged, 256 + 16, static_cast<std::uint64_t>(claim) * 8);
      reseal(damaged);
      saved.write(damaged);
      for (const bool copy : {false, true}) {
        const long growth = growth_of_opening(saved.path, copy);
        EXPECT_GE(growth, 0) << at;
        EXPECT_LT(growth, 1024) << "byte " << at << " says " << claim;
      }
    }
  }
}

}  // namespace
}  // namespace vicinal::test
