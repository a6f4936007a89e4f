// See projected.hpp.
#include "cpu/prepare/projected.hpp"

#include "prepare/project.hpp"

namespace vicinal::cpu {
void move_row(const Transform& transform, const Affine& map, const double* row, double* out) noexcept {
  const std::int64_t dims = transform.centre.size();
  const double* const centre = transform.centre.data();
  for (std::int64_t j = 0; j < dims; ++j) out[j] = (row[j] - map.shift) * map.factor - centre[j];
}

void project_moved(const Kernels& kernels, const Projection& projection, const double* moved, std::int64_t count,
                   double* out) {
  const std::int64_t directions = projection.directions(), columns = projection.columns(), dims = projection.dims();
  kernels.project({moved, count, dims, projection.matrix(), projection.stride(), directions, out, columns});
  for (std::int64_t i = 0; i < count; ++i, moved += dims, out += columns)
    out[directions] = Projection::left_over(square_of(kernels, moved, dims), square_of(kernels, out, directions));
}

void RowProjector::flush() {
  const std::int64_t columns = transform_.columns();
  project_moved(kernels_, transform_.projection, moved_.data(), waiting_, out_);
  for (; waiting_ > 0; --waiting_, out_ += columns) transform_.rotation.apply(out_);
}

}  // namespace vicinal::cpu
