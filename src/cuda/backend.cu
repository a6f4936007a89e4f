// A CUDA device behind the seam: what it is, searches of vectors and
// strings, selection, and the one symbol that libvicinal_cuda.so exports.
#include <unistd.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "backend/match.hpp"
#include "backend/plugin.hpp"
#include "core/text.hpp"
#include "cuda/device/architectures.hpp"
#include "cuda/device/check.hpp"
#include "cuda/device/feed.hpp"
#include "cuda/device/memory.hpp"
#include "cuda/device/pinned.hpp"
#include "cuda/device/stream.hpp"
#include "cuda/match/match.hpp"
#include "cuda/permutation/permutation.hpp"
#include "cuda/search/core/args.hpp"
#include "cuda/search/core/precision.hpp"
#include "cuda/search/propose.hpp"
#include "cuda/search/search.hpp"
#include "cuda/search/seconds.hpp"
#include "cuda/select/run.hpp"
#include "cuda/strings/strings.hpp"

namespace vicinal::cuda {
namespace {

int capability_of(const cudaDeviceProp& about) { return about.major * 10 + about.minor; }

class CudaBackend final : public Backend,
                          DeviceBackend,
                          SearchBackend,
                          SelectBackend,
                          StringBackend,
                          RankBackend,
                          MatchBackend {
 public:
  CudaBackend(int ordinal, const cudaDeviceProp& about)
      : ordinal_(ordinal), multiprocessors_(about.multiProcessorCount),
        shared_bytes_(static_cast<std::int64_t>(about.sharedMemPerBlockOptin)), capability_(capability_of(about)),
        facts_(facts_of(cat("cuda:", ordinal), search_instruction_sets(capability_))),
        description_(cat(about.name, ", ", about.multiProcessorCount, " multiprocessors, compute capability ",
                         about.major, ".", about.minor)) {}

  const DeviceBackend& device() const override { return *this; }
  const SearchBackend& search() const override { return *this; }
  const SelectBackend& select() const override { return *this; }
  const StringBackend* strings() const override { return this; }
  const RankBackend* ranks() const override { return this; }
  const MatchBackend* match() const override { return this; }

 private:
  static Facts facts_of(std::string name, std::vector<std::string> instruction_sets) {
    Facts facts{.name = std::move(name),
                .instruction_sets = std::move(instruction_sets),
                .built_instruction_sets = compiled_instruction_sets(),
                .precisions = {}};
    for (const FilterPrecision& row : filter_precisions) facts.precisions.push_back(row.precision);
    return facts;
  }
  const Facts& facts() const override {
    check_process();
    return facts_;
  }
  std::string description() const override {
    check_process();
    return description_;
  }
  std::int64_t free_bytes() const override {
    check_process();
    const OnDevice here(ordinal_);
    return pool().free_bytes();
  }

  SelectStats select_k(const SelectProblem& problem) const override {
    check_process();
    const OnDevice here(ordinal_);
    return run_problem(problem, {.ordinal = ordinal_, .multiprocessors = multiprocessors_, .pool = pool()});
  }

  std::string select_refusal(const SelectProblem& problem) const override { return refusal_of(problem); }

  Proposal propose(const ProblemShape& problem, const Execution& run, Proof proof) const override {
    check_process();
    const OnDevice here(ordinal_);
    Proposal proposal = cuda::propose(facts_.name, pool().ready_bytes(), problem, run, proof, [&](Precision precision) {
      return search_refusal(facts_.name, capability_, precision, filter_sum_of(problem.metric), problem.corpus.cols,
                            run.instruction_set, shared_bytes_);
    });
    proposal.kept_bytes = Pool::most_kept;
    return proposal;
  }
  double seconds(const SearchPlan& plan, const ProblemShape& problem) const override {
    return search_seconds(plan, problem);
  }
  void sample(SearchPlan& plan, const ProblemShape& problem, const SearchSpec& spec) const override {
    check_process();
    const OnDevice here(ordinal_);
    sample_rows(searches(), plan, problem, spec);
  }
  double shared_seconds(const void* data, std::int64_t bytes) const override {
    constexpr H200Rates rates;
    check_process();
    const OnDevice here(ordinal_);
    const bool pinned = data != nullptr && is_pinned(data);
    return static_cast<double>(bytes) / (pinned ? rates.shared_pinned_bytes_per_s : rates.shared_bytes_per_s);
  }
  std::int64_t bytes(const SearchPlan& plan, const ProblemShape& problem) const override {
    return search_bytes(plan, problem, multiprocessors_);
  }
  std::int64_t prepared_bytes(const ProblemShape& problem, const SearchPlan& plan) const override {
    return search_prepared_bytes(problem, plan);
  }
  void check_instruction_set(const std::string& asked) const override {
    std::string known = "auto";
    for (const std::string& set : facts_.instruction_sets) {
      if (asked == set) return;
      known += ", " + set;
    }
    fail(ErrorCode::invalid_argument,
         cat("unknown instruction set \"", asked, "\" of ", facts_.name, "; known: ", known));
  }
  bool holds(const void* rows) const override {
    check_process();
    return rows != nullptr && device_of(rows, ordinal_) == ordinal_;
  }
  int cuda_device(const void* memory) const override {
    check_process();
    return memory == nullptr ? -1 : device_of(memory, -1);
  }
  void check_stream(void* stream) const override {
    check_process();
    const OnDevice here(ordinal_);
    refuse_capture(stream != nullptr ? static_cast<cudaStream_t>(stream) : cudaStreamPerThread);
  }
  void wait_for(void* stream) const override {
    check_process();
    const OnDevice here(ordinal_);
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "waiting for the caller's stream");
  }
  std::int64_t release_memory() const override {
    if (getpid() != home_) return 0;  // what the parent holds
    const std::lock_guard lock(making_);
    forget_free_bytes();
    return pool_ ? pool_->release() + release_pinned() : 0;
  }
  std::shared_ptr<const PreparedCorpus> prepare_corpus(const SearchSpec& spec, const SearchPlan& plan,
                                                       ThreadPool& thread_pool) const override {
    check_process();
    const OnDevice here(ordinal_);
    return keep_corpus(searches(), spec, plan, thread_pool);
  }
  std::unique_ptr<Session> open(const SearchSpec& spec, const SearchPlan& plan, Precision precision,
                                std::shared_ptr<const PreparedCorpus> kept, ThreadPool& thread_pool,
                                Stats& stats) const override {
    check_process();
    const OnDevice here(ordinal_);
    return open_search(searches(), spec, plan, precision, std::move(kept), thread_pool, stats);
  }
  std::int64_t shape_strings(Plan& plan, const StringSizes& sizes, Metric /*metric*/, std::int64_t /*k*/,
                             bool /*range*/) const override {
    plan.corpus_chunk = sizes.rows;
    plan.query_batch = plan.query_block = 4096;
    plan.resident = true;
    plan.seconds = core_seconds(sizes) * share_of_core;
    return 4 * (sizes.rows + sizes.queries) +
           (std::int64_t{1} << 28);  // ids on their way there, lists on their way back
  }
  StringShare share_strings(const StringSearchSpec& spec) const override { return cuda::share_strings(spec); }
  std::int64_t search_strings(const StringSearchSpec& spec, const Plan& /*plan*/, const StringAnswer& answer,
                              ThreadPool& thread_pool, Stats& stats) const override {
    check_process();
    const OnDevice here(ordinal_);
    stats.candidates = spec.corpus.count() * (spec.query_end() - spec.first_query);
    return cuda::search_strings(spec, answer, thread_pool,
                                {.ordinal = ordinal_, .multiprocessors = multiprocessors_, .pool = pool()});
  }
  std::shared_ptr<const PreparedCorpus> keep_ranks(const RankRows& ranks, const std::vector<std::uint32_t>& permutants,
                                                   const MeasuredRows* rows) const override {
    check_process();
    const OnDevice here(ordinal_);
    return cuda::keep_ranks(ranks, permutants, rows,
                            {.ordinal = ordinal_, .multiprocessors = multiprocessors_, .pool = pool()});
  }
  bool measures(const PreparedCorpus& kept, std::int64_t k) const override { return cuda::measures(kept, k); }
  bool search_ranks(const RankSearchSpec& spec, const PreparedCorpus& kept, const CandidatesAnswer& candidates,
                    const NearestAnswer& nearest, ThreadPool& thread_pool) const override {
    check_process();
    const OnDevice here(ordinal_);
    return cuda::search_ranks(spec, kept, candidates, nearest, thread_pool,
                              {.ordinal = ordinal_, .multiprocessors = multiprocessors_, .pool = pool()});
  }
  bool match(const MatchSpec& spec, const MatchAnswer& answer, ThreadPool& thread_pool, Stats& stats) const override {
    check_process();
    const OnDevice here(ordinal_);
    stats.instruction_set = "mma";
    return cuda::match_pairs(spec, answer, thread_pool,
                             {.ordinal = ordinal_, .multiprocessors = multiprocessors_, .pool = pool()}, shared_bytes_);
  }

  /// CUDA does not survive fork(): a call in the child would hang or fail at random.
  void check_process() const {
    if (getpid() != home_)
      fail(ErrorCode::device_error,
           cat("device ", facts_.name,
               " was created before fork, and CUDA cannot be used in the child; use device=cpu "
               "there, or start the process without fork (Python: the method spawn)"));
  }

  Pool& pool() const {
    std::call_once(once_, [this] {
      const std::lock_guard lock(making_);
      pool_.emplace(ordinal_);
      searches_ = make_search_device(ordinal_, multiprocessors_, shared_bytes_, capability_, *pool_);
    });
    return *pool_;
  }
  SearchDevice& searches() const {
    pool();
    return *searches_;
  }

  static constexpr double share_of_core = 0.02;  // of the seconds that a core takes for strings
  int ordinal_, multiprocessors_;
  std::int64_t shared_bytes_;  // that a block may have
  int capability_;
  Facts facts_;
  pid_t home_ = getpid();
  std::string description_;
  mutable std::once_flag once_;
  mutable std::mutex making_;  // for those who ask whether there is a pool
  mutable std::shared_ptr<SearchDevice> searches_;
  mutable std::optional<Pool> pool_;  // made with the device's context at first use, which takes a while
};

/// It says why the device has no code here; empty where it has.
std::string refusal(const cudaDeviceProp& about) {
  std::string built = VICINAL_CUDA_ARCHITECTURES;
  if (has_code(built, capability_of(about))) return "";
  for (std::size_t at = 0; (at = built.find(',', at)) != std::string::npos; at += 2) built.insert(at + 1, " ");
  return cat(about.name, " has compute capability ", about.major, ".", about.minor, "; this build has code for ",
             built);
}

std::string no_devices(cudaError_t status) {
  cudaGetLastError();
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return cat("no CUDA driver: ", cudaGetErrorString(status));
  if (status == cudaErrorNoDevice) return "no CUDA device";
  return cat("CUDA: ", cudaGetErrorString(status), "; the driver is for CUDA ", driver / 1000, ".", driver % 1000 / 10,
             ", this build for ", CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10);
}

/// An Entry is what is known of a device; it lives as long as the process.
struct Entry {
  std::optional<CudaBackend> backend;
  std::string why;
};

const Backend* find(const char* version, int ordinal, int& count, const char*& why) {
  static auto& entries = *new std::map<int, Entry>;  // never destroyed: the context may be gone before it
  Entry& entry = entries[ordinal];
  why = entry.why.c_str();
  const auto refuse = [&](std::string text) {
    entry.why = std::move(text);
    why = entry.why.c_str();
    return nullptr;
  };
  if (std::string_view(version) != VICINAL_VERSION)
    return refuse(cat("libvicinal_cuda.so is of version " VICINAL_VERSION ", libvicinal.so of ", version));
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count == 0) status = cudaErrorNoDevice;
  if (status != cudaSuccess) {
    count = 0;
    return refuse(no_devices(status));
  }
  if (ordinal < 0 || ordinal >= count) return refuse("no such CUDA device");
  if (entry.backend) return &*entry.backend;
  cudaDeviceProp about = {};
  check(cudaGetDeviceProperties(&about, ordinal), "asking what a device is");
  if (std::string text = refusal(about); !text.empty()) return refuse(std::move(text));
  return &entry.backend.emplace(ordinal, about);
}

}  // namespace
}  // namespace vicinal::cuda

extern "C" __attribute__((visibility("default"))) const vicinal::Backend* vicinal_backend(const char* version,
                                                                                          int ordinal, int* count,
                                                                                          const char** why) {
  static std::string failure;
  *count = 0;
  try {
    return vicinal::cuda::find(version, ordinal, *count, *why);
  } catch (const vicinal::Error& error) {
    failure = error.what();
    *why = failure.c_str();
  } catch (...) {
    *why = "out of memory";
  }
  return nullptr;
}
