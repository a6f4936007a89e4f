// k-NN of ours behind plain functions, so that one Python process times it beside others on the same arrays (bench/knn_cuda.py).
// Pointers may be of the host or of the device that is searched on; results come where their pointers are.
#include <chrono>
#include <cstdint>
#include <string>

#include "vicinal/select.hpp"
#include "vicinal/vicinal.hpp"

namespace {

std::string trouble;
using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

template <class Body>
const char* guarded(const Body& body) {
  try {
    body();
    return nullptr;
  } catch (const std::exception& error) {
    trouble = error.what();
    return trouble.c_str();
  }
}

vicinal::Points view(const void* data, int dtype, std::int64_t rows, std::int64_t cols) {
  return {data, static_cast<vicinal::DType>(dtype), rows, cols};
}

/// out: milliseconds, proven, redone, candidates, reranked; predicted milliseconds; planned and used bytes of the device.
void note(double* out, double ms, const vicinal::Report& report) {
  out[0] = ms;
  out[1] = static_cast<double>(report.certificate.proven);
  out[2] = static_cast<double>(report.certificate.redone);
  out[3] = static_cast<double>(report.stats.candidates);
  out[4] = static_cast<double>(report.stats.reranked);
  out[5] = report.stats.planned_seconds * 1e3;
  out[6] = static_cast<double>(report.stats.planned_bytes);
  out[7] = static_cast<double>(report.stats.used_bytes);
}

vicinal::KnnOptions options_of(const char* device, const char* metric, const char* filter, std::int64_t k) {
  vicinal::KnnOptions options;
  options.k = k;
  options.metric = vicinal::parse_metric(metric);
  options.run.device = device;
  options.run.filter = filter;
  return options;
}

}  // namespace

extern "C" {

const char* knn_prepare(const void* rows, int dtype, std::int64_t n, std::int64_t d, const char* device,
                        const char* metric, double* ms, void** made) {
  return guarded([&] {
    vicinal::CorpusOptions options;
    options.metric = vicinal::parse_metric(metric);
    options.copy = false;
    options.run.device = device;
    const auto start = Clock::now();
    *made = new vicinal::Corpus(view(rows, dtype, n, d), options);
    *ms = ms_since(start);
  });
}
void knn_forget(void* corpus) { delete static_cast<vicinal::Corpus*>(corpus); }

const char* knn_search(void* corpus, const void* queries, int dtype, std::int64_t q, std::int64_t k, const char* device,
                       const char* metric, std::int64_t* ids, void* distances, double* out) {
  return guarded([&] {
    const auto& rows = *static_cast<const vicinal::Corpus*>(corpus);
    const auto start = Clock::now();
    const vicinal::Report report =
        rows.knn_into({.ids = ids, .distances = distances, .rows = q, .k = k}, view(queries, dtype, q, rows.cols()),
                      options_of(device, metric, "auto", k));
    note(out, ms_since(start), report);
  });
}

/// The k smallest of each row, sorted, with their columns, queued on a stream; everything is on cuda:0. row: values from a row to the next.
const char* knn_select(const float* values, std::int64_t rows, std::int64_t cols, std::int64_t row, std::int64_t k,
                       const char* algorithm, void* stream, float* out, std::int64_t* columns) {
  return guarded([&] {
    vicinal::Values view(values, vicinal::ValueType::f32, rows, cols);
    view.row_stride = row * static_cast<std::int64_t>(sizeof(float));
    view.cuda_device = 0;
    vicinal::select_k_into({.values = out, .ids = columns, .rows = rows, .k = k}, view,
                           {.k = k, .algorithm = algorithm, .stream = stream});
  });
}

/// What the plan of such a search says beforehand, of these rows: milliseconds.
const char* knn_plan(const void* rows, const void* queries, int dtype, std::int64_t n, std::int64_t d, std::int64_t q,
                     std::int64_t k, const char* device, const char* metric, double* ms) {
  return guarded([&] {
    *ms = vicinal::plan(view(rows, dtype, n, d), view(queries, dtype, q, d), options_of(device, metric, "auto", k))
              .seconds *
          1e3;
  });
}

const char* knn_once(const void* rows, const void* queries, int dtype, std::int64_t n, std::int64_t d, std::int64_t q,
                     std::int64_t k, const char* device, const char* metric, const char* filter, std::int64_t* ids,
                     void* distances, double* out) {
  return guarded([&] {
    const auto start = Clock::now();
    const vicinal::Report report =
        vicinal::knn_into({.ids = ids, .distances = distances, .rows = q, .k = k}, view(rows, dtype, n, d),
                          view(queries, dtype, q, d), options_of(device, metric, filter, k));
    note(out, ms_since(start), report);
  });
}
}
