// Reads log.jsonl, summary.json and table.json.
#include "report/training_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/io/json.h"
#include "io/file.h"

namespace headwise {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kMostLogBytes = size_t{1} << 30;
constexpr size_t kMostSteps = 400, kMostHeadRecords = 100;

struct Log {
  std::vector<Json> steps{}, evaluations{}, heads{};
};

/// A line that has no end yet is being written by a training that runs.
Log read_log(const fs::path& file) {
  const std::string contents = read_file(file, kMostLogBytes);
  Log log;
  size_t number = 0;
  std::string_view text = contents;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const std::string where = fmt::format("{}, line {}", file.string(), ++number);
    Json record = parse_json(text.substr(0, end), where);
    text.remove_prefix(end + 1);
    (void)JsonObject(record, where).integer("step");
    std::vector<Json>& kind = record.contains("heads")        ? log.heads
                              : record.contains("evaluation") ? log.evaluations
                                                              : log.steps;
    kind.push_back(std::move(record));
  }
  return log;
}

/// Means over neighbouring steps.
Json thinned_steps(const std::vector<Json>& steps) {
  const size_t each = std::max<size_t>(1, (steps.size() + kMostSteps - 1) / kMostSteps);
  Json result = Json::array();
  for (size_t begin = 0; begin < steps.size(); begin += each) {
    const size_t end = std::min(steps.size(), begin + each);
    Json point = {{"step", steps[end - 1]["step"]}};
    for (const char* field : {"loss", "rate", "gradient_norm", "tokens_per_second"}) {
      double sum = 0;
      size_t count = 0;
      for (size_t i = begin; i < end; ++i) {
        const auto at = steps[i].find(field);
        if (at == steps[i].end() || !at->is_number()) continue;
        sum += at->get<double>();
        ++count;
      }
      if (count > 0) point[field] = sum / static_cast<double>(count);
    }
    if (steps[end - 1].contains("open_heads")) point["open_heads"] = steps[end - 1]["open_heads"];
    result.push_back(std::move(point));
  }
  return result;
}

Json every_so_often(const std::vector<Json>& records, size_t most) {
  const size_t each = std::max<size_t>(1, (records.size() + most - 1) / most);
  Json result = Json::array();
  // Counted from the end, which is what matters most.
  for (size_t i = (records.size() + each - 1) % each; i < records.size(); i += each) {
    result.push_back(records[i]);
  }
  return result;
}

void add_trials(const fs::path& folder, Json& training) {
  std::vector<fs::path> trials;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_there(entry.path() / "log.jsonl")) trials.push_back(entry.path());
  }
  std::ranges::sort(trials);
  for (const fs::path& trial : trials) {
    const Log log = read_log(trial / "log.jsonl");
    training["trials"].push_back({{"name", trial.filename().string()},
                                  {"evaluations", every_so_often(log.evaluations, kMostSteps)}});
  }
}

}  // namespace

Json training_data(const fs::path& folder) {
  Json training = Json::object();
  if (is_there(folder / "log.jsonl")) {
    const Log log = read_log(folder / "log.jsonl");
    training["steps"] = thinned_steps(log.steps);
    training["evaluations"] = every_so_often(log.evaluations, kMostSteps);
    training["heads"] = every_so_often(log.heads, kMostHeadRecords);
    if (is_there(folder / "summary.json")) training["summary"] = read_json(folder / "summary.json");
  }
  if (is_there(folder / "table.json")) {
    training["sweep"] = read_json(folder / "table.json");
    add_trials(folder, training);
  }
  return training;
}

}  // namespace headwise
