// Saving: whatever fails, and whenever the process is killed, the name shows the old file or the new one, whole.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <random>

#include "files.hpp"
#include "io/atomic_file.hpp"
#include "io/mmap.hpp"
#include "killed_saves.hpp"

namespace vicinal::test {
namespace {

using io::AtomicFile;
using io::system_calls;
using io::SystemCalls;

/// Puts the real system calls back.
struct RestoreCalls {
  SystemCalls real = system_calls();
  ~RestoreCalls() { system_calls() = real; }
};

void publish(AtomicFile& file) {
  AtomicFile* const one = &file;
  AtomicFile::publish({&one, 1});
}

TEST(AtomicFile, SaysWhichMappedFileWasCutShort) {
  TemporaryDirectory directory;
  const std::string from = directory.file("from"), to = directory.file("to");
  spit(from, std::string(3 << 20, 'x'));
  const io::MappedFile mapped(from);
  std::filesystem::resize_file(from, 1 << 20);
  expect_error(ErrorCode::io_error, "from: the file was cut short", [&] {
    AtomicFile file(to);
    file.append(mapped.bytes());
    publish(file);
  });
  EXPECT_EQ(directory.entries(), 1u);
}

// One call of the saving fails: number `at`, counted over all calls.
struct Injection {
  SystemCalls real;
  int seen = 0, at = 0, reason = 0;
  bool renamed = false;  // before the failure
  bool hit() {
    if (++seen != at) return false;
    errno = reason;
    return true;
  }
} injection;

void inject(int at, int reason) {
  injection = {injection.real, 0, at, reason, false};
  system_calls() = {[](const char* path, int flags, mode_t mode) {
                      return injection.hit() ? -1 : injection.real.open(path, flags, mode);
                    },
                    [](int fd, const void* data, std::size_t size) {
                      return injection.hit() ? ssize_t{-1} : injection.real.write(fd, data, size);
                    },
                    [](int fd, const void* data, std::size_t size, off_t offset) {
                      return injection.hit() ? ssize_t{-1} : injection.real.pwrite(fd, data, size, offset);
                    },
                    [](int fd) { return injection.hit() ? -1 : injection.real.fsync(fd); },
                    [](int fd) {
                      const int result = injection.real.close(fd);  // a close that fails has closed all the same
                      return injection.hit() ? -1 : result;
                    },
                    [](const char* from, const char* to) {
                      if (injection.hit()) return -1;
                      injection.renamed = true;
                      return injection.real.rename(from, to);
                    }};
}

/// In a child process: 0 when `call` returned true. Signals and limits set there stay there.
int exit_code_of(const std::function<bool()>& call) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = false;
    try {
      good = call();
    } catch (...) {}
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

TEST(AtomicFile, ShowsNothingUntilItIsPublished) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a");
  spit(path, "old");
  {
    AtomicFile file(path);
    file.append(bytes_of("new"));
    EXPECT_EQ(slurp(path), "old");
    EXPECT_EQ(directory.entries(), 2u);
    publish(file);
    EXPECT_EQ(slurp(path), "new");
  }
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(AtomicFile, LeavesNothingWhenItIsDropped) {
  TemporaryDirectory directory;
  spit(directory.file("a"), "old");
  { AtomicFile(directory.file("a")).append(bytes_of("new")); }
  EXPECT_EQ(slurp(directory.file("a")), "old");
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(AtomicFile, TemporaryNamesTheProcess) {
  TemporaryDirectory directory;
  const AtomicFile file(directory.file("a.npy"));
  const std::string name = std::filesystem::directory_iterator(directory.path())->path().filename();
  EXPECT_EQ(name.rfind("a.npy.tmp." + std::to_string(::getpid()) + ".", 0), 0u) << name;
}

TEST(AtomicFile, WritesAnyMixOfSizes) {
  TemporaryDirectory directory;
  std::string expected;
  AtomicFile file(directory.file("a"));
  for (const std::size_t size : {0, 1, 4096, 1 << 20, (1 << 20) - 1, (1 << 20) + 1, 3 << 20, 7}) {
    const std::string part(size, static_cast<char>('a' + expected.size() % 26));
    file.append(bytes_of(part));
    expected += part;
    EXPECT_EQ(file.size(), expected.size());
  }
  file.patch(5, bytes_of("patched"));
  expected.replace(5, 7, "patched");
  file.append(bytes_of("end"));
  publish(file);
  EXPECT_EQ(slurp(directory.file("a")), expected + "end");
}

TEST(AtomicFile, KeepsPermissionsAndLinks) {
  TemporaryDirectory directory;
  spit(directory.file("real"), "old");
  ::chmod(directory.file("real").c_str(), 0640);
  std::filesystem::create_symlink("real", directory.file("link"));
  AtomicFile file(directory.file("link"));
  file.append(bytes_of("new"));
  publish(file);
  EXPECT_TRUE(std::filesystem::is_symlink(directory.file("link")));
  EXPECT_EQ(slurp(directory.file("real")), "new");
  struct stat status;
  ASSERT_EQ(::stat(directory.file("real").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(AtomicFile, SavesNamesAsLongAsNamesMayBe) {
  TemporaryDirectory directory;
  const std::string path = directory.file(std::string(251, 'n') + ".npy");
  write_neighbors(path, make_neighbors(2, 3, DistanceType::f32));
  EXPECT_EQ(read_result(path).rows, 2);
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(AtomicFile, SurvivesShortAndInterruptedCalls) {
  TemporaryDirectory directory;
  const Neighbors result = make_neighbors(3000, 10, DistanceType::f64, true);
  write_neighbors(directory.file("a.npz"), result);
  const RestoreCalls restore;
  injection.real = restore.real;
  static int calls = 0;
  system_calls().write = [](int fd, const void* data, std::size_t size) {
    if (++calls % 3 != 0) return injection.real.write(fd, data, std::min<std::size_t>(size, 777));
    errno = EINTR;
    return ssize_t{-1};
  };
  system_calls().pwrite = [](int fd, const void* data, std::size_t size, off_t at) {
    if (++calls % 3 != 0) return injection.real.pwrite(fd, data, std::min<std::size_t>(size, 1), at);
    errno = EINTR;
    return ssize_t{-1};
  };
  write_neighbors(directory.file("b.npz"), result);
  EXPECT_GT(calls, 400);
  EXPECT_EQ(slurp(directory.file("b.npz")), slurp(directory.file("a.npz")));
}

TEST(AtomicFile, AnyFailingCallLeavesTheOldFilesOrTheNew) {
  const Neighbors old_result = make_neighbors(20, 3, DistanceType::f32, true);
  const Neighbors new_result = make_neighbors(40, 3, DistanceType::f32, true, 1000);
  for (const int reason : {ENOSPC, EIO, EDQUOT}) {
    int failures = 0;
    for (int at = 1;; ++at) {
      TemporaryDirectory directory;
      const std::string ids = directory.file("a.npz"), distances = directory.file("d.fvecs");
      write_neighbors(ids, old_result, distances);
      const RestoreCalls restore;
      injection.real = restore.real;
      inject(at, reason);
      const auto error = error_of([&] { write_neighbors(ids, new_result, distances); });
      system_calls() = restore.real;
      EXPECT_EQ(directory.entries(), 2u) << "call " << at;
      if (injection.seen < at) break;  // past the last call
      const ResultFile shown = read_result(ids);
      const bool is_new = shown.rows == 40;
      expect_same(shown, is_new ? new_result : old_result, true);
      EXPECT_TRUE(injection.renamed || !is_new);
      if (!error) continue;  // closing a directory is not worth an error
      ++failures;
      EXPECT_EQ(error->code(), ErrorCode::io_error);
      EXPECT_EQ(error->system_errno(), reason);
    }
    EXPECT_GT(failures, 12) << "open, write, patch, sync, close and rename of two files, their directory";
  }
}

TEST(AtomicFile, RenamesNeitherFileUntilBothAreSynced) {
  TemporaryDirectory directory;
  const RestoreCalls restore;
  injection.real = restore.real;
  static std::string order;
  order.clear();
  system_calls().fsync = [](int fd) { return order += 's', injection.real.fsync(fd); };
  system_calls().rename = [](const char* from, const char* to) {
    return order += 'r', injection.real.rename(from, to);
  };
  write_neighbors(directory.file("a.ivecs"), make_neighbors(2, 3, DistanceType::f32), directory.file("d.fvecs"));
  EXPECT_EQ(order, "ssrrss");
}

TEST(AtomicFile, SaysHowMuchWasWrittenWhenTheDiskIsFull) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.npy");
  spit(path, "old");
  const RestoreCalls restore;
  injection.real = restore.real;
  static std::size_t room;
  room = 1 << 20;
  system_calls().write = [](int fd, const void* data, std::size_t size) {
    if (room == 0) return errno = ENOSPC, ssize_t{-1};
    const std::size_t part = std::min(size, room);
    room -= part;
    return injection.real.write(fd, data, part);
  };
  const std::vector<std::uint8_t> data(3355443);
  const auto error = error_of([&] { write_matrix(path, MatrixView<std::uint8_t>{data.data(), 1, 3355443}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->system_errno(), ENOSPC);
  EXPECT_EQ(std::string(error->what()), "cannot write " + path + ": wrote 1.0 of 3.2 MiB: No space left on device");
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(AtomicFile, MeetsAFileSizeLimit) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.npz");
  const Neighbors result = make_neighbors(20000, 10, DistanceType::f32);
  write_neighbors(path, make_neighbors(2, 10, DistanceType::f32));
  const int code = exit_code_of([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100000, 100000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const auto error = error_of([&] { write_neighbors(path, result); });
    return error && error->code() == ErrorCode::io_error && error->system_errno() == EFBIG;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(read_result(path).rows, 2);
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(AtomicFile, MeetsAFullFileSystem) {
  TemporaryDirectory directory;
  constexpr int not_allowed = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!mounted) ::_exit(not_allowed);
    const std::string path = directory.file("a.npz");
    write_neighbors(path, make_neighbors(2, 10, DistanceType::f32));
    const auto error = error_of([&] { write_neighbors(path, make_neighbors(20000, 10, DistanceType::f32)); });
    const bool good = error && error->code() == ErrorCode::io_error && error->system_errno() == ENOSPC &&
                      std::string(error->what()).find(" of 2.3 MiB: No space left on device") != std::string::npos &&
                      directory.entries() == 1 && read_result(path).rows == 2;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == not_allowed) GTEST_SKIP() << "not allowed to mount a tmpfs here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(AtomicFile, KillingASaveLeavesTheOldFilesOrTheNew) {
  TemporaryDirectory directory;
  const std::string ids = directory.file("a.npz"), distances = directory.file("d.npy");
  const Neighbors results[] = {make_neighbors(4000, 10, DistanceType::f32),
                               make_neighbors(5000, 10, DistanceType::f32, false, 7)};
  std::string whole[2][2];
  std::int64_t save_us = 0;
  for (const int i : {1, 0}) {
    save_us = time_of([&] { write_neighbors(ids, results[i], distances); });
    whole[i][0] = slurp(ids);
    whole[i][1] = slurp(distances);
  }
  std::mt19937 random(20261121);
  for (int round = 0; round < 50; ++round) {
    saves_until(SIGKILL, random, save_us,
                [&](std::size_t i) { write_neighbors(ids, results[(i + 1) % 2], distances); });
    const std::string shown[] = {slurp(ids), slurp(distances)};
    for (int f = 0; f < 2; ++f) EXPECT_TRUE(shown[f] == whole[0][f] || shown[f] == whole[1][f]) << "round " << round;
  }
  write_neighbors(ids, results[1], distances);  // whatever temporaries lie about now
  expect_same(read_result(ids, distances), results[1], true);
}

TEST(LiveTemporaries, AreRemovedOnRequest) {
  TemporaryDirectory directory;
  spit(directory.file("a"), "old");
  AtomicFile first(directory.file("a")), second(directory.file("b"));
  first.append(bytes_of("new"));
  EXPECT_EQ(directory.entries(), 3u);
  discard_unfinished_files();
  EXPECT_EQ(directory.entries(), 1u);
  expect_error(ErrorCode::io_error, "No such file or directory", [&] { publish(first); });
  EXPECT_EQ(slurp(directory.file("a")), "old");
  discard_unfinished_files();
  write_neighbors(directory.file("c.npy"), make_neighbors(1, 1, DistanceType::f32));
  discard_unfinished_files();
  EXPECT_EQ(directory.entries(), 2u) << "a published file is not a temporary";
}

TEST(LiveTemporaries, OfAParentAreLeftToIt) {
  TemporaryDirectory directory;
  const AtomicFile file(directory.file("a"));
  EXPECT_EQ(exit_code_of([] { return discard_unfinished_files(), true; }), 0);
  EXPECT_EQ(directory.entries(), 1u);
}

TEST(LiveTemporaries, MayBeMoreThanTheListHolds) {
  TemporaryDirectory directory;
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (int i = 0; i < 100; ++i) files.push_back(std::make_unique<AtomicFile>(directory.file(std::to_string(i))));
  for (const auto& file : files) publish(*file);
  EXPECT_EQ(directory.entries(), 100u);
}

TEST(LiveTemporaries, AreRemovedByASignalHandlerInTheMiddleOfASave) {
  TemporaryDirectory directory;
  const std::string path = directory.file("a.npz");
  const Neighbors result = make_neighbors(5000, 10, DistanceType::f32);
  const std::int64_t save_us = time_of([&] { write_neighbors(path, result); });
  const auto discard_and_exit = [](int) {
    discard_unfinished_files();
    ::_exit(0);
  };
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    saves_until(SIGTERM, random, save_us, [&](std::size_t i) {
      if (i == 0) ::signal(SIGTERM, discard_and_exit);
      write_neighbors(path, result);
    });
  }
  // A signal between the choice of a name and the opening of it may leave an empty file; never more than that.
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    EXPECT_TRUE(entry.path() == path || entry.file_size() == 0) << entry.path();
  }
}

}  // namespace
}  // namespace vicinal::test
