// Which suffix means what, and what is said about names that mean nothing.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "files.hpp"

namespace vicinal::test {
namespace {

TEST(Formats, ListsEachOnce) {
  std::set<std::string> names, suffixes;
  for (const FormatInfo& format : formats()) {
    EXPECT_TRUE(names.insert(format.name).second);
    EXPECT_TRUE(suffixes.insert(format.suffixes).second);
    EXPECT_TRUE((format.suffixes + ",").starts_with("." + format.name + ",")) << format.suffixes;
    EXPECT_FALSE(format.reads.empty());
    EXPECT_EQ(format.writes.empty(),
              !format.writes_rows && !format.writes_results && format.name != "mtx" && format.name != "rangeres")
        << format.name;
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"npy", "npz", "fvecs", "bvecs", "ivecs", "fbin", "f16bin", "u8bin", "i8bin", "ibin",
                                   "u64bin", "bin", "rangeres", "csv", "tsv", "idx", "mtx", "hdf5", "vicinal"}));
}

TEST(Formats, GoByEveryEndingInAnyCase) {
  const std::pair<const char*, const char*> names[] = {
      {"a.NPY", "npy"},           {"t.fbin", "fbin"}, {"t.bin", "bin"},           {"a.h5", "hdf5"},
      {"dir.csv/a.HDF5", "hdf5"}, {"a.b.tsv", "tsv"}, {"x.rangeres", "rangeres"}, {"d/train-images-idx3-ubyte", "idx"},
      {"t10k.idx3-ubyte", "idx"}, {"a.idx", "idx"},   {"a.hbin", "f16bin"},       {"gt.u64bin", "u64bin"},
  };
  for (const auto& [path, format] : names) EXPECT_EQ(format_of(path).name, format) << path;
  expect_error(ErrorCode::unsupported, "unknown suffix \".gz\"", [] { format_of("train-images-idx3-ubyte.gz"); });
  expect_error(ErrorCode::unsupported, "the name has no suffix", [] { format_of("npy"); });
  EXPECT_TRUE(format_of("a.npz").has_members && format_of("a.h5").has_members);
  EXPECT_TRUE(format_of("a.csv").holds_distances && !format_of("a.npy").holds_distances);
}

TEST(Formats, NamesThoseThatWillDo) {
  expect_error(
      ErrorCode::unsupported,
      "unknown suffix \".foo\"; vicinal reads vectors from .npy, .npz, .fvecs, .bvecs, .fbin, .f16bin, .u8bin, .i8bin",
      [] { read_matrix("a.foo"); });
  expect_error(ErrorCode::unsupported, "the name has no suffix; vicinal reads vectors from .npy",
               [] { read_matrix("dir.npy/a"); });
  expect_error(ErrorCode::unsupported, "the name has no suffix", [] { read_matrix(""); });
  expect_error(ErrorCode::unsupported, ".fvecs is not for ids; vicinal reads ids from .npy, .npz, .ivecs, .ibin",
               [] { read_result("a.fvecs"); });
  expect_error(ErrorCode::unsupported, "vicinal writes ids to .npy, .npz, .ivecs, .ibin",
               [] { check_writable("a.mtx"); });
}

TEST(Formats, ReadsDistancesFromThreeOfThem) {
  TemporaryDirectory directory;
  const std::string ids = directory.file("a.npy");
  spit(ids, npy("<i8", "(1, 1)", std::string(8, '\0')));
  expect_error(ErrorCode::unsupported, ".npz is not for distances; vicinal reads distances from .npy, .fvecs, .fbin",
               [&] { read_result(ids, "d.npz"); });
}

TEST(Paths, RefuseNulBytes) {
  const std::string path("a\0.npy", 6);
  for (const auto& call :
       {std::function<void()>([&] { read_matrix(path); }), std::function<void()>([&] { read_result(path); }),
        std::function<void()>([&] { check_writable(path); }),
        std::function<void()>([&] { check_writable("a.npy", path); })}) {
    expect_error(ErrorCode::invalid_argument, "a\\x00.npy: path holds a NUL byte", call);
  }
}

TEST(Paths, StayOnOneLineInMessages) {
  expect_error(ErrorCode::io_error, "cannot open /no\\x0Awhere/\\xFF\xc3\xa9.npy: No such file or directory",
               [] { read_matrix("/no\nwhere/\xff\xc3\xa9.npy"); });
}

TEST(Paths, ThatCannotBeOpenedSayWhy) {
  TemporaryDirectory directory;
  for (const FormatInfo& format : formats()) {
    if (!format.reads_rows && !format.reads_results && format.name != "rangeres") continue;  // not in this build
    const std::string path = directory.file("missing." + format.name);
    const auto missing = error_of([&] {
      if (format.name == "rangeres") read_range(path);
      else if (format.reads_rows) read_matrix(path);
      else read_result(path);
    });
    ASSERT_TRUE(missing);
    EXPECT_EQ(missing->code(), ErrorCode::io_error);
    EXPECT_EQ(missing->system_errno(), ENOENT);
    EXPECT_EQ(std::string(missing->what()), "cannot open " + path + ": No such file or directory");
  }
  std::filesystem::create_directory(directory.file("d.npy"));
  const auto is_directory = error_of([&] { read_matrix(directory.file("d.npy")); });
  ASSERT_TRUE(is_directory);
  EXPECT_EQ(is_directory->system_errno(), EISDIR);
  std::filesystem::create_directory(directory.file("plain"));
  const auto is_plain = error_of([&] { read_matrix(directory.file("plain")); });
  ASSERT_TRUE(is_plain);
  EXPECT_EQ(is_plain->code(), ErrorCode::io_error);
  EXPECT_EQ(is_plain->system_errno(), EISDIR);
  ASSERT_EQ(::mkfifo(directory.file("f.npy").c_str(), 0600), 0);
  expect_error(ErrorCode::io_error, "not a regular file", [&] { read_matrix(directory.file("f.npy")); });
}

TEST(Writable, RefusesBeforeAnyWork) {
  TemporaryDirectory directory;
  const std::string good = directory.file("a.npz");
  check_writable(good);
  check_writable(good, directory.file("d.fbin"));
  EXPECT_EQ(directory.entries(), 0u);

  expect_error(ErrorCode::unsupported, ".fbin is not for ids", [&] { check_writable(directory.file("a.fbin")); });
  expect_error(ErrorCode::unsupported, ".ibin is not for distances; vicinal writes distances to .npy, .fvecs, .fbin",
               [&] { check_writable(good, directory.file("d.ibin")); });
  for (const char* same : {"a.npy", "./a.npy", ".//a.npy"}) {
    expect_error(ErrorCode::invalid_argument, "named for the ids and for the distances",
                 [&] { check_writable(directory.file("a.npy"), directory.file(same)); });
  }
  const auto errno_of = [&](const std::string& path) {
    const auto checked = error_of([&] { check_writable(path); });
    const auto written = error_of([&] { write_neighbors(path, make_neighbors(1, 1, DistanceType::f32)); });
    EXPECT_TRUE(checked && written);
    EXPECT_EQ(std::string(checked->what()), written->what());
    EXPECT_EQ(checked->code(), ErrorCode::io_error);
    return checked->system_errno();
  };
  EXPECT_EQ(errno_of(directory.file("missing/a.npz")), ENOENT);
  spit(directory.file("file"), "x");
  EXPECT_EQ(errno_of(directory.file("file/a.npz")), ENOTDIR);
  std::filesystem::create_directory(directory.file("d.npz"));
  EXPECT_EQ(errno_of(directory.file("d.npz")), EISDIR);
  ASSERT_EQ(::mkfifo(directory.file("f.npz").c_str(), 0600), 0);
  EXPECT_EQ(errno_of(directory.file("f.npz")), EINVAL);
}

TEST(Writable, RespectsPermissions) {
  TemporaryDirectory directory;
  const std::string closed = directory.file("closed"), open = directory.file("open");
  std::filesystem::create_directory(closed);
  std::filesystem::create_directory(open);
  spit(closed + "/old.npy", "old");
  spit(open + "/old.npy", "old");
  ::chmod(directory.path().c_str(), 0755);
  ::chmod(closed.c_str(), 0555);
  ::chmod(open.c_str(), 0777);
  ::chmod((open + "/old.npy").c_str(), 0444);
  spit(open + "/secret.npy", "secret");
  ::chmod((open + "/secret.npy").c_str(), 0);

  const bool root = ::geteuid() == 0;  // root may do everything: be somebody else for a moment
  ASSERT_EQ(root ? ::seteuid(65534) : 0, 0);
  const auto fresh = error_of([&] { write_neighbors(closed + "/new.npy", make_neighbors(1, 1, DistanceType::f32)); });
  const auto old = error_of([&] { write_neighbors(closed + "/old.npy", make_neighbors(1, 1, DistanceType::f32)); });
  const auto protected_file =
      error_of([&] { write_neighbors(open + "/old.npy", make_neighbors(1, 1, DistanceType::f32)); });
  const auto unreadable = error_of([&] { read_matrix(open + "/secret.npy"); });
  ASSERT_EQ(root ? ::seteuid(0) : 0, 0);
  for (const auto& error : {fresh, old, protected_file, unreadable}) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::io_error);
    EXPECT_EQ(error->system_errno(), EACCES);
  }
  EXPECT_EQ(slurp(closed + "/old.npy"), "old");
  EXPECT_EQ(slurp(open + "/old.npy"), "old");
  ::chmod(closed.c_str(), 0755);
}

}  // namespace
}  // namespace vicinal::test
