// The emulator's machine: lanes as fibers, one block at a time. A lane runs until it must wait; the last one to arrive at a
// barrier makes the others ready, and the next to run is drawn at random.
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "simt/fiber.hpp"
#include "simt/simt.hpp"

namespace simt {
namespace {

constexpr std::size_t most_lanes = 1024;
constexpr std::size_t most_static_shared = 48 << 10, most_shared = 227 << 10;  // a block's on compute capability 9.0
constexpr unsigned char poison = 0xa5;

enum class State : std::uint8_t { ready, at_warp, at_block, asleep, done };

struct Lane {
  Fiber fiber;
  uint3 thread;
  State state = State::ready;
  Op op = Op::sync;
  std::uint32_t mask = 0, argument = 0;
  std::uint64_t value = 0, answer = 0;
  SourceLocation place = {"", 0};
  const void* awaited = nullptr;
};

struct SharedArray {
  const void* site;
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size;
};

struct Machine {
  std::uint64_t seed = 1, random = 1;
  bool seeded = false, shuffle_blocks = false, running = false;
  bool abandoned = false;  // a block of an earlier launch has failed
  std::byte* stacks = nullptr;
  std::vector<Lane> lanes;
  std::array<std::uint32_t, 32> ready = {};       // lanes of each warp
  std::array<std::uint32_t, 32> collecting = {};  // lanes of each warp that wait in an operation of it
  std::uint32_t ready_warps = 0;
  std::array<int, 32> order = {};
  bool in_order = false;
  std::array<std::array<const void*, 32>, 32> shown = {};  // by the lanes of each warp
  int current = 0, lane_count = 0, at_block = 0, first_at_block = 0, done = 0;
  Fiber host;
  void (*body)(const void*) = nullptr;
  const void* context = nullptr;
  std::vector<SharedArray> statics;
  std::unique_ptr<std::byte[]> dynamic;
  std::size_t dynamic_size = 0;
  std::vector<Event> events;  // that have not happened
  std::string failure;
};
Machine machine;

std::uint64_t draw() {  // splitmix64
  std::uint64_t z = machine.random += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

void shuffle_warps() {
  for (std::size_t i = machine.order.size(); i > 1; --i) std::swap(machine.order[i - 1], machine.order[draw() % i]);
}

int draw_bit(std::uint32_t bits) {
  const auto turn = static_cast<int>(draw() % 32);
  return (std::countr_zero(std::rotr(bits, turn)) + turn) % 32;
}

/// Which lane runs next. In every other block warps are in an order that seldom changes, so that one runs far ahead of the rest:
/// drawing among all lanes alone would never let a warp pass two barriers' worth of work while a lane of another stands still.
int next_lane() {
  Machine& m = machine;
  int warp = draw_bit(m.ready_warps);
  if (m.in_order) {
    if (draw() % 1024 == 0) shuffle_warps();
    const auto ready = [&](int w) { return (m.ready_warps >> w & 1) != 0; };
    warp = *std::find_if(m.order.begin(), m.order.end(), ready);
  }
  std::uint32_t& lanes = m.ready[static_cast<std::size_t>(warp)];
  const int lane = draw_bit(lanes);
  lanes &= ~(1u << lane);
  if (lanes == 0) m.ready_warps &= ~(1u << warp);
  return warp * 32 + lane;
}

/// The running lane waits or is done: another runs. Comes back when it is this lane's turn.
void pass_on() {
  Lane& lane = machine.lanes[static_cast<std::size_t>(machine.current)];
  const int self = machine.current;
  const bool done = lane.state == State::done;
  while (!machine.events.empty() && machine.failure.empty() && (machine.ready_warps == 0 || draw() % 4 == 0)) {
    std::swap(machine.events[draw() % machine.events.size()], machine.events.back());
    const Event event = machine.events.back();
    machine.events.pop_back();
    event.happen(event);
  }
  if (machine.ready_warps == 0 || !machine.failure.empty()) {
    switch_fiber(lane.fiber, machine.host, done);
  } else {
    const int next = next_lane();
    machine.current = next;
    threadIdx = machine.lanes[static_cast<std::size_t>(next)].thread;
    if (next != self) switch_fiber(lane.fiber, machine.lanes[static_cast<std::size_t>(next)].fiber, done);
  }
}

void lane_main() {
  fiber_started(machine.host);
  machine.body(machine.context);
  machine.lanes[static_cast<std::size_t>(machine.current)].state = State::done;
  ++machine.done;
  pass_on();
}

std::string text(SourceLocation place) { return std::string(place.file) + ":" + std::to_string(place.line); }
std::string text(const uint3& at) {
  return "(" + std::to_string(at.x) + "," + std::to_string(at.y) + "," + std::to_string(at.z) + ")";
}
std::string where(const Lane& lane) {
  const std::string who = "thread " + text(lane.thread);
  if (lane.state == State::done) return who + " has returned";
  if (lane.state == State::at_block) return who + " waits in __syncthreads at " + text(lane.place);
  if (lane.state == State::asleep) return who + " waits at " + text(lane.place);
  if (lane.state == State::at_warp) return who + " waits in " + op_name(lane.op) + " at " + text(lane.place);
  return who + " runs";
}

/// Called on a lane's stack, which is then abandoned: no string may live on it. The host throws.
template <class Text>
void fail(const Text& what) {
  machine.failure = what();
  pass_on();
  std::abort();
}

void wake(Lane& lane) {
  lane.state = State::ready;
  const auto index = static_cast<unsigned>(&lane - machine.lanes.data());
  machine.collecting[index / 32] &= ~(1u << index % 32);
  machine.ready[index / 32] |= 1u << index % 32;
  machine.ready_warps |= 1u << index / 32;
}

Lane& warp_lane(int self, int index) { return machine.lanes[static_cast<std::size_t>(self / 32 * 32 + index)]; }

std::uint64_t reduce(Op op, bool is_signed, std::uint64_t a, std::uint64_t b) {
  const auto x = static_cast<std::uint32_t>(a), y = static_cast<std::uint32_t>(b);
  const bool less = is_signed ? static_cast<std::int32_t>(x) < static_cast<std::int32_t>(y) : x < y;
  switch (op) {
    case Op::add: return x + y;
    case Op::least: return less ? x : y;
    case Op::greatest: return less ? y : x;
    case Op::conjunction: return x & y;
    case Op::disjunction: return x | y;
    default: return x ^ y;
  }
}

/// All lanes of the mask are here: what each gets.
void answer(int self, std::uint32_t mask) {
  std::uint64_t common = 0;
  bool first = true;
  const Op op = warp_lane(self, std::countr_zero(mask)).op;
  for (int i = 0; i < 32; ++i) {
    if ((mask >> i & 1) == 0) continue;
    const Lane& lane = warp_lane(self, i);
    if (op == Op::ballot) common |= (lane.value & 1) << i;
    else if (op >= Op::add) common = first ? lane.value : reduce(op, lane.argument != 0, common, lane.value);
    first = false;
  }
  for (int i = 0; i < 32; ++i) {
    if ((mask >> i & 1) == 0) continue;
    Lane& lane = warp_lane(self, i);
    lane.answer = common;
    const auto delta = static_cast<int>(std::min<std::uint32_t>(lane.argument, 64));
    int from = i;
    if (op == Op::shuffle) from = delta;
    else if (op == Op::shuffle_up) from = i - delta < 0 ? i : i - delta;
    else if (op == Op::shuffle_down) from = i + delta > 31 ? i : i + delta;
    else if (op == Op::shuffle_xor) from = i ^ delta;
    if (from < 0 || from > 31 || (mask >> from & 1) == 0)
      fail([&] {
        return "thread " + text(lane.thread) + " reads lane " + std::to_string(from) +
               ", which is not in the mask, at " + text(lane.place);
      });
    if (op >= Op::shuffle && op <= Op::shuffle_xor) lane.answer = warp_lane(self, from).value;
    if (op == Op::match) {
      lane.answer = 0;
      for (int j = 0; j < 32; ++j)
        if ((mask >> j & 1) != 0 && warp_lane(self, j).value == lane.value) lane.answer |= std::uint64_t{1} << j;
    }
  }
}

void run_block() {
  Machine& m = machine;
  m.ready.fill(0);
  m.collecting.fill(0);
  m.ready_warps = 0;
  m.in_order = draw() % 2 == 0;
  std::iota(m.order.begin(), m.order.end(), 0);
  shuffle_warps();
  m.at_block = m.done = 0;
  m.failure.clear();
  m.events.clear();
  for (SharedArray& array : m.statics) std::memset(array.bytes.get(), poison, array.size);
  if (m.dynamic_size != 0) std::memset(m.dynamic.get(), poison, m.dynamic_size);
  for (int i = 0; i < m.lane_count; ++i) {
    Lane& lane = m.lanes[static_cast<std::size_t>(i)];
    const auto at = static_cast<unsigned>(i);
    lane.thread.x = at % blockDim.x;
    lane.thread.y = at / blockDim.x % blockDim.y;
    lane.thread.z = at / blockDim.x / blockDim.y;
    prepare_fiber(lane.fiber, m.stacks + static_cast<std::size_t>(i) * stack_bytes, lane_main, m.abandoned);
    wake(lane);
  }
  m.current = next_lane();
  threadIdx = m.lanes[static_cast<std::size_t>(m.current)].thread;
  switch_fiber(m.host, m.lanes[static_cast<std::size_t>(m.current)].fiber, false);

  if (m.failure.empty() && m.done != m.lane_count) {
    const Lane* first = nullptr;
    const Lane* other = nullptr;
    for (int i = 0; i < m.lane_count; ++i) {
      const Lane& lane = m.lanes[static_cast<std::size_t>(i)];
      if (lane.state == State::done) continue;
      if (first == nullptr) first = &lane;
      else if (other == nullptr && (lane.state != first->state || lane.place.line != first->place.line)) other = &lane;
    }
    for (int i = 0; i < m.lane_count && other == nullptr; ++i)
      if (m.lanes[static_cast<std::size_t>(i)].state == State::done) other = &m.lanes[static_cast<std::size_t>(i)];
    m.failure = "nobody can go on: " + where(*first) + (other != nullptr ? ", " + where(*other) : "");
  }
  m.abandoned = m.abandoned || !m.failure.empty();
  if (!m.failure.empty())
    throw Failure(m.failure + "; block " + text(blockIdx) + ", VICINAL_SIMT_SEED=" + std::to_string(m.seed));
}

}  // namespace

std::uint64_t seed() {
  if (!machine.seeded) {
    const char* given = std::getenv("VICINAL_SIMT_SEED");
    set_seed(given != nullptr ? std::strtoull(given, nullptr, 10) : 1);
  }
  return machine.seed;
}

void set_seed(std::uint64_t seed) {
  machine.seed = machine.random = seed;
  machine.seeded = true;
}

void shuffle_blocks(bool on) { machine.shuffle_blocks = on; }

std::uint64_t collective(std::uint32_t mask, Op op, std::uint64_t value, std::uint32_t argument, SourceLocation place) {
  Machine& m = machine;
  const int self = m.current;
  Lane& lane = m.lanes[static_cast<std::size_t>(self)];
  if ((mask >> (self % 32) & 1) == 0)
    fail([&] { return "thread " + text(lane.thread) + " is not in its own mask at " + text(place); });
  if (const int last = std::bit_width(mask) - 1; self / 32 * 32 + last >= m.lane_count)
    fail([&] {
      return "the mask at " + text(place) + " names lane " + std::to_string(last) + ", which this block lacks";
    });
  lane.state = State::at_warp;
  lane.op = op;
  lane.mask = mask;
  lane.value = value;
  lane.argument = argument;
  lane.place = place;
  std::uint32_t& collecting = m.collecting[static_cast<std::size_t>(self / 32)];
  collecting |= 1u << self % 32;
  // The last lane to come compares all of the mask; where one never comes, the others wait for good, and run_block says so.
  if ((mask & ~collecting) == 0) {
    for (int i = 0; i < 32; ++i) {
      if ((mask >> i & 1) == 0) continue;
      const Lane& other = warp_lane(self, i);
      if (other.mask != mask || other.op != op || other.place.line != place.line)
        fail([&] { return where(lane) + " for " + where(other); });
    }
    answer(self, mask);
    for (int i = 0; i < 32; ++i)
      if ((mask >> i & 1) != 0) wake(warp_lane(self, i));
  }
  pass_on();
  return lane.answer;
}

const void* const* show(const void* mine) {
  auto& warp = machine.shown[static_cast<std::size_t>(machine.current / 32)];
  warp[static_cast<std::size_t>(machine.current % 32)] = mine;
  return warp.data();
}

void block_barrier(SourceLocation place) {
  Machine& m = machine;
  Lane& lane = m.lanes[static_cast<std::size_t>(m.current)];
  lane.state = State::at_block;
  lane.place = place;
  if (m.at_block++ == 0) m.first_at_block = m.current;
  const Lane& first = m.lanes[static_cast<std::size_t>(m.first_at_block)];
  if (first.place.line != place.line) fail([&] { return where(lane) + ", " + where(first); });
  if (m.done != 0) {
    const Lane* gone = m.lanes.data();
    while (gone->state != State::done) ++gone;
    fail([&] { return where(lane) + ", " + where(*gone); });
  }
  if (m.at_block == m.lane_count) {
    m.at_block = 0;
    for (int i = 0; i < m.lane_count; ++i) wake(m.lanes[static_cast<std::size_t>(i)]);
  }
  pass_on();
}

void sleep(const void* awaited, SourceLocation place) {
  Lane& lane = machine.lanes[static_cast<std::size_t>(machine.current)];
  lane.state = State::asleep;
  lane.awaited = awaited;
  lane.place = place;
  pass_on();
}
void wake_all(const void* awaited) {
  for (int i = 0; i < machine.lane_count; ++i)
    if (Lane& lane = machine.lanes[static_cast<std::size_t>(i)]; lane.state == State::asleep && lane.awaited == awaited)
      wake(lane);
}
void happens_later(const Event& event) { machine.events.push_back(event); }
void rule_broken(const char* what) {
  fail([&] { return std::string(what) + ": " + where(machine.lanes[static_cast<std::size_t>(machine.current)]); });
}

void* shared_array(const void* site, std::size_t bytes) {
  for (SharedArray& array : machine.statics)
    if (array.site == site) return array.bytes.get();
  std::size_t total = bytes;
  for (const SharedArray& array : machine.statics) total += array.size;
  if (total > most_static_shared)
    fail([&] { return "a block's static shared memory is " + std::to_string(total) + " bytes"; });
  machine.statics.push_back({site, std::unique_ptr<std::byte[]>(new std::byte[bytes]), bytes});
  std::memset(machine.statics.back().bytes.get(), poison, bytes);
  return machine.statics.back().bytes.get();
}

void* dynamic_shared_memory() { return machine.dynamic.get(); }

void launch_lanes(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, void (*lane)(const void*),
                  const void* context) {
  Machine& m = machine;
  const std::size_t count = std::size_t{block.x} * block.y * block.z;
  if (m.running) throw Failure("a kernel launches a kernel");
  if (count == 0 || count > most_lanes) throw Failure("a block of " + std::to_string(count) + " threads");
  if (grid.x == 0 || grid.x > 0x7fffffffu || grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535)
    throw Failure("a grid beyond CUDA's limits");
  if (dynamic_shared_bytes > most_shared)
    throw Failure("a block's shared memory is " + std::to_string(dynamic_shared_bytes) + " bytes");
  m.random = seed();
  if (m.stacks == nullptr) {
    void* memory = mmap(nullptr, most_lanes * stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    m.stacks = static_cast<std::byte*>(memory);
    m.lanes.resize(most_lanes);
  }
  blockDim = block;
  gridDim = grid;
  m.lane_count = static_cast<int>(count);
  m.body = lane;
  m.context = context;
  m.statics.clear();
  m.dynamic_size = dynamic_shared_bytes;
  m.dynamic.reset(new std::byte[dynamic_shared_bytes]);

  std::vector<std::uint64_t> order(std::uint64_t{grid.x} * grid.y * grid.z);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  for (std::size_t i = order.size(); m.shuffle_blocks && i > 1; --i) std::swap(order[i - 1], order[draw() % i]);
  m.running = true;
  struct Stop {
    ~Stop() { machine.running = false; }
  } stop;
  for (const std::uint64_t at : order) {
    blockIdx.x = static_cast<unsigned>(at % grid.x);
    blockIdx.y = static_cast<unsigned>(at / grid.x % grid.y);
    blockIdx.z = static_cast<unsigned>(at / grid.x / grid.y);
    run_block();
  }
}

}  // namespace simt
