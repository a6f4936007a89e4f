// Which backend a device's name leads to, and what is said of one that is absent. The CUDA devices of the machine that the tests
// run on may be there or not: what must hold either way is tested.
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <thread>
#include <vector>

#include "backend/backend.hpp"
#include "backend/devices.hpp"
#include "vicinal/device.hpp"
#include "vicinal/error.hpp"

namespace vicinal {
namespace {

/// A variable of the environment for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

template <class Call>
void expect_error(const Call& call, ErrorCode code, const char* pattern) {
  try {
    call();
    ADD_FAILURE() << "no error; expected " << pattern;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_TRUE(std::regex_search(error.what(), std::regex(pattern))) << error.what();
  }
}

void expect_search_error(const std::string& device, ErrorCode code, const char* pattern) {
  expect_error([&] { find_backend(device); }, code, pattern);
}

void expect_select_error(const std::string& device, int memory, ErrorCode code, const char* pattern) {
  expect_error([&] { find_select_backend(device, memory); }, code, pattern);
}

bool usable(std::size_t ordinal) {
  return ordinal < cuda_devices().devices.size() && cuda_devices().devices[ordinal].backend != nullptr;
}

TEST(Registry, AutoIsTheCpu) {
  EXPECT_EQ(&find_backend("auto"), &cpu_backend());
  EXPECT_EQ(&find_backend("cpu"), &cpu_backend());
  EXPECT_EQ(&find_select_backend("auto", -1), &cpu_backend());
  EXPECT_EQ(&find_select_backend("cpu", -1), &cpu_backend());
}

TEST(Registry, UnknownNames) {
  for (const char* name :
       {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:99999999999", "cudax"}) {
    expect_search_error(name, ErrorCode::invalid_argument,
                        "unknown device .*; devices: auto, cpu, cuda, cuda:N, cuda:all");
    expect_select_error(name, -1, ErrorCode::invalid_argument, "unknown device");
    expect_select_error(name, 0, ErrorCode::invalid_argument, "unknown device");
  }
}

TEST(Registry, CudaDoesNotSearch) {
  expect_search_error("cuda", ErrorCode::device_error,
                      usable(0) ? "does not search.*device=cpu" : "no usable CUDA device 0: .+; use");
  expect_search_error("cuda:100", ErrorCode::device_error,
                      "no usable CUDA device 100: .+; use device=auto or device=cpu");
}

TEST(Registry, SelectionGoesWhereTheValuesAre) {
  expect_select_error("cpu", 0, ErrorCode::device_error, "memory of cuda:0, which device=cpu cannot read");
  expect_select_error("cuda:100", 0, ErrorCode::device_error, "memory of cuda:0 and device=cuda:100");
  expect_select_error("auto", 100, ErrorCode::device_error, "no usable CUDA device 100");
  if (usable(0)) {
    const Backend& device = *cuda_devices().devices[0].backend;
    EXPECT_EQ(&find_select_backend("auto", 0), &device);
    EXPECT_EQ(&find_select_backend("cuda", -1), &device);
    EXPECT_EQ(&find_select_backend("cuda", 0), &device);
    EXPECT_EQ(&find_select_backend("cuda:0", 0), &device);
  } else {
    expect_select_error("auto", 0, ErrorCode::device_error, "no usable CUDA device 0");
    expect_select_error("cuda", -1, ErrorCode::device_error, "no usable CUDA device 0");
  }
}

TEST(Registry, TheEnvironmentForcesWhatACallLeavesOpen) {
  {
    const Variable forced("VICINAL_BACKEND", "cpu");
    EXPECT_EQ(&find_backend("auto"), &cpu_backend());
    EXPECT_EQ(&find_select_backend("auto", -1), &cpu_backend());
    expect_select_error("auto", 0, ErrorCode::device_error, "device=cpu cannot read");
  }
  {
    const Variable forced("VICINAL_BACKEND", "cuda:100");
    expect_search_error("auto", ErrorCode::device_error, "no usable CUDA device 100");
    expect_select_error("auto", -1, ErrorCode::device_error, "no usable CUDA device 100");
    EXPECT_EQ(&find_backend("cpu"), &cpu_backend());
  }
  const Variable empty("VICINAL_BACKEND", "");
  EXPECT_EQ(&find_backend("auto"), &cpu_backend());
}

TEST(Registry, DevicesAreListedWithTheReason) {
  std::vector<std::vector<Device>> seen(4);
  std::vector<std::thread> threads;
  for (auto& list : seen) threads.emplace_back([&list] { list = devices(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& list : seen) {
    ASSERT_GE(list.size(), 2u);
    EXPECT_EQ(list[0].name, "cpu");
    EXPECT_TRUE(list[0].usable);
    for (std::size_t i = 1; i < list.size(); ++i) {
      EXPECT_EQ(list[i].name.rfind("cuda", 0), 0u);
      EXPECT_EQ(list[i].usable, list[i].reason.empty()) << list[i].name;
      EXPECT_EQ(list[i].usable, !list[i].description.empty()) << list[i].name;
    }
  }
}

}  // namespace
}  // namespace vicinal
