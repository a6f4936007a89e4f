// Indexes in files: the objects, which permutants see them, their ranks, and the bytes and ends of bounds. What a file
// says is compared with its length before memory is taken, and with itself before anything is searched: ids, orders,
// cells, offsets, text.
#include <algorithm>
#include <chrono>
#include <new>
#include <unordered_set>

#include "core/divide.hpp"
#include "core/fpenv.hpp"
#include "core/text.hpp"
#include "io/format.hpp"
#include "io/layout.hpp"
#include "io/memory_file.hpp"
#include "io/message.hpp"
#include "permutation/permutants.hpp"
#include "permutation/state.hpp"
#include "pipeline/check.hpp"

namespace vicinal {
namespace {

using namespace io::layout;

constexpr unsigned flag_strings = 1, flag_bytes = 2, flag_bounds = 4, flags_known = 7;

constexpr const char* user_defined_unsaved = "an index with a distance of the caller's own cannot be saved";

[[noreturn]] void refuse_index(const std::string& path, const std::string& what) {
  io::fail(ErrorCode::format_error, path, what);
}

/// The header, and where each section lies.
struct IndexFacts {
  PermutationOptions options;
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
  bool strings = false;
  Encoding encoding = Encoding::utf8;
  std::vector<io::Section> sections;

  const io::Section& section(std::uint32_t type) const {
    return *std::find_if(sections.begin(), sections.end(), [&](const io::Section& s) { return s.type == type; });
  }
  std::vector<std::uint32_t> types() const {
    std::vector<std::uint32_t> all =
        strings ? std::vector<std::uint32_t>{type_text, type_offsets} : std::vector<std::uint32_t>{type_rows};
    all.insert(all.end(), {type_permutants, type_ranks});
    if (options.bounds) all.insert(all.end(), {type_cells, type_ends});
    if (options.form == RankForm::components) all.push_back(type_components);
    return all;
  }
  RankLayout layout() const { return {options.rank_distance, options.form, options.permutants, options.prefix}; }
};

void read_header(const std::string& path, const std::byte* header, IndexFacts& facts) {
  PermutationOptions& options = facts.options;
  const unsigned flags = std::to_integer<unsigned>(header[at_flags]);
  if ((flags & ~flags_known) != 0 || ((flags & flag_bytes) != 0 && (flags & flag_strings) == 0))
    refuse_index(path, cat("flags ", flags, " are unknown"));
  facts.strings = (flags & flag_strings) != 0;
  facts.encoding = (flags & flag_bytes) != 0 ? Encoding::bytes : Encoding::utf8;
  options.bounds = (flags & flag_bounds) != 0;
  facts.dtype = static_cast<DType>(io::enumeration(path, header, at_dtype, dtypes, "element type"));
  options.metric = static_cast<Metric>(io::enumeration(path, header, at_metric, metrics().size(), "metric"));
  io::enumeration(path, header, at_degenerate, 1, "degenerate rule");
  options.choice =
      static_cast<PermutantChoice>(io::enumeration(path, header, at_choice, choices, "choice of permutants"));
  options.rank_distance =
      static_cast<RankDistance>(io::enumeration(path, header, at_rank_distance, rank_distances, "rank distance"));
  options.form = static_cast<RankForm>(io::enumeration(path, header, at_form, forms, "form of ranks"));
  const auto rows = io::load<std::uint64_t>(header + at_rows), cols = io::load<std::uint64_t>(header + at_cols);
  const auto permutants = io::load<std::uint32_t>(header + at_permutants),
             prefix = io::load<std::uint32_t>(header + at_prefix);
  if (rows == 0 || rows > std::uint64_t{1} << 31)
    refuse_index(path, cat("n=", io::count_text(rows), "; an index has 1 to 2^31 objects"));
  if (permutants == 0 || permutants > most_permutants || permutants > rows)
    refuse_index(path, cat(permutants, " permutants of ", rows, " objects; there are 1 to ",
                           std::min<std::uint64_t>(rows, most_permutants)));
  if (facts.strings ? cols != 0 : cols == 0 || cols > most_cols)
    refuse_index(path, cat("d=", io::count_text(cols),
                           facts.strings ? "; strings have none" : cat("; a row has 1 to ", most_cols, " columns")));
  if ((options.form == RankForm::prefix) != (prefix > 0))
    refuse_index(path, cat("prefix ", prefix, " with the form ", rank_form_name(options.form)));
  facts.rows = static_cast<std::int64_t>(rows);
  facts.cols = static_cast<std::int64_t>(cols);
  options.permutants = permutants;
  options.prefix = prefix;
  options.seed = io::load<std::uint64_t>(header + at_seed);
  options.strings.max_length = io::load<std::int64_t>(header + at_max_length);
  options.strings.ngram = io::load<std::int64_t>(header + at_ngram);
  options.window = io::load<std::int64_t>(header + at_window);
}

/// What a metric and rules cannot be; the words are those of a search.
void check_facts(const std::string& path, const IndexFacts& facts) try {
  const MetricInfo& metric = metric_info(facts.options.metric);
  if (facts.strings) check_string_metric(facts.options.metric, facts.options.strings);
  else if (metric.vectors || metric.strings) check_corpus({facts.rows, facts.cols, facts.dtype}, facts.options.metric);
  if (facts.options.window != 0 && (facts.options.metric != Metric::dtw || facts.options.window < 0))
    refuse_index(path, cat("window ", facts.options.window, " with ", metric.name));
  static_cast<void>(facts.layout());
} catch (const Error& error) {
  refuse_index(path, error.what());
}

std::uint64_t length_of(std::uint32_t type, const IndexFacts& facts, std::uint64_t text) {
  const auto rows = static_cast<std::uint64_t>(facts.rows),
             permutants = static_cast<std::uint64_t>(facts.options.permutants);
  switch (type) {
    case type_rows: return rows * static_cast<std::uint64_t>(facts.cols) * dtype_size(facts.dtype);
    case type_text: return text;
    case type_offsets: return (rows + 1) * 8;
    case type_permutants: return permutants * 8;
    case type_ranks: return rows * static_cast<std::uint64_t>(facts.layout().used);
    case type_cells: return rows * permutants;
    case type_components: return static_cast<std::uint64_t>(Components::bytes_for(facts.options.permutants));
    default: return permutants * sizeof(CellEnds);
  }
}

IndexFacts read_facts(const std::string& path, io::Bytes beginning, std::uint64_t file_size) {
  io::check_identity(path, beginning, file_size, index_kind);
  IndexFacts facts;
  read_header(path, beginning.data(), facts);
  if (!facts.strings &&
      !io::product({static_cast<std::uint64_t>(facts.rows), static_cast<std::uint64_t>(facts.cols), 8}))
    refuse_index(path, cat("n=", facts.rows, " and d=", facts.cols, " do not fit a file of ", file_size, " bytes"));
  check_facts(path, facts);
  facts.sections = io::read_table(path, beginning, file_size, index_kind);
  const std::vector<std::uint32_t> types = facts.types();
  for (const std::uint32_t type : types) {
    const auto count = std::count_if(facts.sections.begin(), facts.sections.end(),
                                     [&](const io::Section& s) { return s.type == type; });
    if (count != 1) refuse_index(path, cat(count, " sections of type ", type, ", expected 1"));
    const io::Section& section = facts.section(type);
    if (const std::uint64_t need = length_of(type, facts, section.length); need != section.length)
      refuse_index(path, cat("a section of type ", type, " has ", section.length, " bytes, needs ", need));
  }
  const std::size_t later =
      static_cast<std::size_t>(std::count_if(facts.sections.begin(), facts.sections.end(),
                                             [](const io::Section& s) { return s.type > index_kind.last_type; }));
  if (facts.sections.size() != types.size() + later) refuse_index(path, "sections that this index does not need");
  io::check_places(path, beginning, file_size, index_kind, facts.sections);
  return facts;
}

io::Bytes contents(const IndexFacts& facts, io::Bytes file, std::uint32_t type) {
  const io::Section& section = facts.section(type);
  return file.subspan(section.offset, section.length);
}

std::vector<std::int64_t> read_permutants(const std::string& path, const IndexFacts& facts, io::Bytes file) {
  const io::Bytes bytes = contents(facts, file, type_permutants);
  std::vector<std::int64_t> ids(bytes.size() / 8);
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  std::unordered_set<std::int64_t> seen;
  for (const std::int64_t id : ids)
    if (id < 0 || id >= facts.rows || !seen.insert(id).second)
      refuse_index(path, cat("permutant ", id, " is no object, or is there twice"));
  return ids;
}

Buffer<std::uint8_t> read_ranks(const std::string& path, const IndexFacts& facts, const RankLayout& layout,
                                io::Bytes file, ThreadPool& thread_pool) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(contents(facts, file, type_ranks).data());
  Buffer<std::uint8_t> ranks(facts.rows * layout.stride);
  constexpr std::int64_t at_once = 4096;
  thread_pool.for_each(divide_up(facts.rows, at_once), [&](std::int64_t piece, int) {
    std::vector<std::uint8_t> scratch;
    for (std::int64_t row = piece * at_once; row < std::min(facts.rows, (piece + 1) * at_once); ++row) {
      std::uint8_t* to = ranks.data() + row * layout.stride;
      std::copy_n(from + row * layout.used, layout.used, to);
      std::fill(to + layout.used, to + layout.stride, std::uint8_t{0});
      if (!is_order(layout, to, scratch))
        refuse_index(path, cat("the ranks of object ", row, " are no order of the permutants"));
    }
    thread_pool.poll(0);
  });
  return ranks;
}

std::unique_ptr<Bounds> read_bounds(const std::string& path, const IndexFacts& facts, io::Bytes file) {
  std::vector<CellEnds> ends(static_cast<std::size_t>(facts.options.permutants));
  const io::Bytes bytes = contents(facts, file, type_ends);
  std::memcpy(ends.data(), bytes.data(), bytes.size());
  const auto* cells = reinterpret_cast<const std::uint8_t*>(contents(facts, file, type_cells).data());
  auto bounds = std::make_unique<Bounds>(facts.rows, facts.options.permutants, cells, std::move(ends));
  if (!bounds->fit()) refuse_index(path, "bounds are not in order");
  return bounds;
}

std::shared_ptr<const Components> read_components(const std::string& path, const IndexFacts& facts, io::Bytes file) {
  const io::Bytes bytes = contents(facts, file, type_components);
  std::vector<double> numbers(bytes.size() / 8);
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  auto components = std::make_shared<const Components>(facts.options.permutants, std::move(numbers));
  if (!components->fit()) refuse_index(path, "components have numbers that are not finite");
  return components;
}

std::unique_ptr<cpu::StringObjects> read_strings(const std::string& path, const IndexFacts& facts, io::Bytes file,
                                                 ThreadPool& thread_pool) {
  const io::Bytes text = contents(facts, file, type_text), positions = contents(facts, file, type_offsets);
  std::vector<std::int64_t> offsets(positions.size() / 8);
  std::memcpy(offsets.data(), positions.data(), positions.size());
  if (offsets.front() != 0 || offsets.back() != static_cast<std::int64_t>(text.size()) ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    refuse_index(path, "offsets of strings do not fit their text");
  try {
    return cpu::open_strings({text.data(), offsets.data(), facts.rows, facts.encoding}, facts.options.metric,
                             facts.options.strings, thread_pool);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_value && error.code() != ErrorCode::invalid_argument) throw;
    refuse_index(path, error.what());
  }
}

std::vector<std::byte> header_of(const PermutationIndex::State& state) {
  const PermutationOptions& options = state.options;
  std::vector<std::byte> header(io::file_header);
  std::byte* const head = header.data();
  const auto small = [&](std::size_t at, auto value) { io::store(head + at, static_cast<std::uint8_t>(value)); };
  small(at_dtype, state.rows.dtype);
  small(at_metric, options.metric);
  small(at_choice, options.choice);
  small(at_rank_distance, options.rank_distance);
  small(at_form, options.form);
  unsigned flags = state.bounds ? flag_bounds : 0;
  if (state.strings) flags |= flag_strings;
  if (state.strings && state.strings->encoding() == Encoding::bytes) flags |= flag_bytes;
  small(at_flags, flags);
  io::store(head + at_rows, state.objects().count());
  io::store(head + at_cols, state.rows.cols);
  io::store(head + at_permutants, static_cast<std::uint32_t>(options.permutants));
  io::store(head + at_prefix, static_cast<std::uint32_t>(state.layout->prefix));
  io::store(head + at_seed, options.seed);
  io::store(head + at_max_length, options.strings.max_length);
  io::store(head + at_ngram, options.strings.ngram);
  io::store(head + at_window, options.window);
  return header;
}

/// The index of a file's bytes, which lie in one of the two owners, or are borrowed.
std::unique_ptr<PermutationIndex::State> open_index(const std::string& path, io::Bytes file, io::Source mapped,
                                                    Buffer<std::byte> copied, const OpenOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Resolved run = resolve(options.run, options.memory);
  const IndexFacts facts = read_facts(path, file.first(std::min(file.size(), io::file_head)), file.size());
  FpGuard guard;
  ThreadPool thread_pool(run.threads, options.progress, options.stop, file.size());
  if (options.verify) io::verify_sections(path, facts.sections, file, thread_pool);
  auto state = std::make_unique<PermutationIndex::State>();
  state->options = facts.options;
  state->options.copy = options.copy;
  state->permutants = read_permutants(path, facts, file);
  state->layout = std::make_unique<RankLayout>(facts.layout());
  if (facts.options.form == RankForm::components) state->layout->components = read_components(path, facts, file);
  state->ranks = read_ranks(path, facts, *state->layout, file, thread_pool);
  if (facts.strings) {
    state->strings = read_strings(path, facts, file, thread_pool);
  } else {
    state->rows = Points(contents(facts, file, type_rows).data(), facts.dtype, facts.rows, facts.cols);
    state->vectors =
        cpu::open_vectors(state->rows, facts.options.metric, facts.options.window, run.instruction_set, thread_pool);
    state->copy = std::move(copied);
    state->mapping = std::move(mapped);
  }
  if (facts.options.bounds) {
    if (!state->objects().true_distance().known()) refuse_index(path, "bounds of a metric that has none");
    state->bounds = read_bounds(path, facts, file);
  }
  thread_pool.finish();
  state->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return state;
}

void append_index(io::FileSink& file, const PermutationIndex::State& state) {
  const std::int64_t count = state.objects().count();
  const RankLayout& layout = *state.layout;
  const StringList list = state.strings ? state.strings->list(nullptr) : StringList();
  const Strings strings = list.view();
  IndexFacts facts{.options = state.options,
                   .dtype = state.rows.dtype,
                   .rows = count,
                   .cols = state.rows.cols,
                   .strings = state.strings != nullptr,
                   .sections = {}};
  facts.options.bounds = state.bounds != nullptr;
  std::vector<std::uint64_t> lengths;
  for (const std::uint32_t type : facts.types())
    lengths.push_back(length_of(type, facts, facts.strings ? static_cast<std::uint64_t>(strings.offsets[count]) : 0));
  file.expect(io::SectionWriter::file_size(lengths));
  io::SectionWriter writer(file, index_kind, lengths.size());
  const auto whole = [&](std::uint32_t type, const void* data, std::size_t size) {
    writer.begin(type);
    writer.append(io::as_bytes(data, size));
    writer.end();
  };
  if (state.strings) {
    whole(type_text, strings.data, static_cast<std::size_t>(strings.offsets[count]));
    whole(type_offsets, strings.offsets, static_cast<std::size_t>(count + 1) * 8);
  } else {
    const io::Array rows = io::Array::view(state.rows);
    writer.begin(type_rows);
    append_rows(writer, rows, rows.item);
    writer.end();
  }
  whole(type_permutants, state.permutants.data(), state.permutants.size() * 8);
  writer.begin(type_ranks);
  for (std::int64_t object = 0; object < count; ++object)
    writer.append(io::as_bytes(state.ranks_of(object), static_cast<std::size_t>(layout.used)));
  writer.end();
  if (state.bounds) {
    writer.begin(type_cells);
    for (std::int64_t object = 0; object < count; ++object)
      writer.append(io::as_bytes(state.bounds->row(object), static_cast<std::size_t>(layout.permutants)));
    writer.end();
    whole(type_ends, state.bounds->ends().data(), state.bounds->ends().size() * sizeof(CellEnds));
  }
  if (layout.components) {
    const std::vector<double>& numbers = layout.components->numbers();
    whole(type_components, numbers.data(), numbers.size() * sizeof(double));
  }
  writer.finish(header_of(state));
}

}  // namespace

void PermutationIndex::save(const std::string& path) const try {
  if (&io::format_to_write(path, io::as_vectors) != &io::corpus_format)
    io::fail(ErrorCode::unsupported, path, "an index is saved with the suffix ", io::corpus_format.suffix);
  if (state_->user_defined) io::fail(ErrorCode::unsupported, path, user_defined_unsaved);
  io::AtomicFile file(path);
  append_index(file, *state_);
  io::AtomicFile* const one = &file;
  io::AtomicFile::publish({&one, 1});
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory,
       cat("no memory for the buffers to write ", io::printable(path), "; free some, and save again"));
}

SavedBytes PermutationIndex::saved() const try {
  if (state_->user_defined) io::fail(ErrorCode::unsupported, io::saved_name, user_defined_unsaved);
  io::MemoryFile file;
  append_index(file, *state_);
  return file.take();
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory,
       "no memory for the bytes of the saved index; save it to a file, which takes buffers alone");
}

PermutationIndex PermutationIndex::open(const std::string& path, const OpenOptions& options) try {
  if (!options.copy) {
    auto mapped = std::make_shared<const io::MappedFile>(path);
    const io::Bytes file = mapped->bytes();
    return PermutationIndex(open_index(path, file, std::move(mapped), {}, options));
  }
  Buffer<std::byte> copied = io::read_file(
      path, io::file_head, [&](io::Bytes beginning, std::uint64_t size) { read_facts(path, beginning, size); });
  const io::Bytes file = io::as_bytes(copied.data(), static_cast<std::size_t>(copied.size()));
  return PermutationIndex(open_index(path, file, nullptr, std::move(copied), options));
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory,
       cat("the system refused memory to open ", io::printable(path), "; free some, or open it without copy"));
}

PermutationIndex PermutationIndex::open(std::span<const std::byte> saved, const OpenOptions& options) try {
  if (!options.copy) return PermutationIndex(open_index(io::saved_name, saved, nullptr, {}, options));
  read_facts(io::saved_name, saved.first(std::min(saved.size(), io::file_head)), saved.size());
  Buffer<std::byte> copied(static_cast<std::int64_t>(saved.size()));
  std::copy(saved.begin(), saved.end(), copied.data());
  const io::Bytes file = io::as_bytes(copied.data(), saved.size());
  return PermutationIndex(open_index(io::saved_name, file, nullptr, std::move(copied), options));
} catch (const std::bad_alloc&) {
  fail(ErrorCode::out_of_memory, "the system refused memory to open a saved index; free some, or open it without copy");
}

}  // namespace vicinal
