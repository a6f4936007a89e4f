// What every function of vicinal.h does around its work: exceptions kept in and told as the thread's last error, and
// the caller's options.
#pragma once
#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "capi/tensor.hpp"
#include "core/text.hpp"
#include "vicinal/options.hpp"

namespace vicinal::capi {

struct LastError {
  int code = VICINAL_OK;
  std::string text;
  const char* shown = "";  // text, or a fixed line where there was no memory for one

  int set(int which, const char* what) noexcept {
    code = which;
    try {
      text = what;
      shown = text.c_str();
    } catch (...) {
      shown = "no memory for the text of the error";
    }
    return which;
  }
};
inline thread_local LastError last;

static_assert(static_cast<int>(ErrorCode::invalid_argument) + 1 == VICINAL_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorCode::out_of_memory) + 1 == VICINAL_OUT_OF_MEMORY);
static_assert(static_cast<int>(ErrorCode::format_error) + 1 == VICINAL_FORMAT_ERROR);
static_assert(static_cast<int>(ErrorCode::internal) + 1 == VICINAL_INTERNAL);

template <class Work>
int guarded(Work work) noexcept {
  try {
    work();
    last.code = VICINAL_OK;
    last.shown = "";
    return VICINAL_OK;
  } catch (const Error& error) {
    return last.set(static_cast<int>(error.code()) + 1, error.what());
  } catch (const std::bad_alloc&) {
    return last.set(VICINAL_OUT_OF_MEMORY, "the system refused memory");
  } catch (const std::exception& error) {
    return last.set(VICINAL_INTERNAL, error.what());
  } catch (...) {
    return last.set(VICINAL_INTERNAL, "an exception of unknown type");
  }
}

[[noreturn]] inline void refuse(const std::string& what) { fail(ErrorCode::invalid_argument, what); }

template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) refuse(cat(name, " is null"));
  return *pointer;
}

/// The caller's options in this build's structure: an older, shorter one is filled up with zeros, and a newer, longer
/// one will do as long as what it has beyond ours is zero.
inline vicinal_options known(const vicinal_options* given) {
  vicinal_options options{};
  options.size = sizeof options;
  if (given == nullptr) return options;
  if (given->size < sizeof given->size)
    refuse(cat("options.size is ", given->size, ", set it to sizeof(vicinal_options)"));
  constexpr std::size_t most = 4096;
  if (given->size > most) refuse(cat("options.size is ", given->size, ", more than any version's ", most));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  std::memcpy(&options, given, std::min(given->size, sizeof options));
  for (std::size_t i = sizeof options; i < given->size; ++i)
    if (bytes[i] != 0)
      fail(ErrorCode::unsupported, "an option that this build does not know is set: it is older than the header");
  return options;
}

inline Metric metric_of(const vicinal_options& options) {
  return options.metric == nullptr ? Metric::euclidean : parse_metric(options.metric);
}

inline Progress progress_of(const vicinal_options& options) {
  if (options.progress == nullptr) return nullptr;
  return [call = options.progress, context = options.context](std::uint64_t done, std::uint64_t total) {
    return call(context, done, total) != 0;
  };
}

inline KnnOptions search_of(const vicinal_options& options, std::int64_t k) {
  KnnOptions search;
  // Every member has a name here, so that one more does not compile until it is thought of. The C face has no words for
  // eligible rows, strings, a stop token (progress stops) and streams.
  auto& [asked_k, metric, distance_type, pad, first_id, degenerate, eligible, strings, proof, memory, run, progress,
         stop, stream] = search;
  asked_k = k;
  metric = metric_of(options);
  if (options.distance_type != nullptr) distance_type = parse_distance_type(options.distance_type);
  if (options.degenerate != nullptr) degenerate = parse_degenerate(options.degenerate);
  if (options.device != nullptr) run.device = options.device;
  run.threads = options.threads;
  memory.host = options.memory;
  first_id = options.first_id;
  pad = options.pad != 0;
  proof = options.exhaustive != 0 ? Proof::exhaustive : Proof::certified;
  progress = progress_of(options);
  return search;
}

}  // namespace vicinal::capi
