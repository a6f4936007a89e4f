// The host CPU behind the seam: which instruction sets there are, what a plan costs, and sessions.
#include "backend/backend.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "core/bound.hpp"
#include "core/text.hpp"
#include "cpu/isa/table.hpp"
#include "cpu/match/guided.hpp"
#include "cpu/match/match.hpp"
#include "cpu/propose/pilot.hpp"
#include "cpu/propose/propose.hpp"
#include "cpu/propose/rates.hpp"
#include "cpu/select/select.hpp"
#include "cpu/session.hpp"
#include "cpu/strings/search.hpp"
#include "prepare/project.hpp"

namespace vicinal {
namespace cpu {
namespace {

std::vector<Precision> filters_of(const Plan& plan) {
  std::vector<Precision> precisions;
  for (const std::string& name : plan.cascade)
    if (const Precision precision = precision_of(name); has_filter(precision)) precisions.push_back(precision);
  return precisions;
}

/// It chooses the transform of a precision; false where that is of
/// codes and does not pay. queries: that each preparation serves.
bool choose(Transform& transform, const InstructionSet& set, const SearchSpec& spec, const SearchPlan& plan,
            Precision precision, double queries, ThreadPool& thread_pool) {
  if (!has_filter(precision)) return true;
  const Kernels& kernels = set.floats;
  transform = choose_transform(kernels, spec, precision, thread_pool);
  if (!in_codes(precision)) return true;
  if (plan.techniques.pilot)
    return bytes_pay({kernels, spec, plan.techniques.second_level, queries, set.int8_gain, set.slowness}, transform,
                     thread_pool);
  if (plan.projected > 0 && transform.usable) {
    Directions directions = choose_directions(kernels, spec, plan.projected - 1, 0, thread_pool);
    // There are fewer directions where the sample has too few rows that can be used.
    if (Projection projection(spec.corpus.cols, directions.rows, [&] { thread_pool.poll(0); }); projection.present())
      transform = projecting(std::move(directions.moved), std::move(projection));
  }
  if (plan.rotated && !transform.projection.present() && transform.usable && !(transform.integral_step > 0))
    transform.rotation = Rotation(spec.corpus.cols);
  return true;
}

/// It returns the bytes that the system would give without swapping, as far as the cgroup leaves them.
std::int64_t available_bytes() {
  std::int64_t available = std::int64_t{1} << 30;
  std::ifstream meminfo("/proc/meminfo");
  std::string word;
  while (meminfo >> word) {
    if (word != "MemAvailable:") continue;
    meminfo >> available;
    available *= 1024;
    break;
  }
  std::ifstream limit_file("/sys/fs/cgroup/memory.max"), used_file("/sys/fs/cgroup/memory.current");
  std::int64_t limit = 0, used = 0;
  if (limit_file >> limit && used_file >> used && limit > used) available = std::min(available, limit - used);
  return available;
}

class CpuBackend final : public Backend, DeviceBackend, SearchBackend, SelectBackend, StringBackend, MatchBackend {
 public:
  const DeviceBackend& device() const override { return *this; }
  const SearchBackend& search() const override { return *this; }
  const SelectBackend& select() const override { return *this; }
  const StringBackend* strings() const override { return this; }
  const MatchBackend* match() const override { return this; }

 private:
  const Facts& facts() const override {
    static const Facts lasting = [] {
      Facts all;
      all.name = "cpu";
      for (const HostPrecision& one : host_precisions) all.precisions.push_back(one.precision);
      for (const InstructionSet& set : instruction_sets()) {
        all.built_instruction_sets.emplace_back(set.name);
        if (runs_here(set)) all.instruction_sets.emplace_back(set.name);
      }
      return all;
    }();
    return lasting;
  }
  std::string description() const override {
    return cat(default_threads(), " threads, ", facts().instruction_sets.front());
  }
  std::int64_t free_bytes() const override { return available_bytes(); }
  void check_instruction_set(const std::string& name) const override { find_instruction_set(name); }

  std::string select_refusal(const SelectProblem& /*problem*/) const override { return ""; }  // all take everything
  SelectStats select_k(const SelectProblem& problem) const override {
    return cpu::select_k(problem, find_instruction_set(problem.instruction_set).scans);
  }

  Proposal propose(const ProblemShape& problem, const Execution& run, Proof proof) const override {
    return cpu::propose(problem, run, proof);
  }
  double seconds(const SearchPlan& plan, const ProblemShape& problem) const override {
    return predicted_seconds(plan, problem);
  }
  void sample(SearchPlan& plan, const ProblemShape& problem, const SearchSpec& spec) const override {
    sample_rows(plan, problem, spec);
  }

  std::int64_t bytes(const SearchPlan& plan, const ProblemShape& problem) const override {
    std::int64_t chunk = 0;  // precisions come one after another
    for (const std::string& name : plan.cascade)
      if (!problem.prepared)
        chunk = std::max(chunk, PackedRows::bytes(plan.corpus_chunk, problem.corpus.cols, problem.metric,
                                                  precision_of(name), plan.techniques));
    return chunk + CpuSession::bytes(plan, problem);
  }

  std::int64_t prepared_bytes(const ProblemShape& problem, const SearchPlan& plan) const override {
    std::int64_t total =
        plan.threads * PrepareScratch::bytes(problem.corpus.cols) + transform_bytes(plan, problem.corpus.cols);
    for (const std::string& name : plan.cascade)
      total += PackedRows::bytes(problem.corpus.rows, problem.corpus.cols, problem.metric, precision_of(name),
                                 plan.techniques);
    if (plan.techniques.bit_counts)
      total += packed_bit_bytes(problem.corpus.rows, problem.corpus.cols) +
               plan.threads * BitPacker::bytes(problem.corpus.cols);
    return total;
  }

  bool match(const MatchSpec& spec, const MatchAnswer& answer, ThreadPool& thread_pool, Stats& stats) const override {
    if (spec.guide != nullptr) {
      match_guided(spec, answer, thread_pool);
      return true;
    }
    const std::optional<ByteMatching> matching = byte_matching(spec, true);
    if (!matching) return false;
    const InstructionSet& set = find_instruction_set(spec.search.run.instruction_set);
    const std::int64_t asked = spec.search.memory.host;
    stats.instruction_set = set.name;
    match_bytes(spec, *matching, set.int8.matching, asked > 0 ? asked : recent_free_bytes() / 10 * 9, answer,
                thread_pool);
    return true;
  }

  Rates rates(const std::string& instruction_set, Precision precision, int threads) const override {
    const HostPrecision* here = find_host_precision(precision);
    if (here == nullptr || !has_filter(precision)) return {};
    ThreadPool thread_pool(threads, nullptr, {}, 0);
    const InstructionSet& set = find_instruction_set(instruction_set);
    const Int8Kernels* const codes = here->codes(set);
    return {.products = codes != nullptr ? peak_products(*codes, thread_pool) : peak_products(set.floats, thread_pool),
            .bytes = peak_bytes(thread_pool),
            .element_bytes = static_cast<double>(here->width(4)) / 4};
  }

  std::shared_ptr<const PreparedCorpus> prepare_corpus(const SearchSpec& spec, const SearchPlan& plan,
                                                       ThreadPool& thread_pool) const override {
    const InstructionSet& set = find_instruction_set(plan.instruction_set);
    const Kernels& kernels = set.floats;
    auto kept = std::make_shared<CpuPreparedCorpus>();
    std::vector<Precision> precisions = filters_of(plan);
    if (precisions.empty()) precisions.push_back(Precision::canonical);
    for (const Precision precision : precisions) {
      CpuPreparedCorpus::Packed packed;
      if (!choose(packed.transform, set, spec, plan, precision, infinite, thread_pool)) continue;
      const auto model = make_model(kernels, spec, precision, packed.transform);
      prepare_rows({kernels, spec, precision, model.get(), &packed.transform, plan.techniques}, 0, spec.corpus.rows,
                   thread_pool, packed.rows);
      if (plan.techniques.bit_counts) packed.rows.bits = pack_bits(kernels, spec.corpus, thread_pool);
      kept->precisions.push_back(std::move(packed));
    }
    return kept;
  }

  std::unique_ptr<Session> open(const SearchSpec& spec, const SearchPlan& plan, Precision precision,
                                std::shared_ptr<const PreparedCorpus> kept, ThreadPool& thread_pool,
                                Stats& stats) const override {
    const InstructionSet& set = find_instruction_set(plan.instruction_set);
    auto own = std::static_pointer_cast<const CpuPreparedCorpus>(std::move(kept));
    Transform transform;
    if (own && has_filter(precision) && own->of(precision).rows.precision != precision) return nullptr;
    // Rows in bytes that are not projected are kept for few queries alone, where floats are as fast.
    if (own && in_codes(precision) && plan.techniques.pilot && set.int8_gain <= 1 &&
        plan.query_batch > most_byte_queries({spec.corpus.rows, spec.corpus.cols, spec.corpus.dtype}, set.slowness) &&
        !own->of(precision).transform.projection.present())
      return nullptr;
    if (!own && !choose(transform, set, spec, plan, precision, static_cast<double>(plan.query_batch), thread_pool))
      return nullptr;
    if (in_codes(precision)) {
      const Transform& chosen = own ? own->of(precision).transform : transform;
      stats.projected = chosen.projection.present() ? chosen.columns() : 0;
      stats.rotated = chosen.rotation.present() && stats.projected == 0;
    }
    return std::make_unique<CpuSession>(set, spec, plan, precision, std::move(transform), std::move(own), thread_pool,
                                        stats);
  }

  std::int64_t shape_strings(Plan& plan, const StringSizes& sizes, Metric metric, std::int64_t k,
                             bool range) const override {
    return cpu::shape_strings(plan, sizes, metric, k, range);
  }

  std::int64_t search_strings(const StringSearchSpec& spec, const Plan& plan, const StringAnswer& answer,
                              ThreadPool& thread_pool, Stats& stats) const override {
    return cpu::search_strings(spec, plan, answer, thread_pool, stats);
  }
};

}  // namespace

}  // namespace cpu

const Backend& cpu_backend() {
  static const cpu::CpuBackend backend;
  return backend;
}

}  // namespace vicinal
