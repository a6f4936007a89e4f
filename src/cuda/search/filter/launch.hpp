// Which kernel filters for a precision, and with what model.
#pragma once
#include "core/precision.hpp"
#include "core/text.hpp"
#include "cuda/search/filter/float_mma.cuh"
#include "cuda/search/filter/int8_mma.cuh"
#include "cuda/search/prepare/pack_float.cuh"
#include "vicinal/plan.hpp"

namespace vicinal::cuda {

/// Bytes of shared memory that a block of a precision's filter takes; of wgmma's, int8_wgmma.cuh says that every device with it has them.
inline std::int64_t filter_shared_bytes(Precision precision, std::int64_t dims) {
  if (in_floats(precision)) return float_memory().all;
  const std::int64_t width = packed_width(dims);
  return filter_memory(width == 64 ? 64 : 128, width > 128).all;
}
/// It says why a device, whose blocks may have so many bytes of shared memory, has no filter of the precision for rows of so many columns; empty where it has.
inline std::string filter_refusal(const std::string& name, Precision precision, std::int64_t dims, bool wgmma,
                                  std::int64_t shared_bytes) {
  if (precision == Precision::canonical || (wgmma && precision == Precision::int8) ||
      filter_shared_bytes(precision, dims) <= shared_bytes)
    return "";
  return cat(name, " has ", shared_bytes, " bytes of shared memory a block, filter ", precision_name(precision), " of ",
             dims, " columns takes ", filter_shared_bytes(precision, dims), ": it is not used there");
}

/// Sums of halves are trusted to what the worst device known does: 18 roundings of single precision for 16 products.
inline BoundModel model_of(Metric metric, DistanceType type, std::int64_t dims, double scale, Precision precision) {
  BoundModel model(metric, type, dims, scale,
                   precision == Precision::f32 && filter_sum_of(metric) == Sum::products ? 1 : 0);
  if (precision == Precision::fp16) {
    const double alpha = 18 * std::ceil(static_cast<double>(dims) / 16) * 2 * float_u;
    model.alpha = alpha < 0.25 ? alpha : infinite;
    model.kappa = model.alpha / 2 + 6 * float_u;
  }
  model.direct = precision == Precision::f32 && model.sum == Sum::squares;
  return model;
}

template <class Device>
bool takes_hopper(const Device& device, const Plan& plan, Precision precision) {
  return !in_floats(precision) && plan.instruction_set == "wgmma" && device.has_hopper();
}
/// Warps of a block that find something.
template <class Device>
std::int64_t finders(const Device& device, const Plan& plan, Precision precision) {
  return takes_hopper(device, plan, precision) ? hopper_warps : filter_warps;
}
/// Sums of bytes from here on stand for anything.
template <class Device>
int always_from(const Device& device, const Plan& plan, Precision precision, std::int64_t width) {
  return static_cast<int>(takes_hopper(device, plan, precision) ? wgmma_threshold(width <= 128) : most_quick_threshold);
}

template <bool seeding, class Device>
void launch_filter(Device& device, const Plan& plan, Precision precision, Filter f, std::int64_t grid) {
  const std::int64_t width = f.job.rows.width;
  f.seeding = seeding;
  if (takes_hopper(device, plan, precision)) return device.template hopper_filter<seeding>(f, grid);
  if (!in_floats(precision)) {
    const auto kernel = width == 64    ? filter_bytes<64, false, seeding>
                        : width == 128 ? filter_bytes<128, false, seeding>
                                       : filter_bytes<128, true, seeding>;
    return device.launch()(grid, filter_threads, filter_shared_bytes(precision, f.job.rows.dims), kernel, f);
  }
  const Sum sum = f.job.model.sum;
  const auto kernel = precision == Precision::fp16 ? filter_floats<Sum::products, true>
                      : sum == Sum::magnitudes     ? filter_floats<Sum::magnitudes, false>
                      : sum == Sum::largest        ? filter_floats<Sum::largest, false>
                      : sum == Sum::products       ? filter_floats<Sum::products, false>
                                                   : filter_floats<Sum::squares, false>;
  device.launch()(grid, filter_threads, filter_shared_bytes(precision, f.job.rows.dims), kernel, f);
}

}  // namespace vicinal::cuda
