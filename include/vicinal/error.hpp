// The one exception of the library and its few kinds. Every failure that a caller can cause or must
// handle arrives as vicinal::Error; nothing prints, aborts or exits. docs/errors.md has a paragraph a code.
#pragma once
#include <stdexcept>
#include <string>

namespace vicinal {

enum class ErrorCode {
  invalid_argument,   // a parameter is outside what the call accepts
  invalid_value,      // the data hold a value that no distance is defined for (NaN, a zero row in cosine)
  range_error,        // the answer does not fit the type or the format that was asked for
  capacity_exceeded,  // the result is larger than max_results or what free memory holds; the message has the need
  memory_budget,      // the smallest plan needs more than the budget; nothing was allocated
  out_of_memory,      // the machine refused memory that the budget allowed
  device_error,       // no usable device, or it failed
  io_error,           // the system refused a file; system_errno() says why
  format_error,       // a file is not what its name or header says
  version_error,      // a file is from a newer major version
  cancelled,          // the caller's progress callback or stop token said stop
  unsupported,        // understood, and not available in this build
  internal            // a defect of vicinal: please report it
};

/// The name used in messages, in JSON and by the command: "InvalidArgument", "MemoryBudget", ...
const char* error_name(ErrorCode code) noexcept;

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, int system_errno = 0)
      : std::runtime_error(message), code_(code), errno_(system_errno) {}
  ErrorCode code() const noexcept { return code_; }
  /// errno of the failed system call for io_error, else 0.
  int system_errno() const noexcept { return errno_; }

 private:
  ErrorCode code_;
  int errno_;
};

}  // namespace vicinal
