// Words of compute capability 9.0 (sm_90a): products by a warpgroup of four warps, both operands in shared memory; bulk
// copies that report to a barrier; barriers in shared memory; registers passed from one warpgroup to another. On the
// host a copy is done at a moment that the emulator draws, and products are made when a thread waits for them.
#pragma once
#include "cuda/ptx/copy.cuh"
#if !defined(__CUDACC__)
#include "simt/hopper.hpp"
#endif

/// Where this code has the instructions, or their bodies for the emulator.
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define VICINAL_WARPGROUPS 1
#endif

namespace vicinal::cuda {

/// Where a barrier's 8 bytes are in shared memory: a phase ends when so
/// many threads have arrived and all bytes that were announced are there.
struct Barrier {
  unsigned at;
  __device__ __forceinline__ Barrier operator[](unsigned i) const { return {at + 8 * i}; }
};

/// Where lines of `slab` bytes lie, chunks exchanged as swizzled_chunk says: groups of eight lines one after another.
template <int slab>
__device__ __forceinline__ std::uint64_t operand_at(unsigned shared) {
  const std::uint64_t address = shared >> 4 & 0x3fff, group = slab * 8 >> 4;
  return address | 1ull << 16 | group << 32 | (slab == 128 ? 1ull : 2ull) << 62;
}

#if defined(__CUDACC__)

__device__ __forceinline__ void init_barrier(Barrier barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier.at), "r"(arrivals) : "memory");
}
/// What was started is known to copies, too.
__device__ __forceinline__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void arrive(Barrier barrier) {
  random_delay();
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier.at) : "memory");
}
/// Arrives, and announces bytes.
__device__ __forceinline__ void arrive_expecting(Barrier barrier, int bytes) {
  random_delay();
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(barrier.at),
               "r"(bytes)
               : "memory");
}
/// Until the phase of this parity is over; of a barrier that no thread has met the phase of parity 1 is. The hint, in
/// ns, lets the thread sleep until then instead of asking again and again.
__device__ __forceinline__ void wait_for(Barrier barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, 1000000;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier.at), "r"(parity)
        : "memory");
  } while (done == 0);
  random_delay();
}
/// A multiple of 16 bytes, which the barrier was told to expect.
__device__ __forceinline__ void copy_bulk(unsigned shared, const void* global, int bytes, Barrier barrier) {
  random_delay();
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(global), "r"(bytes), "r"(barrier.at)
               : "memory");
}

template <int registers>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void request_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

__device__ __forceinline__ void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Until all but the last `pending` groups of products are done; nothing that reads these sums may come before it.
template <int pending, int count>
__device__ __forceinline__ void wait_for_products(int (&sums)[count]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(sums[i])::"memory");
}

/// Until all but the last `pending` groups of products have read their operands; their sums are still under way.
template <int pending>
__device__ __forceinline__ void wait_for_operands() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// The 64 sums of a thread as wgmma names them, and as operands %0 to %63.
#define VICINAL_SUMS_TEXT                                                                \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,"      \
  "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42," \
  "%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
#define VICINAL_SUMS(d)                                                                                       \
  "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), \
      "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]),  \
      "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]), \
      "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), \
      "+r"(d[33]), "+r"(d[34]), "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), \
      "+r"(d[41]), "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), "+r"(d[48]), \
      "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]), "+r"(d[56]), \
      "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63])

/// Signed bytes, 64 x 32 and 32 x 128, exact in 32 bits; added to d where `add`. Of a thread of the group, d[4 * i + j]
/// is row 16 * warp + lane / 4 + j / 2 * 8, column 8 * i + 2 * (lane % 4) + j % 2.
__device__ __forceinline__ void wgmma_64x128x32(int (&d)[64], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 " VICINAL_SUMS_TEXT "%64, %65, p;\n}"
      : VICINAL_SUMS(d)
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

/// The same with the first operand in registers: of a thread, bytes 4 * (lane % 4) on of rows 16 * warp + lane / 4 and
/// 8 beyond, then the bytes 16 further on of both. They may not change before the products are done.
template <bool add>
__device__ __forceinline__ void wgmma_64x128x32(int (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 " VICINAL_SUMS_TEXT "{%64, %65, %66, %67}, %68, p;\n}"
      : VICINAL_SUMS(d)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(static_cast<int>(add)));
}

/// The same with 64 columns, of which a thread has d[4 * i + j] for i below 8.
template <bool add>
__device__ __forceinline__ void wgmma_64x64x32(int (&d)[32], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
      "%30,%31}, {%32, %33, %34, %35}, %36, p;\n}"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), "+r"(d[8]),
        "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]),
        "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]),
        "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(static_cast<int>(add)));
}

#undef VICINAL_SUMS_TEXT
#undef VICINAL_SUMS

/// It is true for one lane of the warp, when all are there and have read what they read of shared memory.
__device__ __forceinline__ bool one_lane() {
  __syncwarp();  // elect.sync waits for lanes, and orders no memory
  unsigned one;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(one)::"memory");
  return one != 0;
}
/// It returns lane 0's number, which all lanes have: the compiler then knows that it is the whole warp's.
template <class T>
__device__ __forceinline__ T of_warp(T number) {
  return __shfl_sync(all_lanes, number, 0);
}
/// It returns the lane's own number, so that the compiler keeps it in a
/// register; some it would otherwise make again wherever they are needed.
__device__ __forceinline__ unsigned kept(unsigned number) { return __shfl_sync(all_lanes, number, lane_index()); }

#else

inline bool one_lane() {
  __syncwarp();
  return lane_index() == 0;
}
template <class T>
T of_warp(T number) {
  return number;
}
inline unsigned kept(unsigned number) { return number; }

inline unsigned shared_address(const void* at) {
  return static_cast<unsigned>(static_cast<const std::byte*>(at) -
                               static_cast<const std::byte*>(simt::dynamic_shared_memory()));
}
inline void init_barrier(Barrier barrier, int arrivals) { simt::init_phases(barrier.at, arrivals); }
inline void fence_barriers() {}
inline void arrive(Barrier barrier) { simt::arrive_at(barrier.at, 0); }
inline void arrive_expecting(Barrier barrier, int bytes) { simt::arrive_at(barrier.at, bytes); }
inline void wait_for(Barrier barrier, unsigned parity, int line = __builtin_LINE()) {
  simt::wait_for_phase(barrier.at, parity, {__FILE__, line});
}
inline void copy_bulk(unsigned shared, const void* global, int bytes, Barrier barrier) {
  simt::copy_later(shared, global, bytes, barrier.at);
}
template <int>
void release_registers() {}
template <int>
void request_registers() {}
inline void fence_products() {}
inline void commit_products() { ++simt::issued_products().groups; }
template <int pending, int count>
void wait_for_products(int (&)[count]) {
  __syncwarp();
  simt::wait_for_issued(pending);
  __syncwarp();  // one instruction of the warp
}
template <int pending>
void wait_for_operands() {
  __syncwarp();
  simt::wait_for_issued(pending);
  __syncwarp();
}
inline void wgmma_64x128x32(int (&d)[64], std::uint64_t a, std::uint64_t b, bool add) {
  simt::Products one{.sums = d, .rows = {}, .columns = b, .add = add};
  for (int h = 0; h < 2; ++h)
    for (int k = 0; k < 32; k += 16)
      std::memcpy(one.rows[h] + k, simt::operand_chunk(a, warp_index() % 4 * 16 + lane_index() / 4 + 8 * h, k), 16);
  simt::issue_products(one);
}
inline void issue_products_of(const std::uint32_t (&a)[4], simt::Products one) {
  const simt::Exchange warp(a, {__FILE__, __LINE__});
  for (int i = 0; i < 4; ++i)
    for (int member = 0; member < 4; ++member)
      std::memcpy(&one.rows[i % 2][i / 2 * 16 + member * 4],
                  &warp.of<std::uint32_t[4]>(lane_index() / 4 * 4 + member)[i], 4);
  warp.leave();
  simt::issue_products(one);
}
template <bool add>
void wgmma_64x128x32(int (&d)[64], const std::uint32_t (&a)[4], std::uint64_t b) {
  issue_products_of(a, {.sums = d, .rows = {}, .columns = b, .add = add});
}
template <bool add>
void wgmma_64x64x32(int (&d)[32], const std::uint32_t (&a)[4], std::uint64_t b) {
  issue_products_of(a, {.sums = d, .rows = {}, .columns = b, .add = add, .width = 64});
}

#endif

}  // namespace vicinal::cuda
