// The searches of the library, over rows that may be prepared already: those of a Corpus, and the free functions, which
// have nothing prepared.
#pragma once
#include <memory>

#include "backend/backend.hpp"
#include "pipeline/kept_plan.hpp"
#include "vicinal/corpus.hpp"
#include "vicinal/search.hpp"
#include "vicinal/verify.hpp"

namespace vicinal {

/// What a Corpus keeps of all of its rows, in the form of one backend.
struct Prepared {
  std::shared_ptr<const PreparedCorpus> kept = nullptr;  // null: nothing, and each search prepares the rows
  SearchPlan made = {};                      // by which the form was prepared: it can be searched in no other
  std::shared_ptr<KeptPlan> last = nullptr;  // of a form on the host

  const SearchPlan* plan() const noexcept { return kept ? &made : nullptr; }
};

/// It prepares all rows for the devices of the options, whatever CorpusOptions::copy says; nothing is kept where that
/// does not fit.
Prepared prepare(const Points& rows, const CorpusOptions& options);

/// `prepared` holds rows of `corpus` under the metric and the rule for degenerate rows of the options. Arguments are
/// checked here.
Report knn_into(const NeighborsView& out, const Points& corpus, const Prepared& prepared, const Points& queries,
                const KnnOptions& options);
Neighbors knn(const Points& corpus, const Prepared& prepared, const Points& queries, const KnnOptions& options);
Neighbors knn_graph(const Points& rows, const Prepared& prepared, const GraphOptions& options);
/// It searches the rows [first, first + out.rows) of a graph, on one device, among all rows. Arguments were checked,
/// and query_labels are of these rows.
Report graph_into(const NeighborsView& out, const Points& rows, std::int64_t first, const Prepared& prepared,
                  const GraphOptions& options);
CsrNeighbors range_search(const Points& corpus, const Prepared& prepared, const Points& queries, double radius,
                          const RangeOptions& options);
Verdict verify(const Points& corpus, const Prepared& prepared, const Points& queries, const Claim& claim,
               const VerifyOptions& options);

}  // namespace vicinal
