// One fiber: a stack, and a place on it to go on from. On x86-64 a switch is a dozen instructions; elsewhere ucontext does it.
// AddressSanitizer is told of every switch. For fibers.cpp alone: the switch is defined here.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif
#if defined(SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#define SIMT_UCONTEXT 1
#include <ucontext.h>
#endif

namespace simt {

inline constexpr std::size_t stack_bytes = 256 << 10;  // only what a lane touches becomes memory

struct Fiber {
#if defined(SIMT_UCONTEXT)
  ucontext_t context = {};
#else
  void* top = nullptr;  // its stack pointer while it is not running
#endif
#if defined(SIMT_ASAN)
  const void* bottom = nullptr;
  std::size_t size = 0;
  void* fake = nullptr;
#endif
};

#if !defined(SIMT_UCONTEXT)
extern "C" void vicinal_simt_switch(void** save, void* load);
// Saves what a called function must preserve, exchanges the stacks, and returns on the other one.
asm(R"(
.text
.globl vicinal_simt_switch
.type vicinal_simt_switch,@function
vicinal_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size vicinal_simt_switch,.-vicinal_simt_switch
)");
#endif

inline void switch_fiber(Fiber& from, Fiber& to, [[maybe_unused]] bool for_good) {
#if defined(SIMT_ASAN)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.fake, to.bottom, to.size);
#endif
#if defined(SIMT_UCONTEXT)
  swapcontext(&from.context, &to.context);
#else
  vicinal_simt_switch(&from.top, to.top);
#endif
#if defined(SIMT_ASAN)
  __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#endif
}

/// The first words of a fiber.
inline void fiber_started([[maybe_unused]] Fiber& host) {
#if defined(SIMT_ASAN)
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (host.bottom == nullptr) {  // the first lane ever comes from the host's own stack
    host.bottom = bottom;
    host.size = size;
  }
#endif
}

/// Ready to run entry(), which never returns, on the stack. `dirty_all`: some fiber was left in the middle of its work.
inline void prepare_fiber(Fiber& fiber, std::byte* stack, void (*entry)(), [[maybe_unused]] bool dirty_all) {
#if defined(SIMT_ASAN)
  fiber.bottom = stack;
  fiber.size = stack_bytes;
  fiber.fake = nullptr;
  // the transforms that never returned have left their marks: the outermost two, or, after a failure, any
  const std::size_t dirty = dirty_all ? stack_bytes : 8 << 10;
  __asan_unpoison_memory_region(stack + stack_bytes - dirty, dirty);
#endif
#if defined(SIMT_UCONTEXT)
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = stack_bytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
#else
  // as if entry had been called: six saved registers, where to return to, and a caller's address that is never used
  auto* top = reinterpret_cast<std::uint64_t*>(stack + stack_bytes);
  top[-1] = 0;
  top[-2] = reinterpret_cast<std::uint64_t>(entry);
  std::fill(top - 8, top - 2, 0);
  fiber.top = top - 8;
#endif
}

}  // namespace simt
