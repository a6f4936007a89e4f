// The classes themselves are Python (vicinal/errors.py); here a C++ error finds its class by name. IoError
// is given errno, so that it is a full OSError.
#include "errors.hpp"

#include <nanobind/nanobind.h>

#include <exception>
#include <string>

#include "vicinal/error.hpp"

namespace vicinal::python {
namespace {

namespace nb = nanobind;

void raise(const Error& error) {
  const nb::object type = nb::module_::import_("vicinal.errors").attr(error_name(error.code()));
  const std::string text = error.what();
  // Messages may quote a path that is not UTF-8.
  const nb::object message =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
  if (error.code() == ErrorCode::io_error && error.system_errno() != 0) {
    PyErr_SetObject(type.ptr(), nb::make_tuple(error.system_errno(), message).ptr());
    return;
  }
  PyErr_SetObject(type.ptr(), message.ptr());
}

}  // namespace

void register_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace vicinal::python
