// See pieces.hpp.
#include "pipeline/pieces.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/divide.hpp"
#include "core/text.hpp"
#include "io/atomic_file.hpp"
#include "vicinal/device.hpp"
#include "vicinal/error.hpp"
#include "vicinal/resume.hpp"

namespace vicinal {
namespace {

namespace fs = std::filesystem;
using io::Bytes;
using io::Digest128;
using io::Hash128;

constexpr const char* piece_suffix = ".vicinal-piece";

template <class T>
Bytes raw(const T* at, std::size_t count = 1) noexcept {
  return {reinterpret_cast<const std::byte*>(at), count * sizeof(T)};
}

/// The digests of groups of rows, made in parallel, of the values whatever the strides.
std::vector<Digest128> group_digests(const Points& points, std::int64_t group, ThreadPool& thread_pool) {
  const auto size = static_cast<std::int64_t>(dtype_size(points.dtype));
  std::vector<Digest128> digests(static_cast<std::size_t>(divide_up(points.rows, group)));
  thread_pool.for_each(static_cast<std::int64_t>(digests.size()), [&](std::int64_t piece, int) {
    Hash128 own;
    std::vector<std::byte> row(points.col_stride == size ? 0 : static_cast<std::size_t>(points.cols * size));
    for (std::int64_t r = piece * group; r < std::min(points.rows, (piece + 1) * group); ++r) {
      const auto* from = static_cast<const std::byte*>(points.data) + r * points.row_stride;
      if (row.empty()) {
        own.update({from, static_cast<std::size_t>(points.cols * size)});
      } else {
        for (std::int64_t c = 0; c < points.cols; ++c)
          std::memcpy(row.data() + c * size, from + c * points.col_stride, static_cast<std::size_t>(size));
        own.update(row);
      }
    }
    digests[static_cast<std::size_t>(piece)] = own.digest();
    thread_pool.poll(0);
  });
  return digests;
}

/// The shape and the values of all rows.
void hash_rows(Hash128& hash, const Points& points, ThreadPool& thread_pool) {
  constexpr std::int64_t group = 4096;
  const std::array<std::int64_t, 4> shape{points.rows, points.cols, static_cast<std::int64_t>(points.dtype),
                                          points.byte_swapped ? 1 : 0};
  hash.update(raw(shape.data(), shape.size()));
  const std::vector<Digest128> digests = group_digests(points, group, thread_pool);
  hash.update(raw(digests.data(), digests.size()));
}

/// The head of a piece, sound or not; nothing for any other file.
std::optional<PieceHead> head_of(const std::string& path) {
  PieceHead head;
  if (!path.ends_with(piece_suffix)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(&head), sizeof head)) return std::nullopt;
  if (std::memcmp(head.magic, PieceHead{}.magic, sizeof head.magic) != 0) return std::nullopt;
  return head;
}

/// Whether the file ends with the digest of what is before it.
bool is_sound(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  auto left = file ? static_cast<std::int64_t>(file.tellg()) - static_cast<std::int64_t>(sizeof(Digest128)) : -1;
  if (left < 0) return false;
  file.seekg(0);
  Hash128 hash;
  std::vector<std::byte> block(std::size_t{1} << 20);
  while (left > 0) {
    const auto size = static_cast<std::size_t>(std::min<std::int64_t>(left, std::ssize(block)));
    if (!file.read(reinterpret_cast<char*>(block.data()), static_cast<std::streamsize>(size))) return false;
    hash.update({block.data(), size});
    left -= static_cast<std::int64_t>(size);
  }
  Digest128 found;
  return file.read(reinterpret_cast<char*>(&found), sizeof found) && hash.digest() == found;
}

[[noreturn]] void blame_other(const std::string& path, const PieceHead& head) {
  const std::string directory = fs::path(path).parent_path().string();
  const std::string search(head.search, ::strnlen(head.search, sizeof head.search));
  fail(ErrorCode::invalid_argument,
       cat(path, " belongs to another search, of other rows or other options (", search,
           "); name another directory, let that search end with this one, or remove its pieces: rm '", directory, "'/*",
           piece_suffix));
}

/// Whether it is a name that path() makes, or one that such a file has while it is written.
bool is_piece_name(std::string_view name) {
  const auto skip = [&](std::string_view prefix, std::string_view symbols) {
    if (!name.starts_with(prefix)) return false;
    name.remove_prefix(prefix.size());
    const std::size_t count = std::min(name.find_first_not_of(symbols), name.size());
    name.remove_prefix(count);
    return count > 0;
  };
  constexpr std::string_view digits = "0123456789";
  if (!skip("block-", digits)) return false;
  if (!skip("-tier-", digits) && name.starts_with("-row-") && !skip("-row-", digits)) return false;
  if (!name.starts_with(piece_suffix)) return false;
  name.remove_prefix(std::string_view(piece_suffix).size());
  return name.empty() || (skip(".tmp.", digits) && skip(".", "0123456789abcdef") && name.empty());
}

enum class Lock { held, taken, gone };

/// Locks a directory until `file` is closed; held, with no file, where its file system has no locks. Gone: it was
/// removed meanwhile.
Lock lock_directory(const std::string& directory, int& file) {
  file = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? Lock::gone : Lock::held;
  Lock result = Lock::held;
  struct stat opened, named;
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) result = Lock::taken;
  } else if (::fstat(file, &opened) != 0 || ::stat(directory.c_str(), &named) != 0 || opened.st_ino != named.st_ino) {
    result = Lock::gone;
  }
  if (result != Lock::held) {
    ::close(file);
    file = -1;
  }
  return result;
}

}  // namespace

Digest128 piece_key(const Points& corpus, const Points& queries, const KnnOptions& options,
                    std::span<const std::int64_t> words, ThreadPool& thread_pool) {
  Hash128 hash;
  const Eligible& eligible = options.eligible;
  constexpr std::int64_t format = 2;  // 1: lists could lack rows at products beyond the type
  const std::array<std::int64_t, 11> facts{info().semantics_version,
                                           format,
                                           static_cast<std::int64_t>(options.metric),
                                           options.pad ? 1 : 0,
                                           options.first_id,
                                           static_cast<std::int64_t>(options.degenerate),
                                           static_cast<std::int64_t>(eligible.labels),
                                           eligible.ids ? std::ssize(*eligible.ids) : -1,
                                           eligible.bitmap ? std::ssize(*eligible.bitmap) : -1,
                                           std::ssize(eligible.corpus_labels),
                                           static_cast<std::int64_t>(words.size())};
  hash.update(raw(facts.data(), facts.size()));
  hash.update(raw(words.data(), words.size()));
  hash_rows(hash, corpus, thread_pool);
  hash_rows(hash, queries, thread_pool);
  hash.update(raw(&eligible.first));
  hash.update(raw(&eligible.last));
  if (eligible.ids) hash.update(raw(eligible.ids->data(), eligible.ids->size()));
  if (eligible.bitmap) hash.update(raw(eligible.bitmap->data(), eligible.bitmap->size()));
  hash.update(raw(eligible.corpus_labels.data(), eligible.corpus_labels.size()));
  hash.update(raw(eligible.query_labels.data(), eligible.query_labels.size()));
  return hash.digest();
}

void RowDigests::restart() {
  chain_ = Hash128();
  done_ = 0;
}

Digest128 RowDigests::of(const RowParts& corpus, std::int64_t rows, ThreadPool& thread_pool) {
  constexpr std::int64_t most = std::int64_t{1} << 22;  // rows at a time, a multiple of the group
  const auto known = [&](std::int64_t end) {
    return std::find_if(run_digests_.begin(), run_digests_.end(), [&](const auto& at) { return at.first == end; });
  };
  if (const auto at = known(rows); at != run_digests_.end()) return at->second;
  while (done_ < rows) {
    const std::int64_t run = corpus.run(done_), count = std::min({run, rows - done_, most});
    const std::vector<Digest128> digests = group_digests(corpus.slice(done_, count), Pace::multiple, thread_pool);
    chain_.update(raw(digests.data(), digests.size()));
    done_ += count;
    if (count == run && known(done_) == run_digests_.end()) run_digests_.emplace_back(done_, chain_.digest());
  }
  return chain_.digest();
}

PieceFolder::PieceFolder(std::string directory, const PieceHead& own) : directory_(std::move(directory)) {
  for (Lock locked = Lock::gone; locked == Lock::gone;) {
    std::error_code error;
    fs::create_directory(directory_, error);
    if (!fs::is_directory(directory_))
      throw Error(
          ErrorCode::io_error,
          cat("cannot make the directory ", directory_, ": ", error ? error.message() : "a file of that name is there"),
          error ? error.value() : ENOTDIR);
    locked = lock_directory(directory_, lock_);
    if (locked == Lock::taken)
      fail(ErrorCode::invalid_argument, cat("a search that is running saves its pieces in ", directory_,
                                            "; wait for its end, or name another directory"));
  }
  try {
    refuse_others(own);
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

PieceFolder::~PieceFolder() {
  if (lock_ >= 0) ::close(lock_);
}

/// The search that ends first removes the pieces of its directory: those of two searches may not lie together.
void PieceFolder::refuse_others(const PieceHead& own) const {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, ignored)) {
    const std::string path = entry.path().string();
    if (const auto head = head_of(path); head && head->key != own.key && is_sound(path)) blame_other(path, *head);
  }
}

std::string PieceFolder::path(std::int64_t block, std::int64_t first_row, std::int64_t tier) const {
  const auto digits = [](std::int64_t number, std::size_t width) {
    std::string text = std::to_string(number);
    return text.insert(0, std::max(width, text.size()) - text.size(), '0');
  };
  const std::string rows = tier > 0        ? "-tier-" + digits(tier, 12)
                           : first_row < 0 ? ""
                                           : "-row-" + digits(first_row, 12);
  return (fs::path(directory_) / ("block-" + digits(block, 6) + rows + piece_suffix)).string();
}

void PieceFolder::save(const std::string& path, const PieceHead& head, std::span<const Bytes> parts) const {
  io::AtomicFile file(path);
  Hash128 hash;
  const auto append = [&](Bytes part) {
    file.append(part);
    hash.update(part);
  };
  append(raw(&head));
  for (const Bytes part : parts) append(part);
  const Digest128 digest = hash.digest();
  file.append(raw(&digest));
  io::AtomicFile* const one = &file;
  io::AtomicFile::publish({&one, 1});
}

std::optional<PieceFolder::Piece> PieceFolder::load(const std::string& path, const PieceHead& expected,
                                                    std::int64_t corpus_rows) const {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  constexpr auto around = static_cast<std::streamoff>(sizeof(PieceHead) + sizeof(Digest128));
  if (size < around) return std::nullopt;
  Piece piece;
  piece.payload.resize(static_cast<std::size_t>(size - around));
  Digest128 found;
  file.seekg(0);
  const auto read = [&](void* to, std::size_t bytes) {
    return static_cast<bool>(file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)));
  };
  PieceHead& head = piece.head;
  if (!read(&head, sizeof head) || !read(piece.payload.data(), piece.payload.size()) || !read(&found, sizeof found))
    return std::nullopt;
  if (std::memcmp(head.magic, expected.magic, sizeof head.magic) != 0) return std::nullopt;
  Hash128 hash;
  hash.update(raw(&head));
  hash.update(piece.payload);
  if (hash.digest() != found) return std::nullopt;
  if (head.key != expected.key) blame_other(path, head);
  if (head.block != expected.block || head.queries != expected.queries || head.type != expected.type ||
      head.first_row != expected.first_row || head.tier != expected.tier || head.end_row <= head.first_row ||
      head.end_row > corpus_rows)
    return std::nullopt;
  return piece;
}

SavedPieces saved_pieces(const std::string& directory) {
  SavedPieces saved;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const auto head = head_of(entry.path().string());
    if (!head) continue;
    if (head->tier == 0) saved.pairs += head->queries * (head->end_row - head->first_row);
    saved.all_pairs = head->all_pairs;
  }
  return saved;
}

void discard_pieces(const std::string& directory) {
  int lock = -1;
  if (lock_directory(directory, lock) == Lock::taken) return;  // by the same search once more, which removes them then
  std::error_code ignored;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(directory, ignored))  // a kill may have left one half written
    if (is_piece_name(entry.path().filename().string())) fs::remove(entry.path(), ignored);
  ::rmdir(directory.c_str());  // stays if anything else is in it
  if (lock >= 0) ::close(lock);
}

Pace::Pace(Clock clock, std::int64_t first, std::int64_t most)
    : clock_(std::move(clock)), most_(std::max(most, multiple)), rows_(std::min(first, most_)) {}

std::int64_t Pace::begin(std::int64_t left) {
  started_ = clock_();
  rows_ = std::max(rows_ / multiple * multiple, multiple);
  return taken_ = std::min(rows_, left);
}

bool Pace::overdue() const { return taken_ > multiple && clock_() - started_ > latest; }

void Pace::finished() {
  constexpr double most_growth = 8;
  const double took = std::max(clock_() - started_, 1e-9);
  const double wanted = static_cast<double>(taken_) * std::min(target / took, most_growth);
  // The last rows of a block say little of what many take.
  if (taken_ < rows_ && wanted > static_cast<double>(rows_)) return;
  rows_ = static_cast<std::int64_t>(std::min(wanted, static_cast<double>(most_)));
}

void Pace::gave_up(double share) {
  const double rate = std::clamp(share, 0.0, 1.0) / std::max(clock_() - started_, 1e-9);
  rows_ = static_cast<std::int64_t>(static_cast<double>(taken_) * std::min(rate * target / 2, 0.125));
}

}  // namespace vicinal
