// The launches of a search of strings stand here once for all who launch: the library and the measurement on a device,
// the tests on the emulator. `Launch` is called as CudaLaunch (cuda/device/launch.cuh) is. Strings and queries are cut
// where the kernels differ: by letters that fit registers, by bits of a mask.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/divide.hpp"
#include "cuda/strings/near.cuh"

namespace vicinal::cuda {

inline constexpr std::int64_t strings_table_bytes =
    24 << 10;  // of the queries of a block: more blocks fit a multiprocessor
inline constexpr std::int64_t strings_sample =
    4096;  // strings of a first threshold, at least; a 64th of all if that is more

/// Where strings or queries begin to be longer than this: `first(letters)` of the host's StringSet.
struct StringsCuts {
  std::int64_t strings_16, strings_32, strings_64, strings;  // strings of at most 16, 32, 64 letters, all
  std::int64_t queries_32, queries_64, queries;              // the same of queries
  std::int64_t longest_query;
};

/// Why the kernels cannot take it, or null.
inline const char* strings_refusal(int symbols, std::int64_t strings, std::int64_t longest_query,
                                   std::int64_t longest_string) {
  if (symbols > 256) return "more than 255 different symbols";
  if (strings >= std::int64_t{1} << row_bits) return "more than 2^32 words";
  if (longest_query > 64 * most_masks) return "a query of more than 1024 symbols";
  if (longest_string > std::int64_t{1} << 30) return "a word of more than 2^30 symbols";
  return nullptr;
}

/// First thresholds for the k nearest of every query.
template <class Launch>
void run_strings_thresholds(Launch& launch, const StringsArgs& args, std::int64_t k) {
  const StringsThresholds initial{
      .args = args, .k = k, .sample = std::max({strings_sample, 4 * k, args.corpus.count / 64})};
  if (args.queries.count > 0)
    launch(args.queries.count, strings_threads, std::int64_t{8} * args.symbols, strings_thresholds<unsigned long long>,
           initial);
}

/// Everything within the thresholds to the lists; counts are set to zero by the caller.
template <class Launch>
void run_strings_near(Launch& launch, const StringsArgs& args, const StringsCuts& cuts) {
  const auto run = [&](std::int64_t first_string, std::int64_t last_string, std::int64_t first_query,
                       std::int64_t last_query, std::int64_t mask_bytes, void (*kernel)(StringsTile)) {
    if (first_string >= last_string || first_query >= last_query) return;
    const std::int64_t table = args.symbols * mask_bytes;
    StringsTile tile{.args = args,
                     .first_string = first_string,
                     .last_string = last_string,
                     .first_query = first_query,
                     .last_query = last_query};
    tile.tiles = divide_up(last_string - first_string, strings_threads);
    tile.queries_at_once =
        mask_bytes > 8
            ? 1
            : static_cast<int>(std::clamp<std::int64_t>(strings_table_bytes / table, 1, most_queries_at_once));
    const std::int64_t groups = divide_up(last_query - first_query, tile.queries_at_once);
    launch(tile.tiles * groups, strings_threads, table * tile.queries_at_once, kernel, tile);
  };
  const auto of_strings = [&](std::int64_t first_query, std::int64_t last_query, std::int64_t mask_bytes, auto up_to_16,
                              auto up_to_32, auto up_to_64, auto longer) {
    run(0, cuts.strings_16, first_query, last_query, mask_bytes, up_to_16);
    run(cuts.strings_16, cuts.strings_32, first_query, last_query, mask_bytes, up_to_32);
    run(cuts.strings_32, cuts.strings_64, first_query, last_query, mask_bytes, up_to_64);
    run(cuts.strings_64, cuts.strings, first_query, last_query, mask_bytes, longer);
  };
  using Small = unsigned;
  using Large = unsigned long long;
  of_strings(0, cuts.queries_32, sizeof(Small), strings_near<Small, 4>, strings_near<Small, 8>, strings_near<Small, 16>,
             strings_near<Small, 0>);
  of_strings(cuts.queries_32, cuts.queries_64, sizeof(Large), strings_near<Large, 4>, strings_near<Large, 8>,
             strings_near<Large, 16>, strings_near<Large, 0>);
  run(0, cuts.strings, cuts.queries_64, cuts.queries, (cuts.longest_query + 63) / 64 * 8, strings_long<Large>);
}

/// The k first of every list that fits one block.
template <class Launch>
void run_strings_select(Launch& launch, const StringsArgs& args, std::int64_t k, unsigned long long* best) {
  if (args.queries.count > 0)
    launch(args.queries.count, strings_threads, std::int64_t{8} * most_selected, strings_select<unsigned long long>,
           StringsSelect{.args = args, .k = k, .best = best});
}

}  // namespace vicinal::cuda
