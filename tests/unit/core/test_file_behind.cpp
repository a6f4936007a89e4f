// The file behind mapped memory: found only where it surely holds the same bytes, and read as the memory is.
#include "core/file_behind.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "vicinal/error.hpp"

namespace vicinal {
namespace {

class FileBehindTest : public testing::Test {
 protected:
  static constexpr std::int64_t size = 3 * 4096 + 100;
  FileBehindTest() : path_(std::filesystem::temp_directory_path() / cat_name()) {
    for (std::int64_t i = 0; i < size; ++i) data_.push_back(static_cast<char>(i * 7 + i / 256));
    std::ofstream(path_, std::ios::binary).write(data_.data(), size);
  }
  ~FileBehindTest() override {
    if (mapped_ != nullptr) ::munmap(mapped_, size);
    std::filesystem::remove(path_);
  }
  static std::string cat_name() { return "vicinal file behind " + std::to_string(::getpid()); }
  const std::byte* map(int rights, int flags) {
    const int fd = ::open(path_.c_str(), O_RDWR);
    mapped_ = ::mmap(nullptr, size, rights, flags, fd, 0);
    ::close(fd);
    return static_cast<const std::byte*>(mapped_);
  }
  std::filesystem::path path_;
  std::vector<char> data_;
  void* mapped_ = nullptr;
};

TEST_F(FileBehindTest, ReadsWhatTheMemoryHolds) {
  const std::byte* memory = map(PROT_READ, MAP_SHARED);
  const FileBehind file(memory + 8, size - 8);
  ASSERT_TRUE(file);
  for (const std::int64_t at : {std::int64_t{8}, std::int64_t{4097}, size - 5}) {
    std::vector<std::byte> got(static_cast<std::size_t>(size - at));
    file.read(got.data(), memory + at, size - at);
    EXPECT_EQ(std::memcmp(got.data(), memory + at, got.size()), 0);
  }
  EXPECT_TRUE(file.covers(memory, size));
  EXPECT_FALSE(file.covers(memory - 1, 2));
}

TEST_F(FileBehindTest, OnlyWhereTheFileHoldsTheSame) {
  EXPECT_FALSE(FileBehind(data_.data(), 100));
  const std::byte* memory = map(PROT_READ, MAP_SHARED);
  EXPECT_FALSE(FileBehind(memory, 1 << 20));  // more than is mapped
  std::filesystem::remove(path_);
  std::ofstream(path_, std::ios::binary).write(data_.data(), size);
  EXPECT_FALSE(FileBehind(memory, size));  // another file of that name
  ::munmap(mapped_, size);
  EXPECT_FALSE(FileBehind(map(PROT_READ, MAP_PRIVATE), size));
  ::munmap(mapped_, size);
  EXPECT_FALSE(FileBehind(map(PROT_READ | PROT_WRITE, MAP_SHARED), size));
}

TEST_F(FileBehindTest, AFileThatShrankIsAnError) {
  const std::byte* memory = map(PROT_READ, MAP_SHARED);
  const FileBehind file(memory, size);
  std::filesystem::resize_file(path_, 5000);
  std::vector<std::byte> got(static_cast<std::size_t>(size));
  try {
    file.read(got.data(), memory, size);
    FAIL() << "read what is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format_error);
    EXPECT_NE(std::string(error.what()).find("ended at 5000"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace vicinal
