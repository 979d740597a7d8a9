// Plots of results as SVG.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace headwise {

struct PlotPoint {
  double x = 0, y = 0;
  std::optional<double> low{}, high{};  // the ends of its interval
};

struct PlotSeries {
  std::string name{};  // in the legend; empty: not there
  std::vector<PlotPoint> points{};
  bool line = false;  // points are joined
};

struct Plot {
  std::string title{}, x_label{}, y_label{};
  std::vector<PlotSeries> series{};
  std::vector<std::string> x_names{};  // of x = 0, 1, …, in place of numbers
  std::vector<double> y_marks{};       // dashed horizontal lines: 0, thresholds
  bool log_x = false;
  std::optional<double> y_most{};  // the axis ends there, and points above are left out
  bool empty() const { return series.empty(); }
};

/// The same bytes for the same plot on every machine. Points that are not finite are left out.
std::string to_svg(const Plot& plot);

}  // namespace headwise
