// Groups of measures, made of what the metrics of each pass say that they measure.
#include "headwise/observe/measure_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "headwise/core/error.h"
#include "headwise/core/nearest_name.h"
#include "headwise/observe/head_weights.h"
#include "observe/head_metric.h"

namespace headwise {
namespace {

std::string_view group_of(DataPass pass) {
  switch (pass) {
    case DataPass::attention:
    case DataPass::repeated:
      return "attention";
    case DataPass::treebank:
    case DataPass::coreference:
    case DataPass::alignment:
    case DataPass::fields:
    case DataPass::rare:
      return "linguistic";
    case DataPass::similarity:
      return "similarity";
  }
  return {};
}

std::vector<MeasureGroup> make_groups() {
  std::vector<MeasureGroup> groups = {
      {.name = "attention", .meaning = "what a head attends to"},
      {.name = "linguistic", .meaning = "which relations and words it finds"},
      {.name = "similarity", .meaning = "which heads resemble each other"},
      {.name = "importance", .meaning = "what the loss does without it"}};
  const auto add = [&](std::string_view name, std::span<const std::string_view> measures) {
    for (MeasureGroup& group : groups) {
      if (group.name != name) continue;
      for (const std::string_view measure : measures) {
        if (std::ranges::find(group.measures, measure) == group.measures.end()) {
          group.measures.push_back(measure);
        }
      }
    }
  };
  for (const HeadMetricKind& kind : head_metric_kinds()) add(group_of(kind.pass), kind.measures);
  add("similarity", weight_measures());
  static constexpr std::string_view kOfLoss[] = {"gradient", "gradient_normalised", "ablation_zero",
                                                 "ablation_mean"};
  add("importance", kOfLoss);
  return groups;
}

}  // namespace

std::span<const MeasureGroup> measure_groups() {
  static const std::vector<MeasureGroup> groups = make_groups();
  return groups;
}

std::string list_measures() {
  std::vector<std::string> parts;
  for (const MeasureGroup& group : measure_groups()) {
    parts.push_back(fmt::format("{} ({})", group.name, fmt::join(group.measures, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

MeasureSelection::MeasureSelection(std::initializer_list<std::string> names)
    : MeasureSelection(std::span(names.begin(), names.size())) {}

MeasureSelection::MeasureSelection(std::span<const std::string> names)
    : all_(names.empty()), names_(names.begin(), names.end()) {
  for (const std::string& name : names) {
    bool known = false;
    for (const MeasureGroup& group : measure_groups()) {
      for (const std::string_view measure : group.measures) {
        if (name != group.name && name != measure) continue;
        measures_.emplace(measure);
        known = true;
      }
    }
    if (known) continue;
    std::vector<std::string_view> all;
    for (const MeasureGroup& group : measure_groups()) {
      all.push_back(group.name);
      all.insert(all.end(), group.measures.begin(), group.measures.end());
    }
    throw Error({.what = "there is no such measure",
                 .where = "measures",
                 .got = name,
                 .expected = list_measures(),
                 .hint = did_you_mean(name, all)});
  }
}

bool MeasureSelection::has_group(std::string_view group) const {
  return std::ranges::any_of(measure_groups(), [&](const MeasureGroup& each) {
    return each.name == group &&
           std::ranges::any_of(each.measures, [&](std::string_view one) { return has(one); });
  });
}

bool MeasureSelection::has(std::string_view measure) const {
  const std::string_view name = measure.substr(0, measure.find('/'));
  if (all_ || measures_.contains(name)) return true;
  return std::ranges::none_of(measure_groups(), [&](const MeasureGroup& group) {
    return std::ranges::find(group.measures, name) != group.measures.end();
  });
}

}  // namespace headwise
