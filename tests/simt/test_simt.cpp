// The emulator's own test, and the proof that it agrees with a device: g++ compiles this file for the emulator,
// nvcc -x cu for the device, and both must find what plain arithmetic says. Returns 1 where one does not. What only the
// emulator can do, to notice a missing barrier or a lane that waits elsewhere, is tried under the emulator alone.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "simt/programs.cuh"

namespace {

int faults = 0;
void check(bool good, const char* what) {
  if (good) return;
  ++faults;
  std::printf("wrong: %s\n", what);
}

#if defined(__CUDACC__)
void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::printf("CUDA: %s\n", cudaGetErrorString(status));
  std::exit(1);
}
#endif

/// An array that host and kernel see, zeroed.
template <class T>
class Shared {
 public:
  explicit Shared(std::size_t count) : count_(count) {
#if defined(__CUDACC__)
    must(cudaMallocManaged(&data_, count * sizeof(T)));
#else
    data_ = static_cast<T*>(std::malloc(count * sizeof(T)));
#endif
    std::memset(static_cast<void*>(data_), 0, count * sizeof(T));
  }
  template <class Container>
  explicit Shared(const Container& values, int) : Shared(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
#if defined(__CUDACC__)
    cudaFree(data_);
#else
    std::free(data_);
#endif
  }
  T* get() const { return data_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t size() const { return count_; }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

template <class Args>
void run(void (*kernel)(Args), int blocks, int threads, std::size_t shared, const Args& args) {
#if defined(__CUDACC__)
  kernel<<<blocks, threads, shared>>>(args);
  must(cudaGetLastError());
  must(cudaDeviceSynchronize());
#else
  simt::launch(dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), shared,
               [&] { kernel(args); });
#endif
}

void warps() {
  const int blocks = 3, threads = 64;
  const Shared<std::uint64_t> out(std::size_t{blocks} * threads * 16);
  run(programs::warp_words, blocks, threads, 0, {out.get()});
  const auto x = [](int lane) { return static_cast<unsigned>(lane * 7 % 32); };
  const auto wide = [&](int lane) { return 0x100000001ull * x(lane); };
  const auto bits = [](std::function<bool(int)> holds) {
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) result |= static_cast<unsigned>(holds(i)) << i;
    return result;
  };
  for (int i = 0; i < blocks * threads; ++i) {
    const int lane = i % 32;
    std::uint64_t before = 0;
    for (int j = 0; j < lane; ++j) before += x(j);
    const std::uint64_t want[16] = {
        bits([](int j) { return j % 3 == 0; }),
        lane < 20 ? 3 + 8 * 0xaaaaaull : 3,
        wide(31 - lane),
        x(lane),
        wide(lane < 3 ? lane : lane - 3),
        x(lane > 28 ? lane : lane + 3),
        x(lane ^ 5),
        bits([&](int j) { return x(j) / 4 == x(lane) / 4; }),
        31 * 16,
        static_cast<std::uint64_t>(std::int64_t{-40}),
        31,
        0xffff,
        static_cast<std::uint64_t>(__builtin_popcount(x(lane))) +
            100 * static_cast<std::uint64_t>(__builtin_ffs(lane)) +
            10000 * static_cast<std::uint64_t>(lane == 0 ? 32 : __builtin_clz(static_cast<unsigned>(lane))) +
            1000000 * static_cast<std::uint64_t>(__builtin_popcount(x(lane)) * 2),
        [&] {
          unsigned reversed = 0;
          for (int j = 0; j < 32; ++j) reversed |= (x(lane) >> j & 1) << (31 - j);
          return reversed;
        }(),
        before,
        31 * 16};
    for (std::size_t w = 0; w < 16; ++w) {
      const std::string name = "word " + std::to_string(w) + " of lane " + std::to_string(lane) + ": " +
                               std::to_string(out[static_cast<std::size_t>(i) * 16 + w]) + " for " +
                               std::to_string(want[w]);
      check(out[static_cast<std::size_t>(i) * 16 + w] == want[w], name.c_str());
    }
  }
}

/// How many results of two blocks are wrong.
template <bool NO_BARRIER>
int wrong_sums() {
  const int blocks = 2, threads = 96, n = blocks * threads;
  const Shared<int> in(n), before(n), total(blocks), reversed(n);
  for (int i = 0; i < n; ++i) in[static_cast<std::size_t>(i)] = i * i % 57 + 1;
  run(programs::block_sums<NO_BARRIER>, blocks, threads, threads * sizeof(int),
      {in.get(), before.get(), total.get(), reversed.get()});
  int wrong = 0;
  for (int b = 0; b < blocks; ++b) {
    int sum = 0;
    for (int i = 0; i < threads; ++i) {
      const auto at = static_cast<std::size_t>(b * threads + i);
      wrong += before[at] != sum || reversed[at] != in[static_cast<std::size_t>(b * threads + threads - 1 - i)];
      sum += in[at];
    }
    wrong += total[static_cast<std::size_t>(b)] != sum;
  }
  return wrong;
}

template <bool NO_BARRIER>
int wrong_turns() {
  const Shared<int> in(64), out(256);
  std::iota(in.get(), in.get() + 64, 0);
  run(programs::warp_turn<NO_BARRIER>, 1, 64, 0, {in.get(), out.get()});
  int wrong = 0;
  for (int i = 0; i < 256; ++i) wrong += out[static_cast<std::size_t>(i)] != i % 64 / 32 * 32 + (i + 1) % 32 + i / 64;
  return wrong;
}

void atomics() {
  const Shared<int> number(1), low(1), high(1);
  const Shared<unsigned> bits(1), won(2);
  const Shared<unsigned long long> sum(1);
  run(programs::atomics, 4, 32, 0, {number.get(), bits.get(), sum.get(), low.get(), high.get(), won.get()});
  check(number[0] == 128 && bits[0] == 0xffffffffu && sum[0] == 128 * 0x100000000ull + 127 * 64 && low[0] == -27 &&
            high[0] == 127,
        "atomics");
  check(won[0] >= 1 && won[0] <= 128 && won[1] == 1, "compare and swap");
}

/// Small integers, so that no rounding enters and only the layout is seen.
template <class Half>
void product(std::uint16_t one, int mantissa_bits) {
  const Shared<std::uint16_t> a(256), b(128);
  const Shared<float> out(128);
  std::vector<int> x(256), y(128);
  const auto encode = [&](int value) {  // 0..3 with a sign
    const int magnitude = std::abs(value);
    std::uint16_t bits = 0;
    if (magnitude == 1) bits = one;
    if (magnitude >= 2)
      bits = static_cast<std::uint16_t>(one + (1 << mantissa_bits) + (magnitude == 3 ? 1 << (mantissa_bits - 1) : 0));
    return static_cast<std::uint16_t>(bits | (value < 0 ? 0x8000 : 0));
  };
  for (int i = 0; i < 256; ++i) a[static_cast<std::size_t>(i)] = encode(x[static_cast<std::size_t>(i)] = i * 5 % 7 - 3);
  for (int i = 0; i < 128; ++i) b[static_cast<std::size_t>(i)] = encode(y[static_cast<std::size_t>(i)] = i * 3 % 7 - 3);
  run(programs::product<Half>, 1, 32, 0, {a.get(), b.get(), out.get()});
  for (int row = 0; row < 16; ++row)
    for (int col = 0; col < 8; ++col) {
      int sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += x[static_cast<std::size_t>(row * 16 + k)] * y[static_cast<std::size_t>(k * 8 + col)];
      check(out[static_cast<std::size_t>(row * 8 + col)] == static_cast<float>(sum), "mma_16x8x16");
    }
}

void paths() {
  const std::vector<int> a = {1, 3, 3, 7, 9, 9, 12}, b = {0, 3, 4, 9, 9, 20, 21, 22, 23};
  const Shared<int> in_a(a, 0), in_b(b, 0), out(a.size() + b.size() + 1);
  run(programs::merge_paths, 1, 32, 0,
      {in_a.get(), in_b.get(), static_cast<int>(a.size()), static_cast<int>(b.size()), out.get()});
  std::size_t i = 0, j = 0;
  for (std::size_t d = 0; d <= a.size() + b.size(); ++d) {
    check(out[d] == static_cast<int>(i), "merge_path");
    if (j == b.size() || (i < a.size() && a[i] <= b[j])) ++i;
    else ++j;
  }
}

#if !defined(__CUDACC__)
/// What a broken rule is called.
std::string failure(int blocks, int threads, const std::function<void()>& kernel) {
  try {
    simt::launch(dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), 64, kernel);
  } catch (const simt::Failure& caught) {
    return caught.what();
  }
  return "";
}
void expect(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    check(message.find(part) != std::string::npos, (std::string(part) + " in '" + message + "'").c_str());
}

void rules() {
  int caught_block = 0, caught_warp = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    simt::set_seed(seed);
    caught_block += wrong_sums<true>() != 0;
    caught_warp += wrong_turns<true>() != 0;
    check(wrong_sums<false>() == 0 && wrong_turns<false>() == 0, "the same kernels with their barriers");
  }
  std::printf("a missing __syncthreads seen with %d of 5 seeds, a missing __syncwarp with %d\n", caught_block,
              caught_warp);
  check(caught_block >= 4 && caught_warp >= 4, "a missing barrier is seen");

  simt::set_seed(3);
  // the second argument of __syncwarp and the first of __syncthreads are their lines, here given by hand
  expect(failure(1, 64,
                 [] {
                   if (threadIdx.x < 32) __syncthreads(111, "k.cuh");
                   else __syncthreads(222, "k.cuh");
                 }),
         {"waits in __syncthreads at k.cuh:111", "waits in __syncthreads at k.cuh:222", "VICINAL_SIMT_SEED=3"});
  expect(failure(1, 64,
                 [] {
                   if (threadIdx.x != 40) __syncthreads(111, "k.cuh");
                 }),
         {"thread (40,0,0) has returned", "waits in __syncthreads at k.cuh:111"});
  expect(failure(1, 32,
                 [] {
                   if (threadIdx.x != 7) __syncwarp(0xffffffffu, 111, "k.cuh");
                 }),
         {"thread (7,0,0) has returned", "waits in __syncwarp at k.cuh:111"});
  expect(failure(1, 32,
                 [] {
                   if (threadIdx.x < 5) __ballot_sync(0xffffffffu, 1, 111, "k.cuh");
                   else __syncwarp(0xffffffffu, 222, "k.cuh");
                 }),
         {"waits in a vote at k.cuh:111", "waits in __syncwarp at k.cuh:222"});
  expect(failure(1, 32,
                 [] {
                   if (threadIdx.x == 0) __syncthreads(111, "k.cuh");
                   else __syncwarp(0xfffffffeu), __syncwarp(0xffffffffu, 222, "k.cuh");
                 }),
         {"waits in __syncthreads at k.cuh:111", "waits in __syncwarp at k.cuh:222"});
  expect(failure(1, 32, [] { __shfl_sync(0xffffu << (threadIdx.x / 16 * 16), 1, 3); }), {"not in the mask"});
  expect(failure(1, 32, [] { __syncwarp(2u); }), {"not in its own mask"});
  expect(failure(1, 48, [] { __syncwarp(); }), {"which this block lacks"});

  std::vector<unsigned char> seen;
  simt::launch(dim3(2), dim3(32), 8, [&] {  // what a block left behind is gone when the next one starts
    VICINAL_SHARED(unsigned char, line, 4);
    if (threadIdx.x == 0) {
      seen.push_back(line[3]);
      seen.push_back(vicinal::cuda::dynamic_shared<unsigned char>()[7]);
      line[3] = vicinal::cuda::dynamic_shared<unsigned char>()[7] = 1;
    }
  });
  check(seen == std::vector<unsigned char>(4, 0xa5), "poison");

  simt::shuffle_blocks(true);
  std::vector<unsigned> blocks;
  simt::launch(dim3(4, 3, 2), dim3(1), 0, [&] { blocks.push_back(blockIdx.x + 4 * (blockIdx.y + 3 * blockIdx.z)); });
  simt::shuffle_blocks(false);
  check(blocks.size() == 24 && !std::is_sorted(blocks.begin(), blocks.end()), "blocks in another order");
  std::sort(blocks.begin(), blocks.end());
  for (unsigned i = 0; i < 24; ++i) check(blocks[i] == i, "every block once");
}
#endif

}  // namespace

int main() {
#if !defined(__CUDACC__)
  std::printf("VICINAL_SIMT_SEED=%llu\n", static_cast<unsigned long long>(simt::seed()));
#endif
  warps();
  check(wrong_sums<false>() == 0, "block_sum_before and dynamic shared memory");
  check(wrong_turns<false>() == 0, "__syncwarp");
  atomics();
  product<vicinal::f16>(0x3c00, 10);
  product<vicinal::bf16>(0x3f80, 7);
  paths();
#if !defined(__CUDACC__)
  rules();
#endif
  std::printf(faults == 0 ? "simt: all right\n" : "simt: %d wrong\n", faults);
  return faults != 0;
}
