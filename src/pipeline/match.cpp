// MATCH: rows of one image to rows of another, by their best two (semantics C21). A backend that has a kernel for it takes all pairs at
// once; else each pair is two searches, one a direction, of which this file is the plain twin that tests compare with.
#include "backend/match.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "backend/backend.hpp"
#include "core/fpenv.hpp"
#include "core/metric.hpp"
#include "core/precision.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/match_guide.hpp"
#include "vicinal/search.hpp"

namespace vicinal {
namespace {

[[noreturn]] void refuse(const std::string& message) { fail(ErrorCode::invalid_argument, message); }

void check_rule(const MatchOptions& options) {
  if (options.ratio && !(*options.ratio >= 1e-6 && *options.ratio <= 1e6))
    refuse(cat("ratio must be from 1e-6 to 1e6, got ", *options.ratio, "; none means no ratio test"));
  if (options.max_distance && !(*options.max_distance >= 0))
    refuse(cat("max_distance must be >= 0, got ", *options.max_distance));
  if (options.run.threads < 0) refuse(cat("threads must be >= 0, got ", options.run.threads));
  if (options.memory.host < 0) refuse(cat("memory must be >= 0 bytes, got ", options.memory.host));
}

bool integral(DType type) noexcept { return type == DType::u8 || type == DType::i8; }

/// What is searched for the distance: the metric whose values order as it does, and what they are to the rule. Images without rows have
/// no say.
std::pair<Metric, MatchKey> ranked_by(const MatchDistance& distance, std::span<const Points> images) {
  const auto all = [&](auto is) {
    return std::all_of(images.begin(), images.end(),
                       [&](const Points& image) { return image.rows == 0 || is(image.dtype); });
  };
  if (distance.angle) {
    const bool bytes = all([](DType type) { return type == DType::u8; });
    return bytes ? std::pair(Metric::inner_product, MatchKey::product) : std::pair(Metric::cosine, MatchKey::cosine);
  }
  if (distance.metric == Metric::euclidean && all(integral)) return {Metric::sqeuclidean, MatchKey::square};
  return {distance.metric, MatchKey::distance};
}

/// Images without rows have any columns.
void check_images(std::span<const Points> images, Metric metric) {
  const auto number = [&](const Points& image) { return &image - images.data(); };
  const Points* first = nullptr;
  for (const Points& image : images) {
    check_view(image, cat("image ", number(image)).c_str());
    if (image.rows == 0) continue;
    if (first == nullptr) first = &image;
    if (image.cols != first->cols)
      refuse(
          cat("image ", number(image), " has ", image.cols, " columns, image ", number(*first), " has ", first->cols));
    check_shapes(shape_of(image), shape_of(*first), metric);
  }
}

void check_pairs(std::span<const ImagePair> pairs, std::size_t images) {
  for (std::size_t p = 0; p < pairs.size(); ++p)
    for (const std::int64_t image : pairs[p])
      if (image < 0 || image >= static_cast<std::int64_t>(images))
        refuse(cat("pair ", p, " names image ", image, ", and there are ", images));
}

/// One pair after the other by searches of its rows.
class SearchedPairs {
 public:
  SearchedPairs(const MatchSpec& spec, const Progress& progress, std::uint64_t total)
      : spec_(spec), progress_(progress), total_(total) {}

  /// guide: null where all rows may match.
  std::vector<FoundMatch> matches(const ImagePair& pair, const MatchGuide* guide) {
    const Points &a = spec_.images[static_cast<std::size_t>(pair[0])],
                 &b = spec_.images[static_cast<std::size_t>(pair[1])];
    if (a.rows == 0 || b.rows == 0) return {};
    const std::vector<BestTwo> from_a = best_two(pair[1], pair[0], guide, false);
    const std::vector<BestTwo> from_b =
        spec_.mutual == Mutual::one_way ? std::vector<BestTwo>() : best_two(pair[0], pair[1], guide, true);
    return decide_matches(from_a, from_b, b.rows, spec_.rule, spec_.mutual);
  }

 private:
  /// back: from the pair's second image to its first.
  std::vector<BestTwo> best_two(std::int64_t corpus, std::int64_t queries, const MatchGuide* guide, bool back) {
    const Points &rows = spec_.images[static_cast<std::size_t>(corpus)],
                 &asked = spec_.images[static_cast<std::size_t>(queries)];
    KnnOptions options = spec_.search;
    options.k = 2;
    options.pad = true;
    options.metric = spec_.metric;
    options.distance_type = spec_.metric == Metric::hamming ? DistanceType::u32 : DistanceType::f64;
    const std::uint64_t work = static_cast<std::uint64_t>(rows.rows) * static_cast<std::uint64_t>(asked.rows);
    if (progress_)
      options.progress = [&](std::uint64_t done, std::uint64_t) {
        return progress_(std::min(done_ + std::min(done, work - 1), total_), total_);
      };
    if (guide != nullptr) {
      options.progress = nullptr;
      auto best = guided_best_two(asked, rows.rows, *guide, back, [&](const Points& part, std::int64_t k) {
        options.k = k;
        return search(rows, part, options, corpus, queries);
      });
      done_ += work;
      if (progress_ && !progress_(std::min(done_, total_), total_))
        fail(ErrorCode::cancelled, "cancelled by the caller");
      return best;
    }
    const Neighbors found = search(rows, asked, options, corpus, queries);
    done_ += work;
    std::vector<BestTwo> best(static_cast<std::size_t>(asked.rows));
    for (std::int64_t i = 0; i < asked.rows; ++i)
      best[static_cast<std::size_t>(i)] = {found.id(i, 0), found.distance(i, 0), found.distance(i, 1)};
    return best;
  }

  /// Errors of rows speak of a corpus and of queries: here of which images these are.
  static Neighbors search(const Points& rows, const Points& asked, const KnnOptions& options, std::int64_t corpus,
                          std::int64_t queries) {
    try {
      return knn(rows, asked, options);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_value && error.code() != ErrorCode::range_error) throw;
      throw Error(error.code(), cat(error.what(), " (corpus: image ", corpus, ", query: image ", queries, ")"));
    }
  }

  const MatchSpec& spec_;
  const Progress& progress_;
  std::uint64_t total_, done_ = 0;
};

double rounded(double distance, DistanceType type, const FoundMatch& match) {
  if (type != DistanceType::f32) return distance;
  const auto value = static_cast<float>(distance);
  if (!std::isfinite(value))
    fail(ErrorCode::range_error, cat("the distance ", distance, " of rows ", match.a, " and ", match.b,
                                     " is beyond float32; convert one image to float64"));
  return value;
}

/// The parts of a result, each given back as soon as it is copied.
Matches joined_matches(std::vector<std::vector<FoundMatch>>& parts, DistanceType type, int threads) {
  Matches all;
  all.type = type;
  all.offsets.reserve(parts.size() + 1);
  for (const auto& part : parts) all.offsets.push_back(all.offsets.back() + static_cast<std::int64_t>(part.size()));
  const auto count = static_cast<std::size_t>(all.offsets.back());
  all.rows.resize(count);
  all.distances.resize(count);
  all.ratios.resize(count);
  ThreadPool thread_pool(threads, nullptr, {}, 0);
  thread_pool.for_each(static_cast<std::int64_t>(parts.size()), [&](std::int64_t p, int) {
    auto& part = parts[static_cast<std::size_t>(p)];
    auto to = static_cast<std::size_t>(all.offsets[static_cast<std::size_t>(p)]);
    for (const FoundMatch& match : part) {
      all.rows[to] = {match.a, match.b};
      all.distances[to] = rounded(match.distance, type, match);
      all.ratios[to++] = match.ratio;
    }
    part = {};
  });
  return all;
}

DistanceType type_of(const MatchDistance& distance, std::span<const Points> images) {
  DistanceType type = distance.angle ? DistanceType::f32 : DistanceType::automatic;
  for (const Points& image : images) {
    const DistanceType found = resolve_distance_type(
        DistanceType::automatic, distance.angle ? Metric::cosine : distance.metric, image.dtype, images[0].dtype);
    if (type != DistanceType::f64) type = found;
  }
  return type == DistanceType::automatic ? DistanceType::f32 : type;
}

/// Pairs of rows that are looked at: once a direction where sides are searched one after the other.
std::uint64_t work_of(const MatchSpec& spec, std::uint64_t directions) {
  std::uint64_t work = 0;
  for (const ImagePair& pair : spec.pairs) {
    const auto rows = [&](int side) {
      return static_cast<std::uint64_t>(spec.images[static_cast<std::size_t>(pair[side])].rows);
    };
    work += directions * rows(0) * rows(1);
  }
  return work;
}

/// False: the backend has no kernel for it.
bool matched_at_once(const Backend& backend, const MatchSpec& spec, const MatchOptions& options,
                     std::vector<std::vector<FoundMatch>>& parts, Stats& stats) {
  if (backend.match() == nullptr) return false;
  ThreadPool thread_pool(threads_for(options.run.threads), options.progress, options.stop,
                         static_cast<std::uint64_t>(stats.pairs));
  const auto keep = [&](std::int64_t pair, std::vector<FoundMatch> found) {
    parts[static_cast<std::size_t>(pair)] = std::move(found);
  };
  if (!backend.match()->match(spec, keep, thread_pool, stats)) return false;
  stats.threads = thread_pool.threads();
  thread_pool.finish();
  return true;
}

}  // namespace

namespace {

/// How many rows a best one had to beat: of a guided search without a second it is alone, whatever other rows there are.
std::int64_t competitors(const BestTwo& pair, std::int64_t rows) noexcept { return std::isnan(pair.second) ? 1 : rows; }

}  // namespace

std::vector<FoundMatch> decide_matches(std::span<const BestTwo> a, std::span<const BestTwo> b, std::int64_t b_rows,
                                       const MatchRule& rule, Mutual mutual) {
  const auto a_rows = static_cast<std::int64_t>(a.size());
  std::vector<FoundMatch> matches;
  for (std::int64_t i = 0; i < a_rows; ++i) {
    const BestTwo& from = a[static_cast<std::size_t>(i)];
    if (from.id < 0 || !rule.passes(from, competitors(from, b_rows))) continue;
    double ratio = rule.ratio_of(from, competitors(from, b_rows));
    if (mutual != Mutual::one_way) {
      const BestTwo& back = b[static_cast<std::size_t>(from.id)];
      if (back.id != i || (mutual == Mutual::tested && !rule.passes(back, competitors(back, a_rows)))) continue;
      if (mutual == Mutual::tested) ratio = std::max(ratio, rule.ratio_of(back, competitors(back, a_rows)));
    }
    matches.push_back({i, from.id, rule.distance(from.best), ratio});
  }
  return matches;
}

MatchDistance parse_match_distance(std::string_view name) {
  if (name == "angle") return {.angle = true};
  const Metric metric = parse_metric(name, &MetricInfo::vectors);
  if (metric_info(metric).descending)
    refuse(cat("matching needs a distance, and of ", metric_info(metric).name,
               " larger is nearer; \"angle\" or \"cosine\""));
  return {.metric = metric};
}

Mutual parse_mutual(std::string_view name) {
  if (name == "tested") return Mutual::tested;
  if (name == "nearest") return Mutual::nearest;
  if (name == "one_way") return Mutual::one_way;
  refuse(cat("unknown mutual \"", name, "\"; ways: tested (Python: True), nearest, one_way (Python: False)"));
}

std::vector<ImagePair> image_pairs(std::string_view how, std::int64_t images) {
  constexpr std::string_view sequential = "sequential:";
  std::int64_t reach = how == "exhaustive" ? images : 0;
  if (how.starts_with(sequential)) {
    const char* end = how.data() + how.size();
    const auto read = std::from_chars(how.data() + sequential.size(), end, reach);
    if (read.ec != std::errc() || read.ptr != end) reach = 0;
  }
  if (how != "exhaustive" && reach < 1)
    refuse(cat("unknown pairs \"", how, "\"; \"exhaustive\", \"sequential:N\" with N >= 1, or a list of pairs"));
  std::vector<ImagePair> pairs;
  for (std::int64_t i = 0; i < images; ++i)
    for (std::int64_t j = i + 1; j < images && j - i <= reach; ++j) pairs.push_back({i, j});
  return pairs;
}

Matches match_pairs(std::span<const Points> images, std::span<const ImagePair> pairs, const MatchOptions& options) try {
  const auto start = std::chrono::steady_clock::now();
  check_rule(options);
  check_pairs(pairs, images.size());
  const auto [metric, key] = ranked_by(options.distance, images);
  check_images(images, metric);
  check_guides(options.guides, images, pairs);
  const MatchSpec spec{.images = images,
                       .pairs = pairs,
                       .metric = metric,
                       .rule = {.key = key,
                                .has_ratio = options.ratio.has_value(),
                                .strict = options.strict,
                                .accept_lone = options.accept_lone,
                                .ratio = options.ratio.value_or(1),
                                .max_distance = options.max_distance.value_or(std::numeric_limits<double>::infinity())},
                       .mutual = options.mutual,
                       .search = {.memory = options.memory,
                                  .run = with_environment(options.run),
                                  .stop = options.stop,
                                  .stream = options.stream}};
  const Backend& backend = find_backend(options.run.device);
  for (const Points& image : images) {
    check_reach(backend, image, image, spec.search);
    if (!options.guides.empty())
      check_host(backend, image, cat("image ", &image - images.data()).c_str(), "a guided match");
  }
  backend.device().check_instruction_set(spec.search.run.instruction_set);
  FpGuard guard;
  Stats stats;
  stats.device = backend.device().facts().name;
  stats.pairs = static_cast<std::int64_t>(work_of(spec, 1));
  std::vector<std::vector<FoundMatch>> parts(pairs.size());
  if (options.guides.empty() && spec.search.run.filter != precision_name(Precision::canonical) &&
      matched_at_once(backend, spec, options, parts, stats)) {
    stats.passes = 1;
  } else {
    const std::uint64_t work = work_of(spec, options.mutual == Mutual::one_way ? 1 : 2);
    SearchedPairs searched(spec, options.progress, work);
    for (std::size_t p = 0; p < pairs.size(); ++p)
      parts[p] = searched.matches(pairs[p], options.guides.empty() ? nullptr : &options.guides[p]);
    if (options.progress) options.progress(work, work);
    stats.passes = 2;
  }
  Matches all = joined_matches(parts, type_of(options.distance, images), threads_for(options.run.threads));
  all.stats = std::move(stats);
  all.stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return all;
} catch (const std::bad_alloc&) {
  refuse_memory();
}

Matches match(const Points& a, const Points& b, const MatchOptions& options) {
  const Points images[] = {a, b};
  const ImagePair pair[] = {{0, 1}};
  return match_pairs(images, pair, options);
}

}  // namespace vicinal
