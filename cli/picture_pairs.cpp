// See picture_pairs.hpp.
#include "picture_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "files.hpp"
#include "vicinal/error.hpp"
#include "vicinal/search.hpp"

namespace cli {
namespace {

using vicinal::Error;
using vicinal::ErrorCode;
using vicinal::ImagePair;

/// Keeps the first of each pair, whichever way round.
class PairList {
 public:
  void add(std::int64_t one, std::int64_t other) {
    if (one != other && known_.insert({std::min(one, other), std::max(one, other)}).second)
      pairs.push_back({one, other});
  }
  std::vector<ImagePair> pairs;

 private:
  std::set<ImagePair> known_;
};

/// The N of "word:N".
std::int64_t count_after(const std::string& asked, std::string_view word) {
  std::int64_t count = 0;
  const char* const end = asked.data() + asked.size();
  const auto read = std::from_chars(asked.data() + word.size(), end, count);
  if (read.ec != std::errc() || read.ptr != end || count < 1)
    refuse(fmt::format("--pairs {}N wants N >= 1, got {}", word, asked));
  return count;
}

std::vector<ImagePair> sequential(const std::string& asked, std::span<const Picture> pictures) {
  std::vector<std::int64_t> by_name(pictures.size());
  std::iota(by_name.begin(), by_name.end(), 0);
  std::sort(by_name.begin(), by_name.end(), [&](std::int64_t one, std::int64_t other) {
    return pictures[static_cast<std::size_t>(one)].name < pictures[static_cast<std::size_t>(other)].name;
  });
  std::vector<ImagePair> pairs = vicinal::image_pairs(asked, std::ssize(by_name));
  for (ImagePair& pair : pairs)
    for (std::int64_t& image : pair) image = by_name[static_cast<std::size_t>(image)];
  return pairs;
}

std::vector<ImagePair> nearest(const std::string& asked, const std::string& path, std::span<const Picture> pictures,
                               const vicinal::Execution& run) {
  std::int64_t k = count_after(asked, "nearest:");
  if (path.empty()) refuse("--pairs nearest:K needs --global-descriptors FILE, one row a picture");
  const vicinal::Matrix rows = read_points(path);
  const auto count = std::ssize(pictures);
  if (rows.points().rows != count)
    refuse(
        fmt::format("{} has {} rows, the database {} pictures; it must have one row "
                    "a picture, by ascending image_id",
                    path, rows.points().rows, count));
  PairList list;
  k = std::min(k, count - 1);
  if (k < 1) return {};
  const vicinal::Neighbors found = vicinal::knn_graph(
      rows.points(),
      {.search = {.k = k, .metric = vicinal::Metric::cosine, .degenerate = vicinal::Degenerate::one, .run = run}});
  for (std::int64_t picture = 0; picture < count; ++picture)
    for (std::int64_t i = 0; i < k; ++i) list.add(picture, found.id(picture, i));
  return std::move(list.pairs);
}

/// Two names: apart by a tab where there is one, else by white space.
ImagePair names_of(std::string_view line, const std::map<std::string, std::int64_t, std::less<>>& known,
                   const std::string& place) {
  constexpr std::string_view space = " \t\r";
  const std::string_view apart = line.find('\t') != std::string_view::npos ? "\t" : " ";
  const std::size_t cut = line.find_first_of(apart);
  ImagePair pair = {};
  for (int side = 0; side < 2; ++side) {
    std::string_view name = side == 0 ? line.substr(0, cut) : cut == line.npos ? "" : line.substr(cut);
    name.remove_prefix(std::min(name.find_first_not_of(space), name.size()));
    name = name.substr(0, name.find_last_not_of(space) + 1);
    if (name.empty())
      throw Error(ErrorCode::format_error, place + ": expected the names of two pictures, apart by a space or a tab");
    const auto found = known.find(name);
    if (found == known.end())
      throw Error(ErrorCode::format_error, fmt::format("{}: the database has no picture \"{}\"", place, name));
    pair[static_cast<std::size_t>(side)] = found->second;
  }
  return pair;
}

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // that editors of other systems begin UTF-8 with

std::vector<ImagePair> listed(const std::string& path, std::span<const Picture> pictures) {
  std::map<std::string, std::int64_t, std::less<>> known;
  for (std::size_t i = 0; i < pictures.size(); ++i) known[pictures[i].name] = static_cast<std::int64_t>(i);
  std::ifstream file(path);
  if (!file)
    throw Error(ErrorCode::io_error,
                fmt::format("--pairs {}: not exhaustive, sequential:N or nearest:K, and no file of "
                            "that name can be opened: {}",
                            path, std::strerror(errno)),
                errno);
  PairList list;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1 && line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
    const std::size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string::npos || line[start] == '#') continue;
    const ImagePair pair = names_of(std::string_view(line).substr(start), known, fmt::format("{}:{}", path, number));
    list.add(pair[0], pair[1]);
  }
  if (file.bad())
    throw Error(ErrorCode::io_error, fmt::format("--pairs {}: cannot be read: {}", path, std::strerror(errno)), errno);
  return std::move(list.pairs);
}

}  // namespace

std::vector<ImagePair> picture_pairs(const std::string& asked, const std::string& descriptors,
                                     std::span<const Picture> pictures, const vicinal::Execution& run) {
  if (asked == "exhaustive") return vicinal::image_pairs(asked, std::ssize(pictures));
  if (asked.starts_with("sequential:")) return sequential(asked, pictures);
  if (asked.starts_with("nearest:")) return nearest(asked, descriptors, pictures, run);
  return listed(asked, pictures);
}

std::vector<ImagePair> by_blocks(std::vector<ImagePair> pairs, std::span<const Picture> pictures, std::int64_t bytes) {
  constexpr std::int64_t most_of_block = 64;  // the pairs of two blocks are then some 4,000: a batch
  std::vector<std::int64_t> block(pictures.size());
  std::int64_t number = 0, filled = 0, count = 0;
  for (std::size_t image = 0; image < pictures.size(); ++image) {
    const std::int64_t size = pictures[image].bytes();
    if (count == most_of_block || (count > 0 && filled + size > bytes / 2)) ++number, filled = count = 0;
    filled += size;
    ++count;
    block[image] = number;
  }
  const auto blocks = [&](const ImagePair& pair) {
    const std::int64_t a = block[static_cast<std::size_t>(pair[0])], b = block[static_cast<std::size_t>(pair[1])];
    return std::pair(std::min(a, b), std::max(a, b));
  };
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const ImagePair& one, const ImagePair& other) { return blocks(one) < blocks(other); });
  return pairs;
}

std::size_t batch_size(std::span<const ImagePair> pairs, std::span<const Picture> pictures, std::int64_t bytes,
                       std::size_t most) {
  std::set<std::int64_t> images;
  std::size_t count = 0;
  for (std::int64_t total = 0; count < std::min(most, pairs.size()); ++count) {
    for (const std::int64_t image : pairs[count])
      if (images.insert(image).second) total += pictures[static_cast<std::size_t>(image)].bytes();
    if (count > 0 && total > bytes) break;
  }
  return count;
}

}  // namespace cli
