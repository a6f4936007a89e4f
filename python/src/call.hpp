// One call from Python: its options, the release of the GIL around the work, and the poll that brings the
// GIL back now and then for signals (Ctrl-C) and for the user's progress callback.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "gil.hpp"
#include "vicinal/error.hpp"
#include "vicinal/options.hpp"

namespace vicinal::python {

using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Eligible and the arrays that its spans look at, as vicinal/_inputs.py made them of what the user gave.
struct EligibleRows {
  Eligible conditions = {};
  std::optional<Integers> ids, corpus_labels, query_labels;
  std::optional<Words> bitmap;
};

/// KnnOptions as Python fills them. `progress` is None or a callable (done, total) -> bool.
struct Options {
  KnnOptions knn;
  nb::object progress = nb::none();
  EligibleRows eligible = {};

  /// For one search.
  KnnOptions search(Progress poll = nullptr) const;

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(progress.ptr());
    return 0;
  }
  void clear() { progress = nb::none(); }
};

/// Lives on the stack of the calling thread. An exception raised by a signal handler or by the callback
/// is kept, the search is told to stop, and the exception goes on once the search has wound up.
class Poll {
 public:
  explicit Poll(nb::handle callback) : callback_(callback) {
    if (!callback.is_none()) last_ = {};  // a callback hears of the start at once
  }

  bool operator()(std::uint64_t done, std::uint64_t total) {
    // A poll may wait a whole switch interval (5 ms) for a busy interpreter: few enough to cost nothing,
    // often enough that a signal is seen well within 100 ms.
    const auto now = std::chrono::steady_clock::now();
    const bool end = done >= total && !callback_.is_none();  // of a signal there the interpreter hears as soon
    if (!end && now - last_ < std::chrono::milliseconds(40)) return true;
    last_ = now;
    const GilAcquire gil;
    if (PyErr_CheckSignals() != 0) return keep_error();
    try {
      check_interpreter();
      if (callback_.is_none()) return true;
      return nb::cast<bool>(call_python(callback_, nb::make_tuple(done, total)));
    } catch (nb::python_error& error) {
      error_.emplace(std::move(error));
      return false;
    }
  }
  /// With the GIL held, after the work.
  void rethrow() {
    if (error_) throw nb::python_error(std::move(*error_));
  }

 private:
  bool keep_error() {
    error_.emplace();  // takes the exception that Python has set
    return false;
  }

  nb::handle callback_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::optional<nb::python_error> error_;
};

/// Runs work(progress) without the GIL. What the poll caught comes first, then the library's own error.
template <class Work>
auto without_gil(nb::handle callback, const Work& work) {
  check_interpreter();
  Poll poll(callback);
  const Progress progress = [&poll](std::uint64_t done, std::uint64_t total) { return poll(done, total); };
  auto run = [&] {
    const GilRelease released;
    return work(progress);
  };
  try {
    auto result = run();
    poll.rethrow();
    return result;
  } catch (const Error&) {
    poll.rethrow();
    throw;
  }
}

void bind_options(nb::module_& m);

}  // namespace vicinal::python
