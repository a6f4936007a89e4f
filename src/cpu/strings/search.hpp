// Searches of strings on the host: groups of queries, threads, and one answer a query out of the parts of the corpus.
#pragma once
#include "backend/strings.hpp"
#include "cpu/strings/myers.hpp"

namespace vicinal::cpu {

/// It fills the plan's shape and predicts its seconds; returns bytes beyond the strings themselves.
std::int64_t shape_strings(Plan& plan, const StringSizes& sizes, Metric metric, std::int64_t k, bool range);
/// Returns the entries of a range search, those beyond `most` too; 0 of a k-NN search.
std::int64_t search_strings(const StringSearchSpec& spec, const Plan& plan, const StringAnswer& answer,
                            ThreadPool& thread_pool, Stats& stats);

}  // namespace vicinal::cpu
