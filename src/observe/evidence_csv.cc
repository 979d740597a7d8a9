// Evidence as a table with commas.
#include <fmt/format.h>

#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "headwise/observe/evidence.h"

namespace headwise {
namespace {

/// Which columns a number has, over all heads.
struct CsvColumns {
  bool interval = false, baseline = false, n = false;
};

/// Names of measures have dots between their parts, as paths in pandas; those of probes a part
/// more.
std::string column_name(const std::string& measure, bool probes) {
  std::string name = (probes ? "probes/" : "") + measure;
  for (char& c : name) c = c == '/' ? '.' : c;
  return name;
}

/// Quoted where a comma or a quote needs it (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

/// Calls visit(name of the column, measure) for every number of a head.
template <class Visit>
void for_each_measure(const HeadEvidence& head, const Visit& visit) {
  for (const auto& [name, measure] : head.measures) visit(column_name(name, false), measure);
  for (const auto& [name, measure] : head.probes) visit(column_name(name, true), measure);
}

}  // namespace

std::string to_csv(const Evidence& evidence) {
  std::map<std::string, CsvColumns> columns;
  for (const HeadEvidence& head : evidence.heads) {
    for_each_measure(head, [&](const std::string& name, const Measure& measure) {
      CsvColumns& has = columns[name];
      // Ablations have an interval unless there are too few examples.
      has.interval |= measure.interval.has_value() || name.starts_with("ablation_");
      has.baseline |= measure.baseline.has_value();
      has.n |= measure.n > 0;
    });
  }
  std::string text = "head,rows";
  for (const auto& [name, has] : columns) {
    const auto add = [&](const char* end) { text += ',' + csv_field(name + end); };
    add("");
    if (has.interval) {
      add("_low");
      add("_high");
    }
    if (has.baseline) add("_baseline");
    if (has.n) add("_n");
  }
  text += '\n';
  for (const HeadEvidence& head : evidence.heads) {
    std::map<std::string, const Measure*> own;
    for_each_measure(head, [&](const std::string& name, const Measure& measure) {
      own.emplace(name, &measure);
    });
    text += fmt::format("{},{}", csv_field(head.head), head.rows);
    const auto add = [&](const auto& value) {
      text += ',';
      if (value) fmt::format_to(std::back_inserter(text), "{}", *value);
    };
    for (const auto& [name, has] : columns) {
      const auto at = own.find(name);
      const Measure* const measure = at == own.end() ? nullptr : at->second;
      using Number = std::optional<double>;
      add(measure != nullptr ? Number(measure->value) : Number());
      const bool interval = measure != nullptr && measure->interval;
      if (has.interval) {
        add(interval ? Number(measure->interval->low) : Number());
        add(interval ? Number(measure->interval->high) : Number());
      }
      if (has.baseline) add(measure != nullptr ? measure->baseline : Number());
      if (has.n) {
        add(measure != nullptr && measure->n > 0 ? std::optional(measure->n)
                                                 : std::optional<int64_t>());
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace headwise
