// See walk.hpp.
#include "pipeline/walk.hpp"

#include <chrono>

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
  to.used_bytes = std::max(to.used_bytes, from.used_bytes);
}

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

KnnOptions piece_options(const KnnOptions& options, std::int64_t first_row, std::int64_t rows, std::int64_t first_query,
                         std::int64_t queries) {
  KnnOptions part = options;
  part.pad = true;
  part.first_id = options.first_id + first_row;
  Eligible& eligible = part.eligible;
  if (eligible.bitmap) eligible.bitmap = eligible.bitmap->subspan(static_cast<std::size_t>(first_row / 64));
  if (eligible.labels == Eligible::Labels::ignored) return part;
  eligible.corpus_labels =
      eligible.corpus_labels.subspan(static_cast<std::size_t>(first_row), static_cast<std::size_t>(rows));
  eligible.query_labels =
      eligible.query_labels.subspan(static_cast<std::size_t>(first_query), static_cast<std::size_t>(queries));
  return part;
}

void blame_row(const Points& corpus, const Points& queries, KnnOptions options, const Error& error) {
  options.k = 1;
  options.pad = true;
  options.eligible = {};
  options.progress = nullptr;
  knn(corpus.slice(0, std::min<std::int64_t>(corpus.rows, 1)), queries, options);
  knn(corpus, queries.slice(0, std::min<std::int64_t>(queries.rows, 1)), options);
  throw error;
}

Walk::Walk(const Points& corpus, const Points& queries, const KnnOptions& options, const Plan& whole,
           const std::string& directory, const Grid& grid, std::span<const std::int64_t> words)
    : folder(directory), corpus_(corpus), queries_(queries), options_(options), whole_(whole), directory_(directory),
      grid_(grid), pace_(grid.clock ? grid.clock : now_seconds, grid.first_part, grid.most_part),
      total_(static_cast<std::uint64_t>(corpus.rows) * static_cast<std::uint64_t>(queries.rows)) {
  ThreadPool thread_pool(whole.threads, nullptr, options.stop, 1);
  head.key = piece_key(corpus, queries, options, words, thread_pool);
  head.type = static_cast<std::int64_t>(whole.distance_type);
  head.all_pairs = static_cast<std::int64_t>(total_);
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
