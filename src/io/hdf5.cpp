// HDF5, as the ann-benchmarks keep their data: 2-d datasets by name, read in place where they lie in one piece, else
// decoded into memory. Results are written as `neighbors` and `distances`. The library works on an image in memory, so
// the file itself is saved like any other (semantics C23). libhdf5 is not made for files from strangers: what can be
// asked of it (layout, filters, sizes against the file's length) is checked first, but read only files that you trust.
#include "io/format.hpp"
#include "io/message.hpp"

#ifdef VICINAL_HDF5
#include <hdf5.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>
#endif

namespace vicinal::io {
namespace {

/// The magic stands at the beginning, or after a block of the user's own of 512, 1024, 2048, ... bytes.
bool sniff(const Format&, Bytes file) {
  constexpr unsigned char magic[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};
  constexpr std::size_t first_block = 512;
  for (std::size_t at = 0; file.size() >= sizeof magic && at <= file.size() - sizeof magic;
       at = at == 0 ? first_block : 2 * at) {
    if (std::memcmp(file.data() + at, magic, sizeof magic) == 0) return true;
  }
  return false;
}

#ifdef VICINAL_HDF5
constexpr const char* absent = nullptr;

/// One thread at a time, as Debian's library wants it, and not a word on stderr while we are in it.
class Library {
 public:
  Library() : lock_(mutex()) {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Library() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex only;
    return only;
  }
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// An id of the library, closed when it goes.
class Id {
 public:
  Id(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Id() {
    if (id_ >= 0) close_(id_);
  }
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  Id& operator=(Id&&) = delete;
  operator hid_t() const noexcept { return id_; }  // NOLINT(google-explicit-constructor): the C calls take it
  bool valid() const noexcept { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

struct Dataset {
  std::string name;
  Id id;
  std::vector<hsize_t> shape;
  std::optional<Item> item;
  bool swapped = false;
  bool flags = false;  // bool, as rows of 0 and 1

  std::string text() const {
    std::string text = printable(name, 64) + " (";
    for (std::size_t i = 0; i < shape.size(); ++i) text += cat(i == 0 ? "" : ", ", shape[i]);
    return text + (shape.size() == 1 ? ",) " : ") ") + (flags ? "bool" : item ? item_name(*item) : "of another type");
  }
};

std::optional<Item> float_item(hid_t type, std::size_t size) {
  std::size_t sign, exponent, exponent_bits, fraction, fraction_bits;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &fraction, &fraction_bits) < 0) return std::nullopt;
  if (fraction != 0 || exponent != fraction_bits || sign + 1 != 8 * size) return std::nullopt;
  if (size == 8 && exponent_bits == 11) return Item::f64;
  if (size == 4 && exponent_bits == 8) return Item::f32;
  if (size == 2) return exponent_bits == 5 ? Item::f16 : exponent_bits == 8 ? std::optional(Item::bf16) : std::nullopt;
  return std::nullopt;
}

std::optional<Item> item_of(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  const H5T_class_t kind = H5Tget_class(type);
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) return std::nullopt;
  const H5T_order_t order = H5Tget_order(type);
  if (order != H5T_ORDER_LE && order != H5T_ORDER_BE) return std::nullopt;
  if (H5Tget_precision(type) != 8 * size || H5Tget_offset(type) != 0) return std::nullopt;
  if (kind == H5T_FLOAT) return float_item(type, size);
  const bool sign = H5Tget_sign(type) == H5T_SGN_2;
  switch (size) {
    case 1: return sign ? Item::i8 : Item::u8;
    case 2: return sign ? Item::i16 : Item::u16;
    case 4: return sign ? Item::i32 : Item::u32;
    case 8: return sign ? Item::i64 : Item::u64;
    default: return std::nullopt;
  }
}

/// h5py's bool, FALSE and TRUE in a byte.
bool is_bool(hid_t type) {
  return H5Tget_class(type) == H5T_ENUM && H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2;
}

std::optional<Dataset> open_dataset(hid_t file, const std::string& name) {
  const Id object(H5Oopen(file, name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object.valid() || H5Iget_type(object) != H5I_DATASET) return std::nullopt;
  Id id(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!id.valid()) return std::nullopt;
  const Id space(H5Dget_space(id), H5Sclose), type(H5Dget_type(id), H5Tclose);
  const int rank = space.valid() ? H5Sget_simple_extent_ndims(space) : -1;
  if (rank < 0 || !type.valid()) return std::nullopt;
  std::vector<hsize_t> shape(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space, shape.data(), nullptr);
  const bool swapped = H5Tget_order(type) == H5T_ORDER_BE;
  const bool flags = is_bool(type);
  return Dataset{name, std::move(id), std::move(shape), flags ? Item::u8 : item_of(type), swapped, flags};
}

/// The datasets at the top of the file, in the order of their names.
std::vector<Dataset> top_datasets(hid_t file) {
  std::vector<Dataset> list;
  H5G_info_t info;
  if (H5Gget_info(file, &info) < 0) return list;
  constexpr hsize_t most = 1000;
  for (hsize_t i = 0; i < std::min(info.nlinks, most); ++i) {
    char name[256];
    if (H5Lget_name_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT) < 0) continue;
    if (std::optional<Dataset> one = open_dataset(file, name)) list.push_back(std::move(*one));
  }
  return list;
}

std::string version_text() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return cat("libhdf5 ", major, ".", minor, ".", release);
}

/// An external link leads to another file, whose bytes are not those that are mapped here.
bool same_file(hid_t file, hid_t dataset) {
  const auto name = [](hid_t id) {
    const ssize_t size = H5Fget_name(id, nullptr, 0);
    std::string text(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
    H5Fget_name(id, text.data(), text.size() + 1);
    return text;
  };
  return name(file) == name(dataset);
}

std::string list_text(const std::vector<Dataset>& datasets) {
  std::string text;
  for (const Dataset& one : datasets) text += (text.empty() ? "" : ", ") + one.text();
  return text.empty() ? "no datasets" : text;
}

/// Can it be rows of vectors, or values to select from? How well: rows of wide integers or bool, which ids and masks
/// are too, are taken where there are no others.
int suits(const Dataset& one, Role role) {
  if (!one.item || (one.flags && role != as_vectors)) return 0;
  const bool rows = one.shape.size() == 2;
  if (role == as_values) return rows || one.shape.size() == 1 ? 2 : 0;
  return !rows ? 0 : vector_type(*one.item) && !one.flags ? 2 : 1;
}

/// None: distances that are not there.
std::optional<Dataset> find(const std::string& path, hid_t file, const Want& want) {
  if ((want.role == as_vectors || want.role == as_values) && want.member.empty()) {
    std::vector<Dataset> all = top_datasets(file);
    const int best =
        std::any_of(all.begin(), all.end(), [&](const Dataset& one) { return suits(one, want.role) == 2; }) ? 2 : 1;
    const auto wanted = [&](const Dataset& one) { return suits(one, want.role) == best; };
    if (std::count_if(all.begin(), all.end(), wanted) == 1)
      return std::move(*std::find_if(all.begin(), all.end(), wanted));
    fail(ErrorCode::format_error, path,
         "give the name of the dataset to read as the member (FILE.hdf5:NAME); it holds ", list_text(all));
  }
  std::vector<std::string> names = {want.member};
  if (want.role == as_ids && want.member.empty()) names = {"neighbors", "ids", "indices"};
  if (want.role == as_distances && want.member.empty()) names = {"distances"};
  if (want.role == as_range && want.member == "ids") names = {"neighbors", "ids"};
  for (const std::string& name : names) {
    if (std::optional<Dataset> one = open_dataset(file, name)) return one;
    if (!name.empty() && H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0)
      fail(ErrorCode::unsupported, path, "\"", printable(name, 64), "\" is no dataset that ", version_text(),
           " can open");
  }
  if (want.role == as_distances && want.member.empty()) return std::nullopt;
  fail(want.member.empty() || want.role == as_range ? ErrorCode::format_error : ErrorCode::invalid_argument, path,
       "has no dataset \"", printable(names.front(), 64), "\"; it holds ", list_text(top_datasets(file)));
}

/// How many bytes of data the stored ones can at most become; 0 for a filter that is not known here.
std::uint64_t largest_expansion(hid_t properties) {
  constexpr std::uint64_t deflate_at_most = 1032;
  std::uint64_t factor = 1;
  const int filters = H5Pget_nfilters(properties);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    switch (H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &config)) {
      case H5Z_FILTER_DEFLATE: factor *= deflate_at_most; break;
      case H5Z_FILTER_SHUFFLE:
      case H5Z_FILTER_FLETCHER32: break;
      default: return 0;
    }
  }
  return filters < 0 || factor > deflate_at_most ? 0 : factor;
}

/// Where one piece of `need` bytes lies in the mapping; null if it has to be decoded.
const std::byte* in_place(const Dataset& one, H5D_layout_t layout, Bytes file, std::uint64_t need) {
  if (layout != H5D_CONTIGUOUS) return nullptr;
  const haddr_t offset = H5Dget_offset(one.id);
  if (offset == HADDR_UNDEF || offset > file.size() || need > file.size() - offset) return nullptr;
  return file.data() + offset;
}

Array load_dataset(const std::string& where, const Source& source, const Dataset& one, Array array,
                   std::uint64_t need) {
  const Id properties(H5Dget_create_plist(one.id), H5Pclose), type(H5Dget_type(one.id), H5Tclose);
  const H5D_layout_t layout = H5Pget_layout(properties);
  if ((layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED && layout != H5D_COMPACT) ||
      H5Pget_external_count(properties) > 0)
    fail(ErrorCode::unsupported, where, "is stored outside this file; copy it into one");
  const std::uint64_t factor = largest_expansion(properties), stored = H5Dget_storage_size(one.id);
  if (factor == 0) fail(ErrorCode::unsupported, where, "is packed by a filter other than gzip; repack it (h5repack)");
  if (stored > source->bytes().size() || need / factor > stored) {
    fail(ErrorCode::format_error, where, "needs ", need, " bytes, the file of ", source->bytes().size(), " stores ",
         stored, ": truncated?");
  }
  array.swapped = one.swapped && value_size(array.item) > 1;
  array.keeper = source;
  array.data = in_place(one, layout, source->bytes(), need);
  if (array.data != nullptr || need == 0) return array;
  const std::shared_ptr<std::byte[]> memory(new std::byte[need]);
  if (H5Dread(one.id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, memory.get()) < 0)
    fail(ErrorCode::format_error, where, "cannot be decoded: damaged?");
  array.data = memory.get();
  array.mapped = false;
  array.keeper = memory;
  return array;
}

Array read(const Format& self, const Source& source, const Want& want) {
  const std::string& path = source->path();
  if (!sniff(self, source->bytes()))
    fail(ErrorCode::format_error, path, "not an HDF5 file (", first_bytes(source->bytes()), ")");
  const Library library;
  const Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_sec2(access);  // whatever the environment names: the handle below is a descriptor
  H5Pset_file_locking(access, false, true);
  const Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose);
  if (!file.valid()) fail(ErrorCode::format_error, path, "cannot be opened as HDF5: truncated or damaged");
  if (void* handle = nullptr; H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) >= 0 && handle != nullptr &&
                              !source->is_behind(*static_cast<const int*>(handle)))
    fail(ErrorCode::io_error, path, "was replaced while it was read; read it again");
  const std::optional<Dataset> one = find(path, file, want);
  if (!one) return {};
  if (!same_file(file, one->id))
    fail(ErrorCode::unsupported, path, "dataset ", printable(one->name, 64), " lies in another file; open that one");

  const std::string where = cat(path, ", dataset ", printable(one->name, 64));
  if (!one->item || (one->flags && want.role != as_vectors))
    fail(ErrorCode::invalid_argument, where, "its type is not supported; convert with astype");
  const bool line = want.role == as_range || (want.role == as_values && one->shape.size() == 1);
  if (one->shape.size() != (line ? 1 : 2)) {
    const char* wanted = want.role == as_range    ? "1 dimension"
                         : want.role == as_values ? "1 or 2 dimensions"
                                                  : "2 dimensions";
    fail(ErrorCode::invalid_argument, path, "expected ", wanted, ", got ", one->text());
  }
  const std::uint64_t rows = line ? 1 : one->shape[0], cols = one->shape.back(), size = value_size(*one->item);
  const auto need = product({rows, cols, size}), row = product({cols, size});
  if (!need || !row || rows > INT64_MAX)
    fail(ErrorCode::format_error, path, one->text(), " does not fit a file of ", source->bytes().size(), " bytes");
  const Array shape =
      Array::dense(nullptr, *one->item, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols));
  return load_dataset(where, source, *one, shape, *need);
}

hid_t type_of(Item item) {
  return item == Item::f32   ? H5T_IEEE_F32LE
         : item == Item::f64 ? H5T_IEEE_F64LE
         : item == Item::u32 ? H5T_STD_U32LE
                             : H5T_STD_I64LE;
}

bool put(hid_t file, const char* name, const Array& array) {
  const hsize_t shape[] = {static_cast<hsize_t>(array.rows), static_cast<hsize_t>(array.cols)};
  const hsize_t length = shape[0] * shape[1];
  const Id space(array.flat ? H5Screate_simple(1, &length, nullptr) : H5Screate_simple(2, shape, nullptr), H5Sclose);
  const Id properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(properties, false);  // equal results make equal files
  const Id set(H5Dcreate2(file, name, type_of(array.item), space, H5P_DEFAULT, properties, H5P_DEFAULT), H5Dclose);
  if (!set.valid()) return false;
  return length == 0 || H5Dwrite(set, type_of(array.item), H5S_ALL, H5S_ALL, H5P_DEFAULT, array.data) >= 0;
}

void write(const Format&, AtomicFile& out, Role, std::span<const Named> arrays) {
  const Library library;
  std::size_t total = 4096;
  for (const Named& named : arrays)
    total += static_cast<std::size_t>(named.array.rows * named.array.cols) * value_size(named.array.item);
  const Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_core(access, total, false);  // the image grows at once to its whole size
  const Id file(H5Fcreate("image", H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose);
  bool done = file.valid();
  for (const Named& named : arrays) {
    const std::string_view name = named.name;
    done = done && put(file, name == "ids" ? "neighbors" : named.name, named.array);
  }
  done = done && H5Fflush(file, H5F_SCOPE_LOCAL) >= 0;
  const ssize_t size = done ? H5Fget_file_image(file, nullptr, 0) : 0;
  void* image = nullptr;
  if (size <= 0 || H5Fget_vfd_handle(file, access, &image) < 0 || image == nullptr)
    throw Error(ErrorCode::out_of_memory,
                cat("no memory for the HDF5 image of ", bytes_text(static_cast<std::int64_t>(total))));
  out.expect(static_cast<std::uint64_t>(size));
  out.append(as_bytes(*static_cast<void**>(image), static_cast<std::size_t>(size)));
}

#else
constexpr const char* absent =
    "built without HDF5 (VICINAL_HDF5=ON wants libhdf5-dev); h5py can save its arrays as .npy";

Array read(const Format&, const Source& source, const Want&) { fail(ErrorCode::unsupported, source->path(), absent); }
void write(const Format&, AtomicFile&, Role, std::span<const Named>) { throw Error(ErrorCode::unsupported, absent); }
#endif

}  // namespace

const Format hdf5_format = {
    .name = "hdf5",
    .suffix = ".hdf5",
    .also = " .h5",
    .reads = "rows or ids by name (ann-benchmarks); ids and distances together; ranges",
    .writes = "ids and distances (neighbors, distances); ranges",
    .read_roles = as_vectors | as_ids | as_range | as_values,
    .write_roles = as_ids | as_range,
    .holds_distances = true,
    .has_members = true,
    .sniff = sniff,
    .read = read,
    .write = write,
    .absent = absent,
};

}  // namespace vicinal::io
