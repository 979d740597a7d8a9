// Orders by importance, by chance, and with duplicates first.
#include "plan/head_orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/nan.h"
#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "headwise/io/json.h"

namespace headwise {
namespace {

enum : uint32_t { kOrder = 0x7101 };

constexpr std::pair<std::string_view, HeadOrder> kOrders[] = {
    {"gradient", HeadOrder::gradient},
    {"ablation", HeadOrder::ablation},
    {"entropy", HeadOrder::entropy},
    {"random", HeadOrder::random},
    {"redundant-first", HeadOrder::redundant_first},
    {"greedy", HeadOrder::greedy}};

using Number = std::function<std::optional<double>(const Importance&)>;

std::optional<double> gradient(const Importance& of) { return of.gradient; }

std::optional<double> ablation(const Importance& of) {
  return of.ablation_zero ? std::optional(of.ablation_zero->value) : std::nullopt;
}

/// Heads that look everywhere go first.
std::optional<double> sharpness(const Importance& of) {
  return of.entropy ? std::optional(-*of.entropy) : std::nullopt;
}

std::vector<double> values_of(const Verdict& verdict, const HeadLayout& layout,
                              const Number& number) {
  std::vector<double> values(layout.heads(), kNaN);
  for (const HeadVerdict& head : verdict.heads) {
    values[layout.find(head.head)] = number(head.importance).value_or(kNaN);
  }
  return values;
}

bool has_any(std::span<const double> values) {
  return !std::ranges::all_of(values, [](double value) { return std::isnan(value); });
}

std::vector<double> needed(std::vector<double> values, HeadOrder order) {
  if (has_any(values)) return values;
  throw Error(
      {.what = "the verdict has no numbers that this order goes by",
       .where = fmt::format("order {}", to_string(order)),
       .hint = order == HeadOrder::entropy
                   ? "observe what heads attend to: headwise observe --measure attention"
                   : "observe how much heads matter: headwise observe MODEL --input TEXTS"});
}

std::vector<double> random_values(const HeadLayout& layout, uint64_t seed) {
  Random random(derived_seed(seed, 0, 0, kOrder));
  std::vector<double> values(layout.heads());
  for (double& value : values) value = random.uniform();
  return values;
}

/// From the lowest to the highest; NaN does not count.
double span_of(std::span<const double> values) {
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  return std::max(0., highest - lowest);
}

/// Of every cluster all but the representative go before all others.
std::vector<double> redundant_first(const Verdict& verdict, const HeadLayout& layout) {
  std::vector<double> values = values_of(verdict, layout, ablation);
  if (!has_any(values)) values = values_of(verdict, layout, gradient);
  if (!has_any(values)) values = values_of(verdict, layout, sharpness);
  values = needed(std::move(values), HeadOrder::redundant_first);
  std::set<int64_t> duplicates, representatives;
  for (const Cluster& cluster : verdict.clusters) {
    for (size_t i = 0; i < cluster.size(); ++i) {
      (i == 0 ? representatives : duplicates).insert(layout.find(cluster[i]));
    }
  }
  const double span = span_of(values);
  for (const int64_t head : duplicates) {
    if (!representatives.contains(head)) values[head] -= span + 1;
  }
  return values;
}

}  // namespace

std::string_view to_string(HeadOrder order) {
  for (const auto& [name, known] : kOrders) {
    if (known == order) return name;
  }
  return "";
}

std::vector<std::string_view> head_order_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, order] : kOrders) names.push_back(name);
  return names;
}

HeadOrder head_order(std::string_view name) {
  for (const auto& [known, order] : kOrders) {
    if (name == known) return order;
  }
  throw Error({.what = "there is no such order",
               .got = quote(name),
               .expected = fmt::format("one of {}", fmt::join(head_order_names(), ", "))});
}

HeadOrder default_order(const Verdict& verdict) {
  const bool ablated = std::ranges::any_of(verdict.heads, [](const HeadVerdict& head) {
    return head.importance.ablation_zero.has_value();
  });
  return ablated ? HeadOrder::ablation : HeadOrder::gradient;
}

void put_undecided_last(const Verdict& verdict, const HeadLayout& layout,
                        std::vector<double>& values) {
  const double step = span_of(values) + 1;
  for (const HeadVerdict& head : verdict.heads) {
    double& value = values[layout.find(head.head)];
    if (head.standing == Standing::undecided) value += step;
    if (head.standing == Standing::essential) value += 2 * step;
  }
}

std::vector<double> order_values(HeadOrder order, const Verdict& verdict, const HeadLayout& layout,
                                 uint64_t seed) {
  switch (order) {
    case HeadOrder::gradient:
      return needed(values_of(verdict, layout, gradient), order);
    case HeadOrder::ablation:
      return needed(values_of(verdict, layout, ablation), order);
    case HeadOrder::entropy:
      return needed(values_of(verdict, layout, sharpness), order);
    case HeadOrder::redundant_first:
      return redundant_first(verdict, layout);
    case HeadOrder::random:
    case HeadOrder::greedy:
      break;
  }
  return random_values(layout, seed);
}

}  // namespace headwise
