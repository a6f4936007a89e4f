// What tests of calls by several devices share: the lists of devices, the same bits, and refusals with their words.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "vicinal/vicinal.hpp"

namespace vicinal::multi_device_test {

inline const char* const lists[] = {"cpu,cpu", "cpu,cpu,cpu", "cuda:all", "cuda:1,cuda:0",
                                    "cpu,cpu,cpu,cpu,cpu,cpu,cpu"};

inline KnnOptions on(const std::string& device, KnnOptions options) {
  options.run.device = device;
  return options;
}

inline void expect_same(const Neighbors& a, const Neighbors& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.k(), b.k());
  ASSERT_EQ(a.type(), b.type());
  const auto entries = static_cast<std::size_t>(a.rows() * a.k());
  if (entries == 0) return;
  EXPECT_EQ(std::memcmp(a.ids(), b.ids(), entries * 8), 0);
  EXPECT_EQ(std::memcmp(a.distances(), b.distances(), entries * distance_size(a.type())), 0);
  ASSERT_EQ(a.counts() == nullptr, b.counts() == nullptr);
  for (std::int64_t i = 0; a.counts() != nullptr && i < a.rows(); ++i) EXPECT_EQ(a.counts()[i], b.counts()[i]);
}
inline void expect_same(const CsrNeighbors& a, const CsrNeighbors& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.entries(), b.entries());
  ASSERT_EQ(std::memcmp(a.offsets(), b.offsets(), static_cast<std::size_t>(a.rows() + 1) * 8), 0);
  EXPECT_EQ(std::memcmp(a.ids(), b.ids(), static_cast<std::size_t>(a.entries()) * 8), 0);
  EXPECT_EQ(std::memcmp(a.distances(), b.distances(), static_cast<std::size_t>(a.entries()) * distance_size(a.type())),
            0);
}

template <class Call>
std::string refusal(ErrorCode code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}
#define EXPECT_REFUSED(code, part, ...)                                      \
  do {                                                                       \
    const std::string what = refusal(ErrorCode::code, [&] { __VA_ARGS__; }); \
    EXPECT_NE(what.find(part), std::string::npos) << what;                   \
  } while (false)

}  // namespace vicinal::multi_device_test
