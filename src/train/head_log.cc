// Turns statistics of heads into records.
#include "train/head_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace headwise {
namespace {

using nlohmann::ordered_json;

/// Six digits: a log is read by people and plots.
double short_number(double x) { return std::stod(fmt::format("{:.6g}", x)); }

ordered_json record(const HeadStatistics& s, bool cross) {
  ordered_json result = {{"rows", s.entropy.n}};
  const auto add = [&](const char* name, const RunningMean& running_mean) {
    if (running_mean.n > 0) result[name] = short_number(running_mean.mean());
  };
  add("entropy", s.entropy);
  add("entropy_ratio", s.entropy_ratio);
  add("confidence", s.confidence);
  add("mass_first", s.mass_first);
  add("mass_last", s.mass_last);
  if (cross) {
    add("diagonal", s.mass_diagonal);
    return result;
  }
  add("distance", s.distance);
  add("mass_previous", s.mass_previous);
  add("mass_self", s.mass_self);
  add("mass_next", s.mass_next);
  add("mass_window", s.mass_window);
  return result;
}

}  // namespace

AttentionObserver* HeadLog::attention_observer(const AttentionSite& site, const Attention&) {
  AttentionObserver& observer = observers_[site.name];
  observer.cross = site.kind == AttentionKind::cross;
  return &observer;
}

ordered_json HeadLog::take(const TrainableModel& model) {
  const std::vector<double> norms = model.head_gradient_norms();
  ordered_json heads = ordered_json::object();
  for (const AttentionSite& site : model.attentions()) {
    const AttentionObserver& observer = observers_[site.name];
    for (int64_t h = 0; h < std::ssize(observer.heads); ++h) {
      ordered_json& head = heads[site.head_name(h)];
      head = record(observer.heads[h], observer.cross);
      head["gradient_norm"] = short_number(norms[site.first + h]);
    }
  }
  observers_.clear();
  return heads;
}

std::vector<std::pair<std::string, int64_t>> open_heads(const TrainableModel& model) {
  const std::vector<float> gates = model.learned_gates();
  std::vector<std::pair<std::string, int64_t>> open;
  if (gates.empty()) return open;
  for (const AttentionSite& site : model.attentions()) {
    const auto first = gates.begin() + site.first;
    open.emplace_back(site.name, std::count_if(first, first + std::ssize(site.heads),
                                               [](float gate) { return gate > 0; }));
  }
  return open;
}

}  // namespace headwise
