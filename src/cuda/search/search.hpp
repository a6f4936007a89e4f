// Searches of vectors on a CUDA device, for src/cuda/backend.cu.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backend/search.hpp"
#include "cuda/device/memory.hpp"

namespace vicinal::cuda {

/// What the searches of one device share; lives as long as what was made with it. shared_bytes: that a block may have.
/// capability: compute capability, 90 for 9.0.
class SearchDevice;
std::shared_ptr<SearchDevice> make_search_device(int ordinal, int multiprocessors, std::int64_t shared_bytes,
                                                 int capability, Pool& pool);

/// What a device of this compute capability can filter by, best first.
std::vector<std::string> search_instruction_sets(int capability);
/// The instruction sets that this build has filters for, on whatever device.
std::vector<std::string> compiled_instruction_sets();

/// It says why the device has no filter of the precision for rows
/// of so many columns, as a note of a plan; empty where it has.
std::string search_refusal(const std::string& name, int capability, Precision precision, Sum sum, std::int64_t cols,
                           const std::string& instruction_set, std::int64_t shared_bytes);

std::int64_t search_bytes(const Plan& plan, const ProblemShape& problem, int multiprocessors);
std::int64_t search_prepared_bytes(const ProblemShape& problem, const Plan& plan);
std::shared_ptr<const PreparedCorpus> keep_corpus(SearchDevice& device, const SearchSpec& spec, const Plan& plan,
                                                  ThreadPool& thread_pool);
/// It corrects the seconds of a plan by a sample of the rows, in milliseconds.
void sample_rows(SearchDevice& device, SearchPlan& plan, const ProblemShape& problem, const SearchSpec& spec);
/// Null where the precision has no kernel for the spec.
std::unique_ptr<Session> open_search(SearchDevice& device, const SearchSpec& spec, const Plan& plan,
                                     Precision precision, std::shared_ptr<const PreparedCorpus> kept,
                                     ThreadPool& thread_pool, Stats& stats);

}  // namespace vicinal::cuda
