#include "permutation/user_defined.hpp"

#include <cmath>

#include "core/text.hpp"

namespace vicinal {
namespace {

class UserDefinedEvaluator final : public DistanceEvaluator {
 public:
  UserDefinedEvaluator(const OwnDistance& distance, const std::vector<std::int64_t>* numbers)
      : distance_(distance), numbers_(numbers) {}
  void start(std::int64_t query) override {
    query_ = numbers_ != nullptr ? (*numbers_)[static_cast<std::size_t>(query)] : query;
  }
  void measure(const std::uint32_t* objects, std::int64_t count, double* values) override {
    distance_(query_, objects, count, values);
    for (std::int64_t i = 0; i < count; ++i)
      if (!std::isfinite(values[i]))
        fail(ErrorCode::invalid_value, cat("the distance from query ", query_, " to object ", objects[i], " is ",
                                           std::isnan(values[i]) ? "NaN" : "infinite"));
  }

 private:
  const OwnDistance& distance_;
  const std::vector<std::int64_t>* numbers_;
  std::int64_t query_ = 0;
};

class UserDefinedQueries final : public Queries {
 public:
  UserDefinedQueries(std::int64_t count, const OwnDistance& distance, std::vector<std::int64_t> numbers)
      : count_(count), distance_(distance), numbers_(std::move(numbers)) {}
  std::int64_t count() const noexcept override { return count_; }
  std::unique_ptr<DistanceEvaluator> evaluator() const override {
    return std::make_unique<UserDefinedEvaluator>(distance_, numbers_.empty() ? nullptr : &numbers_);
  }

 private:
  std::int64_t count_;
  const OwnDistance& distance_;
  std::vector<std::int64_t> numbers_;  // of objects; empty: as they are
};

class UserDefinedObjects final : public Objects {
 public:
  UserDefinedObjects(std::int64_t count, OwnDistance between) : count_(count), between_(std::move(between)) {}
  std::int64_t count() const noexcept override { return count_; }
  std::unique_ptr<Queries> some(std::vector<std::int64_t> ids) const override {
    const auto count = static_cast<std::int64_t>(ids.size());
    return std::make_unique<UserDefinedQueries>(count, between_, std::move(ids));
  }
  const TrueDistance& true_distance() const noexcept override { return unknown_; }
  std::int64_t bytes() const noexcept override { return 0; }
  std::int64_t evaluator_bytes() const noexcept override { return 0; }
  double exact_seconds(const std::vector<std::int64_t>&, std::int64_t, const Execution&, const Budget&) const override {
    return 0;
  }

 private:
  std::int64_t count_;
  OwnDistance between_;
  TrueDistance unknown_;
};

}  // namespace

std::unique_ptr<Objects> open_user_defined(std::int64_t count, OwnDistance between) {
  return std::make_unique<UserDefinedObjects>(count, std::move(between));
}
std::unique_ptr<Queries> user_defined_queries(std::int64_t count, const OwnDistance& distance) {
  return std::make_unique<UserDefinedQueries>(count, distance, std::vector<std::int64_t>{});
}

}  // namespace vicinal
