// The whole corpus in the form that each precision reads, kept between searches.
#pragma once
#include <memory>
#include <vector>

#include "backend/search.hpp"
#include "cpu/prepare/prepare.hpp"

namespace vicinal::cpu {

struct CpuPreparedCorpus final : PreparedCorpus {
  struct Packed {
    Transform transform;
    PackedRows rows;
  };
  std::vector<Packed> precisions;  // one for each filter of the cascade, or the canonical one alone
  /// The canonical precision is served by any other, because it needs the norms alone, which all have.
  const Packed& of(Precision precision) const noexcept;
  std::int64_t bytes() const override;
};

/// The facts of a precision's bound; null for the canonical precision, which has none.
std::unique_ptr<BoundModel> make_model(const Kernels& kernels, const SearchSpec& spec, Precision precision,
                                       const Transform& transform);

}  // namespace vicinal::cpu
