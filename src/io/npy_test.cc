// Arrays for NumPy: the header, and what is refused.
#include "headwise/io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "io/io_testing.h"

namespace headwise {
namespace {

using testing::HasSubstr;

TEST(Npy, SaysItsShapeInAHeaderOfWholeBlocks) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "a.npy";
  const auto written = [&](const std::vector<int64_t>& shape, size_t size) {
    write_npy(file, std::vector<float>(size, 1.0f), shape);
    const std::string contents = contents_of(file);
    EXPECT_EQ((contents.size() - size * sizeof(float)) % 64, 0u);
    EXPECT_EQ(contents[contents.size() - size * sizeof(float) - 1], '\n');
    return contents;
  };
  EXPECT_THAT(written({5}, 5), HasSubstr("'shape': (5,), }"));
  EXPECT_THAT(written({}, 1), HasSubstr("'shape': (), }"));
  EXPECT_THAT(written({0, 3}, 0), HasSubstr("'shape': (0, 3), }"));
}

TEST(Npy, RefusesAShapeThatDoesNotFitAndWritesNothing) {
  const TemporaryFolder folder;
  const auto error = error_of([&] {
    write_npy(folder.path() / "a.npy", std::vector<float>(5), std::vector<int64_t>{2, 3});
  });
  EXPECT_THAT(error.where, HasSubstr("a.npy"));
  EXPECT_EQ(error.got, "5 values");
  EXPECT_EQ(error.expected, "6 for [2, 3]");
  for (const auto& shape : {std::vector<int64_t>(64, 4), {-2, -3}, std::vector<int64_t>(65, 1)}) {
    const ErrorDetail impossible =
        error_of([&] { write_npy(folder.path() / "a.npy", std::vector<float>(6), shape); });
    EXPECT_THAT(impossible.where, HasSubstr("a.npy"));
  }
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace headwise
