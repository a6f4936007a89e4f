// Groups of options that several commands share, and their way into KnnOptions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "app.hpp"
#include "files.hpp"
#include "interrupt.hpp"
#include "progress.hpp"
#include "vicinal/io.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"

namespace cli {

/// Which rows may answer: names of files, and what was read from them.
struct EligibleFlags {
  std::string ids, range, corpus_labels, query_labels, rule;
  vicinal::Column listed, rows, queries;
  std::vector<std::uint64_t> bitmap;
};

/// --header and --no-header: of text, is the first line the names of columns?
struct HeaderFlags {
  bool present = false, absent = false;
  /// Throws where both were given.
  vicinal::Header header() const;
};
void add_header(App& app, HeaderFlags& flags);

/// Everything that a search over two files may be told.
struct SearchFlags {
  std::string corpus, queries;
  std::string metric = "euclidean";
  std::string device = "auto";
  std::string memory;  // empty: what is free
  std::string distance_type = "auto";
  std::string degenerate = "error";
  std::int64_t threads = 0;
  std::int64_t first_id = 0;
  bool pad = false;
  bool strings = false, bytes = false;  // of which only hamming leaves a choice
  std::int64_t ngram = 0, max_length = vicinal::StringRules{}.max_length;
  EligibleFlags eligible;
  HeaderFlags text;
};

/// CORPUS and QUERIES.
void add_inputs(App& app, SearchFlags& flags);
/// --metric --degenerate --first-id: what the answer is. parts: the corpus may be part of a larger one.
void add_meaning(App& app, SearchFlags& flags, bool parts = true);
/// --device --threads --memory: how it is found; never changes a bit of it.
void add_execution(App& app, SearchFlags& flags);
/// --eligible --eligible-ids --corpus-labels --query-labels --label-rule. queries: the labels of queries are asked for.
void add_eligible(App& app, EligibleFlags& flags, bool queries);
void add_json(App& app, bool& json);
/// --strings --bytes --ngram --max-length: text files instead of rows.
void add_strings(App& app, SearchFlags& flags);
/// CORPUS or QUERIES as the metric and the flags say.
Side read_side(const std::string& path, const SearchFlags& flags);
/// How text was read where there was a choice, among the notes of the result.
void add_notes(vicinal::Stats& stats, const Side& side, const std::string& path);

vicinal::Execution execution(const std::string& device, std::int64_t threads);
/// KnnOptions with names and sizes parsed and lists read, which stay in `flags`; progress and stop are those of the
/// run.
/// of_search: an index has more metrics.
vicinal::KnnOptions search_options(SearchFlags& flags, bool of_search = true);
template <class Options>
void attach(Options& options, Interrupt& interrupt, ProgressBar& bar) {
  options.stop = interrupt.token();
  options.progress = [stop = interrupt.token(), &bar](std::uint64_t done, std::uint64_t total) {
    bar.show(done, total);
    return !stop.stop_requested();
  };
}

}  // namespace cli
