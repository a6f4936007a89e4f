// What the host knows of a kernel that filters. Each kernel's file has a struct with these facts, what starts the
// kernel, and whether the device runs its code; table.hpp lists them.
#pragma once
#include <cstdint>
#include <string_view>

#include "core/bound.hpp"
#include "core/precision.hpp"
#include "core/sums.hpp"
#include "cuda/search/core/args.hpp"

namespace vicinal::cuda {

/// Warps of a block that append candidates, at most: memory is planned for so many of each multiprocessor.
inline constexpr int most_writing_warps = 16;

/// Queries that a block of threads has at a time, and warps of it that append candidates.
struct FilterBlock {
  int queries, writing_warps;
};

/// What a kernel appends: rows with their sums, or groups of rows
/// (GroupCandidate), of which each is still to be compared by itself.
enum class CandidateForm { sums, groups };

/// What is not said of a kernel is so of one by mma.sync, which every device of a build runs.
struct FilterKernel {
  std::string_view name;
  std::string_view instruction_set = "mma";       // that a plan and VICINAL_ISA name it by
  std::string_view architecture = "";             // whose code alone has it ("90a"); empty: every device runs it
  bool (*accepts)(Precision precision, Sum sum);  // sum: that the filter estimates
  bool tested = false;                            // it is taken where FilterTest (filter_test.hpp) holds
  int threads, writing_warps;                     // of a block
  std::int64_t (*shared_bytes)(Precision precision, std::int64_t dims);  // of a block
  /// The largest integer threshold of rows of one slab, and of more: sums
  /// from there on stand for anything. Of floats no sum is an integer.
  float (*largest_threshold)(bool one_slab) = [](bool /*one_slab*/) { return most_quick_threshold; };
  /// Low bits of a candidate's sum that hold something else; the kernel sets them, and compares without them.
  int (*lost_bits)(bool one_slab) = [](bool /*one_slab*/) { return 0; };
  bool groups = false;  // it tests groups of rows, and of both of a tile's sides
  /// It says what its candidates are in such a search: groups where it tests groups of rows (core/bound_groups.hpp).
  /// Ranges, which have no slots, have sums.
  CandidateForm (*form)(const SearchArgs& args) = [](const SearchArgs& /*args*/) { return CandidateForm::sums; };
  /// Its blocks in such a search or in its sample, where they differ with that; null: they do not.
  FilterBlock (*block_of)(const SearchArgs& args, bool sampling) = nullptr;

  FilterBlock block(const SearchArgs& args, bool sampling) const {
    return block_of != nullptr ? block_of(args, sampling) : FilterBlock{block_queries, writing_warps};
  }
};

/// The struct of a kernel that every device of a build runs.
struct OnEveryDevice {
  template <class Device>
  static bool is_present(Device& /*device*/) {
    return true;
  }
};

}  // namespace vicinal::cuda
