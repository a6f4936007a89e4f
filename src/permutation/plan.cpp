#include "permutation/plan.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "permutation/candidate_fraction.hpp"
#include "permutation/permutants.hpp"
#include "pipeline/plan.hpp"

namespace vicinal {
namespace {

constexpr std::int64_t query_bytes = 192;      // what is kept of a query that was read: numbers and norms
constexpr std::int64_t small_bytes = 1 << 16;  // of a thread, besides its tables
// What a device's batch sends back: half of the bytes that its lists may have.
constexpr std::int64_t most_back_bytes = std::int64_t{1} << 29;

struct Needs {
  std::int64_t threads = 1, batch = 1, bytes = 0;
  bool together = false;
};

/// SearchNeeds are the bytes that a search by so many threads takes.
class SearchNeeds {
 public:
  SearchNeeds(const PermutationIndex::State& state, const PermutationSearch& search, std::int64_t rows, std::int64_t k,
              bool range, std::int64_t devices)
      : state_(state), rows_(rows), tunes_(!search.exact && !search.fraction), range_(range), device_(devices > 0),
        devices_(devices) {
    const std::int64_t count = state.objects().count();
    spec_.k = k;
    if (tunes_on_queries(search, rows)) measured_ = measured_for(search.recall.value_or(default_recall), rows);
    spec_.exact = search.exact;
    spec_.candidates = search.fraction ? candidates_of(*search.fraction, count, k) : count;
  }
  /// With as many queries at a time as the budget has room for, one if it has none.
  Needs of(int threads, std::int64_t budget) const {
    const std::int64_t count = state_.objects().count();
    Needs needs{.threads = threads, .together = !device_ && shares_queries(count, rows_, threads)};
    needs.batch = needs.together ? 1 : RankScan::batch_for(count, rows_, threads);
    const auto bytes = [&] {
      const std::int64_t search = device_          ? beside_device(threads)
                                  : needs.together ? IndexSearch::bytes(state_, spec_, 1, threads)
                                                   : threads * IndexSearch::bytes(state_, spec_, needs.batch, 1);
      return rows_ * query_bytes + threads * small_bytes +
             std::max(search, tunes_ ? curve_bytes(state_, range_, threads, measured_) : 0);
    };
    needs.bytes = bytes();
    while (needs.bytes > budget && needs.batch > 1) {
      needs.batch /= 2;
      needs.bytes = bytes();
    }
    if (needs.bytes <= budget || needs.together || threads == 1 || device_) return needs;
    needs.together = true;  // one table of scores instead of one a thread
    needs.bytes = bytes();
    return needs;
  }

 private:
  /// Queries' orders, and candidates that come back to be measured here.
  std::int64_t beside_device(int threads) const {
    return rows_ * state_.layout->stride + std::min(rows_ * spec_.candidates * 4, devices_ * most_back_bytes) +
           threads * (2 * spec_.k * static_cast<std::int64_t>(sizeof(Entry)) + state_.objects().evaluator_bytes());
  }

  const PermutationIndex::State& state_;
  std::int64_t rows_, measured_ = 0;
  bool tunes_, range_, device_;
  std::int64_t devices_;
  IndexSearchSpec spec_;
};

PermutationPlan checked(const PermutationPlan& plan, const char* or_else) {
  if (plan.minimum_bytes <= plan.budget_bytes) return plan;
  Plan refused;
  refused.budget_bytes = plan.budget_bytes;
  refused.minimum_bytes = plan.minimum_bytes;
  fail_budget(refused, or_else);
}

}  // namespace

PermutationPlan plan_build(std::int64_t objects, std::int64_t object_bytes, const PermutationOptions& options,
                           const Resolved& run) {
  const std::int64_t permutants = wanted_permutants(options, objects);
  if (permutants < 1 || permutants > most_permutants) return {};  // judged, and refused, where they are chosen
  const RankLayout layout(options.rank_distance, options.form, permutants, options.prefix);
  PermutationPlan plan{.threads = run.threads, .budget_bytes = run.budget};
  plan.prepared_bytes = object_bytes + objects * layout.stride;
  const bool chosen = options.choice == PermutantChoice::farthest_first || options.choice == PermutantChoice::sss;
  std::int64_t once = chosen ? objects * 8 : 0;
  if (options.bounds && TrueDistance(options.metric, 1).known()) {
    plan.prepared_bytes +=
        objects * cpu::score_stride(permutants) + permutants * static_cast<std::int64_t>(sizeof(CellEnds));
    once = std::max(
        once, sampled_for_bounds(objects, permutants) * (permutants + 3) * 8 + permutants * (24 + 8 * bound_cells));
  }
  if (options.form == RankForm::components) {
    plan.prepared_bytes += Components::bytes_for(permutants);
    once = std::max(once,
                    Components::sampled(objects, permutants) * permutants * 8 + 2 * Components::bytes_for(permutants));
  }
  const std::int64_t a_thread = permutants * (static_cast<std::int64_t>(sizeof(CellEnds)) + 16) + small_bytes;
  const auto bytes = [&](int threads) { return plan.prepared_bytes + once + threads * a_thread; };
  while (plan.threads > 1 && bytes(plan.threads) > plan.budget_bytes) --plan.threads;
  plan.peak_bytes = bytes(plan.threads);
  plan.minimum_bytes = bytes(1);
  return checked(plan, options.bounds ? "take fewer permutants, or bounds=false" : "take fewer permutants");
}

PermutationPlan plan_search(const PermutationIndex::State& state, const PermutationSearch& search, std::int64_t rows,
                            std::int64_t k, const double* radius, const Resolved& run, bool device) {
  const SearchNeeds needs(state, search, rows, k, radius != nullptr, device ? std::ssize(run.devices) : 0);
  PermutationPlan plan{.budget_bytes = run.budget};
  plan.minimum_bytes = needs.of(1, 0).bytes;
  Needs fits = needs.of(run.threads, plan.budget_bytes);
  for (int threads = run.threads; fits.bytes > plan.budget_bytes && threads > 1;)
    fits = needs.of(--threads, plan.budget_bytes);
  plan.threads = static_cast<int>(fits.threads);
  plan.query_batch = fits.batch;
  plan.together = fits.together;
  plan.peak_bytes = fits.bytes;
  return checked(plan, search.exact || search.fraction ? "search fewer objects" : "give a fraction");
}

std::string PermutationPlan::text() const {
  std::string out = cat(threads, threads == 1 ? " thread" : " threads");
  if (together) out += ", all for one query at a time";
  else if (query_batch > 0) out += cat(", ", query_batch, query_batch == 1 ? " query" : " queries", " at a time each");
  out += cat("; ", bytes_text(peak_bytes), " of ", bytes_text(budget_bytes),
             " (least that works: ", bytes_text(minimum_bytes), ")");
  if (prepared_bytes > 0) out += cat(", ", bytes_text(prepared_bytes), " of it stay");
  return out;
}

}  // namespace vicinal
