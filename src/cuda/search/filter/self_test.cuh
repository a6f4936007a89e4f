// What the proof believes of a device's arithmetic, tried at first use: bytes are multiplied and added without error,
// halves with no more than the model's, and none of them is flushed; single precision rounds each step as IEEE 754
// says. A precision that fails is not used, and where the kernel of a filter fails, another one is.
#pragma once
#include <cmath>
#include <random>
#include <vector>

#include "cuda/device/device.hpp"
#include "cuda/search/filter/filter_test.hpp"
#include "cuda/search/prepare/pack_float.cuh"

namespace vicinal::cuda {

struct SelfTest {
  bool bytes = true, halves = true, floats = true;
  FilterSet filters;  // kernels that passed

  bool holds_up(Precision precision) const {
    switch (precision) {
      case Precision::int8: return bytes;
      case Precision::fp16: return halves;
      case Precision::f32: return floats;
      case Precision::canonical: break;
    }
    return true;
  }
};

inline constexpr int test_blocks = 96, test_steps = 8;  // of a block: test_steps products of tiles, added up

/// Tiles of rows and columns, each of 16 halves or 32 bytes,
/// [block][step][16 or 8][32 bytes]; their sums of 16 x 8 a block.
struct TestArgs {
  const std::uint32_t *half_rows, *half_columns, *int8_rows, *int8_columns;
  float *half_sums, *chains;
  int* int8_sums;
};
__global__ void __launch_bounds__(32) try_products(TestArgs args) {
  const int lane = lane_index(), group = lane / 4, member = lane % 4;
  float halves[4] = {0, 0, 0, 0}, chain = 0;
  int bytes[4] = {0, 0, 0, 0};
  for (int step = 0; step < test_steps; ++step) {
    const std::int64_t tile = static_cast<std::int64_t>(blockIdx.x) * test_steps + step;
    const auto fragments = [&](const std::uint32_t* rows, const std::uint32_t* columns, std::uint32_t(&a)[4],
                               std::uint32_t(&b)[2]) {
      for (int i = 0; i < 4; ++i) a[i] = rows[tile * 128 + (group + i % 2 * 8) * 8 + i / 2 * 4 + member];
      for (int i = 0; i < 2; ++i) b[i] = columns[tile * 64 + group * 8 + i * 4 + member];
    };
    std::uint32_t a[4], b[2];
    fragments(args.half_rows, args.half_columns, a, b);
    mma_16x8x16<f16>(halves, a, b);
    for (int i = 0; i < 4; ++i)
      chain = fmaf(static_cast<float>(half_value(static_cast<std::uint16_t>(a[i] & 0xffff))),
                   static_cast<float>(half_value(static_cast<std::uint16_t>(b[i % 2] >> 16))), chain);
    fragments(args.int8_rows, args.int8_columns, a, b);
    mma_16x8x32(bytes, a, b[0], b[1]);
  }
  for (int i = 0; i < 4; ++i) {
    const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * 128 + (group + i / 2 * 8) * 8 + 2 * member + i % 2;
    args.half_sums[at] = halves[i];
    args.int8_sums[at] = bytes[i];
  }
  args.chains[blockIdx.x * 32 + lane] = chain;
}

/// Inputs and what a device made of them.
struct TestData {
  std::vector<std::uint16_t> half_rows, half_columns;
  std::vector<std::int8_t> int8_rows, int8_columns;
  std::vector<float> half_sums, chains;
  std::vector<int> int8_sums;

  /// Random, of all sizes down to the least half, and bytes at their ends.
  TestData() : half_sums(test_blocks * 128), chains(test_blocks * 32), int8_sums(test_blocks * 128) {
    std::mt19937 random(20240607);
    for (int i = 0; i < test_blocks * test_steps; ++i) {
      const unsigned kind = static_cast<unsigned>(i / test_steps) % 4, exponent = kind == 0   ? 15
                                                                                  : kind == 1 ? 0
                                                                                              : random() % 31;
      const auto half = [&] {
        const unsigned own = kind == 3 ? random() % 31 : exponent;
        return static_cast<std::uint16_t>((random() & 1) << 15 | own << 10 | (random() & 1023));
      };
      for (int j = 0; j < 256; ++j) half_rows.push_back(half());
      for (int j = 0; j < 128; ++j) half_columns.push_back(half());
      const auto byte = [&] {
        return static_cast<std::int8_t>(kind == 0   ? (random() % 2 == 0 ? 127 : -128)
                                        : kind == 1 ? -128
                                                    : static_cast<int>(random() % 256) - 128);
      };
      for (int j = 0; j < 512; ++j) int8_rows.push_back(byte());
      for (int j = 0; j < 256; ++j) int8_columns.push_back(byte());
    }
  }

  static double widened(std::uint16_t half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    return (half & 0x8000) != 0 ? -size : size;
  }

  SelfTest judge() const {
    SelfTest result;
    for (int block = 0; block < test_blocks; ++block) {
      // Sums on tensor cores: halves within half of what the model allows, int8 exactly.
      for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 8; ++column) {
          double exact = 0, sizes = 0;
          int whole = 0;
          for (int step = 0; step < test_steps; ++step) {
            const std::size_t tile = static_cast<std::size_t>(block * test_steps + step);
            for (std::size_t k = 0; k < 16; ++k) {
              const double product = widened(half_rows[tile * 256 + static_cast<std::size_t>(row) * 16 + k]) *
                                     widened(half_columns[tile * 128 + static_cast<std::size_t>(column) * 16 + k]);
              exact += product;
              sizes += std::fabs(product);
            }
            for (std::size_t k = 0; k < 32; ++k)
              whole += int8_rows[tile * 512 + static_cast<std::size_t>(row) * 32 + k] *
                       int8_columns[tile * 256 + static_cast<std::size_t>(column) * 32 + k];
          }
          const auto at = static_cast<std::size_t>(block * 128 + row * 8 + column);
          const double error = std::fabs(static_cast<double>(half_sums[at]) - exact);
          if (!(error <= 18 * test_steps * float_u * sizes)) result.halves = false;  // half of what the model allows
          if (int8_sums[at] != whole) result.bytes = false;
        }
      // Chains of fma in single precision: to the bit.
      for (int lane = 0; lane < 32; ++lane) {
        float chain = 0;
        for (int step = 0; step < test_steps; ++step)
          for (int i = 0; i < 4; ++i) {
            const std::size_t tile = static_cast<std::size_t>(block * test_steps + step),
                              row = static_cast<std::size_t>(lane / 4 + i % 2 * 8),
                              group = static_cast<std::size_t>(lane / 4);
            chain = std::fmaf(
                static_cast<float>(
                    widened(half_rows[tile * 256 + row * 16 + static_cast<std::size_t>(i / 2 * 8 + lane % 4 * 2)])),
                static_cast<float>(widened(
                    half_columns[tile * 128 + group * 16 + static_cast<std::size_t>(i % 2 * 8 + lane % 4 * 2 + 1)])),
                chain);
          }
        if (chain != chains[static_cast<std::size_t>(block * 32 + lane)]) result.floats = false;
      }
    }
    return result;
  }
};

/// Whether a kernel is the code that runs here, and filters as the test says, where it is one to be tested.
template <class Device>
bool passes_test(Device& device, const FilterKernel& kernel) {
  bool present = false;
  FilterKernels::with(kernel, [&](auto row) { present = row.is_present(device); });
  return present && (!kernel.tested || test_filter(device, kernel));
}

template <class Device>
SelfTest self_test(Device& device) {
  TestData data;
  DeviceBuffer<std::byte, Device> memory(device);
  const auto bytes = [](const auto& v) { return static_cast<std::int64_t>(v.size() * sizeof(v[0])); };
  std::byte* at =
      memory.reserve(bytes(data.half_rows) + bytes(data.half_columns) + bytes(data.int8_rows) +
                     bytes(data.int8_columns) + bytes(data.half_sums) + bytes(data.chains) + bytes(data.int8_sums));
  const auto put = [&](const auto& v) {
    device.in(at, v.data(), bytes(v));
    return std::exchange(at, at + bytes(v));
  };
  TestArgs args{};
  args.half_rows = reinterpret_cast<const std::uint32_t*>(put(data.half_rows));
  args.half_columns = reinterpret_cast<const std::uint32_t*>(put(data.half_columns));
  args.int8_rows = reinterpret_cast<const std::uint32_t*>(put(data.int8_rows));
  args.int8_columns = reinterpret_cast<const std::uint32_t*>(put(data.int8_columns));
  args.half_sums = reinterpret_cast<float*>(put(data.half_sums));
  args.chains = reinterpret_cast<float*>(put(data.chains));
  args.int8_sums = reinterpret_cast<int*>(put(data.int8_sums));
  device.launch()(test_blocks, 32, 0, try_products, args);
  device.out(data.half_sums.data(), args.half_sums, bytes(data.half_sums));
  device.out(data.chains.data(), args.chains, bytes(data.chains));
  device.out(data.int8_sums.data(), args.int8_sums, bytes(data.int8_sums));
  device.wait();
  SelfTest result = data.judge();
  for (const FilterKernel* kernel : device.filters())
    if (passes_test(device, *kernel)) result.filters.push_back(kernel);
  return result;
}

}  // namespace vicinal::cuda
