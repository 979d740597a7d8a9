// The rates of all schedules against those of transformers.
#include "train/schedule.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "golden/folder.h"

namespace headwise {
namespace {

TEST(Schedule, HasTheRatesOfTransformers) {
  const std::map<std::string, ScheduleKind> kinds = {{"constant", ScheduleKind::constant},
                                                     {"linear", ScheduleKind::linear},
                                                     {"cosine", ScheduleKind::cosine},
                                                     {"inverse_sqrt", ScheduleKind::inverse_sqrt}};
  std::ifstream golden(golden_folder() / "schedules.golden");
  int lines = 0;
  for (std::string line; std::getline(golden, line); ++lines) {
    std::istringstream words(line);
    std::string kind;
    int64_t steps = 0, warmup = 0;
    words >> kind >> steps >> warmup;
    double expected = 0;
    for (int64_t step = 0; words >> expected; ++step) {
      const double got = schedule_factor({.kind = kinds.at(kind), .warmup = warmup}, step, steps);
      EXPECT_NEAR(got, expected, 1e-15) << kind << " of " << steps << ", step " << step;
    }
  }
  EXPECT_EQ(lines, 20);
}

}  // namespace
}  // namespace headwise
