// What compute capability 9.0 adds, for the emulator: barriers in shared memory with phases, copies that report to them, and products of
// a warpgroup, which are made when the group waits for them.
#pragma once
#include <vector>

#include "simt/simt.hpp"

namespace simt {

/// Products of 64 x 32 with 32 x `width` bytes that a thread has issued: its two rows of the first operand, and where the second is in shared memory.
struct Products {
  int* sums;
  std::int8_t rows[2][32];
  std::uint64_t columns;
  bool add;
  int width = 128;
  int group = 0;  // of the thread, counted by commits
};
struct IssuedProducts {
  std::vector<Products> waiting;
  int groups = 0;  // committed
};
inline std::vector<IssuedProducts>& all_issued_products() {
  static std::vector<IssuedProducts> of_threads(1024);
  return of_threads;
}
inline IssuedProducts& issued_products() { return all_issued_products()[threadIdx.x]; }
inline void issue_products(Products one) {
  one.group = issued_products().groups;
  issued_products().waiting.push_back(one);
}

/// A barrier's eight bytes. A phase ends when `count` threads have arrived and all bytes that were announced are there.
struct PhaseBarrier {
  std::uint64_t phase : 1, count : 15, pending : 16;
  std::int64_t bytes : 32;
};
static_assert(sizeof(PhaseBarrier) == 8);

inline PhaseBarrier& phase_barrier(unsigned at) {
  return *reinterpret_cast<PhaseBarrier*>(static_cast<std::byte*>(dynamic_shared_memory()) + at);
}
/// A block that multiplies begins with its barriers: what a block before it left undone is forgotten.
inline void init_phases(unsigned at, int arrivals) {
  phase_barrier(at) = {0, static_cast<std::uint64_t>(arrivals), static_cast<std::uint64_t>(arrivals), 0};
  for (IssuedProducts& issued : all_issued_products()) issued = {};
}
inline void end_phase_if_complete(PhaseBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.phase ^= 1;
  barrier.pending = barrier.count;
  wake_all(&barrier);
}
inline void arrive_at(unsigned at, int bytes) {
  PhaseBarrier& barrier = phase_barrier(at);
  if (barrier.pending == 0) rule_broken("more threads arrive at a barrier than it counts");
  --barrier.pending;
  barrier.bytes += bytes;
  end_phase_if_complete(barrier);
}
/// Until the phase of this parity is over.
inline void wait_for_phase(unsigned at, unsigned parity, SourceLocation place) {
  PhaseBarrier& barrier = phase_barrier(at);
  while (barrier.phase == parity) sleep(&barrier, place);
}
inline void copy_later(unsigned shared, const void* global, int bytes, unsigned at) {
  const auto happen = [](const Event& event) {
    std::memcpy(event.to, event.from, event.bytes);
    auto& barrier = *static_cast<PhaseBarrier*>(event.barrier);
    barrier.bytes -= static_cast<std::int64_t>(event.bytes);
    end_phase_if_complete(barrier);
  };
  happens_later({happen, static_cast<std::byte*>(dynamic_shared_memory()) + shared, global,
                 static_cast<std::size_t>(bytes), &phase_barrier(at)});
}

/// The 16 bytes of line n of an operand that begin with byte k, as its descriptor says: start, bytes of eight lines, and the swizzle of such chunks.
inline const std::int8_t* operand_chunk(std::uint64_t descriptor, int n, int k) {
  const std::uint64_t start = (descriptor & 0x3fff) << 4, eight = (descriptor >> 32 & 0x3fff) << 4;
  std::uint64_t at = start + static_cast<std::uint64_t>(n / 8) * eight +
                     static_cast<std::uint64_t>(n % 8) * (eight / 8) + static_cast<std::uint64_t>(k);
  at ^= (at >> 7 & (descriptor >> 62 == 1 ? 7 : 3)) << 4;
  return static_cast<const std::int8_t*>(dynamic_shared_memory()) + at;
}
inline void wait_for_issued(int pending) {
  IssuedProducts& issued = issued_products();
  std::size_t done = 0;
  for (; done < issued.waiting.size() && issued.waiting[done].group < issued.groups - pending; ++done) {
    const Products& one = issued.waiting[done];
    for (int i = 0; i < one.width / 8; ++i)
      for (int j = 0; j < 4; ++j) {
        const int n = 8 * i + 2 * static_cast<int>(threadIdx.x % 4) + j % 2;
        int sum = one.add ? one.sums[4 * i + j] : 0;
        for (int k = 0; k < 32; k += 16) {
          const std::int8_t* const column = operand_chunk(one.columns, n, k);
          for (int c = 0; c < 16; ++c) sum += one.rows[j / 2][k + c] * column[c];
        }
        one.sums[4 * i + j] = sum;
      }
  }
  issued.waiting.erase(issued.waiting.begin(), issued.waiting.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace simt
