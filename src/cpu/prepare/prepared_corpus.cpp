// See prepared_corpus.hpp.
#include "cpu/prepare/prepared_corpus.hpp"

namespace vicinal::cpu {

const CpuPreparedCorpus::Packed& CpuPreparedCorpus::of(Precision precision) const noexcept {
  for (const Packed& one : precisions)
    if (one.rows.precision == precision) return one;
  return precisions.front();
}

std::int64_t CpuPreparedCorpus::bytes() const {
  std::int64_t total = 0;
  for (const auto& [transform, rows] : precisions)
    total += rows.panels.bytes() + rows.quads.bytes() + rows.second.bytes.bytes() + rows.second.terms.bytes() +
             static_cast<std::int64_t>(rows.second.tiles.size() * sizeof(SecondNorms)) + rows.squares.bytes() +
             rows.order.bytes() + rows.terms.bytes() + rows.norms.self.bytes() + rows.norms.mean.bytes() +
             static_cast<std::int64_t>(rows.tiles.size() * sizeof(FilterNorms) + rows.steps.size() * sizeof(float)) +
             rows.kd_tree.bytes() + rows.bits.bytes() + transform.centre.bytes() +
             (transform.rotation.present() ? Rotation::bytes(transform.columns()) : 0) + transform.projection.bytes();
  return total;
}

std::unique_ptr<BoundModel> make_model(const Kernels& kernels, const SearchSpec& spec, Precision precision,
                                       const Transform& transform) {
  if (!has_filter(precision)) return nullptr;
  auto model = std::make_unique<BoundModel>(spec.metric, spec.type, spec.corpus.cols, transform.scale,
                                            find_host_precision(precision)->roundings(kernels));
  model->transformed = transform.roundings();
  model->columns = transform.columns();
  if (transform.projection.present()) {
    model->projected = true;
    model->underflow = Projection::underflow;
  }
  return model;
}

}  // namespace vicinal::cpu
