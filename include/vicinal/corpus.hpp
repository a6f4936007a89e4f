// A corpus prepared once and searched often.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "vicinal/matrix.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/options.hpp"
#include "vicinal/search.hpp"
#include "vicinal/verify.hpp"

namespace vicinal {

struct CorpusOptions {
  Metric metric = Metric::euclidean;
  bool copy = false;  // false: the rows are borrowed and must outlive the Corpus unchanged
  Degenerate degenerate = Degenerate::error;
  Budget memory = {};  // the prepared form is kept if it fits, else made again in each search
  Execution run = {};
  Progress progress = nullptr;
  std::stop_token stop = {};
  void* stream = nullptr;  // as KnnOptions::stream
};

struct OpenOptions {
  bool verify = true;  // check every block's checksum; false: those of the header and the section table only
  bool copy = false;  // rows into memory; false: the file stays mapped and must not change (a truncated file is SIGBUS)
  Budget memory = {};
  Execution run = {};
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// What save() writes to a file, in memory. Copies share it.
struct SavedBytes {
  std::shared_ptr<const std::byte> data = nullptr;
  std::size_t size = 0;
};

/// Immutable after construction: const calls are safe at once from any number of threads. Move-only.
/// The metric and the rule for degenerate rows are fixed here; those of the options of searches are ignored.
class Corpus {
 public:
  explicit Corpus(const Points& rows, const CorpusOptions& options = {});
  Corpus(Corpus&&) noexcept;
  Corpus& operator=(Corpus&&) noexcept;
  ~Corpus();

  /// A corpus that save() wrote: rows mapped, prepared again. Throws IoError, FormatError, VersionError before anything
  /// is allocated for what the file claims, and what the constructor throws.
  static Corpus open(const std::string& path, const OpenOptions& options = {});
  /// Rows, metric and rule for degenerate rows in one checksummed file (docs/file-format.md); the old file or the new
  /// one is there whenever the machine stops. Throws IoError, Unsupported (a suffix other than .vicinal).
  void save(const std::string& path) const;

  /// The bytes of that file, to send them to another process, say. Throws OutOfMemory, DeviceError (rows in memory of a
  /// device).
  SavedBytes saved() const;
  /// A corpus of such bytes, which are borrowed unless `options.copy`, and must then outlive the corpus unchanged.
  /// Throws as above.
  static Corpus open(std::span<const std::byte> saved, const OpenOptions& options = {});

  Neighbors knn(const Points& queries, const KnnOptions& options = {}) const;
  Report knn_into(const NeighborsView& out, const Points& queries, const KnnOptions& options = {}) const;
  /// The functions of the same names over these rows: the same bits, the same errors, and rows that are prepared
  /// already.
  Neighbors knn_graph(const GraphOptions& options = {}) const;
  CsrNeighbors range_search(const Points& queries, double radius, const RangeOptions& options = {}) const;
  Verdict verify(const Points& queries, const Claim& claim, const VerifyOptions& options = {}) const;

  std::int64_t rows() const noexcept;
  std::int64_t cols() const noexcept;
  DType dtype() const noexcept;
  Metric metric() const noexcept;
  bool owns_rows() const noexcept;      // the rows were copied
  bool resident() const noexcept;       // the prepared form is kept in memory
  std::int64_t bytes() const noexcept;  // anonymous memory held
  double prepare_seconds() const noexcept;

 private:
  struct State;
  struct Opened;
  static Corpus opened(Opened from, const OpenOptions& options);
  std::unique_ptr<State> state_;
};

}  // namespace vicinal
