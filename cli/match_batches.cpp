// See match_batches.hpp.
#include "match_batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>

#include "picture_pairs.hpp"
#include "report.hpp"
#include "vicinal/error.hpp"

namespace cli {

using vicinal::Error;
using vicinal::ImagePair;

std::int64_t comparisons_of(const ImagePair& pair, std::span<const Picture> pictures) {
  return pictures[static_cast<std::size_t>(pair[0])].rows * pictures[static_cast<std::size_t>(pair[1])].rows;
}

void BatchMatcher::match(std::span<const ImagePair> pairs, Interrupt& interrupt) {
  constexpr double enough_seconds = 1;  // that a kill may lose
  constexpr std::size_t most_pairs = 4096;
  const auto start = std::chrono::steady_clock::now();
  const Interrupt::Section section(interrupt);
  ProgressBar bar("match");
  for (std::size_t most = 16; !pairs.empty();) {
    const auto begin = std::chrono::steady_clock::now();
    const std::size_t size = batch_size(pairs, database_.pictures(), bytes_, most);
    match_batch(pairs.first(size), interrupt, bar);
    pairs = pairs.subspan(size);
    if (seconds_since(begin) < enough_seconds / 2) most = std::min(2 * most, most_pairs);
    else if (seconds_since(begin) > 2 * enough_seconds) most = std::max<std::size_t>(most / 2, 1);
  }
  run_.seconds = seconds_since(start);
}

void BatchMatcher::attempt(std::span<const ImagePair> pairs, std::stop_token stop) {
  options_.stop = std::move(stop);
  (void)vicinal::match_pairs({}, {}, options_);
  const auto comparisons = [&](const ImagePair& pair) { return comparisons_of(pair, database_.pictures()); };
  const auto largest = std::ranges::max_element(pairs, {}, comparisons);
  if (largest == pairs.end()) return;
  const std::vector<vicinal::Points> images = load({&*largest, 1});
  const bool ascending = (*largest)[0] < (*largest)[1];
  const ImagePair numbered[] = {{ascending ? 0 : 1, ascending ? 1 : 0}};
  (void)matches_of(images, numbered);
}

void BatchMatcher::match_batch(std::span<const ImagePair> pairs, Interrupt& interrupt, ProgressBar& bar) {
  const std::vector<vicinal::Points> images = load(pairs);
  std::vector<ImagePair> numbered(pairs.begin(), pairs.end());  // by the places in `images`, which are those in held_
  for (ImagePair& pair : numbered)
    for (std::int64_t& image : pair) image = std::distance(held_.begin(), held_.find(image));
  std::int64_t work = 0;
  for (const ImagePair& pair : pairs) work += comparisons_of(pair, database_.pictures());
  options_.stop = interrupt.token();
  options_.progress = [&](std::uint64_t done, std::uint64_t total) {
    const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
    bar.show(static_cast<std::uint64_t>(static_cast<double>(done_) + share * static_cast<double>(work)),
             static_cast<std::uint64_t>(run_.comparisons));
    return !interrupt.token().stop_requested();
  };
  const vicinal::Matches found = matches_of(images, numbered);
  write(pairs, found);
  wrote_ = true;
  done_ += work;
  run_.device = found.stats.device;
  interrupt.check();
}

vicinal::Matches BatchMatcher::matches_of(std::span<const vicinal::Points> images,
                                          std::span<const ImagePair> pairs) const {
  try {
    return vicinal::match_pairs(images, pairs, options_);
  } catch (const Error& error) {
    throw Error(error.code(), with_names(error.what()), error.system_errno());
  }
}

std::string BatchMatcher::with_names(std::string_view text) const {
  constexpr std::string_view word = "image ";
  std::string named;
  for (std::size_t at; (at = text.find(word)) != text.npos;) {
    named += text.substr(0, at);
    text.remove_prefix(at);
    std::size_t place = 0;
    const char* const digits = text.data() + word.size();
    const char* const end = std::from_chars(digits, text.data() + text.size(), place).ptr;
    if (end == digits || place >= held_.size()) {
      named += text.substr(0, word.size());
      text.remove_prefix(word.size());
      continue;
    }
    const auto image = std::next(held_.begin(), static_cast<std::ptrdiff_t>(place))->first;
    const Picture& picture = database_.pictures()[static_cast<std::size_t>(image)];
    named += fmt::format("picture \"{}\" (image {})", picture.name, picture.id);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return named.append(text);
}

std::vector<vicinal::Points> BatchMatcher::load(std::span<const ImagePair> pairs) {
  std::map<std::int64_t, Descriptors> wanted;
  for (const ImagePair& pair : pairs)
    for (const std::int64_t image : pair) {
      if (wanted.contains(image)) continue;
      if (auto held = held_.extract(image); !held.empty()) wanted.insert(std::move(held));
      else wanted.emplace(image, database_.descriptors(database_.pictures()[static_cast<std::size_t>(image)]));
    }
  held_ = std::move(wanted);
  std::vector<vicinal::Points> images;
  for (const auto& [image, descriptors] : held_) images.push_back(descriptors.points);
  return images;
}

void BatchMatcher::write(std::span<const ImagePair> pairs, const vicinal::Matches& found) {
  Transaction transaction(database_.file());
  std::vector<MatchedRows> rows;
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    rows.clear();
    for (std::int64_t i = found.offsets[p]; i < found.offsets[p + 1]; ++i) {
      const vicinal::Matches::Rows& match = found.rows[static_cast<std::size_t>(i)];
      rows.push_back({static_cast<std::uint32_t>(match[0]), static_cast<std::uint32_t>(match[1])});
    }
    const auto picture = [&](int side) -> const Picture& {
      return database_.pictures()[static_cast<std::size_t>(pairs[p][static_cast<std::size_t>(side)])];
    };
    if (database_.write_matches(picture(0), picture(1), rows)) ++run_.replaced;
    run_.matches += std::ssize(rows);
  }
  transaction.commit();
}

}  // namespace cli
