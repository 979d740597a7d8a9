// Draws axes, points, intervals and lines as SVG text.
#include "experiment/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace headwise {
namespace {

constexpr double kWidth = 640, kHeight = 360, kLeft = 70, kRight = 620, kTop = 40, kBottom = 305;
/// Okabe and Ito: told apart by the colour-blind.
constexpr auto kColors = std::to_array<std::string_view>(
    {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"});

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

/// One direction of the plot: from numbers to places.
class Axis {
 public:
  Axis(double low, double high, double from, double to, bool log)
      : low_(low), high_(high), from_(from), to_(to), log_(log) {}

  double at(double value) const {
    const double share =
        log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return from_ + share * (to_ - from_);
  }

  /// Round numbers, about six.
  std::vector<double> ticks() const {
    std::vector<double> ticks;
    if (log_) {
      for (double tick = std::pow(2, std::ceil(std::log2(low_) - 1e-9)); tick <= high_ * 1.000001;
           tick *= 2) {
        ticks.push_back(tick);
      }
      return ticks;
    }
    const double power = std::pow(10, std::floor(std::log10((high_ - low_) / 5)));
    double step = power;
    for (const double times : {2., 5., 10.}) {
      if ((high_ - low_) / step > 6) step = times * power;
    }
    for (double k = std::ceil(low_ / step - 1e-9); k * step <= high_ + 1e-9 * step; ++k) {
      ticks.push_back(k == 0 ? 0 : k * step);
    }
    return ticks;
  }

 private:
  double low_, high_, from_, to_;
  bool log_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// With some room at the ends.
  Range padded(bool log) const {
    if (low > high) return {0, 1};
    if (log) return {low / 1.15, high * 1.15};
    const double room = high > low ? 0.05 * (high - low) : std::max(1e-3, 0.1 * std::abs(low));
    return {low - room, high + room};
  }
};

class Drawing {
 public:
  explicit Drawing(const Plot& plot) : plot_(plot), x_(x_axis(plot)), y_(y_axis(plot)) {}

  std::string draw() {
    text(kWidth / 2, 18, plot_.title, "middle", " font-size=\"14\"");
    axes();
    for (size_t s = 0; s < plot_.series.size(); ++s) draw_series(plot_.series[s], s);
    legend();
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
               "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
               "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
               kWidth, height_) +
           out_ + "</svg>\n";
  }

 private:
  static Axis x_axis(const Plot& plot) {
    Range range;
    for (const PlotSeries& series : plot.series) {
      for (const PlotPoint& point : series.points) range.add(point.x);
    }
    if (!plot.x_names.empty()) {
      range = {-0.5, static_cast<double>(plot.x_names.size()) - 0.5};
    } else {
      range = range.padded(plot.log_x);
    }
    return {range.low, range.high, kLeft, kRight, plot.log_x};
  }

  static Axis y_axis(const Plot& plot) {
    Range range;
    for (const PlotSeries& series : plot.series) {
      for (const PlotPoint& point : series.points) {
        range.add(point.y);
        range.add(point.low.value_or(point.y));
        range.add(point.high.value_or(point.y));
      }
    }
    for (const double mark : plot.y_marks) range.add(mark);
    range = range.padded(false);
    if (plot.y_most) range.high = std::min(range.high, *plot.y_most);
    return {range.low, range.high, kBottom, kTop, false};
  }

  void text(double x, double y, std::string_view words, std::string_view anchor,
            std::string_view more = "") {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                        anchor, more, escaped(words));
  }

  void line(double x1, double y1, double x2, double y2, std::string_view style) {
    out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1,
                        y1, x2, y2, style);
  }

  void axes() {
    for (const double tick : y_.ticks()) {
      line(kLeft, y_.at(tick), kRight, y_.at(tick), "stroke=\"#e4e4e4\"");
      text(kLeft - 6, y_.at(tick) + 4, fmt::format("{:.4g}", tick), "end");
    }
    for (const double mark : plot_.y_marks) {
      line(kLeft, y_.at(mark), kRight, y_.at(mark), "stroke=\"#666\" stroke-dasharray=\"4 3\"");
    }
    line(kLeft, kBottom, kRight, kBottom, "stroke=\"#333\"");
    line(kLeft, kTop, kLeft, kBottom, "stroke=\"#333\"");
    for (size_t i = 0; i < plot_.x_names.size(); ++i) {
      text(x_.at(static_cast<double>(i)), kBottom + 16, plot_.x_names[i], "middle");
    }
    if (plot_.x_names.empty()) {
      for (const double tick : x_.ticks()) {
        line(x_.at(tick), kBottom, x_.at(tick), kBottom + 4, "stroke=\"#333\"");
        text(x_.at(tick), kBottom + 16, fmt::format("{:.4g}", tick), "middle");
      }
    }
    text((kLeft + kRight) / 2, kBottom + 34, plot_.x_label, "middle");
    text(16, (kTop + kBottom) / 2, plot_.y_label, "middle",
         fmt::format(" transform=\"rotate(-90 16 {:.1f})\"", (kTop + kBottom) / 2));
  }

  void draw_series(const PlotSeries& series, size_t number) {
    const std::string_view color = kColors[number % kColors.size()];
    std::string path;
    for (const PlotPoint& point : series.points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      if (plot_.y_most && point.y > *plot_.y_most) continue;
      const double x = x_.at(point.x), y = y_.at(point.y);
      if (point.low && point.high) {
        line(x, y_.at(*point.low), x, y_.at(*point.high),
             fmt::format("stroke=\"{}\" stroke-opacity=\"0.6\"", color));
      }
      out_ += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" fill-opacity=\"0.8\"/>\n", x, y,
          color);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x, y);
    }
    if (series.line && !path.empty()) {
      out_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", path, color);
    }
  }

  /// Rows below the axis.
  void legend() {
    double x = kLeft, y = kHeight - 10;
    for (size_t s = 0; s < plot_.series.size(); ++s) {
      const std::string& name = plot_.series[s].name;
      if (name.empty()) continue;
      const double width = 24 + 6.6 * static_cast<double>(name.size());
      if (x > kLeft && x + width > kWidth) {
        x = kLeft;
        y += 18;
      }
      out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x, y,
                          kColors[s % kColors.size()]);
      text(x + 8, y + 4, name, "start");
      x += width;
    }
    height_ = y + 10;
  }

  const Plot& plot_;
  Axis x_, y_;
  std::string out_;
  double height_ = kHeight;
};

}  // namespace

std::string to_svg(const Plot& plot) { return Drawing(plot).draw(); }

}  // namespace headwise
