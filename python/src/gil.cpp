// See gil.hpp. Before Python ends, its atexit stops the searches of other threads, which are daemons, by SystemExit in
// them, and waits a little: what they worked on is then at rest when the process takes itself apart, and who joins them
// in a function of atexit that comes later does not wait for ever. Only threads that Python itself ends are parked.
#include "gil.hpp"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace vicinal::python {
namespace {

// A search looks at its progress function within 100 ms; a callback of the user's may take any time, and is left alone.
constexpr auto patience = std::chrono::seconds(1);

pid_t process = 0;  // that loaded the module
std::atomic<bool> ending{false};
std::atomic<pthread_t> ending_thread{};
std::atomic<int> released{0};       // threads that have given the lock back
thread_local int released_here{0};  // by this thread, which may search in a callback of a search

void count_release(int more) noexcept {
  released_here += more;
  released.fetch_add(more);
}

/// Threads that will not come to their end hold what they searched for ever, which is no leak of ours: daemons, and in
/// a forked child whatever ran beside the fork.
bool threads_are_lost() {
  const auto frames = nb::cast<nb::dict>(nb::module_::import_("sys").attr("_current_frames")());
  const nb::object self = nb::module_::import_("threading").attr("get_ident")();
  const std::size_t own = frames.contains(self) ? 1 : 0;  // atexit may have left this thread without a frame
  return getpid() != process || frames.size() > own;
}

/// Called by Python's atexit, with the lock.
void end_interpreter() {
  if (threads_are_lost()) nb::set_leak_warnings(false);
  ending_thread = pthread_self();
  ending = true;
  PyThreadState* const state = PyEval_SaveThread();
  const auto until = std::chrono::steady_clock::now() + patience;
  while (released > released_here && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(state);
}

/// The calling thread stops here for good.
[[noreturn]] void park() noexcept {
  for (;;) pause();
}

}  // namespace

void check_interpreter() {
  if (!ending || pthread_equal(ending_thread, pthread_self())) return;
  PyErr_SetNone(PyExc_SystemExit);
  throw nb::python_error();
}

// The thread is counted before the lock is free, since the one that ends the interpreter may have the lock before this
// one goes on.
GilRelease::GilRelease() noexcept {
  count_release(1);
  state_ = PyEval_SaveThread();
}

GilRelease::~GilRelease() {
  try {
    PyEval_RestoreThread(state_);
  } catch (abi::__forced_unwind&) {
    park();
  }
  count_release(-1);
}

GilAcquire::GilAcquire() noexcept {
  try {
    state_ = PyGILState_Ensure();
  } catch (abi::__forced_unwind&) {
    park();
  }
}

GilAcquire::~GilAcquire() { PyGILState_Release(state_); }

nb::object call_python(nb::handle function, const nb::tuple& arguments) {
  PyObject* result;
  try {
    result = PyObject_CallObject(function.ptr(), arguments.ptr());
  } catch (abi::__forced_unwind&) {
    park();
  }
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

void bind_gil(nb::module_& m) {
  ending = false;
  process = getpid();
  pthread_atfork(nullptr, nullptr, [] { released = released_here; });  // a child has this thread alone
  m.def("_end_interpreter", &end_interpreter);
  nb::module_::import_("atexit").attr("register")(m.attr("_end_interpreter"));
}

}  // namespace vicinal::python
