// What a search of vectors asks of a device besides (cuda/device/device.hpp).
#pragma once
#include "core/parallel.hpp"
#include "cuda/device/device.hpp"
#include "cuda/search/filter/speculate.hpp"
#include "cuda/search/filter/table.hpp"
#include "cuda/select/select.hpp"
#include "vicinal/matrix.hpp"

namespace vicinal::cuda {

template <class D>
concept SearchDeviceRuntime = DeviceRuntime<D> &&
    requires(D& device, std::byte* memory, const void* from, std::int64_t bytes, const Points& rows,
             const SelectArgs& task, ThreadPool& thread_pool) {
  { device.holds(from) } -> std::same_as<bool>;  // memory of the device
  device.rows_in(memory, rows);                  // dense rows from the host, of any strides
  device.end_rows(
      device.begin_rows(memory, rows));  // the same beside launches in between; the first gives the second its number
  device.drop_rows();                    // transfers that were begun and not ended, before their memory is given back
  device.copy(memory, from, bytes);      // between any two memories
  device.results_out(memory, from, bytes, thread_pool);  // to the host, where all that was launched is done
  {
    device.take_shared(bytes)
    } -> std::same_as<
        std::byte*>;  // memory that the host and the device both reach, in the same place; throws OutOfMemory
  device.give_shared(memory);
  { device.reached_by_both(bytes) } -> std::same_as<void*>;  // the same of a few bytes, until the search ends; or null
  { device.free_bytes() } -> std::same_as<std::int64_t>;
  { device.multiprocessors } -> std::convertible_to<int>;
  {
    device.packed_rows
    } -> std::convertible_to<std::int64_t>;  // most rows of a corpus that packed words name, which tests lower
  { device.speculation } -> std::convertible_to<const SpeculationRule&>;  // which tests change
  { device.filters() } -> std::convertible_to<const FilterSet&>;          // kernels that may be used there
  { device.select_bytes(task) } -> std::same_as<std::int64_t>;
  device.select(task, memory);
};

}  // namespace vicinal::cuda
