// Searches of strings with the runtime.
#include "cuda/strings/search.hpp"

#include "cuda/device/runtime.hpp"
#include "cuda/strings/strings.hpp"

namespace vicinal::cuda {
namespace {

constexpr RuntimeTexts texts{"copying strings or results", "waiting for the search of strings",
                             "search fewer strings at a time, or with device=cpu"};

}  // namespace

StringShare share_strings(const StringQuestion& question) { return share_of_strings(question); }

std::int64_t search_strings(const StringQuestion& question, const StringAnswer& answer, Team& team,
                            const Place& place) {
  const Pool::Call call(place.pool, cudaStreamPerThread);
  Runtime runtime(place, texts);
  return StringsSearch<Runtime>(runtime, question, team).run(answer);
}

}  // namespace vicinal::cuda
