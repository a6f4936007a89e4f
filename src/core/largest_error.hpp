// The error of a filter that a certificate reports. No row is excluded by it.
#pragma once
#include "core/bound.hpp"

namespace vicinal {

/// |filter distance - true distance| for the worst row of the corpus, in units of the distance; for the certificate.
VICINAL_HOST_DEVICE inline double largest_error(const BoundModel& model, const FilterNorms& q,
                                                const FilterNorms& corpus, double query_scale) noexcept {
  switch (bounded(model.sum)) {
    case BoundedSum::products: return ip_slack(model, q, corpus) / (model.scale * query_scale);
    case BoundedSum::magnitudes:
      return (q.e + corpus.e + (static_cast<double>(model.dims) + 2) * float_u * (q.n + corpus.n)) / model.scale;
    case BoundedSum::largest: return (q.e + corpus.e + 2 * float_u * (q.n + corpus.n)) / model.scale;
    case BoundedSum::squares:
    case BoundedSum::none: break;
  }
  if (model.direct)
    return (q.e + corpus.e + (static_cast<double>(model.dims) + 8) * 2 * float_u * (q.n + corpus.n)) / model.scale;
  return (q.e + corpus.e + std::sqrt(model.kappa) * (q.n + corpus.n)) / model.scale;
}

/// The same of projected rows. What a projection leaves of two rows lies at any angle: their product is at most that of
/// the rows' lengths.
inline double largest_projected_error(const BoundModel& model, const FilterNorms& q, const FilterNorms& corpus,
                                      double query_scale) noexcept {
  const double lengths = 2 * (q.n + q.e) * (corpus.n + corpus.e);
  if (model.sum == Sum::products) return (ip_slack(model, q, corpus) + lengths) / (model.scale * query_scale);
  return (q.e + corpus.e + std::sqrt(2 * lengths) * (1 + 4 * double_u)) / model.scale;
}

}  // namespace vicinal
