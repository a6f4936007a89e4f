// `vicinal convert IN OUT`: rows to rows, or a result to a result, exactly: what the new format cannot hold to the last
// bit is refused. `--type` changes the element type where every value survives it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "command.hpp"
#include "files.hpp"
#include "json.hpp"
#include "options.hpp"
#include "output.hpp"
#include "text.hpp"
#include "vicinal/error.hpp"

namespace cli {
namespace {

using vicinal::DType;
using vicinal::ErrorCode;

constexpr const char* examples =
    "Suffixes decide the formats (vicinal info lists them). IN is taken as rows or as a result by what both formats\n"
    "hold and by what is in the file; --as decides where both would do. Integers and halves become floats, and f64\n"
    "rows f32 ones, where every value stays what it is. - is CSV on stdin or stdout, npy:- another format.\n\n"
    "Examples:\n"
    "  vicinal convert train-images-idx3-ubyte mnist.npy\n"
    "  vicinal convert glove.hdf5:train glove.fbin\n"
    "  vicinal convert truth.bin truth.npz\n"
    "  vicinal convert base.csv base.fvecs --type f32";

struct Flags {
  std::string input, output, as = "auto", type, in_distances, distances;
  HeaderFlags text;
  bool json = false;
};

template <class T>
T load(const std::byte* from, bool swapped) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  if (swapped) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

/// Every element type is a subset of f64.
double value_at(const vicinal::Points& p, std::int64_t row, std::int64_t col) {
  const std::byte* from = static_cast<const std::byte*>(p.data) + row * p.row_stride + col * p.col_stride;
  switch (p.dtype) {
    case DType::f32: return load<float>(from, p.byte_swapped);
    case DType::f64: return load<double>(from, p.byte_swapped);
    case DType::f16: return half_value(load<std::uint16_t>(from, p.byte_swapped));
    case DType::bf16: return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(from, p.byte_swapped)} << 16);
    case DType::u8: return load<std::uint8_t>(from, false);
    case DType::i8: break;
  }
  return load<std::int8_t>(from, false);
}

/// Sign of zero and all: does the value come back?
template <class T>
bool store(std::byte* to, double value) {
  if constexpr (!std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    if (!(value >= Limits::min() && value <= Limits::max())) return false;
  }
  const T stored = static_cast<T>(value);
  std::memcpy(to, &stored, sizeof(T));
  const auto back = static_cast<double>(stored);
  return back == value ? std::signbit(back) == std::signbit(value) : std::isnan(back) && std::isnan(value);
}

bool store(DType type, std::byte* to, double value) {
  switch (type) {
    case DType::f32: return store<float>(to, value);
    case DType::f64: return store<double>(to, value);
    case DType::u8: return store<std::uint8_t>(to, value);
    case DType::i8: return store<std::int8_t>(to, value);
    case DType::f16:
    case DType::bf16: break;  // no format asks for these
  }
  throw vicinal::Error(ErrorCode::internal, fmt::format("converting to {}", vicinal::dtype_name(type)));
}

/// The same values in another type, or InvalidValue naming the first that it does not have.
std::vector<std::byte> retyped(const vicinal::Points& points, DType type, const Flags& flags) {
  const std::size_t size = vicinal::dtype_size(type);
  std::vector<std::byte> values(static_cast<std::size_t>(points.rows * points.cols) * size);
  std::byte* to = values.data();
  for (std::int64_t row = 0; row < points.rows && points.cols > 0; ++row) {
    for (std::int64_t col = 0; col < points.cols; ++col, to += size) {
      const double value = value_at(points, row, col);
      if (store(type, to, value)) continue;
      throw vicinal::Error(
          ErrorCode::range_error,
          fmt::format("{}: row {}, column {}: {} is not exact in {}; write .npy or .csv, which keep {}", flags.input,
                      row, col, value, vicinal::dtype_name(type), vicinal::dtype_name(points.dtype)));
    }
  }
  return values;
}

std::optional<DType> asked_type(const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (const DType type : {DType::f32, DType::f64, DType::u8, DType::i8}) {
    if (name == vicinal::dtype_name(type)) return type;
  }
  refuse("--type must be f32, f64, u8 or i8, got " + name);
}

/// The one type of the format, where it has one that values can be brought to.
std::optional<DType> type_of_format(const std::string& name) {
  if (name == "fvecs" || name == "fbin") return DType::f32;
  if (name == "bvecs" || name == "u8bin") return DType::u8;
  if (name == "i8bin") return DType::i8;
  return std::nullopt;
}

/// Halves are kept, and made of nothing else.
void check_halves(const OutputFile& out, const vicinal::Points& points, std::optional<DType> type, const Flags& flags) {
  const DType made = type.value_or(points.dtype);
  if (vicinal::format_of(out.path()).name != "f16bin" || made == DType::f16) return;
  refuse(
      fmt::format("{} holds f16 and the rows are {}; convert makes f32, f64, u8 and i8 alone. Write .fbin or .npy, or "
                  "give it rows that are f16 (numpy.float16 in .npy)",
                  flags.output, vicinal::dtype_name(made)));
}

struct Done {
  std::string kind;
  std::int64_t rows = 0, cols = 0;
  std::string type;
};

Done convert_rows(const vicinal::Matrix& matrix, const OutputFile& out, const Flags& flags) {
  vicinal::Points points = matrix.points();
  std::optional<DType> type = asked_type(flags.type);
  if (!type) type = type_of_format(vicinal::format_of(out.path()).name);
  check_halves(out, points, type, flags);
  std::vector<std::byte> values;
  if (type && *type != points.dtype) {
    values = retyped(points, *type, flags);
    points = vicinal::Points(values.data(), *type, points.rows, points.cols);
  }
  vicinal::write_matrix(out.path(), points);
  return {"rows", points.rows, points.cols, vicinal::dtype_name(points.dtype)};
}

/// A result without distances has to go where none are expected beside the ids.
Done convert_result(const vicinal::ResultFile& result, const OutputFile& out, const Flags& flags) {
  const bool beside = vicinal::format_of(out.path()).holds_distances;
  if (!result.has_distances && (beside || !flags.distances.empty()))
    refuse(flags.input + " has no distances, and " + (beside ? flags.output : flags.distances) +
           " wants them; give --in-distances FILE, or write the ids to .npy, .ivecs or .ibin");
  if (result.has_distances && !beside && flags.distances.empty())
    refuse(flags.output + " holds ids alone and the distances would be lost; give --distances FILE, or " +
           "write .npz");
  const bool padded = std::any_of(result.ids.begin(), result.ids.end(), [](std::int64_t id) { return id < 0; });
  vicinal::Neighbors neighbors(result.rows, result.k, result.distance_type, padded);
  const vicinal::NeighborsView view = neighbors.view();
  std::copy(result.ids.begin(), result.ids.end(), view.ids);
  for (std::int64_t row = 0; padded && row < result.rows; ++row) {
    const std::int64_t* const first = view.ids + row * result.k;
    view.counts[row] = std::count_if(first, first + result.k, [](std::int64_t id) { return id >= 0; });
  }
  if (result.has_distances)
    std::copy(result.distances.begin(), result.distances.end(), static_cast<std::byte*>(view.distances));
  vicinal::write_neighbors(out.path(), neighbors, flags.distances);
  return {"result", result.rows, result.k, vicinal::distance_type_name(result.distance_type)};
}

/// The first of two ways that IN's contents allow; a type or a header that says "not this" leads to the other. Where
/// neither will do, what stands in the way of rows is said: it names what the file holds.
template <class First, class Second>
Done first_of(First first, Second second, bool rows_first) {
  try {
    return first();
  } catch (const vicinal::Error& error) {
    if (error.code() != ErrorCode::invalid_argument && error.code() != ErrorCode::format_error &&
        error.code() != ErrorCode::invalid_value)
      throw;  // invalid_value: integers that no float holds
    try {
      return second();
    } catch (const vicinal::Error& other) {
      if (rows_first && (other.code() == ErrorCode::invalid_argument || other.code() == ErrorCode::format_error))
        throw error;
      throw;
    }
  }
}

Done convert(const Flags& flags, const InputFile& in, const OutputFile& out) {
  const vicinal::FormatInfo from = vicinal::format_of(in.path()), to = vicinal::format_of(out.path());
  const auto read = [&](bool vectors) {
    const vicinal::Matrix matrix =
        vicinal::read_matrix(in.path(), {.member = in.member(), .header = flags.text.header()});
    if (vectors && matrix.converted()) refuse(flags.input + " holds integers");
    print_note(flags.input, matrix);
    return convert_rows(matrix, out, flags);
  };
  const auto rows = [&] { return read(false); };
  const auto result = [&] { return convert_result(vicinal::read_result(in.path(), flags.in_distances), out, flags); };
  if (flags.as == "rows" || !in.member().empty() || !flags.type.empty()) return rows();
  if (flags.as == "result" || !flags.in_distances.empty() || !flags.distances.empty()) return result();
  const bool rows_will_do = from.reads_rows && to.writes_rows, result_will_do = from.reads_results && to.writes_results;
  if (!result_will_do) return rows();  // or the message that says what is missing
  if (!rows_will_do) return result();
  if (from.has_members) return first_of(result, rows, false);  // names tell which it is
  // Wide integers are ids first, and rows of vectors where they can be no ids.
  return first_of([&] { return read(true); }, [&] { return first_of(result, rows, false); }, true);
}

int run_convert(const Flags& flags) {
  if (flags.as != "auto" && flags.as != "rows" && flags.as != "result")
    refuse("--as must be auto, rows or result, got " + flags.as);
  const OutputFile out(flags.output);
  if (flags.json && out.stream()) refuse("--json and an output on stdout exclude each other");
  (void)vicinal::format_of(out.path());
  const InputFile in(flags.input);
  const Done done = convert(flags, in, out);
  if (out.stream()) {
    out.send();
    return 0;
  }
  if (!flags.json) {
    print(fmt::format("wrote {}: {} of {} x {}, {}\n", flags.output, done.kind, count_text(done.rows),
                      count_text(done.cols), done.type));
    return 0;
  }
  Json object = json_head("convert");
  object["input"] = flags.input;
  object["output"] = flags.output;
  object["kind"] = done.kind;
  object["rows"] = done.rows;
  object["cols"] = done.cols;
  object["type"] = done.type;
  print_json(object);
  return 0;
}

}  // namespace

Command register_convert(App& root) {
  auto flags = std::make_shared<Flags>();
  App app = root.add_subcommand("convert", "Rows or a result to another file format, exactly");
  app.add_read_file("IN", flags->input, "what to read (PATH, PATH.npz:NAME, PATH.hdf5:NAME, -)").required();
  app.add_written_file("OUT", flags->output, "what to write (PATH, -)").required();
  app.add_text("--as", flags->as, "what IN holds (default auto)").type_name("auto|rows|result");
  app.add_text("--type", flags->type, "element type of the rows, where every value is exact in it")
      .type_name("f32|f64|u8|i8");
  app.add_read_file("--in-distances", flags->in_distances, "the distances of a result, if IN has none");
  app.add_written_file("--distances", flags->distances, "write the distances of a result here");
  add_header(app, flags->text);
  add_json(app, flags->json);
  app.footer(examples);
  return {app, [flags](Context&) { return run_convert(*flags); }};
}

}  // namespace cli
