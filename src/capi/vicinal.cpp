// The functions of vicinal.h: each turns its arguments into those of the C++ face, calls it, and keeps exceptions in.
#include "vicinal/vicinal.h"

#include <string>
#include <vector>

#include "capi/call.hpp"
#include "vicinal/corpus.hpp"
#include "vicinal/device.hpp"
#include "vicinal/option_fields.hpp"
#include "vicinal/search.hpp"
#include "vicinal/select.hpp"
#include "vicinal/verify.hpp"

struct vicinal_corpus {
  vicinal::Corpus corpus;
};

namespace {

using namespace vicinal;
using namespace vicinal::capi;

/// Where outputs go. They are null until the end, when all of them are set at once.
struct Outputs {
  DLManagedTensor **first, **second, **third;
  Outputs(DLManagedTensor** a, DLManagedTensor** b, DLManagedTensor** c) : first(a), second(b), third(c) {
    set({}, {}, {});
  }
  void set(Tensor a, Tensor b, Tensor c) const noexcept {
    if (first != nullptr) *first = a.release();
    if (second != nullptr) *second = b.release();
    if (third != nullptr) *third = c.release();
  }
};

void give(const Outputs& out, const Neighbors& found) {
  const std::int64_t rows = found.rows(), k = found.k();
  Tensor counts;
  if (found.counts() != nullptr) counts = capi::int64_tensor(found.shared_counts(), found.counts(), rows);
  out.set(capi::distance_tensor(found.shared_distances(), found.distances(), found.type(), rows, k),
          capi::int64_tensor(found.shared_ids(), found.ids(), rows, k), std::move(counts));
}

void give(const Outputs& out, const CsrNeighbors& found) {
  out.set(capi::int64_tensor(found.shared_offsets(), found.offsets(), found.rows() + 1),
          capi::distance_tensor(found.shared_distances(), found.distances(), found.type(), found.entries()),
          capi::int64_tensor(found.shared_ids(), found.ids(), found.entries()));
}

GraphOptions graph_of(const vicinal_options* given, std::int64_t k) {
  const vicinal_options options = known(given);
  return {.search = search_of(options, k), .include_self = options.include_self != 0};
}

RangeOptions range_of(const vicinal_options* given) {
  const vicinal_options options = known(given);
  return {.search = search_of(options, 1), .max_results = options.max_results};
}

/// Fills what the caller's structure has room for, and the list of faults. verdict_of(claim, options) verifies.
template <class VerdictOf>
void judge(const DLTensor* distances, const DLTensor* ids, double relative_tolerance, const vicinal_options* given,
           vicinal_verdict* verdict, DLManagedTensor** faults, const VerdictOf& verdict_of) {
  const std::size_t size = required(verdict, "verdict").size;
  if (size < sizeof size || size > sizeof *verdict)
    refuse(cat("verdict.size is ", size, ", set it to sizeof(vicinal_verdict)"));
  const NeighborsView claimed = capi::result_of(distances, ids, "result");
  VerifyOptions options;
  options.search = search_of(known(given), 1);
  options.relative_tolerance = relative_tolerance;
  const Verdict found = verdict_of(Claim{.rows = claimed.rows,
                                         .k = claimed.k,
                                         .ids = claimed.ids,
                                         .distances = claimed.distances,
                                         .type = claimed.type},
                                   options);
  if (faults != nullptr) {
    const std::shared_ptr<std::int64_t[]> list(new std::int64_t[3 * found.faults.size() + 1]);
    for (std::size_t i = 0; i < found.faults.size(); ++i) {
      const Verdict::Row& fault = found.faults[i];
      list[3 * i] = fault.row, list[3 * i + 1] = static_cast<std::int64_t>(fault.fault), list[3 * i + 2] = fault.rank;
    }
    *faults = capi::int64_tensor(list, list.get(), static_cast<std::int64_t>(found.faults.size()), 3).release();
  }
  const vicinal_verdict told{.size = size,
                             .rows = found.rows,
                             .correct = found.correct,
                             .wrong = found.wrong,
                             .tie_order = found.tie_order,
                             .distance = found.distance,
                             .near_ties = found.near_ties,
                             .recall = found.recall,
                             .largest_relative_difference = found.largest_relative_difference};
  std::memcpy(verdict, &told, size);
}

static_assert(static_cast<int>(Fault::wrong) == 0 && static_cast<int>(Fault::tie_order) == 1 &&
                  static_cast<int>(Fault::distance) == 2,
              "vicinal.h names the kinds of faults by these numbers");

}  // namespace

const char* vicinal_version(void) { return VICINAL_VERSION; }

int vicinal_last_error(const char** text) {
  if (text != nullptr) *text = last.shown;
  return last.code;
}

int vicinal_info(const char** text) {
  if (text != nullptr) *text = "";
  return guarded([&] {
    required(text, "text");
    thread_local std::string kept;
    const Info info = vicinal::info();
    std::string lines = cat("vicinal ", info.version, ", semantics ", info.semantics_version,
                            "\ninstruction sets: ", joined(info.instruction_sets), "\nfilters: ", joined(info.filters),
                            "\nthreads: ", info.threads);
    for (const Device& device : info.devices)
      lines += cat("\n", device.name, ": ", device.usable ? device.description : "not usable: " + device.reason);
    kept = std::move(lines);
    *text = kept.c_str();
  });
}

int vicinal_release_memory(std::int64_t* bytes) {
  if (bytes != nullptr) *bytes = 0;
  return guarded([&] {
    const std::int64_t released = vicinal::release_memory();
    if (bytes != nullptr) *bytes = released;
  });
}

int vicinal_corpus_create(const DLTensor* rows, const vicinal_options* given, vicinal_corpus** corpus) {
  if (corpus != nullptr) *corpus = nullptr;
  return guarded([&] {
    required(corpus, "corpus");
    const vicinal_options options = known(given);
    CorpusOptions wanted = with_shared_fields<CorpusOptions>(search_of(options, 1));
    wanted.copy = options.copy != 0;
    *corpus = new vicinal_corpus{Corpus(capi::points_of(rows, "rows"), wanted)};
  });
}

int vicinal_corpus_open(const char* path, const vicinal_options* given, vicinal_corpus** corpus) {
  if (corpus != nullptr) *corpus = nullptr;
  return guarded([&] {
    required(corpus, "corpus");
    required(path, "path");
    const vicinal_options options = known(given);
    OpenOptions wanted = with_shared_fields<OpenOptions>(search_of(options, 1));
    wanted.verify = options.trust_file == 0;
    wanted.copy = options.copy != 0;
    *corpus = new vicinal_corpus{Corpus::open(path, wanted)};
  });
}

int vicinal_corpus_save(const vicinal_corpus* corpus, const char* path) {
  return guarded([&] { required(corpus, "corpus").corpus.save(&required(path, "path")); });
}

void vicinal_corpus_free(vicinal_corpus* corpus) { delete corpus; }

int vicinal_knn(const DLTensor* corpus, const DLTensor* queries, int64_t k, const vicinal_options* options,
                DLManagedTensor** distances, DLManagedTensor** ids, DLManagedTensor** counts) {
  const Outputs out(distances, ids, counts);
  return guarded([&] {
    give(out,
         knn(capi::points_of(corpus, "corpus"), capi::points_of(queries, "queries"), search_of(known(options), k)));
  });
}

int vicinal_corpus_knn(const vicinal_corpus* corpus, const DLTensor* queries, int64_t k, const vicinal_options* options,
                       DLManagedTensor** distances, DLManagedTensor** ids, DLManagedTensor** counts) {
  const Outputs out(distances, ids, counts);
  return guarded([&] {
    give(out, required(corpus, "corpus").corpus.knn(capi::points_of(queries, "queries"), search_of(known(options), k)));
  });
}

int vicinal_knn_graph(const DLTensor* rows, int64_t k, const vicinal_options* options, DLManagedTensor** distances,
                      DLManagedTensor** ids, DLManagedTensor** counts) {
  const Outputs out(distances, ids, counts);
  return guarded([&] { give(out, knn_graph(capi::points_of(rows, "rows"), graph_of(options, k))); });
}

int vicinal_corpus_knn_graph(const vicinal_corpus* corpus, int64_t k, const vicinal_options* options,
                             DLManagedTensor** distances, DLManagedTensor** ids, DLManagedTensor** counts) {
  const Outputs out(distances, ids, counts);
  return guarded([&] { give(out, required(corpus, "corpus").corpus.knn_graph(graph_of(options, k))); });
}

int vicinal_range_search(const DLTensor* corpus, const DLTensor* queries, double radius, const vicinal_options* options,
                         DLManagedTensor** offsets, DLManagedTensor** distances, DLManagedTensor** ids) {
  const Outputs out(offsets, distances, ids);
  return guarded([&] {
    give(out, range_search(capi::points_of(corpus, "corpus"), capi::points_of(queries, "queries"), radius,
                           range_of(options)));
  });
}

int vicinal_corpus_range_search(const vicinal_corpus* corpus, const DLTensor* queries, double radius,
                                const vicinal_options* options, DLManagedTensor** offsets, DLManagedTensor** distances,
                                DLManagedTensor** ids) {
  const Outputs out(offsets, distances, ids);
  return guarded([&] {
    give(
        out,
        required(corpus, "corpus").corpus.range_search(capi::points_of(queries, "queries"), radius, range_of(options)));
  });
}

int vicinal_verify(const DLTensor* corpus, const DLTensor* queries, const DLTensor* distances, const DLTensor* ids,
                   double relative_tolerance, const vicinal_options* options, vicinal_verdict* verdict,
                   DLManagedTensor** faults) {
  if (faults != nullptr) *faults = nullptr;
  return guarded([&] {
    const Points rows = capi::points_of(corpus, "corpus"), asked = capi::points_of(queries, "queries");
    judge(distances, ids, relative_tolerance, options, verdict, faults,
          [&](const Claim& claim, const VerifyOptions& with) { return verify(rows, asked, claim, with); });
  });
}

int vicinal_corpus_verify(const vicinal_corpus* corpus, const DLTensor* queries, const DLTensor* distances,
                          const DLTensor* ids, double relative_tolerance, const vicinal_options* options,
                          vicinal_verdict* verdict, DLManagedTensor** faults) {
  if (faults != nullptr) *faults = nullptr;
  return guarded([&] {
    const Corpus& prepared = required(corpus, "corpus").corpus;
    const Points asked = capi::points_of(queries, "queries");
    judge(distances, ids, relative_tolerance, options, verdict, faults,
          [&](const Claim& claim, const VerifyOptions& with) { return prepared.verify(asked, claim, with); });
  });
}

int vicinal_merge(size_t parts, const DLTensor* const* distances, const DLTensor* const* ids, int64_t k,
                  const vicinal_options* given, DLManagedTensor** merged_distances, DLManagedTensor** merged_ids,
                  DLManagedTensor** counts) {
  const Outputs out(merged_distances, merged_ids, counts);
  return guarded([&] {
    const vicinal_options options = known(given);
    if (parts > 0) required(distances, "distances"), required(ids, "ids");
    std::vector<NeighborsView> views;
    for (std::size_t i = 0; i < parts; ++i) views.push_back(capi::part_of(distances[i], ids[i], i));
    give(out, merge(views, {.k = k, .metric = metric_of(options), .pad = options.pad != 0}));
  });
}

int vicinal_select(const DLTensor* values, int64_t k, const DLTensor* payload, const vicinal_options* given,
                   DLManagedTensor** chosen, DLManagedTensor** ids, DLManagedTensor** chosen_payload) {
  const Outputs out(chosen, ids, chosen_payload);
  return guarded([&] {
    const vicinal_options options = known(given);
    SelectOptions select{.k = k, .largest = options.largest != 0, .sorted = options.unsorted == 0};
    if (options.algorithm != nullptr) select.algorithm = options.algorithm;
    if (options.device != nullptr) select.run.device = options.device;
    select.run.threads = options.threads;
    select.progress = progress_of(options);
    const Values rows = capi::values_of(values, "values");
    const Payload items = payload == nullptr ? Payload{} : capi::payload_of(payload, rows);
    const Selection found = select_k(rows, select, items);
    Tensor carried;
    if (found.payload_size() > 0)
      carried = capi::tensor_like(*payload, found.shared_payload(), found.payload(), found.rows(), k);
    out.set(capi::tensor_like(*values, found.shared_values(), found.values(), found.rows(), k),
            capi::int64_tensor(found.shared_ids(), found.ids(), found.rows(), k), std::move(carried));
  });
}

void vicinal_tensor_free(DLManagedTensor* tensor) {
  if (tensor != nullptr && tensor->deleter != nullptr) tensor->deleter(tensor);
}
