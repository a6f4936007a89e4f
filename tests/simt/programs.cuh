// Small kernels whose results are known, for the emulator and, compiled by nvcc, for a device: both must agree with the host's
// arithmetic. NO_BARRIER leaves a barrier out, which the emulator must notice; a device is never given those.
#pragma once
#include "cuda/device/primitives.cuh"
#include "cuda/ptx/mma.cuh"

namespace programs {

using namespace vicinal::cuda;

/// Each warp's words by lane: a line of 16 words a lane.
struct Words {
  std::uint64_t* out;
};
__global__ void warp_words(Words p) {
  const int lane = lane_index();
  std::uint64_t* out = p.out + (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 16;
  const auto x = static_cast<unsigned>(lane * 7 % 32);
  const auto wide = 0x100000001ull * x;
  out[0] = __ballot_sync(all_lanes, lane % 3 == 0);
  out[1] = static_cast<std::uint64_t>(__any_sync(all_lanes, lane == 5)) +
           2 * static_cast<std::uint64_t>(__all_sync(all_lanes, lane < 32)) +
           4 * static_cast<std::uint64_t>(__all_sync(all_lanes, lane < 31));
  out[2] = __shfl_sync(all_lanes, wide, 31 - lane);
  out[3] = __shfl_sync(all_lanes, x, lane, 8);
  out[4] = __shfl_up_sync(all_lanes, wide, 3);
  out[5] = __shfl_down_sync(all_lanes, x, 3);
  out[6] = __shfl_xor_sync(all_lanes, x, 5);
  out[7] = __match_any_sync(all_lanes, x / 4);
  out[8] = __reduce_add_sync(all_lanes, x);
  out[9] = static_cast<std::uint64_t>(__reduce_min_sync(all_lanes, lane - 40));
  out[10] = __reduce_max_sync(all_lanes, x);
  out[11] = __reduce_or_sync(all_lanes, 1u << lane / 2);
  out[12] = static_cast<std::uint64_t>(__popc(x)) + 100 * static_cast<std::uint64_t>(__ffs(lane)) +
            10000 * static_cast<std::uint64_t>(__clz(lane)) + 1000000 * static_cast<std::uint64_t>(__popcll(wide));
  out[13] = __brev(x);
  std::uint64_t total = 0;
  out[14] = warp_sum_before(std::uint64_t{x}, total);
  out[15] = total;
  if (lane < 20) {  // part of a warp, by a mask that says so
    const unsigned part = 0xfffffu;
    out[1] += 8 * __ballot_sync(part, lane % 2);
    __syncwarp(part);
  }
}

/// Sums before each thread, through shared memory that a barrier must protect; reversed through dynamic shared memory.
struct Sums {
  const int* in;
  int* before;
  int* total;
  int* reversed;
};
template <bool NO_BARRIER>
__global__ void block_sums(Sums p) {
  VICINAL_SHARED(int, spare, 32);
  int* line = dynamic_shared<int>();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  line[threadIdx.x] = p.in[i];
  if (!NO_BARRIER) __syncthreads();
  p.reversed[i] = line[blockDim.x - 1 - threadIdx.x];
  int total = 0;
  p.before[i] = block_sum_before(p.in[i], total, spare);
  if (threadIdx.x == 0) p.total[blockIdx.x] = total;
}

/// Neighbours within a warp exchange through shared memory.
struct Turn {
  const int* in;
  int* out;
};
template <bool NO_BARRIER>
__global__ void warp_turn(Turn p) {
  VICINAL_SHARED(int, line, 64);
  const int i = static_cast<int>(threadIdx.x);
  for (int round = 0; round < 4; ++round) {
    line[i] = p.in[i] + round;
    __syncwarp();
    p.out[round * 64 + i] = line[i / 32 * 32 + (i + 1) % 32];
    if (!NO_BARRIER) __syncwarp();
  }
}

struct Counts {
  int* number;
  unsigned* bits;
  unsigned long long* sum;
  int* low;
  int* high;
  unsigned* won;
};
__global__ void atomics(Counts p) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(p.number, 1);
  atomicOr(p.bits, 1u << i % 32);
  atomicAdd(p.sum, 0x100000000ull + static_cast<unsigned long long>(i));
  atomicMin(p.low, 100 - i);
  atomicMax(p.high, i);
  if (atomicCAS(p.won, 0u, static_cast<unsigned>(i) + 1) == 0u) atomicExch(p.won + 1, 1u);
  __threadfence();
}

/// out = a * b, 16 x 16 times 16 x 8, as stored by rows.
struct Product {
  const std::uint16_t* a;
  const std::uint16_t* b;
  float* out;
};
template <class Half>
__global__ void product(Product p) {
  const int group = lane_index() / 4, member = lane_index() % 4;
  std::uint32_t a[4], b[2];
  for (int i = 0; i < 4; ++i) {
    const std::uint16_t* at = p.a + (group + i % 2 * 8) * 16 + 2 * member + i / 2 * 8;
    a[i] = at[0] | static_cast<std::uint32_t>(at[1]) << 16;
  }
  for (int i = 0; i < 2; ++i) {
    const std::uint16_t* at = p.b + (2 * member + i * 8) * 8 + group;
    b[i] = at[0] | static_cast<std::uint32_t>(at[8]) << 16;
  }
  float d[4] = {0, 0, 0, 0};
  mma_16x8x16<Half>(d, a, b);
  for (int i = 0; i < 4; ++i) p.out[(group + i / 2 * 8) * 8 + 2 * member + i % 2] = d[i];
}

struct Paths {
  const int* a;
  const int* b;
  int a_count, b_count;
  int* out;
};
__global__ void merge_paths(Paths p) {
  const int diagonal = static_cast<int>(threadIdx.x);
  if (diagonal > p.a_count + p.b_count) return;
  p.out[diagonal] = static_cast<int>(merge_path(p.a, p.a_count, p.b, p.b_count, diagonal));
}

}  // namespace programs
