// Which heads go, for which budget: the content of plan.json.
//
// docs/formats.md describes the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/plan/held_out.h"

namespace headwise {

/// The quality of a model without its first `removed` heads of an order.
struct CurvePoint {
  int64_t removed = 0;
  double loss = 0;
  std::optional<double> score{};  // accuracy, BLEU: where the task has one
  bool operator==(const CurvePoint&) const = default;
};

struct Plan {
  std::vector<std::string> keep{}, drop{};   // heads; those that go first stand first in `drop`
  std::string order{};                       // "gradient", "ablation", …
  std::string task{};                        // whose loss it is: "fidelity", "classify", …
  std::map<std::string, double> expected{};  // "heads", "parameters", "multiply_adds", "loss", …
  std::map<std::string, std::vector<CurvePoint>> curves{};  // by order
  bool supported = true;                                    // by the data, see support.h
  std::vector<std::string> reasons{};                       // why not
  std::optional<HeldOut> held_out{};                        // none: not tested
  bool operator==(const Plan&) const = default;
};

/// The text of plan.json, and back: of a file only "drop" is required. Throws Error for what is no
/// plan; `where` names the text in messages.
std::string to_json(const Plan& plan);
Plan plan_from_json(std::string_view text, const std::string& where);

/// The plan of a file, or of the folder of a study. Throws Error for what cannot be read; of
/// another stage's file it says so.
Plan read_plan(const std::filesystem::path& file);

}  // namespace headwise
