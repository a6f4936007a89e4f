// Names of the error codes, as users see them.
#include "vicinal/error.hpp"

namespace vicinal {

const char* error_name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument: return "InvalidArgument";
    case ErrorCode::invalid_value: return "InvalidValue";
    case ErrorCode::range_error: return "RangeError";
    case ErrorCode::capacity_exceeded: return "CapacityExceeded";
    case ErrorCode::memory_budget: return "MemoryBudget";
    case ErrorCode::out_of_memory: return "OutOfMemory";
    case ErrorCode::device_error: return "DeviceError";
    case ErrorCode::io_error: return "IoError";
    case ErrorCode::format_error: return "FormatError";
    case ErrorCode::version_error: return "VersionError";
    case ErrorCode::cancelled: return "Cancelled";
    case ErrorCode::unsupported: return "Unsupported";
    case ErrorCode::internal: break;
  }
  return "Internal";
}

}  // namespace vicinal
