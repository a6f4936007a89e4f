// A backend that searches nothing, for tests that ask a backend for one of its parts: each overrides that part alone.
#pragma once
#include "backend/backend.hpp"

struct IdleBackend : vicinal::Backend {
  vicinal::Facts facts() const override { return {}; }
  std::int64_t free_bytes() const override { return 0; }
  vicinal::SelectStats select_k(const vicinal::SelectProblem&) override { return {}; }
  std::string select_refusal(const vicinal::SelectProblem&) const override { return ""; }
  std::int64_t bytes(const vicinal::Plan&, const vicinal::Problem&) const override { return 0; }
  std::int64_t kept_bytes(const vicinal::Problem&, const vicinal::Plan&) const override { return 0; }
  std::int64_t query_lanes(const std::string&) const override { return 0; }
  double slowness(const std::string&) const override { return 1; }
  double byte_gain(const std::string&) const override { return 1; }
  std::shared_ptr<const vicinal::Kept> keep(const vicinal::Question&, const vicinal::Plan&, vicinal::Team&) override {
    return nullptr;
  }
  std::unique_ptr<vicinal::Session> open(const vicinal::Question&, const vicinal::Plan&, vicinal::Rung,
                                         std::shared_ptr<const vicinal::Kept>, vicinal::Team&,
                                         vicinal::Stats&) override {
    return nullptr;
  }
  std::int64_t shape_strings(vicinal::Plan&, const vicinal::StringSizes&, vicinal::Metric, std::int64_t,
                             bool) const override {
    return 0;
  }
  std::int64_t search_strings(const vicinal::StringQuestion&, const vicinal::Plan&, const vicinal::StringAnswer&,
                              vicinal::Team&, vicinal::Stats&) override {
    return 0;
  }
};
