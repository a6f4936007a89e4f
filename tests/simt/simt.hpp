// CUDA's words for a host compiler, so that the kernels' own text runs where no GPU is. A lane is a fiber. Blocks run one
// after another; within a block the next lane to run is drawn from a seed (VICINAL_SIMT_SEED), shared memory is poisoned
// when a block starts, and lanes that meet at different barriers are a Failure that names both lines.
// What it cannot show: the memory model between warps, bank conflicts, occupancy, speed.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}  // NOLINT(google-explicit-constructor)
};
inline uint3 threadIdx, blockIdx;  // NOLINT: CUDA's names
inline dim3 blockDim, gridDim;     // NOLINT
inline constexpr int warpSize = 32;

namespace simt {

/// A rule of CUDA was broken; the text names kernel lines and the seed. The block that broke it is abandoned.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct SourceLocation {
  const char* file;
  int line;
};

enum class Op : std::uint8_t {
  sync,
  ballot,
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  match,
  add,
  least,
  greatest,
  conjunction,
  disjunction,
  parity
};
inline const char* op_name(Op op) {
  constexpr const char* names[] = {
      "__syncwarp",        "a vote",           "__shfl_sync",       "__shfl_up_sync",    "__shfl_down_sync",
      "__shfl_xor_sync",   "__match_any_sync", "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync",
      "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync"};
  return names[static_cast<std::size_t>(op)];
}

void set_seed(std::uint64_t seed);  // of what runs from now on; at first VICINAL_SIMT_SEED, or 1
std::uint64_t seed();
void shuffle_blocks(bool on);  // blocks of a grid in an order drawn from the seed; off at first

/// Waits until all lanes of `mask` (of this warp) are here, with the same operation at the same line.
std::uint64_t collective(std::uint32_t mask, Op op, std::uint64_t value, std::uint32_t argument, SourceLocation place);
/// Notes what the running lane shows to its warp; returns what each of the 32 showed last.
const void* const* show(const void* mine);
void block_barrier(SourceLocation place);

/// The running lane waits until another one, or an event, wakes all that await this.
void sleep(const void* awaited, SourceLocation place);
void wake_all(const void* awaited);
/// What the device does by itself, at a moment drawn from the seed: bytes are copied, and `happen` knows what follows.
struct Event {
  void (*happen)(const Event&);
  void* to;
  const void* from;
  std::size_t bytes;
  void* barrier;
};
void happens_later(const Event& event);
void rule_broken(const char* what);  // ends the block

/// Memory of the running block for one VICINAL_SHARED; the first lane to come makes it.
void* shared_array(const void* site, std::size_t bytes);
void* dynamic_shared_memory();

void launch_lanes(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, void (*lane)(const void*),
                  const void* context);
/// Runs body() as a kernel: once a lane. Throws Failure.
template <class Body>
void launch(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, const Body& body) {
  launch_lanes(
      grid, block, dynamic_shared_bytes, [](const void* context) { (*static_cast<const Body*>(context))(); }, &body);
}

/// Each lane of a full warp shows `mine` to the others: all[i] is lane i's. They must not be touched after leave().
class Exchange {
 public:
  Exchange(const void* mine, SourceLocation place) : all_(show(mine)), location_(place) {
    collective(0xffffffffu, Op::sync, 0, 0, place);
  }
  template <class T>
  const T& of(int lane) const {
    return *static_cast<const T*>(all_[lane]);
  }
  void leave() const { collective(0xffffffffu, Op::sync, 0, 0, location_); }

 private:
  const void* const* all_;
  SourceLocation location_;
};

template <class T>
std::uint64_t to_slot(T value) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "warps exchange 4 or 8 bytes");
  if constexpr (sizeof(T) == 8) return std::bit_cast<std::uint64_t>(value);
  else return std::bit_cast<std::uint32_t>(value);
}
template <class T>
T from_slot(std::uint64_t slot) {
  if constexpr (sizeof(T) == 8) return std::bit_cast<T>(slot);
  else return std::bit_cast<T>(static_cast<std::uint32_t>(slot));
}

}  // namespace simt

/// An array in shared memory, of trivial elements.
#define VICINAL_SHARED(type, name, count)                       \
  auto& name = *static_cast<type(*)[count]>(simt::shared_array( \
      [] {                                                      \
        static char site;                                       \
        return &site;                                           \
      }(),                                                      \
      sizeof(type[count])))

#define SIMT_HERE int line = __builtin_LINE(), const char *file = __builtin_FILE()
#define SIMT_PLACE \
  simt::SourceLocation { file, line }

// NOLINTBEGIN: CUDA's names
inline void __syncthreads(SIMT_HERE) { simt::block_barrier(SIMT_PLACE); }
/// With barriers of its own where the device has one: what a kernel may leave out before it, it may leave out here too.
inline int __syncthreads_or(int predicate, SIMT_HERE) {
  static char site;
  int& any = *static_cast<int*>(simt::shared_array(&site, sizeof(int)));
  if (threadIdx.x == 0) any = 0;
  simt::block_barrier(SIMT_PLACE);
  if (predicate != 0) any = 1;
  simt::block_barrier(SIMT_PLACE);
  const int result = any;
  simt::block_barrier(SIMT_PLACE);
  return result;
}
/// A kernel whose code this is not.
[[noreturn]] inline void __trap() { std::abort(); }
inline void __syncwarp(unsigned mask = 0xffffffffu, SIMT_HERE) {
  simt::collective(mask, simt::Op::sync, 0, 0, SIMT_PLACE);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, SIMT_HERE) {
  return static_cast<unsigned>(simt::collective(mask, simt::Op::ballot, predicate != 0, 0, SIMT_PLACE));
}
inline int __any_sync(unsigned mask, int predicate, SIMT_HERE) {
  return simt::collective(mask, simt::Op::ballot, predicate != 0, 0, SIMT_PLACE) != 0;
}
inline int __all_sync(unsigned mask, int predicate, SIMT_HERE) {
  return simt::collective(mask, simt::Op::ballot, predicate != 0, 0, SIMT_PLACE) == mask;
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, SIMT_HERE) {
  const int first = static_cast<int>(threadIdx.x) % 32 / width * width;
  const auto from = static_cast<std::uint32_t>(first + (lane & (width - 1)));
  return simt::from_slot<T>(simt::collective(mask, simt::Op::shuffle, simt::to_slot(value), from, SIMT_PLACE));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, SIMT_HERE) {
  return simt::from_slot<T>(simt::collective(mask, simt::Op::shuffle_up, simt::to_slot(value), delta, SIMT_PLACE));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, SIMT_HERE) {
  return simt::from_slot<T>(simt::collective(mask, simt::Op::shuffle_down, simt::to_slot(value), delta, SIMT_PLACE));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, SIMT_HERE) {
  return simt::from_slot<T>(simt::collective(mask, simt::Op::shuffle_xor, simt::to_slot(value),
                                             static_cast<std::uint32_t>(bits), SIMT_PLACE));
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, SIMT_HERE) {
  return static_cast<unsigned>(simt::collective(mask, simt::Op::match, simt::to_slot(value), 0, SIMT_PLACE));
}
#define SIMT_REDUCE(name, type, op)                                                                   \
  inline type name(unsigned mask, type value, SIMT_HERE) {                                            \
    constexpr auto sign = std::is_signed_v<type> ? 1u : 0u;                                           \
    return simt::from_slot<type>(simt::collective(mask, op, simt::to_slot(value), sign, SIMT_PLACE)); \
  }
SIMT_REDUCE(__reduce_add_sync, unsigned, simt::Op::add)
SIMT_REDUCE(__reduce_add_sync, int, simt::Op::add)
SIMT_REDUCE(__reduce_min_sync, unsigned, simt::Op::least)
SIMT_REDUCE(__reduce_min_sync, int, simt::Op::least)
SIMT_REDUCE(__reduce_max_sync, unsigned, simt::Op::greatest)
SIMT_REDUCE(__reduce_max_sync, int, simt::Op::greatest)
SIMT_REDUCE(__reduce_and_sync, unsigned, simt::Op::conjunction)
SIMT_REDUCE(__reduce_or_sync, unsigned, simt::Op::disjunction)
SIMT_REDUCE(__reduce_xor_sync, unsigned, simt::Op::parity)

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (x >> i & 1u) << (31 - i);
  return result;
}
/// Bytes of two words by the nibbles of a third.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(both >> (8 * (selector >> (4 * i) & 7)) & 255u) << (8 * i);
  return result;
}
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}
inline int __vimax3_s32(int a, int b, int c) { return std::max(std::max(a, b), c); }
inline int __viaddmax_s32(int a, int b, int c) { return std::max(a + b, c); }
inline unsigned __viaddmax_u32(unsigned a, unsigned b, unsigned c) { return std::max(a + b, c); }
template <class T>
T __ldg(const T* at) {
  return *at;
}

#define SIMT_ATOMIC(type)                                                                                    \
  inline type atomicExch(type* at, type value) { return std::exchange(*at, value); }                         \
  inline type atomicAdd(type* at, type value) { return std::exchange(*at, static_cast<type>(*at + value)); } \
  inline type atomicMin(type* at, type value) { return std::exchange(*at, std::min(*at, value)); }           \
  inline type atomicMax(type* at, type value) { return std::exchange(*at, std::max(*at, value)); }           \
  inline type atomicOr(type* at, type value) { return std::exchange(*at, static_cast<type>(*at | value)); }  \
  inline type atomicAnd(type* at, type value) { return std::exchange(*at, static_cast<type>(*at & value)); } \
  inline type atomicCAS(type* at, type expected, type value) {                                               \
    const type old = *at;                                                                                    \
    if (old == expected) *at = value;                                                                        \
    return old;                                                                                              \
  }
SIMT_ATOMIC(int)
SIMT_ATOMIC(unsigned)
SIMT_ATOMIC(unsigned long long)
// NOLINTEND
