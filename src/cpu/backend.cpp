// The host CPU behind the seam: which instruction sets there are, what a plan costs, and sessions.
#include "backend/backend.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "core/text.hpp"
#include "cpu/select/select.hpp"
#include "cpu/session.hpp"
#include "cpu/strings/search.hpp"

namespace vicinal {
namespace cpu {
namespace {

// Best first; chosen once by what this CPU can run, or forced by name.
constexpr const Kernels* const tables[] = {
#if defined(__x86_64__)
    &kernels_avx512, &kernels_avx2,
#endif
    &kernels_plain};

const Kernels& find_kernels(const std::string& name) {
  std::vector<std::string> known;
  for (const Kernels* table : tables) {
    known.emplace_back(table->name);
    if (name == "auto" ? table->supported() : name == table->name) {
      if (!table->supported()) fail(ErrorCode::unsupported, cat("instruction set ", name, " is not available on this CPU"));
      return *table;
    }
  }
  fail(ErrorCode::invalid_argument, cat("unknown instruction set \"", name, "\"; known: auto, ", joined(known)));
}

const Scans& scans_beside(const Kernels& kernels) {
#if defined(__x86_64__)
  if (&kernels == &kernels_avx512) return scans_avx512;
  if (&kernels == &kernels_avx2) return scans_avx2;
#endif
  return scans_plain;
}

/// What the system would give without swapping, and what the cgroup leaves.
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

class CpuBackend final : public Backend {
 public:
  Facts facts() const override {
    Facts facts;
    facts.name = "cpu";
    facts.free_bytes = available_bytes();
    facts.tile_rows = tile_rows;
    for (const Kernels* table : tables) {
      facts.built_instruction_sets.emplace_back(table->name);
      if (table->supported()) facts.instruction_sets.emplace_back(table->name);
    }
    facts.description = cat(default_threads(), " threads, ", facts.instruction_sets.front());
    return facts;
  }

  std::string select_refusal(const SelectProblem& /*problem*/) const override { return ""; }  // all take everything
  SelectStats select_k(const SelectProblem& problem) override {
    return cpu::select_k(problem, scans_beside(find_kernels(problem.instruction_set)));
  }

  std::int64_t bytes(const Plan& plan, const Problem& problem) const override {
    const bool packed = plan.rungs.size() > 1;
    const std::int64_t chunk = problem.kept ? 0 : PackedRows::bytes(plan.corpus_chunk, problem.corpus.cols, problem.metric, packed);
    return chunk + CpuSession::bytes(plan, problem);
  }

  std::int64_t kept_bytes(const Problem& problem, const Plan& plan) const override {
    return PackedRows::bytes(problem.corpus.rows, problem.corpus.cols, problem.metric, plan.rungs.size() > 1) +
           plan.threads * prepare_scratch_bytes(problem.corpus.cols);
  }

  std::int64_t query_lanes(const std::string& instruction_set) const override {
    return find_kernels(instruction_set).query_lanes;
  }

  double slowness(const std::string& instruction_set) const override {
    return instruction_set == "plain" ? 12.0 : (instruction_set == "avx2" ? 2.0 : 1.0);  // bench_tile, 2026-11-21
  }

  std::shared_ptr<const Kept> keep(const Question& question, const Plan& plan, Team& team) override {
    const Kernels& kernels = find_kernels(plan.instruction_set);
    auto kept = std::make_shared<CpuKept>();
    std::optional<BoundModel> model;
    if (plan.rungs.size() > 1) {
      kept->frame = choose_frame(kernels, question, team);
      model.emplace(question.metric, question.type, question.corpus.cols, kept->frame.scale, kernels.fused ? 1 : 2);
    }
    prepare_rows(kernels, question, model ? &*model : nullptr, &kept->frame, 0, question.corpus.rows, team, kept->rows);
    return kept;
  }

  std::unique_ptr<Session> open(const Question& question, const Plan& plan, Rung rung, std::shared_ptr<const Kept> kept,
                                Team& team, Stats& stats) override {
    return std::make_unique<CpuSession>(find_kernels(plan.instruction_set), question, plan, rung,
                                        std::static_pointer_cast<const CpuKept>(std::move(kept)), team, stats);
  }

  std::int64_t shape_strings(Plan& plan, const StringSizes& sizes, Metric metric, std::int64_t k, bool range) const override {
    return cpu::shape_strings(plan, sizes, metric, k, range);
  }

  std::int64_t search_strings(const StringQuestion& question, const Plan& plan, const StringAnswer& answer, Team& team, Stats& stats) override {
    return cpu::search_strings(question, plan, answer, team, stats);
  }
};

}  // namespace
}  // namespace cpu

Backend& cpu_backend() {
  static cpu::CpuBackend backend;
  return backend;
}

}  // namespace vicinal
