#include "permutation/permutants.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "core/buffer.hpp"
#include "core/divide.hpp"
#include "core/text.hpp"
#include "core/visit_order.hpp"
#include "permutation/philox.hpp"

namespace vicinal {
namespace {

[[noreturn]] void refuse_permutants(const std::string& message) { fail(ErrorCode::invalid_argument, message); }

void check_given(const std::vector<std::int64_t>& given, std::int64_t count) {
  std::unordered_set<std::int64_t> seen;
  for (const std::int64_t id : given) {
    if (id < 0 || id >= count) refuse_permutants(cat("permutant ", id, " is no object; ids are 0 to ", count - 1));
    if (!seen.insert(id).second) refuse_permutants(cat("permutant ", id, " is given twice"));
  }
}

/// Each object's distance to the nearest permutant so far.
class Nearest {
 public:
  Nearest(const Objects& objects, Metric metric, ThreadPool& thread_pool)
      : objects_(objects), metric_(metric), thread_pool_(thread_pool), values_(objects.count()) {
    std::fill_n(values_.data(), values_.size(), std::numeric_limits<double>::infinity());
  }
  void add(std::int64_t permutant) {
    constexpr std::int64_t at_once = 4096;
    const auto queries = objects_.some({permutant});
    const std::int64_t count = objects_.count();
    thread_pool_.for_each(divide_up(count, at_once), [&](std::int64_t piece, int) {
      const auto evaluator = queries->evaluator();
      evaluator->start(0);
      std::uint32_t numbers[evaluator_block];
      double found[evaluator_block];
      for (std::int64_t begin = piece * at_once; begin < std::min(count, (piece + 1) * at_once);
           begin += evaluator_block) {
        const std::int64_t used = std::min(evaluator_block, count - begin);
        for (std::int64_t i = 0; i < used; ++i) numbers[i] = static_cast<std::uint32_t>(begin + i);
        evaluator->measure(numbers, used, found);
        for (std::int64_t i = 0; i < used; ++i) check_measured(begin + i, {found + i, 1}, metric_);
        for (std::int64_t i = 0; i < used; ++i) values_[begin + i] = std::min(values_[begin + i], found[i]);
        thread_pool_.poll(0);
      }
    });
    values_[permutant] = taken;
  }
  /// The farthest; of equals the first.
  std::int64_t farthest() const {
    return std::max_element(values_.data(), values_.data() + values_.size()) - values_.data();
  }
  double at(std::int64_t object) const noexcept { return values_[object]; }

 private:
  static constexpr double taken = -std::numeric_limits<double>::infinity();  // never to be chosen again
  const Objects& objects_;
  Metric metric_;
  ThreadPool& thread_pool_;
  Buffer<double> values_;
};

std::vector<std::int64_t> farthest_first(const Objects& objects, Metric metric, std::int64_t wanted, std::int64_t first,
                                         ThreadPool& thread_pool) {
  std::vector<std::int64_t> chosen{first};
  Nearest nearest(objects, metric, thread_pool);
  while (static_cast<std::int64_t>(chosen.size()) < wanted) {
    nearest.add(chosen.back());
    chosen.push_back(nearest.farthest());
  }
  return chosen;
}

/// Pedreira and Brisaboa 2007. Where one pass finds too few, the share of the diameter shrinks and another follows.
std::vector<std::int64_t> sparse(const Objects& objects, Metric metric, std::int64_t wanted, std::int64_t first,
                                 ThreadPool& thread_pool) {
  constexpr double share = 0.4, shrink = 0.9;
  std::vector<std::int64_t> chosen{first};
  Nearest nearest(objects, metric, thread_pool);
  nearest.add(first);
  const std::int64_t count = objects.count();
  const double diameter = nearest.at(nearest.farthest());  // seen from the first, which is at least half of it
  const VisitOrder order(count);
  double apart = share * diameter;
  for (std::int64_t i = 0; static_cast<std::int64_t>(chosen.size()) < wanted;) {
    if (i == count) {
      apart *= shrink;
      i = 0;
      thread_pool.poll(0);
      // Copies of permutants are left; or distances that may be negative, of which no share is a smaller one.
      if (!(nearest.at(nearest.farthest()) > 0)) apart = -std::numeric_limits<double>::max();
    }
    const std::int64_t object = order.at(i++);
    if (nearest.at(object) < apart || nearest.at(object) < -std::numeric_limits<double>::max()) continue;
    chosen.push_back(object);
    nearest.add(object);
  }
  return chosen;
}

}  // namespace

void check_measured(std::int64_t object, std::span<const double> distances, Metric metric) {
  for (const double distance : distances)
    if (!std::isfinite(distance)) fail(ErrorCode::range_error, cat("object ", object, ": ", infinite_because(metric)));
}

std::string infinite_because(Metric metric) {
  if (metric != Metric::kullback_leibler) return "a distance leaves f64; scale the rows first";
  return "kullback_leibler is infinite, a 0 of one histogram stands against a mass of the other; give every element a "
         "mass, "
         "or take jensen_shannon";
}

std::vector<std::int64_t> random_ids(std::int64_t wanted, std::int64_t count, std::uint64_t seed, bool sample) {
  const Random random(seed, sample ? Random::Purpose::sample : Random::Purpose::permutants);
  std::unordered_map<std::int64_t, std::int64_t>
      moved;  // what lies at a position, where that is no longer its own number
  const auto at = [&](std::int64_t position) {
    const auto found = moved.find(position);
    return found == moved.end() ? position : found->second;
  };
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < wanted; ++i) {
    const std::int64_t position = i + random.below(i, count - i);
    ids.push_back(at(position));
    moved[position] = at(i);
  }
  return ids;
}

std::int64_t wanted_permutants(const PermutationOptions& options, std::int64_t objects) noexcept {
  if (options.choice == PermutantChoice::given) return static_cast<std::int64_t>(options.given.size());
  return options.permutants == default_permutants ? std::min(usual_permutants, objects) : options.permutants;
}

std::vector<std::int64_t> choose_permutants(const Objects& objects, const PermutationOptions& options,
                                            ThreadPool& thread_pool) {
  const std::int64_t count = objects.count();
  const bool given = options.choice == PermutantChoice::given;
  if (!given && !options.given.empty())
    refuse_permutants(
        cat("permutants are given, and chosen by ", permutant_choice_name(options.choice), "; choose \"given\""));
  const std::int64_t wanted = wanted_permutants(options, count);
  if (wanted < 1 || wanted > most_permutants)
    refuse_permutants(cat("permutants must be 1 to ", most_permutants, ", got ", wanted));
  if (wanted > count) refuse_permutants(cat("permutants=", wanted, " exceeds the ", count, " objects"));
  if (given) {
    check_given(options.given, count);
    return options.given;
  }
  if (options.choice == PermutantChoice::random) return random_ids(wanted, count, options.seed, false);
  const std::int64_t first = random_ids(1, count, options.seed, false).front();
  return options.choice == PermutantChoice::sss ? sparse(objects, options.metric, wanted, first, thread_pool)
                                                : farthest_first(objects, options.metric, wanted, first, thread_pool);
}

}  // namespace vicinal
