// What a search of strings is, apart from how it is carried out: the strings' side of the seam.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "core/key.hpp"
#include "core/parallel.hpp"
#include "core/row_filter.hpp"
#include "core/strings.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"
#include "vicinal/plan.hpp"

namespace vicinal {

struct StringSearchSpec {
  const StringSet& corpus;
  const StringSet& queries;  // the corpus itself, in a graph
  const Alphabet& alphabet;
  Metric metric = Metric::levenshtein;
  DistanceType type = DistanceType::u32;
  Encoding encoding = Encoding::utf8;
  std::int64_t ngram = 0;
  std::int64_t k = 0;  // what a query can really get; 0 with a radius
  std::int64_t first_id = 0;
  const RowFilter& filter;
  std::optional<double> radius = {};
  std::int64_t most = INT64_MAX;  // entries of a range result; what comes beyond is counted
  std::int64_t first_query = 0,
               last_query = INT64_MAX;  // those asked for, in the set's order: [first, last), as far as there are any

  std::int64_t query_end() const { return std::min(last_query, queries.count()); }
};

/// A backend takes the queries of a spec before `end`; `why` says in a few words why not the others.
struct StringShare {
  std::int64_t end = 0;
  std::string why;
};

/// A plan of strings depends on these sizes alone.
struct StringSizes {
  std::int64_t rows = 0, symbols = 0, longest = 0;  // of the corpus
  std::int64_t queries = 0, query_symbols = 0, longest_query = 0;
  std::int64_t alphabet = 0;
};

/// Seconds of a core of the build machine (Cascade Lake, AVX-512; bench/strings.py), where lengths and limits leave out
/// nothing: each device has its own share of them. They predict time; no answer depends on them.
inline double core_seconds(const StringSizes& sizes) {
  constexpr double clock_hz = 2.5e9, cycles_per_pair = 0.5, cycles_per_letter = 0.15;
  const double mean = sizes.rows == 0 ? 0 : static_cast<double>(sizes.symbols) / static_cast<double>(sizes.rows);
  const double strips = std::ceil(mean / 64),
               pairs = static_cast<double>(sizes.rows) * static_cast<double>(sizes.queries);
  return pairs * (cycles_per_pair + cycles_per_letter * mean * std::max(strips, 1.0)) / clock_hz;
}

/// It takes the answer to query `row`: entries with folded keys and returned ids, in order. Called once a query, from
/// any thread.
using StringAnswer = std::function<void(std::int64_t row, std::span<const Entry> entries)>;

/// A search of strings is one stage, since a lane's distance is exact when it is there. Calls may come from any thread.
struct StringBackend {
  virtual ~StringBackend() = default;
  /// It decides the shape and predicts the seconds of a plan that knows its device, instruction set, threads and
  /// budget; returns peak bytes beyond the strings.
  virtual std::int64_t shape_strings(Plan& plan, const StringSizes& sizes, Metric metric, std::int64_t k,
                                     bool range) const = 0;
  /// It searches, and returns the entries of a range search, those beyond StringSearchSpec::most too.
  virtual std::int64_t search_strings(const StringSearchSpec& spec, const Plan& plan, const StringAnswer& answer,
                                      ThreadPool& thread_pool, Stats& stats) const = 0;

  // Optional.
  /// It says what search_strings() can be asked; the rest is for the host.
  virtual StringShare share_strings(const StringSearchSpec& spec) const { return {spec.queries.count(), ""}; }
};

}  // namespace vicinal
