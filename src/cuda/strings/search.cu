// Searches of strings with the runtime.
#include "cuda/strings/search.hpp"

#include "cuda/device/runtime.hpp"
#include "cuda/strings/strings.hpp"

namespace vicinal::cuda {
namespace {

constexpr RuntimeTexts texts{"copying strings or results", "waiting for the search of strings",
                             "search fewer strings at a time, or with device=cpu"};

}  // namespace

StringShare share_strings(const StringSearchSpec& spec) { return share_of_strings(spec); }

std::int64_t search_strings(const StringSearchSpec& spec, const StringAnswer& answer, ThreadPool& thread_pool,
                            const DeviceContext& context) {
  const Pool::Call call(context.pool, cudaStreamPerThread);
  Runtime runtime(context, texts);
  return StringsSearch<Runtime>(runtime, spec, thread_pool).run(answer);
}

}  // namespace vicinal::cuda
