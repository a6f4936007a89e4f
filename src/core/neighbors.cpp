// Owned results. Memory comes uninitialised: a search writes every entry.
#include "vicinal/neighbors.hpp"

#include <cstdint>
#include <exception>
#include <new>

#include "core/buffer.hpp"
#include "core/key.hpp"
#include "core/metric.hpp"
#include "core/result_size.hpp"
#include "core/text.hpp"

namespace vicinal {

namespace {

/// Large arrays lie in huge pages, where the system has them: the first touch of many small pages takes as long as a
/// search on a device.
template <class T>
std::shared_ptr<T[]> make_array(std::size_t count) {
  if (count > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
  const std::size_t bytes = count * sizeof(T);
  if (bytes < huge_from) return std::shared_ptr<T[]>(new T[count]);
  return std::shared_ptr<T[]>(static_cast<T*>(acquire_bytes(bytes)), [bytes](T* at) { release_bytes(at, bytes); });
}

}  // namespace

void check_result_size(std::int64_t rows, std::int64_t k) {
  constexpr std::int64_t most = std::int64_t{1} << 56;  // entries; with room to multiply by their bytes
  if (rows < 0 || k < 0 || (k > 0 && rows > most / k))
    fail(ErrorCode::memory_budget,
         cat("a result of ", rows, " x ", k, " neighbours does not fit any memory; lower k or search fewer queries"));
}

Neighbors::Neighbors(std::int64_t rows, std::int64_t k, DistanceType type, bool counted)
    : rows_(rows), k_(k), type_(type) {
  check_result_size(rows, k);
  try {
    const auto entries = static_cast<std::size_t>(rows) * static_cast<std::size_t>(k);
    ids_ = make_array<std::int64_t>(entries);
    distances_ = make_array<std::byte>(entries * distance_size(type));
    if (counted) counts_ = make_array<std::int64_t>(static_cast<std::size_t>(rows));
  } catch (const std::exception&) {  // Error of large arrays, bad_alloc
    fail(ErrorCode::out_of_memory,
         cat("the result of ", rows, " x ", k, " neighbours needs ",
             bytes_text(static_cast<std::int64_t>(static_cast<double>(rows) * static_cast<double>(k) *
                                                  static_cast<double>(8 + distance_size(type)))),
             "; search fewer queries at a time"));
  }
}

double Neighbors::distance(std::int64_t row, std::int64_t rank) const noexcept {
  return load_key(distances_.get(), type_, false, row * k_ + rank);
}

CsrNeighbors::CsrNeighbors(std::int64_t rows, std::int64_t entries, DistanceType type) : rows_(rows), type_(type) {
  try {
    offsets_ = std::shared_ptr<std::int64_t[]>(new std::int64_t[static_cast<std::size_t>(rows) + 1]());
    ids_ = make_array<std::int64_t>(static_cast<std::size_t>(entries));
    distances_ = make_array<std::byte>(static_cast<std::size_t>(entries) * distance_size(type));
  } catch (const std::exception&) {
    fail(ErrorCode::out_of_memory, cat("no memory for a result of ", entries, " entries in ", rows,
                                       " rows; lower the radius or k, or search fewer rows at a time"));
  }
}

double CsrNeighbors::distance(std::int64_t row, std::int64_t rank) const noexcept {
  return load_key(distances_.get(), type_, false, offsets_[static_cast<std::size_t>(row)] + rank);
}

NeighborsView Neighbors::view() noexcept { return {ids_.get(), distances_.get(), type_, rows_, k_, counts_.get()}; }
NeighborsView Neighbors::view() const noexcept {
  return {ids_.get(), distances_.get(), type_, rows_, k_, counts_.get()};
}

DistanceType resolve_distance_type(DistanceType asked, Metric metric, DType corpus, DType queries) {
  if (counts(metric)) {
    if (asked == DistanceType::automatic || asked == DistanceType::u32) return DistanceType::u32;
    fail(ErrorCode::invalid_argument,
         cat(metric_info(metric).name, " distances are u32, got distance_type=", distance_type_name(asked)));
  }
  if (asked == DistanceType::u32)
    fail(ErrorCode::invalid_argument, cat("distance_type=u32 is for counts (hamming, levenshtein); ",
                                          metric_info(metric).name, " gives f32 or f64"));
  if (asked != DistanceType::automatic) return asked;
  return corpus == DType::f64 || queries == DType::f64 ? DistanceType::f64 : DistanceType::f32;
}

}  // namespace vicinal
