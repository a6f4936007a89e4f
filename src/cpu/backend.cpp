// The host CPU behind the seam: which instruction sets there are, what a plan costs, and sessions.
#include "backend/backend.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string>

#include "core/bound.hpp"
#include "core/text.hpp"
#include "cpu/prepare/check.hpp"
#include "cpu/isa/table.hpp"
#include "cpu/propose/pilot.hpp"
#include "cpu/propose/rates.hpp"
#include "cpu/select/select.hpp"
#include "cpu/session.hpp"
#include "cpu/strings/search.hpp"

namespace vicinal {
namespace cpu {
namespace {

std::vector<Rung> filters_of(const Plan& plan) {
  std::vector<Rung> rungs;
  for (const std::string& name : plan.rungs)
    if (const Rung rung = rung_of(name); rung != Rung::canonical) rungs.push_back(rung);
  return rungs;
}

/// The frame of a rung; false where it is of bytes and they do not pay. queries: that each preparation serves.
bool choose(Frame& frame, const Kernels& kernels, const Question& question, const Plan& plan, Rung rung, double queries,
            Team& team) {
  if (rung == Rung::canonical) return true;
  frame = choose_frame(kernels, question, rung, team);
  if (rung != Rung::int8) return true;
  if (plan.pilot) return bytes_pay(kernels, question, frame, plan.second, queries, team);
  if (plan.rotated && frame.usable && !(frame.whole > 0)) frame.rotation = Rotation(question.corpus.cols);
  return true;
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
    facts.tile_rows = tile_rows;
    facts.has_groups = true;
    for (const InstructionSet& set : instruction_sets()) {
      facts.built_instruction_sets.emplace_back(set.name);
      if (runs_here(set)) facts.instruction_sets.emplace_back(set.name);
    }
    facts.description = cat(default_threads(), " threads, ", facts.instruction_sets.front());
    return facts;
  }
  std::int64_t free_bytes() const override { return available_bytes(); }

  std::string select_refusal(const SelectProblem& /*problem*/) const override { return ""; }  // all take everything
  SelectStats select_k(const SelectProblem& problem) override {
    return cpu::select_k(problem, find_instruction_set(problem.instruction_set).scans);
  }

  std::int64_t bytes(const Plan& plan, const Problem& problem) const override {
    std::int64_t chunk = 0;  // rungs come one after another
    for (const std::string& name : plan.rungs)
      if (!problem.kept)
        chunk = std::max(chunk, PackedRows::bytes(plan.corpus_chunk, problem.corpus.cols, problem.metric, rung_of(name),
                                                  {plan.groups, plan.second}));
    return chunk + CpuSession::bytes(plan, problem);
  }

  std::int64_t kept_bytes(const Problem& problem, const Plan& plan) const override {
    std::int64_t total = plan.threads * PrepareScratch::bytes(problem.corpus.cols);
    for (const std::string& name : plan.rungs)
      total += PackedRows::bytes(problem.corpus.rows, problem.corpus.cols, problem.metric, rung_of(name),
                                 {plan.groups, plan.second});
    return total;
  }

  std::int64_t query_lanes(const std::string& instruction_set) const override {
    return find_instruction_set(instruction_set).floats.query_lanes;
  }

  double slowness(const std::string& instruction_set) const override {
    return find_instruction_set(instruction_set).slowness;
  }

  double byte_gain(const std::string& instruction_set) const override {
    return find_instruction_set(instruction_set).byte_gain;
  }

  Outlook look(const Question& question, const Plan& plan) override {
    const Sum sum = filter_sum_of(question.metric);
    const std::vector<Rung> filters = filters_of(plan);
    if (filters.empty() || (sum != Sum::squares && sum != Sum::products)) return {};
    Team team(1, nullptr, {}, 0);
    const Kernels& kernels = find_instruction_set(plan.instruction_set).floats;
    Frame frame = choose_frame(kernels, question, filters.front(), team);
    return cpu::look(kernels, question, frame, plan.second, static_cast<double>(plan.query_batch), team);
  }

  Rates rates(const std::string& instruction_set, Rung rung, int threads) override {
    Team team(threads, nullptr, {}, 0);
    const InstructionSet& set = find_instruction_set(instruction_set);
    return {.products = rung == Rung::int8 ? peak_products(set.bytes, team) : peak_products(set.floats, team),
            .bytes = peak_bytes(team)};
  }

  std::shared_ptr<const Kept> keep(const Question& question, const Plan& plan, Team& team) override {
    const Kernels& kernels = find_instruction_set(plan.instruction_set).floats;
    auto kept = std::make_shared<CpuKept>();
    std::vector<Rung> rungs = filters_of(plan);
    if (rungs.empty()) rungs.push_back(Rung::canonical);
    for (const Rung rung : rungs) {
      CpuKept::Packed packed;
      if (!choose(packed.frame, kernels, question, plan, rung, infinite, team)) continue;
      const auto model = make_model(kernels, question, rung, packed.frame);
      prepare_rows(kernels, question, rung, model.get(), &packed.frame, {plan.groups, plan.second}, 0,
                   question.corpus.rows, team, packed.rows);
      kept->rungs.push_back(std::move(packed));
    }
    return kept;
  }

  std::unique_ptr<Session> open(const Question& question, const Plan& plan, Rung rung, std::shared_ptr<const Kept> kept,
                                Team& team, Stats& stats) override {
    const InstructionSet& set = find_instruction_set(plan.instruction_set);
    auto own = std::static_pointer_cast<const CpuKept>(std::move(kept));
    Frame frame;
    if (own && rung != Rung::canonical && own->of(rung).rows.rung != rung) return nullptr;
    if (!own && !choose(frame, set.floats, question, plan, rung, static_cast<double>(plan.query_batch), team))
      return nullptr;
    if (rung == Rung::int8) stats.rotated = (own ? own->of(rung).frame : frame).rotation.present();
    return std::make_unique<CpuSession>(set, question, plan, rung, std::move(frame), std::move(own), team, stats);
  }

  std::int64_t shape_strings(Plan& plan, const StringSizes& sizes, Metric metric, std::int64_t k,
                             bool range) const override {
    return cpu::shape_strings(plan, sizes, metric, k, range);
  }

  std::int64_t search_strings(const StringQuestion& question, const Plan& plan, const StringAnswer& answer, Team& team,
                              Stats& stats) override {
    return cpu::search_strings(question, plan, answer, team, stats);
  }
};

}  // namespace

Frame choose_frame(const Question& question, Rung rung, Team& team) {
  return choose_frame(find_instruction_set("auto").floats, question, rung, team);
}

void report_unfit_rows(const Question& question, const Points& rows, const char* side, Team& team) {
  report_unfit_rows(find_instruction_set("auto").floats, question, rows, side, team);
}

}  // namespace cpu

Backend& cpu_backend() {
  static cpu::CpuBackend backend;
  return backend;
}

}  // namespace vicinal
