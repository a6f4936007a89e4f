// Which devices a build has code for, and where that code is of one architecture alone.
#include <gtest/gtest.h>

#include "cuda/device/architectures.hpp"

namespace {

using vicinal::cuda::has_code;
using vicinal::cuda::has_code_of;

TEST(CudaArchitectures, WgmmaIsTakenOnlyOfCodeForSm90a) {
  for (const char* list : {"90", "90-real", "90-virtual", "80-virtual", "80,86,90", "86-real,90-real",
                           "80-real,90-virtual", "90f", "100a", "900a"}) {
    SCOPED_TRACE(list);
    for (const int capability : {80, 86, 89, 90, 100, 103, 120})
      EXPECT_FALSE(has_code_of("90a", list, capability)) << capability;
  }
  for (const char* list : {"90a", "90a-real", "90a-virtual", "80-virtual,90a-real", "90a-real,120-real", "80,90a,90"}) {
    SCOPED_TRACE(list);
    EXPECT_TRUE(has_code_of("90a", list, 90));
    for (const int capability : {80, 86, 89, 100, 103, 120})
      EXPECT_FALSE(has_code_of("90a", list, capability)) << capability;
  }
}

TEST(CudaArchitectures, CodeRunsWithinItsMajorVersionAndPtxOnAllThatAreNewer) {
  EXPECT_TRUE(has_code("90a-real", 90));
  for (const int capability : {80, 89, 100, 120}) EXPECT_FALSE(has_code("90a-real", capability)) << capability;
  for (const int capability : {80, 86, 89, 90, 100, 120}) EXPECT_TRUE(has_code("80-virtual", capability)) << capability;
  EXPECT_FALSE(has_code("80-virtual", 75));
  EXPECT_TRUE(has_code("86-real", 89));
  for (const int capability : {80, 90, 120}) EXPECT_FALSE(has_code("86-real", capability)) << capability;
  EXPECT_TRUE(has_code("80", 120));
  EXPECT_TRUE(has_code("86-real,90-real", 90));
  EXPECT_TRUE(has_code("86-real,90a", 90));
  EXPECT_FALSE(has_code("86-real,90a", 100));
  EXPECT_FALSE(has_code("", 90));
}

}  // namespace
