// Searches of vectors on a CUDA device, for src/cuda/backend.cu.
#pragma once
#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "cuda/device/memory.hpp"

namespace vicinal::cuda {

/// What the searches of one device share; lives as long as what was made with it. shared_bytes: that a block may have. hopper: it has wgmma.
class SearchDevice;
std::shared_ptr<SearchDevice> make_search_device(int ordinal, int multiprocessors, std::int64_t shared_bytes,
                                                 bool hopper, Pool& pool);

/// Backend::filter_refusal.
std::string search_refusal(const std::string& name, Rung rung, std::int64_t cols, bool wgmma,
                           std::int64_t shared_bytes);

std::int64_t search_bytes(const Plan& plan, const Problem& problem, int multiprocessors);
std::int64_t search_kept_bytes(const Problem& problem, const Plan& plan);
std::shared_ptr<const Kept> keep_corpus(SearchDevice& device, const Question& question, const Plan& plan, Team& team);
/// Null where the rung has no kernel for the question.
std::unique_ptr<Session> open_search(SearchDevice& device, const Question& question, const Plan& plan, Rung rung,
                                     std::shared_ptr<const Kept> kept, Team& team, Stats& stats);

}  // namespace vicinal::cuda
