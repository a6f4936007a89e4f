// What a backend says of its device: a name, memory, and the caller's streams.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/precision.hpp"
#include "core/recent.hpp"

namespace vicinal {

struct Facts {
  std::string name;                                 // "cpu", "cuda:0"
  std::vector<std::string> instruction_sets;        // usable here, best first
  std::vector<std::string> built_instruction_sets;  // compiled in
  std::vector<Precision> precisions;                // that a search can be asked to filter in, and the canonical one
};

/// Calls may come from any thread.
struct DeviceBackend {
  virtual ~DeviceBackend() = default;
  /// It says what the device is, and lasts as long as the backend.
  virtual const Facts& facts() const = 0;
  /// It describes the device: "2 threads, avx512".
  virtual std::string description() const = 0;
  /// It returns the bytes that a search may count on. Apart from the facts, since a driver takes longer to tell it than
  /// a small search takes.
  virtual std::int64_t free_bytes() const = 0;
  /// It returns the same as it was at most 10 ms ago, for plans: a system takes longer to tell it than a small search
  /// takes. Where it has changed since, a search whose memory is refused goes on with less.
  std::int64_t recent_free_bytes() const {
    return recent_.get([this] { return free_bytes(); });
  }
  /// It throws InvalidArgument for an instruction set that it does not know, Unsupported for one that does not run
  /// here.
  virtual void check_instruction_set(const std::string& name) const = 0;

  // Optional: for a device with memory and streams of its own.
  /// It tells whether it reads this memory in place, where the host does not.
  virtual bool holds(const void* /*rows*/) const { return false; }
  /// It returns the ordinal of the CUDA device in whose memory this is, where the host cannot read it; -1: the host's,
  /// as far as it can tell.
  virtual int cuda_device(const void* /*memory*/) const { return -1; }
  /// It throws Unsupported where no search can begin on the caller's stream (KnnOptions::stream) now.
  virtual void check_stream(void* /*stream*/) const {}
  /// It waits until what is queued on that stream has run.
  virtual void wait_for(void* /*stream*/) const {}
  /// It gives back the memory that it keeps between calls and no search uses; returns how many bytes that were.
  virtual std::int64_t release_memory() const { return 0; }

 protected:
  /// What is free has just changed much.
  void forget_free_bytes() const noexcept { recent_.forget(); }

 private:
  mutable Recent recent_;
};

}  // namespace vicinal
