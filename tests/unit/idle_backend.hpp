// A backend that searches nothing, for tests that ask a backend for one of its parts: each overrides that part alone.
#pragma once
#include "backend/backend.hpp"

struct IdleBackend : vicinal::Backend, vicinal::DeviceBackend, vicinal::SearchBackend, vicinal::SelectBackend {
  const vicinal::DeviceBackend& device() const override { return *this; }
  const vicinal::SearchBackend& search() const override { return *this; }
  const vicinal::SelectBackend& select() const override { return *this; }

  vicinal::Facts idle_facts;
  const vicinal::Facts& facts() const override { return idle_facts; }
  std::string description() const override { return ""; }
  std::int64_t free_bytes() const override { return 0; }
  void check_instruction_set(const std::string&) const override {}

  vicinal::Proposal propose(const vicinal::ProblemShape&, const vicinal::Execution&, vicinal::Proof) const override {
    vicinal::Proposal proposal;
    proposal.cascade = {"canonical"};
    return proposal;
  }
  double seconds(const vicinal::SearchPlan&, const vicinal::ProblemShape&) const override { return 0; }
  std::int64_t bytes(const vicinal::SearchPlan&, const vicinal::ProblemShape&) const override { return 0; }
  std::int64_t prepared_bytes(const vicinal::ProblemShape&, const vicinal::SearchPlan&) const override { return 0; }
  std::shared_ptr<const vicinal::PreparedCorpus> prepare_corpus(const vicinal::SearchSpec&, const vicinal::SearchPlan&,
                                                                vicinal::ThreadPool&) const override {
    return nullptr;
  }
  std::unique_ptr<vicinal::Session> open(const vicinal::SearchSpec&, const vicinal::SearchPlan&, vicinal::Precision,
                                         std::shared_ptr<const vicinal::PreparedCorpus>, vicinal::ThreadPool&,
                                         vicinal::Stats&) const override {
    return nullptr;
  }

  vicinal::SelectStats select_k(const vicinal::SelectProblem&) const override { return {}; }
  std::string select_refusal(const vicinal::SelectProblem&) const override { return ""; }
};
