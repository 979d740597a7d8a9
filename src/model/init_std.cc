// Reads the standard deviations of initial weights from config.json.
#include "model/init_std.h"

#include <cmath>

#include "model/families/family.h"

namespace headwise {

double read_init_scale(const JsonObject& json, const char* field, double otherwise) {
  const double value = json.optional_number(field).value_or(otherwise);
  if (!(value >= 0) || !std::isfinite(value)) {
    json.refuse(field, "a standard deviation cannot be negative", "0 or more");
  }
  return value;
}

InitStd usual_init_std(const ModelConfig&, const JsonObject& json) {
  const char* const field = json.has("initializer_range") ? "initializer_range" : "init_std";
  const double all = read_init_scale(json, field, 0.02);
  return {.word = all,
          .position = all,
          .relative = all,
          .query = all,
          .key_value = all,
          .attention_output = all,
          .up = all,
          .down = all,
          .output = all};
}

InitStd read_init_std(const ModelConfig& config, std::string_view config_json) {
  const nlohmann::json json = parse_json(config_json, "config.json");
  return family_of(config).init_std(config, JsonObject(json, "config.json"));
}

}  // namespace headwise
