// Measures losses of pruned models, and writes the comparison down.
#include "headwise/prune/prune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "headwise/core/grouped.h"
#include "headwise/io/json_text.h"
#include "headwise/observe/observe.h"
#include "headwise/prune/prune.h"

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const LossEvidence& loss) {
  Json json = {{"task", loss.task}, {"value", loss.value}, {"examples", loss.examples}};
  for (const auto& [score, value] : loss.scores) json[score] = value;
  return json;
}

Json json_of(const ModelState& state, const std::vector<SpeedComparison>& speed,
             double SpeedComparison::*seconds) {
  Json json = {{"heads", state.heads},
               {"parameters", state.summary.parameters},
               {"attention_parameters", state.summary.attention_parameters},
               {"bytes", state.summary.bytes}};
  if (state.loss) json["loss"] = json_of(*state.loss);
  json["speed"] = Json::array();
  for (const SpeedComparison& at : speed) {
    json["speed"].push_back({{"texts", at.texts}, {"tokens", at.tokens}, {"seconds", at.*seconds}});
  }
  return json;
}

}  // namespace

ConfidenceInterval interval_of_median(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const size_t n = seconds.size();
  const auto count = static_cast<double>(n);
  // How many of n passes are below the median is binomial: `tail` is for at most `left` of them.
  size_t left = 0;
  double probability = std::pow(0.5, count), tail = probability;
  while (true) {
    probability *= (count - static_cast<double>(left)) / static_cast<double>(left + 1);
    tail += probability;
    if (2 * tail > 0.05) break;
    ++left;
  }
  return {seconds[left], seconds[n - 1 - left]};
}

LossEvidence loss_of(const Model& model, const EvaluationSet& set, const Model* original,
                     const std::function<void()>& check) {
  if (set.task == LossTask::fidelity && original != nullptr) {
    return {.task = "fidelity",
            .value = infidelity(model, *original, set.examples.all.source, set.examples.all.target),
            .examples = set.size()};
  }
  Evidence evidence = no_evidence(model);
  ImportanceOptions options{.gradient = false, .ablation_zero = false, .ablation_mean = false};
  options.progress = [&](std::string_view, int64_t, int64_t) {
    if (check) check();
  };
  observe_importance(model, set, options, evidence);
  return *evidence.loss;
}

std::string ReportRow::ratio_text() const {
  if (!ratio) return "";
  return equal ? "equal" : fmt::format("{:.3f}", *ratio);
}

std::vector<ReportRow> rows_of(const PruneReport& report) {
  std::vector<ReportRow> rows;
  const auto add = [&](std::string name, std::string before, std::string after, double a,
                       double b) {
    rows.push_back(
        {.name = std::move(name), .before = std::move(before), .after = std::move(after)});
    if (a != 0) rows.back().ratio = b / a;
  };
  const auto count = [&](const char* name, int64_t a, int64_t b) {
    add(name, grouped(a), grouped(b), static_cast<double>(a), static_cast<double>(b));
  };
  const auto number = [&](std::string name, double a, double b) {
    add(std::move(name), fmt::format("{:.4f}", a), fmt::format("{:.4f}", b), a, b);
  };
  const ModelState &before = report.before, &after = report.after;
  count("heads", before.heads, after.heads);
  count("parameters", before.summary.parameters, after.summary.parameters);
  count("in attention", before.summary.attention_parameters, after.summary.attention_parameters);
  count("bytes of weights", before.summary.bytes, after.summary.bytes);
  if (before.loss && report.cut) {
    number(before.loss->task + ", untrained", before.loss->value, report.cut->value);
  }
  if (before.loss && after.loss) {
    number(before.loss->task + " loss", before.loss->value, after.loss->value);
    for (const auto& [score, value] : before.loss->scores) {
      const auto other = after.loss->scores.find(score);
      if (other != after.loss->scores.end()) number(score, value, other->second);
    }
  }
  for (const SpeedComparison& at : report.speed) {
    add(fmt::format("ms for {} x {} tokens", at.texts, at.tokens),
        fmt::format("{:.2f}", at.before * 1e3), fmt::format("{:.2f}", at.after * 1e3), at.before,
        at.after);
    rows.back().equal = !at.saves_time() && !at.costs_time();
  }
  return rows;
}

std::string to_json(const PruneReport& report) {
  Json json = {{"form", report.form},
               {"compensate", report.compensate},
               {"folder", report.out},
               {"before", json_of(report.before, report.speed, &SpeedComparison::before)},
               {"after", json_of(report.after, report.speed, &SpeedComparison::after)}};
  if (report.cut) json["cut"] = json_of(*report.cut);
  json["proof"] = {{"max_difference", report.proof.max_difference},
                   {"texts", report.proof.texts},
                   {"tokens", report.proof.tokens},
                   {"random_ids", report.proof.random_ids}};
  return json_text(json, 2);
}

}  // namespace headwise
