// Stages of a search as ranges of NVTX, by which nsys and ncu name
// what they show. Without a profiler a range takes some nanoseconds.
#pragma once
#if __has_include(<nvtx3/nvToolsExt.h>)  // not where the emulator is built
#include <nvtx3/nvToolsExt.h>
#endif

namespace vicinal::cuda {

/// A StageRange is shown from its beginning to its end, on the host's thread that it is of.
class StageRange {
 public:
#if defined(NVTX_VERSION)
  explicit StageRange(const char* name) { nvtxRangePushA(name); }
  ~StageRange() { nvtxRangePop(); }
#else
  explicit StageRange(const char* /*name*/) {}
#endif
  StageRange(const StageRange&) = delete;
  StageRange& operator=(const StageRange&) = delete;
};

}  // namespace vicinal::cuda
