// Words of compute capability 9.0 (sm_90a): products by a warpgroup of four warps, both operands in shared memory; bulk copies that
// report to a barrier; barriers in shared memory; registers passed from one warpgroup to another. Not for the emulator.
#pragma once
#include "cuda/ptx/copy.cuh"

namespace vicinal::cuda {

#if defined(__CUDACC__)

/// Where a barrier's 8 bytes are in shared memory: a phase ends when so many threads have arrived and all bytes that were announced are there.
struct Barrier {
  unsigned at;
  __device__ __forceinline__ Barrier operator[](unsigned i) const { return {at + 8 * i}; }
};
__device__ __forceinline__ void init_barrier(Barrier barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier.at), "r"(arrivals) : "memory");
}
/// What was started is known to copies, too.
__device__ __forceinline__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void arrive(Barrier barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier.at) : "memory");
}
/// Arrives, and announces bytes.
__device__ __forceinline__ void arrive_expecting(Barrier barrier, int bytes) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(barrier.at),
               "r"(bytes)
               : "memory");
}
/// Until the phase of this parity is over; of a barrier that no thread has met the phase of parity 1 is. The hint, in ns, lets the thread
/// sleep until then instead of asking again and again.
__device__ __forceinline__ void wait_for(Barrier barrier, unsigned parity) {
  unsigned done;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, 1000000;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier.at), "r"(parity)
        : "memory");
  } while (done == 0);
}
/// A multiple of 16 bytes, which the barrier was told to expect.
__device__ __forceinline__ void copy_bulk(unsigned shared, const void* global, int bytes, Barrier barrier) {
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

/// Where lines of `slab` bytes lie, chunks exchanged as swizzled_chunk says: groups of eight lines one after another.
template <int slab>
__device__ __forceinline__ std::uint64_t operand_at(unsigned shared) {
  const std::uint64_t address = shared >> 4 & 0x3fff, group = slab * 8 >> 4;
  return address | 1ull << 16 | group << 32 | (slab == 128 ? 1ull : 2ull) << 62;
}

__device__ __forceinline__ void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Until all products are done; nothing that reads the sums may come before it.
__device__ __forceinline__ void wait_for_products(int (&sums)[64]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+r"(sums[i])::"memory");
}

/// Signed bytes, 64 x 32 and 32 x 128, exact in 32 bits; added to d where `add`. Of a thread of the group, d[4 * i + j] is row
/// 16 * warp + lane / 4 + j / 2 * 8, column 8 * i + 2 * (lane % 4) + j % 2.
__device__ __forceinline__ void wgmma_64x128x32(int (&d)[64], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%"
      "30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,"
      "%60,%61,%62,%63}, "
      "%64, %65, p;\n}"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), "+r"(d[8]),
        "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]),
        "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]),
        "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), "+r"(d[32]),
        "+r"(d[33]), "+r"(d[34]), "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]),
        "+r"(d[41]), "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), "+r"(d[48]),
        "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]), "+r"(d[56]),
        "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

#endif

}  // namespace vicinal::cuda
