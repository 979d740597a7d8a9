// Plans as a grid of heads, a table of numbers and a chart of curves; what pruning changed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "command.h"
#include "screens.h"

namespace headwise::program {
namespace {

constexpr int64_t kChartRows = 12, kChartColumns = 60;

/// Layers in the order of the model: by kind, then by number.
struct LayerName {
  size_t kind = 0;
  int64_t number = 0;
  auto operator<=>(const LayerName&) const = default;
};

LayerName parsed(const std::string& layer) {
  const size_t at = layer.rfind('L');
  const std::string kind = layer.substr(0, at);
  const std::string_view kinds[] = {"", "enc.", "dec.", "cross."};
  return {.kind = static_cast<size_t>(std::ranges::find(kinds, kind) - std::begin(kinds)),
          .number = std::stoll(layer.substr(at + 1))};
}

struct Row {
  std::string layer{};
  std::map<int64_t, bool> kept{};  // by the number of the head
};

std::map<LayerName, Row> rows_of(const Plan& plan) {
  std::map<LayerName, Row> rows;
  const auto add = [&](const std::string& head, bool kept) {
    const size_t dot = head.rfind(".H");
    const std::string layer = head.substr(0, dot);
    Row& row = rows[parsed(layer)];
    row.layer = layer;
    row.kept[std::stoll(head.substr(dot + 2))] = kept;
  };
  for (const std::string& head : plan.keep) add(head, true);
  for (const std::string& head : plan.drop) add(head, false);
  return rows;
}

std::string grid(const Plan& plan) {
  const std::map<LayerName, Row> rows = rows_of(plan);
  std::set<int64_t> numbers;
  for (const auto& [name, row] : rows) {
    for (const auto& [number, kept] : row.kept) numbers.insert(number);
  }
  std::string text = fmt::format("{:<10}", "");
  for (const int64_t h : numbers) text += fmt::format("{:>3}", h);
  text += "   stay\n";
  for (const auto& [name, row] : rows) {
    text += fmt::format("{:<10}", row.layer);
    int64_t stay = 0;
    for (const int64_t h : numbers) {
      const auto at = row.kept.find(h);
      stay += at != row.kept.end() && at->second;
      text += at == row.kept.end() ? "   " : at->second ? "  #" : "  .";
    }
    text += fmt::format("   {} of {}\n", stay, row.kept.size());
  }
  return text + "# stays, . goes\n";
}

/// With four decimals, and no sign of a zero.
std::string rounded(double value) {
  return fmt::format("{:.4f}", std::round(value * 1e4) / 1e4 + 0.0);
}

std::string number(const std::string& name, double value) {
  const bool whole = name == "heads" || name == "parameters" || name == "multiply_adds";
  return whole ? grouped(std::llround(value)) : rounded(value);
}

/// Before and after.
std::string expectations(const Plan& plan) {
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"heads", "heads"},
      {"parameters", "parameters"},
      {"multiply_adds", "multiply-adds of 128 tokens"},
      {"loss", "loss"},
      {"accuracy", "accuracy"},
      {"spearman", "Spearman correlation"},
      {"bleu", "BLEU"}};
  std::string text;
  for (const auto& [name, title] : kNames) {
    const auto after = plan.expected.find(name);
    const auto before = plan.expected.find(std::string(name) + "_before");
    if (after == plan.expected.end() || before == plan.expected.end()) continue;
    const std::string shown =
        std::string(name) == "loss" ? fmt::format("loss ({})", plan.task) : title;
    text += fmt::format("{:<30}{:>16} -> {:>16}", shown, number(name, before->second),
                        number(name, after->second));
    if (before->second > 1e-6) {
      text += fmt::format("  {:+.1f} %", 100 * (after->second / before->second - 1));
    }
    text += "\n";
  }
  if (const auto speed = plan.expected.find("speedup"); speed != plan.expected.end()) {
    text += fmt::format("{:<30}{:>16.2f} times as fast, measured; {:.2f} from timed attentions\n",
                        "speed", speed->second, plan.expected.at("speedup_predicted"));
  }
  return text;
}

char letter(const std::string& order) {
  if (order == "random") return '?';
  return order == "greedy" ? 'y' : order.front();
}

std::string chart(const Plan& plan) {
  if (plan.curves.empty()) return "";
  double low = std::numeric_limits<double>::infinity(), high = -low;
  int64_t last = 1;
  for (const auto& [order, points] : plan.curves) {
    for (const CurvePoint& point : points) {
      low = std::min(low, point.loss);
      high = std::max(high, point.loss);
      last = std::max(last, point.removed);
    }
  }
  std::vector<std::string> lines(kChartRows, std::string(kChartColumns, ' '));
  const double span = high > low ? high - low : 1;
  std::string legend;
  const auto draw = [&](const std::string& order, const std::vector<CurvePoint>& points) {
    for (const CurvePoint& point : points) {
      const int64_t row = std::llround((high - point.loss) / span * (kChartRows - 1));
      lines[row][point.removed * (kChartColumns - 1) / last] = letter(order);
    }
    legend +=
        fmt::format("  {} {}{}", letter(order), order, order == "random" ? " (the control)" : "");
  };
  // Where letters fall together, the control is hidden rather than what is compared with it.
  draw("random",
       plan.curves.contains("random") ? plan.curves.at("random") : std::vector<CurvePoint>());
  for (const auto& [order, points] : plan.curves) {
    if (order != "random") draw(order, points);
  }
  std::string text = "\nloss over heads removed\n";
  for (int64_t row = 0; row < kChartRows; ++row) {
    const double value = high - span * static_cast<double>(row) / (kChartRows - 1);
    text += fmt::format("{:>10} |{}\n", row % 3 == 2 ? rounded(value) : "", lines[row]);
  }
  text += fmt::format("{:>10} +{}\n{:>12}{}{:>{}}\n", "", std::string(kChartColumns, '-'), "", 0,
                      last, kChartColumns - 1);
  return text + legend.substr(2) + "\n";
}

}  // namespace

std::string to_text(const Plan& plan) {
  const size_t all = plan.drop.size() + plan.keep.size();
  std::string warning;
  if (!plan.supported) {
    warning =
        fmt::format("The data do not support this plan: {}.\n\n", fmt::join(plan.reasons, "; "));
  }
  return warning +
         (plan.drop.empty()
              ? fmt::format("No head goes: the budget and the constraints keep all {}\n\n", all)
              : fmt::format("{} of {} heads go, in the order: {}\n\n", plan.drop.size(), all,
                            plan.order)) +
         grid(plan) + "\n" + expectations(plan) + chart(plan);
}

std::string to_text(const PruneReport& report) {
  Table table({-22, 16, 16, 10});
  table.row({"", "before", "after", "ratio"});
  for (const ReportRow& row : rows_of(report)) {
    table.row({row.name, row.before, row.after, row.ratio_text()});
  }
  const char* const other = report.form == "masked" ? "compact" : "masked";
  return table.text() +
         fmt::format(
             "\n{}{} equals {} on {} {} ({} tokens): largest difference {:.1e} of the "
             "largest hidden state\n",
             report.recovered ? "before training, " : "", report.form, other, report.proof.texts,
             report.proof.random_ids ? "texts of random ids" : "texts",
             grouped(report.proof.tokens), report.proof.max_difference);
}

}  // namespace headwise::program
