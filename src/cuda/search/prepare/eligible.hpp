// Which rows may answer, taken to the device once a search.
#pragma once
#include "backend/search.hpp"
#include "cuda/device/device.hpp"
#include "cuda/search/core/args.hpp"

namespace vicinal::cuda {

template <class Device>
class RowChoiceBuffers {
 public:
  RowChoiceBuffers(Device& device, const SearchSpec& spec) : bits_(device), row_labels_(device), query_labels_(device) {
    const RowFilter& filter = spec.filter;
    choice_.all = filter.all();
    choice_.only_self = filter.only_self();
    if (choice_.all) return;
    const RowFilter::View view = filter.view();
    choice_.begin = view.begin;
    choice_.end = view.end;
    choice_.without_self = view.without_self;
    choice_.first_self = view.first_self;
    if (view.bits != nullptr) {
      const std::int64_t words = (spec.corpus.rows + 63) / 64;
      device.in(bits_.reserve(words), view.bits, words * 8);
      choice_.bits = bits_.data();
    }
    if (view.row_labels != nullptr) {
      choice_.labelled = true;
      choice_.same_label = view.same_label;
      device.in(row_labels_.reserve(spec.corpus.rows), view.row_labels, spec.corpus.rows * 8);
      device.in(query_labels_.reserve(view.queries), view.query_labels, view.queries * 8);
      choice_.row_labels = row_labels_.data();
      choice_.query_labels = query_labels_.data();
    }
    device.wait();
  }
  const RowChoice& choice() const noexcept { return choice_; }

 private:
  RowChoice choice_;
  DeviceBuffer<std::uint64_t, Device> bits_;
  DeviceBuffer<std::int64_t, Device> row_labels_, query_labels_;
};

}  // namespace vicinal::cuda
