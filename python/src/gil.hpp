// The interpreter's lock (GIL), given back around work and taken again for callbacks, in a process whose interpreter
// may end meanwhile. Python ends a daemon thread that asks for the lock then by pthread_exit, which unwinds through C++
// that may not be unwound (std::terminate); such a thread waits here for the end of the process instead.
#pragma once
#include <nanobind/nanobind.h>

namespace vicinal::python {

namespace nb = nanobind;

/// Throws SystemExit where the interpreter is ending and this is not the thread that ends it. With the lock held.
void check_interpreter();

/// Gives the lock back for the extent of a block.
class GilRelease {
 public:
  GilRelease() noexcept;
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

/// Takes the lock for the extent of a block, on a thread that may hold it already.
class GilAcquire {
 public:
  GilAcquire() noexcept;
  ~GilAcquire();
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  PyGILState_STATE state_;
};

/// function(arguments), with the lock held; the thread parks where Python ends it inside the call. Throws
/// nb::python_error.
nb::object call_python(nb::handle function, const nb::tuple& arguments);

void bind_gil(nb::module_& m);

}  // namespace vicinal::python
