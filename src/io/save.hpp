// The steps that writing a matrix, a result, a graph and a range share.
#pragma once
#include <string>
#include <vector>

#include "io/format.hpp"
#include "vicinal/io.hpp"

namespace vicinal::io {

/// Throws what stands between this array and this format: its type, its sizes, an id (int64 items for Role as_ids).
void check_fits(const Format& format, const std::string& path, Role role, const Array& array);
/// Throws Unsupported where there are no rows, and the format cannot hold none.
void check_rows(const Format& format, const std::string& path, Role role, std::int64_t rows);

struct Job {
  const Format* format;
  std::string path;
  Role role;
  std::vector<Named> arrays;
};
/// All of the files or none: temporaries, sync, rename.
void save(const std::vector<Job>& jobs);

Item item_of(DistanceType type) noexcept;
/// The format that holds a result of this kind. Throws Unsupported.
const Format& format_for(const std::string& path, ResultKind kind);

}  // namespace vicinal::io
