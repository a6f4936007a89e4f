// The steps that reading a matrix, a result and a range share.
#pragma once
#include <string>
#include <vector>

#include "io/format.hpp"
#include "vicinal/io.hpp"

namespace vicinal::io {

/// Format by suffix, mapping, array. Throws what the format throws, and says so if the file looks like another one.
Array read_array(const std::string& path, const Want& want);
/// The same of a file that is read for several arrays: `source` is opened where it is null.
Array read_array(const std::string& path, const Want& want, Source& source);
/// Throws InvalidArgument for items that are no integers, RangeError above 2^63 - 1.
std::vector<std::int64_t> ids_of(const std::string& path, const Array& array);
/// Throws InvalidArgument.
DistanceType distance_type_of(const std::string& path, Item item);

}  // namespace vicinal::io
