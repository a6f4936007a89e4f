// What the shares of several devices report, put together as the report of one search.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "pipeline/multi_device.hpp"
#include "pipeline/walk.hpp"

namespace vicinal {

/// ShareTotals are the facts of shares, as those of one search.
class ShareTotals {
 public:
  ShareTotals(const std::vector<std::string>& devices, const Share& share, std::int64_t queries)
      : share_(share), queries_(queries) {
    stats_.device = joined(devices, ",");
    stats_.notes.push_back(cat(devices.size(), " devices, each with ", share.by_rows ? share.rows : share.queries,
                               share.by_rows ? " rows of the corpus; their lists are merged" : " queries"));
  }
  void add(const Certificate& certificate, const Stats& stats) {
    for (const std::string& precision : certificate.precisions)
      if (std::find(certificate_.precisions.begin(), certificate_.precisions.end(), precision) ==
          certificate_.precisions.end())
        certificate_.precisions.push_back(precision);
    certificate_.largest_bound = std::max(certificate_.largest_bound, certificate.largest_bound);
    certificate_.redone += certificate.redone;
    if (!stats.instruction_set.empty()) stats_.instruction_set = stats.instruction_set;  // of a share that is not empty
    stats_.threads += stats.threads;
    stats_.seconds = std::max(stats_.seconds, stats.seconds);
    stats_.prepare_seconds = std::max(stats_.prepare_seconds, stats.prepare_seconds);
    stats_.pairs += stats.pairs;
    stats_.candidates += stats.candidates;
    stats_.reranked += stats.reranked;
    stats_.underflowed += stats.underflowed;
    stats_.planned_bytes += stats.planned_bytes;
    stats_.used_bytes = std::max(stats_.used_bytes, stats.used_bytes);
    stats_.rotated |= stats.rotated;
    stats_.projected = std::max(stats_.projected, stats.projected);
    stats_.planned_seconds = std::max(stats_.planned_seconds, stats.planned_seconds);
    stats_.passes = std::max(stats_.passes, stats.passes);
    for (const std::string& note : stats.notes)
      if (std::find(stats_.notes.begin(), stats_.notes.end(), note) == stats_.notes.end()) stats_.notes.push_back(note);
  }
  void close(Certificate& certificate, Stats& stats, double start) {
    certificate_.queries = queries_;
    certificate_.redone = std::min(certificate_.redone, queries_);
    certificate_.proven = queries_ - certificate_.redone;
    stats_.seconds = now_seconds() - start;
    certificate = std::move(certificate_);
    stats = std::move(stats_);
  }

 private:
  Share share_;
  std::int64_t queries_;
  Certificate certificate_;
  Stats stats_;
};

}  // namespace vicinal
