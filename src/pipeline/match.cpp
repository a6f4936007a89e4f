// MATCH: rows of one image to rows of another, by their best two (semantics C21). A backend that has a kernel for it
// takes all pairs at once; else each pair is two searches, one a direction, of which this file is the plain twin that
// tests compare with.
#include "backend/match.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <new>
#include <utility>

#include "backend/backend.hpp"
#include "core/fpenv.hpp"
#include "core/metric.hpp"
#include "core/precision.hpp"
#include "core/text.hpp"
#include "pipeline/check.hpp"
#include "pipeline/match.hpp"
#include "pipeline/match_output.hpp"
#include "prepare/check.hpp"
#include "prepare/load.hpp"
#include "vicinal/search.hpp"

namespace vicinal {
namespace {

[[noreturn]] void refuse_match(const std::string& message) { fail(ErrorCode::invalid_argument, message); }

void check_rule(const MatchOptions& options) {
  if (options.ratio && !(*options.ratio >= 1e-6 && *options.ratio <= 1e6))
    refuse_match(cat("ratio must be from 1e-6 to 1e6, got ", *options.ratio, "; none means no ratio test"));
  if (options.max_distance && !(*options.max_distance >= 0))
    refuse_match(cat("max_distance must be >= 0, got ", *options.max_distance));
  if (options.run.threads < 0) refuse_match(cat("threads must be >= 0, got ", options.run.threads));
  if (options.memory.host < 0) refuse_match(cat("memory must be >= 0 bytes, got ", options.memory.host));
}

/// What is searched for the distance of two images: the metric whose values order as it does, what they are to the
/// rule, and the type that distances are rounded to.
MatchKind kind_of(const MatchDistance& distance, const Points& a, const Points& b) {
  const auto type = [&](Metric metric) {
    return resolve_distance_type(DistanceType::automatic, metric, a.dtype, b.dtype);
  };
  if (distance.angle && a.dtype == DType::u8 && b.dtype == DType::u8)
    return {Metric::inner_product, MatchKey::product, type(Metric::cosine)};
  if (distance.angle) return {Metric::cosine, MatchKey::cosine, type(Metric::cosine)};
  if (distance.metric == Metric::euclidean && holds_bytes(a.dtype) && holds_bytes(b.dtype))
    return {Metric::sqeuclidean, MatchKey::square, type(Metric::euclidean)};
  return {distance.metric, MatchKey::distance, type(distance.metric)};
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
      refuse_match(
          cat("image ", number(image), " has ", image.cols, " columns, image ", number(*first), " has ", first->cols));
    check_shapes(shape_of(image), shape_of(*first), metric);
  }
}

void check_guide(const MatchGuide& guide, std::span<const Points> images, std::size_t pairs) {
  if (!(guide.max_error >= 0)) refuse_match(cat("guide: max_error must be >= 0, got ", guide.max_error));
  if (!(guide.apart >= 0)) refuse_match(cat("guide: apart must be >= 0, got ", guide.apart));
  const bool model = guide.model != MatchGuide::Model::anywhere;
  if (model && guide.matrices.size() != pairs)
    refuse_match(cat("guide: ", guide.matrices.size(), " matrices for ", pairs, " pairs"));
  if (!model && guide.apart == 0) return;
  if (guide.keypoints.size() != images.size())
    refuse_match(cat("guide: keypoints of ", guide.keypoints.size(), " images, and there are ", images.size()));
  for (std::size_t i = 0; i < images.size(); ++i) {
    const Points& points = guide.keypoints[i];
    if (points.rows != images[i].rows || (points.rows > 0 && points.cols != 2))
      refuse_match(cat("guide: keypoints of image ", i, " are ", points.rows, " x ", points.cols, ", and it has ",
                       images[i].rows, " rows; they are (rows, 2)"));
    if (points.dtype != DType::f32 && points.dtype != DType::f64)
      refuse_match(cat("guide: keypoints of image ", i, " are ", dtype_name(points.dtype), "; they are f32 or f64"));
  }
}

/// One pair after the other by searches of its rows.
class SearchedPairs {
 public:
  SearchedPairs(const MatchSpec& spec, const Progress& progress, std::uint64_t total)
      : spec_(spec), progress_(progress), total_(total) {}

  std::vector<FoundMatch> matches(const ImagePair& pair) {
    const Points &a = spec_.images[static_cast<std::size_t>(pair[0])],
                 &b = spec_.images[static_cast<std::size_t>(pair[1])];
    if (a.rows == 0 || b.rows == 0) return {};
    const std::vector<RowBest> from_a = best_two(pair[1], pair[0]);
    const std::vector<RowBest> from_b =
        spec_.mutual == Mutual::one_way ? std::vector<RowBest>() : best_two(pair[0], pair[1]);
    return decide_matches(from_a, from_b, spec_.rule, spec_.mutual);
  }

 private:
  std::vector<RowBest> best_two(std::int64_t corpus, std::int64_t queries) {
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
    const Neighbors found = search(rows, asked, options, corpus, queries);
    done_ += work;
    std::vector<RowBest> best(static_cast<std::size_t>(asked.rows));
    for (std::int64_t i = 0; i < asked.rows; ++i)
      best[static_cast<std::size_t>(i)] = {{found.id(i, 0), found.distance(i, 0), found.distance(i, 1)}, rows.rows};
    return best;
  }

  static Neighbors search(const Points& rows, const Points& asked, const KnnOptions& options, std::int64_t corpus,
                          std::int64_t queries) {
    try {
      return knn(rows, asked, options);
    } catch (const Error& error) {
      rethrow_of_images(error, corpus, queries);
    }
  }

  const MatchSpec& spec_;
  const Progress& progress_;
  std::uint64_t total_, done_ = 0;
};

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

MatchAnswer answer_of(MatchOutput& output) {
  return [&](std::span<const std::int64_t> pairs, std::span<const std::int64_t> counts) {
    return output.take(pairs, counts);
  };
}

/// False: the backend has no kernel for it.
bool matched_at_once(const Backend& backend, const MatchSpec& spec, const MatchOptions& options, MatchOutput& output,
                     Stats& stats) {
  const MatchBackend* match = spec.guide != nullptr ? cpu_backend().match() : backend.match();
  if (match == nullptr) return false;
  if (spec.guide != nullptr)
    for (const Points& image : spec.images) check_host(backend, image, "image", "guided matching");
  ThreadPool thread_pool(threads_for(options.run.threads), options.progress, options.stop,
                         static_cast<std::uint64_t>(stats.pairs));
  if (!match->match(spec, answer_of(output), thread_pool, stats)) return false;
  stats.threads = thread_pool.threads();
  thread_pool.finish();
  return true;
}

}  // namespace

void check_pairs(std::span<const ImagePair> pairs, std::size_t images) {
  for (std::size_t p = 0; p < pairs.size(); ++p)
    for (const std::int64_t image : pairs[p])
      if (image < 0 || image >= static_cast<std::int64_t>(images))
        refuse_match(cat("pair ", p, " names image ", image, ", and there are ", images));
}

MatchKind match_kind(const MatchDistance& distance, std::span<const Points> images, std::span<const ImagePair> pairs) {
  const auto image = [&](std::int64_t number) -> const Points& { return images[static_cast<std::size_t>(number)]; };
  const ImagePair* first = nullptr;
  MatchKind kind = kind_of(distance, Points(), Points());
  for (const ImagePair& pair : pairs) {
    const Points &a = image(pair[0]), &b = image(pair[1]);
    if (a.rows == 0 || b.rows == 0) continue;
    const MatchKind own = kind_of(distance, a, b);
    if (first != nullptr && own != kind)
      refuse_match(cat("images ", pair[0], " and ", pair[1], " are ", dtype_name(a.dtype), " and ", dtype_name(b.dtype),
                       ", images ", (*first)[0], " and ", (*first)[1], " ", dtype_name(image((*first)[0]).dtype),
                       " and ", dtype_name(image((*first)[1]).dtype),
                       ": their distances are of two kinds; convert with astype, or match them in two calls"));
    kind = own;
    if (first == nullptr) first = &pair;
  }
  return kind;
}

std::vector<FoundMatch> decide_matches(std::span<const RowBest> a, std::span<const RowBest> b, const MatchRule& rule,
                                       Mutual mutual) {
  std::vector<FoundMatch> matches;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const RowBest& from = a[i];
    if (from.two.id < 0 || !rule.passes(from.two, from.others)) continue;
    double ratio = rule.ratio_of(from.two, from.others);
    if (mutual != Mutual::one_way) {
      const RowBest& back = b[static_cast<std::size_t>(from.two.id)];
      if (back.two.id != static_cast<std::int64_t>(i)) continue;
      if (mutual == Mutual::tested && !rule.passes(back.two, back.others)) continue;
      if (mutual == Mutual::tested) ratio = std::max(ratio, rule.ratio_of(back.two, back.others));
    }
    matches.push_back({static_cast<std::int64_t>(i), from.two.id, rule.distance(from.two.best), ratio});
  }
  return matches;
}

void rethrow_of_images(const Error& error, std::int64_t corpus, std::int64_t queries) {
  if (error.code() != ErrorCode::invalid_value && error.code() != ErrorCode::range_error) throw error;
  // Advice on an option of searches is left out: matching has none of these.
  if (const auto* unfit = dynamic_cast<const RowError*>(&error))
    throw Error(error.code(),
                cat("row ", unfit->row(), " of image ", unfit->side() == "corpus" ? corpus : queries, unfit->fault()));
  throw Error(error.code(), cat(error.what(), " (image ", corpus, " and image ", queries, ")"));
}

MatchDistance parse_match_distance(std::string_view name) {
  if (name == "angle") return {.angle = true};
  const Metric metric = parse_metric(name, &MetricInfo::vectors);
  if (metric_info(metric).descending)
    refuse_match(cat("matching needs a distance, and of ", metric_info(metric).name,
                     " larger is nearer; \"angle\" or \"cosine\""));
  return {.metric = metric};
}

Mutual parse_mutual(std::string_view name) {
  if (name == "tested") return Mutual::tested;
  if (name == "nearest") return Mutual::nearest;
  if (name == "one_way") return Mutual::one_way;
  refuse_name("mutual", name, nearest_name(name, {"tested", "nearest", "one_way"}),
              "known: tested (Python: True), nearest, one_way (Python: False)");
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
    refuse_match(cat("unknown pairs \"", how, "\"; \"exhaustive\", \"sequential:N\" with N >= 1, or a list of pairs"));
  std::vector<ImagePair> pairs;
  for (std::int64_t i = 0; i < images; ++i)
    for (std::int64_t j = i + 1; j < images && j - i <= reach; ++j) pairs.push_back({i, j});
  return pairs;
}

Matches match_pairs(std::span<const Points> images, std::span<const ImagePair> pairs, const MatchOptions& options) try {
  const auto start = std::chrono::steady_clock::now();
  check_rule(options);
  check_pairs(pairs, images.size());
  const MatchKind kind = match_kind(options.distance, images, pairs);
  check_images(images, kind.metric);
  if (options.guide != nullptr) check_guide(*options.guide, images, pairs.size());
  if (const std::vector<std::string> devices = several_devices(options.run.device); !devices.empty())
    return match_on_devices(images, pairs, options, devices);
  // Images that are matched with no rows are not looked at again: theirs may be of another type.
  std::vector<Points> matched(images.size());
  for (const ImagePair& pair : pairs) {
    const auto a = static_cast<std::size_t>(pair[0]), b = static_cast<std::size_t>(pair[1]);
    if (images[a].rows > 0 && images[b].rows > 0) matched[a] = images[a], matched[b] = images[b];
  }
  const MatchSpec spec{.images = matched,
                       .pairs = pairs,
                       .metric = kind.metric,
                       .rule = {.key = kind.key,
                                .has_ratio = options.ratio.has_value(),
                                .strict = options.strict,
                                .accept_lone = options.accept_lone,
                                .ratio = options.ratio.value_or(1),
                                .max_distance = options.max_distance.value_or(std::numeric_limits<double>::infinity())},
                       .mutual = options.mutual,
                       .guide = options.guide,
                       .search = {.memory = options.memory,
                                  .run = with_environment(options.run),
                                  .stop = options.stop,
                                  .stream = options.stream}};
  const Backend& backend = find_backend(options.run.device);
  for (const Points& image : images) check_reach(backend, image, image, spec.search);
  if (const std::string& asked = spec.search.run.instruction_set; asked != "auto")
    backend.device().check_instruction_set(asked);
  FpGuard guard;
  Stats stats;
  stats.device = backend.device().facts().name;
  stats.pairs = static_cast<std::int64_t>(work_of(spec, 1));
  MatchOutput output(spec, kind.type);
  const bool at_once = spec.guide != nullptr || spec.search.run.filter != precision_name(Precision::canonical);
  if (at_once && matched_at_once(backend, spec, options, output, stats)) {
    stats.passes = 1;
  } else {
    const std::uint64_t work = work_of(spec, options.mutual == Mutual::one_way ? 1 : 2);
    SearchedPairs searched(spec, options.progress, work);
    for (std::size_t p = 0; p < pairs.size(); ++p)
      give_matches(answer_of(output), static_cast<std::int64_t>(p), searched.matches(pairs[p]));
    if (options.progress) options.progress(work, work);
    stats.passes = 2;
  }
  Matches all = output.finish(threads_for(options.run.threads));
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
