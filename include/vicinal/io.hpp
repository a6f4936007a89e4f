// Files by suffix: matrices in, results out. src/io/table.cpp lists the formats, one line each.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "vicinal/matrix.hpp"
#include "vicinal/neighbors.hpp"
#include "vicinal/select.hpp"
#include "vicinal/strings.hpp"

namespace vicinal {

/// Rows of a file, mapped where the format allows it; keeps the mapping alive. Cheap to copy.
/// Integers of 16 to 64 bits become f32 or f64, exactly or not at all (elements.hpp). Files of ids (ivecs, ibin) are
/// refused here: see read_result.
class Matrix {
 public:
  const Points& points() const noexcept { return points_; }
  bool mapped() const noexcept { return mapped_; }        // false: the rows were decoded into memory
  bool converted() const noexcept { return converted_; }  // the file holds integers of 16 to 64 bits
  const std::string& path() const noexcept { return path_; }
  /// How text that can be read in two ways was read, for people; empty where there was no choice.
  const std::string& note() const noexcept { return note_; }

  Matrix() = default;
  Matrix(const Points& points, std::shared_ptr<const void> keeper, bool mapped, std::string path,
         bool converted = false, std::string note = "")
      : points_(points), keeper_(std::move(keeper)), mapped_(mapped), converted_(converted), path_(std::move(path)),
        note_(std::move(note)) {}

 private:
  Points points_;
  std::shared_ptr<const void> keeper_;
  bool mapped_ = false, converted_ = false;
  std::string path_, note_;
};

/// Is the first line of csv or tsv the names of columns? automatic: words are, and so are the integers 0 to d - 1 that
/// pandas writes for columns without names, for d > 2, and for d = 2 where the second line has more than plain
/// integers; but not where that line counts on.
enum class Header : std::uint8_t { automatic, present, absent };

struct ReadOptions {
  std::string member;  // array of an npz or hdf5; empty: the only one, or the only one that is 2-d and of a DType
  Header header = Header::automatic;
};
/// Throws IoError (system refused), FormatError (not what it says it is), Unsupported (unknown suffix,
/// message lists the known ones). Sizes are checked against the file's length before any allocation.
Matrix read_matrix(const std::string& path, const ReadOptions& options = {});

/// Values of a file to select from, the same way: an array of one dimension is one row.
class ValueMatrix {
 public:
  const Values& values() const noexcept { return values_; }
  bool mapped() const noexcept { return mapped_; }
  const std::string& path() const noexcept { return path_; }
  const std::string& note() const noexcept { return note_; }  // as of a Matrix

  ValueMatrix() = default;
  ValueMatrix(const Values& values, std::shared_ptr<const void> keeper, bool mapped, std::string path,
              std::string note = "")
      : values_(values), keeper_(std::move(keeper)), mapped_(mapped), path_(std::move(path)), note_(std::move(note)) {}

 private:
  Values values_;
  std::shared_ptr<const void> keeper_;
  bool mapped_ = false;
  std::string path_, note_;
};
/// Any type of ValueType that the format holds; csv and tsv hold f64. Throws as read_matrix does.
ValueMatrix read_values(const std::string& path, const ReadOptions& options = {});

/// ids of any tool's result, and distances where the file (npz, bin, csv, hdf5) or a second file holds them.
struct ResultFile {
  std::int64_t rows = 0, k = 0;
  std::vector<std::int64_t> ids;
  bool has_distances = false;
  DistanceType distance_type = DistanceType::f32;
  std::vector<std::byte> distances;  // rows x k of distance_type
};
ResultFile read_result(const std::string& path, const std::string& distances_path = "");

/// Writes ids and, where the format holds them (npz, bin, csv, tsv, hdf5) or `distances_path` is given (npy, fvecs,
/// fbin), distances. Written beside, synced, renamed: a kill leaves the old file or the new one.
/// ids above 2^31 - 1 in ivecs, ibin or bin: RangeError naming a format that can (u64bin, npy, npz). f64 distances in
/// fvecs, fbin or bin: RangeError.
void write_neighbors(const std::string& path, const Neighbors& result, const std::string& distances_path = "");
/// A graph: .npz holds a sparse matrix as scipy.sparse.load_npz reads it (data as returned, explicit zeros kept), .mtx
/// the same as text; other formats take what write_neighbors gives them (CsrNeighbors has only the two).
void write_graph(const std::string& path, const Neighbors& graph, const std::string& distances_path = "");
void write_graph(const std::string& path, const CsrNeighbors& graph);
/// A range result: .npz (offsets, ids, distances), .rangeres, .csv and .tsv (query,id,distance).
void write_range(const std::string& path, const CsrNeighbors& result);
/// What write_range wrote, npz or rangeres.
CsrNeighbors read_range(const std::string& path);
/// A selection: .npz (values, ids, payload), .csv and .tsv (columns id_0, ..., v_0, ... and p_0, ... in text that reads
/// back as the same values), .npy (the ids alone). payload_type says what its items are; none: unsigned integers of
/// their size.
void write_selection(const std::string& path, const Selection& selection, std::optional<ValueType> payload_type = {});
/// What a result is, for the checks that come before the work.
enum class ResultKind : std::uint8_t { neighbors, graph, sparse_graph, range, selection };
/// Throws exactly what write_neighbors would for these paths, before any work: unknown suffix, a folder
/// that does not exist or cannot be written, a format that cannot hold `distances_path`. Of a selection, whose type is
/// known when its values have been read: a format that cannot hold `values` either.
void check_writable(const std::string& path, const std::string& distances_path = "",
                    ResultKind kind = ResultKind::neighbors, std::optional<ValueType> values = {});
/// What lists of neighbours will be, before they are found.
struct ListsToWrite {
  std::int64_t rows = 0, k = 0, largest_id = 0;
  DistanceType type = DistanceType::f32;
};
/// Throws RangeError where the files that write_neighbors would write cannot hold such lists: what a search should not
/// end with.
void check_holds(const std::string& path, const std::string& distances_path, const ListsToWrite& lists);
/// It returns whether two paths are one file, by any spelling, symbolic link or hard link, there or not yet.
bool same_file(const std::string& a, const std::string& b);

/// Removes the temporaries of saves in progress, for a handler of SIGINT or SIGTERM: async-signal-safe.
void discard_unfinished_files() noexcept;

/// A dense matrix of one DType to npy, fvecs, bvecs, fbin, f16bin, u8bin, i8bin, csv, tsv by suffix; the four with n
/// and d in front have counts of 64 bits where 32 do not do.
void write_matrix(const std::string& path, const Points& points);

/// One string a line of a text file: UTF-8 (a byte order mark is skipped, LF or CR LF ends a line), or bytes between
/// line feeds.
/// Throws IoError, FormatError naming line and byte, Unsupported for a suffix of files of numbers.
StringList read_strings(const std::string& path, Encoding encoding = Encoding::utf8);

/// One integer a row: labels, ids, or a mask (bool). From .npy of one dimension and .txt with one a line.
struct Column {
  std::vector<std::int64_t> values;
  bool mask = false;
};
Column read_column(const std::string& path);

struct FormatInfo {
  std::string name;      // "fvecs"
  std::string suffixes;  // ".fvecs", ".hdf5, .h5"
  std::string reads;     // "f32 rows"
  std::string writes;    // "ids", "ids and distances", ...
  bool reads_rows = false, reads_results = false, writes_rows = false, writes_results = false;
  bool holds_distances = false;  // beside the ids of a result, in the same file
  bool has_members = false;      // several arrays under names: FILE.npz:NAME on the command line
};
std::vector<FormatInfo> formats();
/// The one that the name's suffix means. Throws Unsupported with the known ones.
FormatInfo format_of(const std::string& path);

}  // namespace vicinal
