// Files are read and written to the same bits whatever floating-point state the caller left (C20): every format that holds numbers,
// text in random digits, subnormals and halves, and what else of the public interface computes outside of a search.
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "files.hpp"
#include "io/format.hpp"
#include "vicinal/permutation_index.hpp"
#include "vicinal/plan.hpp"
#include "vicinal/search.hpp"
#include "vicinal/truth.hpp"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace vicinal::test {
namespace {

struct State {
  int rounding;
  bool flush;  // results to zero, and operands
};
constexpr State odd_states[] = {{FE_UPWARD, false},   {FE_DOWNWARD, false}, {FE_TOWARDZERO, false},
                                {FE_TONEAREST, true}, {FE_UPWARD, true},    {FE_DOWNWARD, true}};

/// A state for the time of a call, after which it has to stand as it was set.
class InState {
 public:
  explicit InState(const State& state) : state_(state) {
    std::fesetround(state.rounding);
#if defined(__x86_64__)
    if (state.flush) _mm_setcsr(_mm_getcsr() | 0x8040u);
    control_ = _mm_getcsr() & 0xffc0u;
#endif
  }
  ~InState() {
    const bool same = std::fegetround() == state_.rounding;
#if defined(__x86_64__)
    const unsigned control = _mm_getcsr() & 0xffc0u;
    _mm_setcsr(_mm_getcsr() & ~0x8040u);
#endif
    std::fesetround(FE_TONEAREST);
    EXPECT_TRUE(same);
#if defined(__x86_64__)
    EXPECT_EQ(control, control_);
#endif
  }

 private:
  State state_;
#if defined(__x86_64__)
  unsigned control_;
#endif
};

class FileState : public ::testing::Test {
 protected:
  std::string file(const std::string& name) { return directory_.file(name); }
  TemporaryDirectory directory_;
};

/// Numbers whose nearest f64 takes all of their digits to find.
std::string random_number(std::mt19937_64& random) {
  std::string text = random() % 2 == 0 ? "-0." : "0.";
  for (std::uint64_t digits = 1 + random() % 24; digits > 0; --digits) text += static_cast<char>('0' + random() % 10);
  return text + "e" + std::to_string(static_cast<int>(random() % 600) - 300);
}

std::string random_table(char separator, bool lines) {
  std::mt19937_64 random(20);
  std::string text;
  const char* const hard[] = {"0.1",
                              "4.9406564584124654e-324",
                              "2.2250738585072011e-308",
                              "1.7976931348623157e308",
                              "9007199254740993",
                              "3",
                              "123456789012345678",
                              "1e22",
                              "1e23",
                              "0.5",
                              "8.5e-5",
                              "1.0000000000000002220446049250313080847263"};
  for (int row = 0; row < 500; ++row)
    for (int col = 0; col < 4; ++col)
      text += (row < 3 ? hard[4 * row + col] : random_number(random)) +
              std::string(1, col == 3 || lines ? '\n' : separator);
  return text;
}

TEST_F(FileState, TextIsReadToTheSameBits) {
  const std::string mtx = "%%MatrixMarket matrix array real general\n500 4\n";
  const std::pair<const char*, std::string> files[] = {{"a.csv", random_table(',', false)},
                                                       {"a.tsv", random_table('\t', false)},
                                                       {"a.mtx", mtx + random_table(' ', true)}};
  for (const auto& [name, text] : files) {
    spit(file(name), text);
    const std::string want = elements(read_matrix(file(name)).points());
    ASSERT_EQ(want.size(), 500u * 4 * 8);
    for (const State& state : odd_states) {
      std::string got, values;
      {
        const InState odd(state);
        got = elements(read_matrix(file(name)).points());
        const ValueMatrix again = read_values(file(name));
        values.assign(static_cast<const char*>(again.values().data), 8);
      }
      EXPECT_EQ(got == want, true) << name << " rounding " << state.rounding << " flush " << state.flush;
      EXPECT_EQ(values, want.substr(0, 8)) << name;
    }
  }
}

TEST_F(FileState, RefusalsToo) {
  spit(file("a.csv"), "1,x\n");
  for (const State& state : odd_states) {
    const InState odd(state);
    expect_error(ErrorCode::format_error, "is not a number", [&] { read_matrix(file("a.csv")); });
  }
}

/// Rows of every element type to every format that takes them, under every state: the files have the bytes of the ordinary state, and
/// read back to the same elements.
TEST_F(FileState, EveryFormatIsWrittenAndReadAlike) {
  std::mt19937_64 random(22);
  std::vector<std::byte> bits(300 * 4 * 8);
  for (std::byte& b : bits) b = static_cast<std::byte>(random());
  const auto scrub = [&](DType type) {  // finite values, of which a third are subnormal
    std::vector<std::byte> clean = bits;
    const std::size_t size = dtype_size(type);
    if (type == DType::u8 || type == DType::i8) return clean;
    const auto high = [&](std::size_t i) -> std::byte& { return clean[(i + 1) * size - 1]; };
    for (std::size_t i = 0; i < 1200; ++i) {
      high(i) &= std::byte{0xB7};  // no exponent of all ones
      if (i % 3 != 0) continue;
      high(i) &= type == DType::f16 ? std::byte{0x83} : std::byte{0x80};
      if (type != DType::f16) clean[(i + 1) * size - 2] &= type == DType::f64 ? std::byte{0x0F} : std::byte{0x7F};
    }
    return clean;
  };
  int written = 0;
  for (const io::Format* format : io::format_table()) {
    if ((format->write_roles & io::as_vectors) == 0 || format->absent != nullptr) continue;
    for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i8}) {
      const std::vector<std::byte> rows = scrub(type);
      const Points points(rows.data(), type, 300, 4);
      const std::string want = file(std::string("want") + format->suffix),
                        got = file(std::string("got") + format->suffix);
      try {
        write_matrix(want, points);
      } catch (const Error&) {
        continue;  // a format of one type
      }
      ++written;
      const std::string values = elements(read_matrix(want).points());
      for (const State& state : odd_states) {
        std::string back;
        {
          const InState odd(state);
          write_matrix(got, points);
          back = elements(read_matrix(got).points());
        }
        EXPECT_EQ(slurp(got) == slurp(want), true)
            << format->suffix << " " << dtype_name(type) << " " << state.rounding << state.flush;
        EXPECT_EQ(back == values, true) << format->suffix << " " << dtype_name(type) << " " << state.rounding
                                        << state.flush;
      }
    }
  }
  EXPECT_GE(written, 18);
}

TEST_F(FileState, ResultsAndRangesToo) {
  std::mt19937_64 random(23);
  for (const DistanceType type : {DistanceType::f32, DistanceType::f64}) {
    Neighbors result(50, 3, type, false);
    CsrNeighbors lists(50, 150, type);
    for (int i = 0; i < 150; ++i) {
      const double value = std::ldexp(static_cast<double>(random() >> 11), i % 2 == 0                  ? -60
                                                                           : type == DistanceType::f32 ? -195
                                                                                                       : -1120);
      result.view().ids[i] = lists.ids()[i] = i % 50;
      if (type == DistanceType::f32)
        static_cast<float*>(result.view().distances)[i] = static_cast<float*>(lists.distances())[i] =
            static_cast<float>(value);
      else static_cast<double*>(result.view().distances)[i] = static_cast<double*>(lists.distances())[i] = value;
      lists.offsets()[i / 3 + 1] = i + 1;
    }
    for (const char* suffix : {".csv", ".tsv", ".npz", ".mtx"}) {
      const std::string want = file(std::string("want") + suffix), got = file(std::string("got") + suffix);
      const bool graph = std::string(suffix) == ".mtx";
      const auto write = [&](const std::string& path) {
        graph ? write_graph(path, lists) : write_neighbors(path, result);
      };
      write(want);
      for (const State& state : odd_states) {
        {
          const InState odd(state);
          write(got);
        }
        EXPECT_EQ(slurp(got) == slurp(want), true) << suffix << state.rounding << state.flush;
        if (graph) continue;
        const ResultFile ordinary = read_result(want);
        const InState odd(state);
        const ResultFile claim = read_result(want);
        EXPECT_EQ(claim.distances == ordinary.distances && claim.ids == ordinary.ids, true) << suffix;
      }
    }
  }
}

TEST_F(FileState, PlansAndSizesToo) {
  const char* const sizes[] = {"0.1GB", "1.7GiB", "333.3MB", "1.0000000001TB", "7"};
  std::vector<std::int64_t> bytes;
  for (const char* size : sizes) bytes.push_back(parse_bytes(size));
  const Shape corpus{.rows = 1000003, .cols = 97, .dtype = DType::f32},
      queries{.rows = 7919, .cols = 97, .dtype = DType::f32};
  KnnOptions options;
  options.k = 37;
  options.memory.host = 1 << 30;
  options.run.threads = 2;
  const GraphOptions graph{.search = options};
  const RangeOptions range{.search = options};
  const std::string want[] = {plan(corpus, queries, options).text(), plan_graph(corpus, graph).text(),
                              plan_range(corpus, queries, range).text()};
  for (const State& state : odd_states) {
    std::vector<std::int64_t> got;
    std::string plans[3];
    {
      const InState odd(state);
      for (const char* size : sizes) got.push_back(parse_bytes(size));
      plans[0] = plan(corpus, queries, options).text();
      plans[1] = plan_graph(corpus, graph).text();
      plans[2] = plan_range(corpus, queries, range).text();
    }
    EXPECT_EQ(got, bytes) << state.rounding << state.flush;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(plans[i], want[i]) << state.rounding << state.flush;
  }
}

/// Components are chosen and rounded outside of the caller's distance, too: the number of bits in which two numbers differ makes many ties.
TEST_F(FileState, AnIndexOfOnesOwnDistanceIsMadeAlike) {
  const OwnDistance bits = [](std::int64_t query, const std::uint32_t* objects, std::int64_t count, double* distances) {
    for (std::int64_t i = 0; i < count; ++i)
      distances[i] = std::popcount(static_cast<std::uint32_t>(query) ^ objects[i]);
  };
  const PermutationOptions options{
      .choice = PermutantChoice::given, .given = {1, 2, 4, 8, 16, 32, 0, 63}, .form = RankForm::components};
  const auto answer = [&](const PermutationIndex& index) {
    const Neighbors found = index.knn(64, bits, {.k = 3, .fraction = 0.01}).neighbors;
    return std::vector<std::int64_t>(found.ids(), found.ids() + found.rows() * found.k());
  };
  const std::vector<std::int64_t> want = answer(PermutationIndex(64, bits, options));
  for (const State& state : odd_states) {
    std::optional<PermutationIndex> index;
    {
      const InState odd(state);
      index.emplace(64, bits, options);
    }
    EXPECT_EQ(answer(*index), want) << state.rounding << state.flush;
  }
}

TEST_F(FileState, OldListsAreUpdatedAlike) {
  const std::vector<float> base = {0, 1e-42f, 3e-42f, 1}, query = {0};
  const Points rows = MatrixView<float>{base.data(), 4, 1}, parts[] = {rows},
               asked = MatrixView<float>{query.data(), 1, 1};
  const Neighbors lists = knn(rows, asked, {.k = 3, .metric = Metric::l1});
  const std::vector<std::int64_t> deleted = {3};
  const TruthOptions options{.search = {.k = 3, .metric = Metric::l1}};
  for (const State& state : odd_states) {
    std::optional<GroundTruth> updated;
    {
      const InState odd(state);
      updated = update_ground_truth({.lists = lists.view(), .base = parts, .inserted = {}, .deleted = deleted}, asked,
                                    options);
    }
    EXPECT_EQ(std::memcmp(updated->nearest().distances(), lists.distances(), 3 * sizeof(float)), 0)
        << state.rounding << state.flush;
  }
}

}  // namespace
}  // namespace vicinal::test
