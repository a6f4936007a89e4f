// See walk.hpp.
#include "pipeline/walk.hpp"

#include <chrono>
#include <utility>

#include "core/metric.hpp"
#include "core/text.hpp"
#include "pipeline/knn.hpp"

namespace vicinal {
namespace {

void add(Stats& to, const Stats& from) {
  to.prepare_seconds += from.prepare_seconds;
  to.candidates += from.candidates;
  to.reranked += from.reranked;
  to.underflowed += from.underflowed;
  to.passes += from.passes;
  to.rotated |= from.rotated;
  to.projected = std::max(to.projected, from.projected);
  to.used_bytes = std::max(to.used_bytes, from.used_bytes);
}

/// The bits of rows [first, first + rows), the first of them bit 0.
std::span<const std::uint64_t> cut_bitmap(std::span<const std::uint64_t> bits, std::int64_t first, std::int64_t rows,
                                          std::vector<std::uint64_t>& words) {
  const std::span<const std::uint64_t> from = bits.subspan(static_cast<std::size_t>(first / 64));
  const auto shift = static_cast<unsigned>(first % 64);
  if (shift == 0) return from;
  words.resize(static_cast<std::size_t>((rows + 63) / 64));
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = from[i] >> shift | (i + 1 < from.size() ? from[i + 1] << (64 - shift) : 0);
  return words;
}

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

KnnOptions piece_options(const KnnOptions& options, std::int64_t first_row, std::int64_t rows, std::int64_t first_query,
                         std::int64_t queries, std::vector<std::uint64_t>& words) {
  KnnOptions part = options;
  part.pad = true;
  part.first_id = options.first_id + first_row;
  Eligible& eligible = part.eligible;
  if (eligible.bitmap) {
    eligible.bitmap = cut_bitmap(*eligible.bitmap, first_row, rows, words);
    if (eligible.bitmap_rows >= 0) eligible.bitmap_rows = rows;
  }
  if (eligible.labels == Eligible::Labels::ignored) return part;
  eligible.corpus_labels =
      eligible.corpus_labels.subspan(static_cast<std::size_t>(first_row), static_cast<std::size_t>(rows));
  eligible.query_labels =
      eligible.query_labels.subspan(static_cast<std::size_t>(first_query), static_cast<std::size_t>(queries));
  return part;
}

void blame_row(const RowParts& corpus, std::int64_t first, const Points& queries, KnnOptions options,
               const Error& error) {
  const std::size_t number = corpus.part_of(first);
  const Points& part = corpus.parts()[number];
  options.k = 1;
  options.pad = true;
  options.eligible = {};
  options.progress = nullptr;
  knn(part.slice(0, std::min<std::int64_t>(part.rows, 1)), queries, options);
  try {
    knn(part, queries.slice(0, std::min<std::int64_t>(queries.rows, 1)), options);
  } catch (const Error& own) {
    throw Error(own.code(), cat(corpus.prefix(number), own.what()));
  }
  throw error;
}

Walk::Walk(const std::string& name, const Points& corpus, const Points& queries, const KnnOptions& options,
           const Plan& whole, const std::string& directory, const Grid& grid, std::span<const std::int64_t> words)
    : Walk(name, RowParts(corpus), queries, options, whole, directory, grid, [&] {
        ThreadPool thread_pool(whole.threads, nullptr, options.stop, 1);
        return piece_key(corpus, queries, options, words, thread_pool);
      }()) {}

Walk::Walk(const std::string& name, RowParts corpus, const Points& queries, const KnnOptions& options,
           const Plan& whole, const std::string& directory, const Grid& grid, io::Digest128 key)
    : corpus_(std::move(corpus)), queries_(queries), options_(options), whole_(whole), directory_(directory),
      grid_(grid), pace_(grid.clock ? grid.clock : now_seconds, grid.first_part, grid.most_part),
      total_(static_cast<std::uint64_t>(corpus_.rows()) * static_cast<std::uint64_t>(queries.rows)) {
  head.key = key;
  head.type = static_cast<std::int64_t>(whole.distance_type);
  head.all_pairs = static_cast<std::int64_t>(total_);
  const std::string search = cat(name, ", ", metric_info(options.metric).name, ", ", queries.rows, " queries, ",
                                 corpus_.rows(), " rows of ", queries.cols, " columns");
  search.copy(head.search, sizeof head.search);
  if (!directory.empty()) folder.emplace(directory, head);
}

void Walk::note(const Stats& stats, const Certificate& certificate) {
  add(stats_, stats);
  for (const std::string& precision : certificate.precisions)
    if (std::find(certificate_.precisions.begin(), certificate_.precisions.end(), precision) ==
        certificate_.precisions.end())
      certificate_.precisions.push_back(precision);
  certificate_.largest_bound = std::max(certificate_.largest_bound, certificate.largest_bound);
}

void Walk::close(Certificate& certificate, Stats& stats, double start) {
  certificate_.queries = queries_.rows;
  certificate_.proven = queries_.rows - certificate_.redone;
  note_plan(stats_, whole_, static_cast<std::int64_t>(total_));
  note_underflow(stats_, whole_.distance_type);
  if (resumed_ > 0) stats_.notes.push_back(cat(resumed_, " of ", total_, " pairs were done before, in ", directory_));
  stats_.seconds = now_seconds() - start;
  certificate = std::move(certificate_);
  stats = std::move(stats_);
}

}  // namespace vicinal
