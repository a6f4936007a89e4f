// What the cores do at best, measured in a few milliseconds, for --explain.
#pragma once
#include "core/parallel.hpp"
#include "cpu/isa/kernels.hpp"

namespace vicinal::cpu {

/// It measures the multiply-adds a second of all threads at once, in
/// tiles that stay in the first-level cache and find nothing near.
double peak_products(const Int8Kernels& kernels, ThreadPool& thread_pool);
double peak_products(const Kernels& kernels, ThreadPool& thread_pool);
/// It measures the bytes a second that all threads together read from memory.
double peak_bytes(ThreadPool& thread_pool);

}  // namespace vicinal::cpu
