// A backend that searches nothing, for tests that ask a backend for one of its parts: each overrides that part alone.
#pragma once
#include "backend/backend.hpp"

struct IdleBackend : vicinal::Backend {
  vicinal::Facts facts() const override { return {}; }
  std::int64_t free_bytes() const override { return 0; }
  vicinal::SelectStats select_k(const vicinal::SelectProblem&) override { return {}; }
  std::string select_refusal(const vicinal::SelectProblem&) const override { return ""; }
  std::int64_t bytes(const vicinal::Plan&, const vicinal::ProblemShape&) const override { return 0; }
  std::int64_t prepared_bytes(const vicinal::ProblemShape&, const vicinal::Plan&) const override { return 0; }
  std::int64_t query_lanes(const std::string&) const override { return 0; }
  double slowness(const std::string&) const override { return 1; }
  double int8_gain(const std::string&) const override { return 1; }
  std::shared_ptr<const vicinal::PreparedCorpus> prepare_corpus(const vicinal::SearchSpec&, const vicinal::Plan&,
                                                                vicinal::ThreadPool&) override {
    return nullptr;
  }
  std::unique_ptr<vicinal::Session> open(const vicinal::SearchSpec&, const vicinal::Plan&, vicinal::Precision,
                                         std::shared_ptr<const vicinal::PreparedCorpus>, vicinal::ThreadPool&,
                                         vicinal::Stats&) override {
    return nullptr;
  }
  std::int64_t shape_strings(vicinal::Plan&, const vicinal::StringSizes&, vicinal::Metric, std::int64_t,
                             bool) const override {
    return 0;
  }
  std::int64_t search_strings(const vicinal::StringSearchSpec&, const vicinal::Plan&, const vicinal::StringAnswer&,
                              vicinal::ThreadPool&, vicinal::Stats&) override {
    return 0;
  }
};
