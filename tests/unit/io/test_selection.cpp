// Values of every type from files, and selections back to the bit.
#include <bit>
#include <sstream>

#include "core/text.hpp"
#include "files.hpp"

namespace vicinal::test {
namespace {

constexpr ValueType all_types[] = {ValueType::f32, ValueType::f64, ValueType::f16, ValueType::bf16,
                                   ValueType::u8,  ValueType::i8,  ValueType::u16, ValueType::i16,
                                   ValueType::u32, ValueType::i32, ValueType::u64, ValueType::i64};

/// As NumPy names it in a file; bfloat16 has no name there.
const char* descr_of(ValueType type) {
  static constexpr const char* names[] = {"f4", "f8", "f2", "", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"};
  return names[static_cast<int>(type)];
}

std::string items(const Values& v) {
  const std::size_t size = value_size(v.type);
  std::string all;
  for (std::int64_t row = 0; row < v.rows; ++row) {
    for (std::int64_t col = 0; col < v.cols; ++col) {
      const std::string item(static_cast<const char*>(v.data) + row * v.row_stride + col * v.col_stride, size);
      all += v.byte_swapped ? reversed_items(item, size) : item;
    }
  }
  return all;
}

class SelectionFiles : public ::testing::Test {
 protected:
  std::string file(const std::string& name) { return directory_.file(name); }
  ValueMatrix read(const std::string& name, const std::string& content, const std::string& member = "") {
    spit(file(name), content);
    return read_values(file(name), {.member = member});
  }
  /// 2 x 3 with bits of all kinds.
  static Selection make(ValueType type, std::int64_t payload_size = 0) {
    Selection made(2, 3, type, payload_size);
    const SelectionView view = made.view();
    for (std::int64_t i = 0; i < 6; ++i) {
      view.ids[i] = i == 5 ? std::int64_t{1} << 40 : 6 - i;
      const std::uint64_t bits =
          0x3e11223344556677u * static_cast<std::uint64_t>(i + 1) >> (type == ValueType::f32 ? 2 : 1);
      std::memcpy(static_cast<std::byte*>(view.values) + i * static_cast<std::int64_t>(value_size(type)), &bits,
                  value_size(type));
      if (payload_size > 0)
        std::memcpy(static_cast<std::byte*>(view.payload) + i * payload_size, &bits,
                    static_cast<std::size_t>(payload_size));
    }
    return made;
  }
  TemporaryDirectory directory_;
};

TEST_F(SelectionFiles, ReadsEveryTypeOfNpyInPlace) {
  for (const ValueType type : all_types) {
    if (type == ValueType::bf16) continue;
    const std::size_t size = value_size(type);
    std::string bytes;
    for (std::size_t i = 0; i < 6 * size; ++i) bytes += static_cast<char>(17 * i + 1);
    for (const char* order : {"<", ">"}) {
      const ValueMatrix table = read("a.npy", npy(cat(order, descr_of(type)), "(2, 3)", bytes));
      EXPECT_EQ(table.values().type, type);
      EXPECT_EQ(table.values().rows, 2);
      EXPECT_EQ(table.values().cols, 3);
      EXPECT_TRUE(table.mapped());
      EXPECT_EQ(items(table.values()), *order == '<' ? bytes : reversed_items(bytes, size));
      const ValueMatrix line = read("b.npz", zip({{"line.npy", npy(cat(order, descr_of(type)), "(6,)", bytes)}}));
      EXPECT_EQ(line.values().rows, 1);
      EXPECT_EQ(line.values().cols, 6);
      EXPECT_EQ(items(line.values()), items(table.values()));
    }
  }
}

TEST_F(SelectionFiles, ReadsTheOtherFormats) {
  const std::string row = raw(std::int32_t{2}) + raw(std::vector<std::int32_t>{7, -8});
  EXPECT_EQ(items(read("a.ivecs", row + row).values()), raw(std::vector<std::int32_t>{7, -8, 7, -8}));
  EXPECT_EQ(read("a.ibin", raw(std::vector<std::uint32_t>{1, 2}) + raw(std::vector<std::int32_t>{7, -8})).values().type,
            ValueType::i32);
  const ValueMatrix text = read("a.csv", "1,2.5,nan\n-0,inf,3\n");
  EXPECT_EQ(text.values().type, ValueType::f64);
  EXPECT_EQ(text.values().rows, 2);
  EXPECT_FALSE(text.mapped());
  EXPECT_EQ(read("a.idx", std::string("\0\0\x0B\1\0\0\0\2\0\1\0\2", 12)).values().cols, 2) << "labels are a line";
}

TEST_F(SelectionFiles, SaysWhatItCannotRead) {
  expect_error(ErrorCode::unsupported, "vicinal reads values from .npy, .npz, .fvecs", [] { read_values("a.foo"); });
  expect_error(ErrorCode::invalid_argument, "expected 1 or 2 dimensions, got 3 with shape (1, 1, 1)",
               [&] { read("a.npy", npy("<i4", "(1, 1, 1)", "1234")); });
  expect_error(ErrorCode::invalid_argument, "dtype bool not supported",
               [&] { read("a.npy", npy("|b1", "(1, 1)", "1")); });
  const std::string one = npy("<i4", "(1,)", "1234");
  expect_error(ErrorCode::format_error, "2 arrays can be values; give the name", [&] {
    read("a.npz", zip({{"x.npy", one}, {"y.npy", one}}));
  });
  EXPECT_EQ(items(read("a.npz", zip({{"x.npy", one}, {"y.npy", one}}), "y").values()), "1234");
  expect_error(ErrorCode::invalid_argument, "holds a result", [&] { read("a.csv", "id_0,v_0\n1,2\n"); });
}

TEST_F(SelectionFiles, NpzComesBackToTheBit) {
  for (const ValueType type : all_types) {
    const Selection made = make(type, 4);
    if (type == ValueType::bf16) {
      expect_error(ErrorCode::unsupported, "npz holds no bfloat16, and the values are; .csv and .tsv hold them",
                   [&] { write_selection(file("a.npz"), made); });
      continue;
    }
    write_selection(file("a.npz"), made, ValueType::i32);
    const ValueMatrix values = read_values(file("a.npz"), {.member = "values"}),
                      ids = read_values(file("a.npz"), {.member = "ids"});
    EXPECT_EQ(values.values().type, type);
    EXPECT_EQ(items(values.values()), std::string(static_cast<const char*>(made.values()), 6 * value_size(type)));
    EXPECT_EQ(items(ids.values()), std::string(reinterpret_cast<const char*>(made.ids()), 48));
    const ValueMatrix payload = read_values(file("a.npz"), {.member = "payload"});
    EXPECT_EQ(payload.values().type, ValueType::i32);
    EXPECT_EQ(items(payload.values()), std::string(static_cast<const char*>(made.payload()), 24));
  }
  write_selection(file("b.npz"), make(ValueType::f32, 2));
  EXPECT_EQ(read_values(file("b.npz"), {.member = "payload"}).values().type, ValueType::u16)
      << "bits, where no type is named";
  write_selection(file("a.npy"), make(ValueType::bf16));
  EXPECT_EQ(read_values(file("a.npy")).values().type, ValueType::i64);
  EXPECT_EQ(directory_.entries(), 3u) << "no temporaries";
}

TEST_F(SelectionFiles, TextComesBackToTheBit) {
  for (const ValueType type : all_types) {
    const Selection made = make(type, 8);
    write_selection(file("a.tsv"), made);
    const std::string text = slurp(file("a.tsv")), kind = type == ValueType::f32 ? "" : cat(":", value_type_name(type));
    const std::string head =
        cat("id_0\tid_1\tid_2\tv_0", kind, "\tv_1", kind, "\tv_2", kind, "\tp_0:u64\tp_1:u64\tp_2:u64\n");
    ASSERT_TRUE(text.starts_with(head)) << text;
    std::istringstream words(text.substr(head.size()));
    const std::vector<std::string> cells(std::istream_iterator<std::string>(words), {});
    ASSERT_EQ(cells.size(), 18u);
    for (std::int64_t i = 0; i < 6; ++i) {
      const std::string& cell = cells[static_cast<std::size_t>(i / 3 * 9 + 3 + i % 3)];
      switch (type) {
        case ValueType::f32: EXPECT_EQ(std::stof(cell), made.value<float>(i / 3, i % 3)); break;
        case ValueType::f64: EXPECT_EQ(std::stod(cell), made.value<double>(i / 3, i % 3)); break;
        case ValueType::u64: EXPECT_EQ(std::stoull(cell), made.value<std::uint64_t>(i / 3, i % 3)); break;
        case ValueType::i16: EXPECT_EQ(std::stoi(cell), made.value<std::int16_t>(i / 3, i % 3)); break;
        case ValueType::bf16:
          EXPECT_EQ(std::stod(cell),
                    std::bit_cast<float>(std::uint32_t{made.value<std::uint16_t>(i / 3, i % 3)} << 16));
          break;
        default: break;
      }
    }
  }
}

TEST_F(SelectionFiles, AreRefusedBeforeTheWork) {
  const auto check = [&](const std::string& name, std::optional<ValueType> type = {}) {
    check_writable(file(name), "", ResultKind::selection, type);
  };
  for (const char* name : {"a.npz", "a.npy", "a.csv", "a.tsv"}) check(name);
  check("a.csv", ValueType::bf16);
  expect_error(ErrorCode::unsupported,
               ".fvecs is not for selections; vicinal writes selections to .npy, .npz, .csv, .tsv",
               [&] { check("a.fvecs"); });
  expect_error(ErrorCode::unsupported, "npz holds no bfloat16", [&] { check("a.npz", ValueType::bf16); });
  expect_error(ErrorCode::io_error, "", [&] { check("nowhere/a.npz"); });
  expect_error(ErrorCode::invalid_argument, "payload items have 4 bytes, int64 has 8",
               [&] { write_selection(file("a.npz"), make(ValueType::u8, 4), ValueType::i64); });
}

}  // namespace
}  // namespace vicinal::test
