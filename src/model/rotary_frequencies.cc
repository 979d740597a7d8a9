// Inverse frequencies in float32, as transformers computes them: angles must agree far into a text.
#include "model/rotary_frequencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>

namespace headwise {
namespace {

std::vector<float> plain_frequencies(int64_t width, double theta) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < width; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(width);
    frequencies.push_back(1.f / std::pow(static_cast<float>(theta), exponent));
  }
  return frequencies;
}

/// A field that the angles are divided by, or the like.
double positive(const JsonObject& rope, std::string_view name) {
  const double value = rope.number(name);
  if (!(value > 1e-6 && value < 1e12)) {
    rope.refuse(name, "a number that scales rotary positions is out of range",
                "above 0, at most 10^12");
  }
  return value;
}

double positive(const JsonObject& rope, std::string_view name, double otherwise) {
  return rope.has(name) ? positive(rope, name) : otherwise;
}

/// Llama 3.1: low frequencies are scaled, high ones kept, those between interpolated.
void scale_llama3(const JsonObject& rope, int64_t max_positions, std::vector<float>& frequencies) {
  const auto factor = static_cast<float>(positive(rope, "factor"));
  const double low = positive(rope, "low_freq_factor"), high = positive(rope, "high_freq_factor");
  if (!(high > low)) {
    rope.refuse("high_freq_factor", "the frequencies to keep begin below those to stretch",
                "above low_freq_factor");
  }
  const auto context = static_cast<double>(
      rope.optional_integer("original_max_position_embeddings", 1).value_or(max_positions));
  for (float& frequency : frequencies) {
    const double wave = 2 * std::numbers::pi / frequency;
    if (wave > context / low) {
      frequency /= factor;
    } else if (wave >= context / high) {
      const auto smooth = static_cast<float>((context / wave - low) / (high - low));
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

/// YaRN (Peng et al. 2023). Returns the attention factor.
double scale_yarn(const JsonObject& rope, int64_t width, double theta, int64_t max_positions,
                  std::vector<float>& frequencies) {
  const auto context = static_cast<double>(
      rope.optional_integer("original_max_position_embeddings", 1).value_or(max_positions));
  const double factor = positive(rope, "factor", static_cast<double>(max_positions) / context);
  const auto magnitude = [](double scale, double by) {
    return scale <= 1 ? 1. : 0.1 * by * std::log(scale) + 1;
  };
  const auto mscale = rope.optional_number("mscale"), all = rope.optional_number("mscale_all_dim");
  const bool both = mscale.value_or(0) != 0 && all.value_or(0) != 0;
  const double attention_factor =
      positive(rope, "attention_factor",
               both ? magnitude(factor, *mscale) / magnitude(factor, *all) : magnitude(factor, 1));
  const auto dimension_of = [&](double rotations) {
    return static_cast<double>(width) * std::log(context / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = dimension_of(positive(rope, "beta_fast", 32));
  double high = dimension_of(positive(rope, "beta_slow", 1));
  if (rope.optional_boolean("truncate").value_or(true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.);
  high = std::min(high, static_cast<double>(width - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0., 1.);
    const double scaled = frequencies[i] / factor;
    frequencies[i] = static_cast<float>(scaled * ramp + frequencies[i] * (1 - ramp));
  }
  return attention_factor;
}

void check_names(const JsonObject& rope) {
  static constexpr auto kKnown = std::to_array<std::string_view>(
      {"attention_factor", "beta_fast", "beta_slow", "factor", "finetuned", "high_freq_factor",
       "low_freq_factor", "mscale", "mscale_all_dim", "original_max_position_embeddings",
       "partial_rotary_factor", "rope_theta", "rope_type", "truncate", "type"});
  for (const std::string& name : rope.names()) {
    if (!rope.has(name) || std::ranges::find(kKnown, name) != kKnown.end()) continue;
    rope.refuse(name, "a field of the rotary positions is not understood",
                fmt::format("one of {}", fmt::join(kKnown, ", ")));
  }
}

}  // namespace

std::vector<float> dynamic_frequencies(const RotaryConfig& rotary, int64_t max_positions,
                                       int64_t tokens) {
  const double factor = rotary.dynamic_factor, width = static_cast<double>(rotary.width);
  const double growth =
      static_cast<double>(std::max(tokens, max_positions)) / static_cast<double>(max_positions);
  return plain_frequencies(
      rotary.width, rotary.theta * std::pow(factor * growth - (factor - 1), width / (width - 2)));
}

RotaryConfig read_rotary(ConfigFields& fields, int64_t head_dim, int64_t max_positions,
                         double theta, double fraction) {
  const JsonObject& config = fields.object();
  theta = fields.number("rope_theta", fields.number("rotary_emb_base", theta));
  fraction = fields.number("partial_rotary_factor", fields.number("rotary_pct", fraction));
  fields.must_be("rope_interleaved", false);
  fields.use("rope_scaling");
  fields.use("rope_parameters");
  const char* const name = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const auto rope = config.optional_object(name);
  std::string type = "default";
  if (rope) {
    check_names(*rope);
    theta = rope->optional_number("rope_theta").value_or(theta);
    fraction = rope->optional_number("partial_rotary_factor").value_or(fraction);
    type = rope->optional_text("rope_type").value_or(rope->optional_text("type").value_or(type));
  }
  if (!(theta > 1 && theta < 1e12)) {
    config.refuse(rope && rope->has("rope_theta") ? name : "rope_theta",
                  "the base of rotary positions is out of range", "above 1, at most 10^12");
  }
  if (!(fraction > 0 && fraction <= 1)) {
    config.refuse(name, "the rotated part of a head is not a fraction", "above 0, at most 1");
  }
  RotaryConfig rotary{.width = static_cast<int64_t>(static_cast<double>(head_dim) * fraction),
                      .theta = theta};
  if (rotary.width % 2 != 0) {
    config.refuse(name, "an odd number of columns cannot be rotated", "an even number",
                  "check head_dim and partial_rotary_factor");
  }
  std::vector<float> frequencies = plain_frequencies(rotary.width, theta);
  if (type == "linear") {
    const auto factor = static_cast<float>(positive(*rope, "factor"));
    for (float& frequency : frequencies) frequency /= factor;
  } else if (type == "llama3") {
    scale_llama3(*rope, max_positions, frequencies);
  } else if (type == "yarn") {
    rotary.attention_factor = scale_yarn(*rope, rotary.width, theta, max_positions, frequencies);
  } else if (type == "dynamic") {
    rotary.dynamic_factor = positive(*rope, "factor");
  } else if (type != "default") {
    config.refuse(name, "the scaling of rotary positions is not known",
                  "rope_type default, linear, dynamic, yarn or llama3");
  }
  rotary.inverse_frequencies = std::move(frequencies);
  return rotary;
}

}  // namespace headwise
