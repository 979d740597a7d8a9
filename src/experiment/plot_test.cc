// Plots are valid, complete and the same every time.
#include "experiment/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace headwise {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
  return n;
}

Plot two_series() {
  return {.title = "a < b & c",
          .x_label = "heads",
          .y_label = "loss",
          .series = {{.name = "first",
                      .points = {{.x = 1, .y = 2, .low = 1.5, .high = 2.5}, {.x = 2, .y = 3}},
                      .line = true},
                     {.name = "second", .points = {{.x = 1, .y = -1}}}},
          .y_marks = {0}};
}

TEST(ExperimentPlot, DrawsEveryPointAndInterval) {
  const std::string svg = to_svg(two_series());
  EXPECT_EQ(count(svg, "r=\"3\""), 3);
  EXPECT_EQ(count(svg, "stroke-opacity=\"0.6\""), 1);
  EXPECT_EQ(count(svg, "<path"), 1);
  EXPECT_EQ(count(svg, "stroke-dasharray"), 1);
  EXPECT_THAT(svg, HasSubstr(">first<"));
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_EQ(svg, to_svg(two_series()));
}

TEST(ExperimentPlot, LeavesOutWhatIsNotFinite) {
  Plot plot = two_series();
  plot.series[1].points.push_back({.x = 2, .y = std::numeric_limits<double>::quiet_NaN()});
  const std::string svg = to_svg(plot);
  EXPECT_EQ(count(svg, "r=\"3\""), 3);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(ExperimentPlot, PutsNamesAndPowersOnTheAxis) {
  Plot plot = two_series();
  plot.x_names = {"none", "one", "two"};
  EXPECT_THAT(to_svg(plot), HasSubstr(">one<"));
  plot = two_series();
  plot.log_x = true;
  plot.series[0].points = {{.x = 1, .y = 0}, {.x = 32, .y = 1}};
  const std::string svg = to_svg(plot);
  for (const char* tick : {">1<", ">2<", ">4<", ">8<", ">16<", ">32<"}) {
    EXPECT_THAT(svg, HasSubstr(tick));
  }
}

TEST(ExperimentPlot, OnePointHasAnAxisToo) {
  EXPECT_THAT(to_svg({.series = {{.points = {{.x = 3, .y = 0.25}}}}}), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace headwise
