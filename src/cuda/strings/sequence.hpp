// The launches of a search of strings, for whoever launches: the library and the measurement on a device, the tests on the emulator.
// `Launch` is called as CudaLaunch (cuda/device/launch.cuh) is. Words and queries are cut where the kernels differ: by letters that fit
// registers, by bits of a mask.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cuda/strings/near.cuh"

namespace vicinal::cuda {

inline constexpr std::int64_t strings_table_bytes =
    24 << 10;                                         // of the queries of a block: more blocks fit a multiprocessor
inline constexpr std::int64_t strings_sample = 4096;  // words of a first limit, at least; a 64th of all if that is more

/// Where words or queries begin to be longer than this: `first(letters)` of the host's StringSet.
struct StringsCuts {
  std::int64_t words_16, words_32, words_64, words;  // words of at most 16, 32, 64 letters, all
  std::int64_t queries_32, queries_64, queries;      // the same of queries
  std::int64_t longest_query;
};

/// Why the kernels cannot take it, or null.
inline const char* strings_refusal(int symbols, std::int64_t words, std::int64_t longest_query,
                                   std::int64_t longest_word) {
  if (symbols > 256) return "more than 255 different symbols";
  if (words >= std::int64_t{1} << row_bits) return "more than 2^32 words";
  if (longest_query > 64 * most_masks) return "a query of more than 1024 symbols";
  if (longest_word > std::int64_t{1} << 30) return "a word of more than 2^30 symbols";
  return nullptr;
}

/// First limits for the k nearest of every query.
template <class Launch>
void run_strings_bound(Launch& launch, const StringsArgs& job, std::int64_t k) {
  const StringsBound bound{.job = job, .k = k, .sample = std::max({strings_sample, 4 * k, job.words.count / 64})};
  if (job.queries.count > 0)
    launch(job.queries.count, strings_threads, std::int64_t{8} * job.symbols, strings_bound<unsigned long long>, bound);
}

/// Everything within the limits to the lists; counts are set to zero by the caller.
template <class Launch>
void run_strings_near(Launch& launch, const StringsArgs& job, const StringsCuts& cuts) {
  const auto run = [&](std::int64_t first_word, std::int64_t last_word, std::int64_t first_query,
                       std::int64_t last_query, std::int64_t mask_bytes, void (*kernel)(StringsTile)) {
    if (first_word >= last_word || first_query >= last_query) return;
    const std::int64_t table = job.symbols * mask_bytes;
    StringsTile tile{.job = job,
                     .first_word = first_word,
                     .last_word = last_word,
                     .first_query = first_query,
                     .last_query = last_query};
    tile.tiles = (last_word - first_word + strings_threads - 1) / strings_threads;
    tile.queries_at_once =
        mask_bytes > 8
            ? 1
            : static_cast<int>(std::clamp<std::int64_t>(strings_table_bytes / table, 1, most_queries_at_once));
    const std::int64_t groups = (last_query - first_query + tile.queries_at_once - 1) / tile.queries_at_once;
    launch(tile.tiles * groups, strings_threads, table * tile.queries_at_once, kernel, tile);
  };
  const auto of_words = [&](std::int64_t first_query, std::int64_t last_query, std::int64_t mask_bytes, auto up_to_16,
                            auto up_to_32, auto up_to_64, auto longer) {
    run(0, cuts.words_16, first_query, last_query, mask_bytes, up_to_16);
    run(cuts.words_16, cuts.words_32, first_query, last_query, mask_bytes, up_to_32);
    run(cuts.words_32, cuts.words_64, first_query, last_query, mask_bytes, up_to_64);
    run(cuts.words_64, cuts.words, first_query, last_query, mask_bytes, longer);
  };
  using Small = unsigned;
  using Large = unsigned long long;
  of_words(0, cuts.queries_32, sizeof(Small), strings_near<Small, 4>, strings_near<Small, 8>, strings_near<Small, 16>,
           strings_near<Small, 0>);
  of_words(cuts.queries_32, cuts.queries_64, sizeof(Large), strings_near<Large, 4>, strings_near<Large, 8>,
           strings_near<Large, 16>, strings_near<Large, 0>);
  run(0, cuts.words, cuts.queries_64, cuts.queries, (cuts.longest_query + 63) / 64 * 8, strings_long<Large>);
}

/// The k first of every list that fits one block.
template <class Launch>
void run_strings_pick(Launch& launch, const StringsArgs& job, std::int64_t k, unsigned long long* best) {
  if (job.queries.count > 0)
    launch(job.queries.count, strings_threads, std::int64_t{8} * most_picked, strings_pick<unsigned long long>,
           StringsPick{.job = job, .k = k, .best = best});
}

}  // namespace vicinal::cuda
