// headwise inspect: what a folder holds, and what its heads cost, without loading its weights.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "command.h"
#include "headwise/io/model_folder.h"
#include "headwise/model/summary.h"
#include "headwise/text/tokenizer_kind.h"
#include "json_writer.h"
#include "options.h"

namespace headwise::program {
namespace {

struct InspectOptions {
  std::string model{};
  int64_t tokens = 128;
};

/// What some number of heads costs in one layer, for a text of some length.
struct HeadCost {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t parameters = 0, parameters_without_output = 0;
  int64_t multiply_adds = 0;
  int64_t distributions = 0;
};

HeadCost cost_of(const MultiHeadAttentionConfig& shape, int64_t tokens) {
  const MultiHeadAttentionShape s = resolve(shape);
  const AttentionCount count = count_attention(shape, tokens, tokens);
  return {
      .heads = s.H,
      .kv_heads = s.K,
      .head_dim = s.D,
      .parameters = count.parameters,
      .parameters_without_output = count.parameters - s.H * s.Dv * s.C - (s.output_bias ? s.C : 0),
      .multiply_adds = count.multiply_adds,
      .distributions = s.H * tokens};
}

struct Comparison {
  std::string layer{};
  int64_t tokens = 0;
  HeadCost heads{}, one{};
};

/// The first of the layers with most heads against one head as wide as all of them.
std::optional<Comparison> compare(const ModelSummary& summary, int64_t tokens) {
  const auto layer = std::ranges::max_element(
      summary.attentions, {}, [](const AttentionSummary& a) { return a.shape.heads; });
  if (layer == summary.attentions.end() || layer->shape.heads == 0) return std::nullopt;
  MultiHeadAttentionConfig one = layer->shape;
  one.heads = 1;
  one.kv_heads = 1;
  one.head_dim = layer->shape.heads * layer->site.head_dim;
  one.value_dim = layer->shape.heads * layer->site.value_dim;
  one.kv_head.clear();
  one.fixed.clear();
  return Comparison{.layer = layer->site.name,
                    .tokens = tokens,
                    .heads = cost_of(layer->shape, tokens),
                    .one = cost_of(one, tokens)};
}

std::string architecture_of(const ModelConfig& config) {
  return config.architecture.empty() ? config.model_type : config.architecture;
}

void write_cost(JsonWriter& json, const char* name, const HeadCost& cost) {
  json.key(name);
  json.begin_object();
  json.field("heads", cost.heads);
  json.field("kv_heads", cost.kv_heads);
  json.field("head_dim", cost.head_dim);
  json.field("parameters", cost.parameters);
  json.field("parameters_without_output", cost.parameters_without_output);
  json.field("multiply_adds", cost.multiply_adds);
  json.field("distributions", cost.distributions);
  json.end_object();
}

std::string as_json(const ModelSummary& summary, const std::optional<std::string>& tokenizer,
                    const std::optional<Comparison>& comparison) {
  const ModelConfig& config = summary.config;
  JsonWriter json;
  json.begin_object();
  json.field("architecture", architecture_of(config));
  json.field("model_type", config.model_type);
  json.field("task", to_string(config.task));
  json.field("dtype", summary.dtype);
  json.field("parameters", summary.parameters);
  json.field("attention_parameters", summary.attention_parameters);
  json.field("bytes", summary.bytes);
  json.field("hidden_size", config.width);
  json.field("vocab_size", config.vocabulary);
  json.key("max_position_embeddings");
  config.max_positions > 0 ? json.value(config.max_positions) : json.null();
  json.key("tokenizer");
  tokenizer ? json.value(*tokenizer) : json.null();
  json.key("layers");
  json.begin_array();
  for (const AttentionSummary& layer : summary.attentions) {
    json.begin_object();
    json.field("name", layer.site.name);
    json.field("heads", layer.site.heads.size());
    json.field("kv_heads", layer.site.kv_heads);
    json.field("head_dim", layer.site.head_dim);
    json.field("value_dim", layer.site.value_dim);
    json.field("head_names", layer.site.heads);
    json.key("fixed");
    json.begin_object();
    for (size_t i = 0; i < layer.shape.fixed.size(); ++i) {
      const size_t at = layer.site.heads.size() - layer.shape.fixed.size() + i;
      json.field(fmt::format("H{}", layer.site.heads[at]), to_string(layer.shape.fixed[i]));
    }
    json.end_object();
    if (layer.routing) {
      json.key("routing");
      json.begin_object();
      json.field("routed", layer.routing->heads.size());
      json.field("active", layer.routing->active);
      json.end_object();
    }
    json.field("parameters", layer.parameters);
    json.field("head_parameters", layer.head_parameters);
    json.field("kv_head_parameters", layer.kv_head_parameters);
    json.end_object();
  }
  json.end_array();
  if (comparison) {
    json.key("comparison");
    json.begin_object();
    json.field("layer", comparison->layer);
    json.field("tokens", comparison->tokens);
    write_cost(json, "heads", comparison->heads);
    write_cost(json, "one_head", comparison->one);
    json.end_object();
  }
  json.end_object();
  return json.take();
}

std::string bytes_to_text(int64_t bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

bool alike(const AttentionSummary& a, const AttentionSummary& b) {
  return a.site.side == b.site.side && a.site.kind == b.site.kind && a.site.heads == b.site.heads &&
         a.site.kv_heads == b.site.kv_heads && a.site.head_dim == b.site.head_dim &&
         a.site.value_dim == b.site.value_dim && a.shape.fixed == b.shape.fixed;
}

/// "H0 previous, H2 window(3)"
std::string fixed_heads(const AttentionSummary& layer) {
  std::vector<std::string> parts;
  const size_t learned = layer.site.heads.size() - layer.shape.fixed.size();
  for (size_t i = 0; i < layer.shape.fixed.size(); ++i) {
    parts.push_back(
        fmt::format("H{} {}", layer.site.heads[learned + i], to_string(layer.shape.fixed[i])));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string layer_table(const ModelSummary& summary) {
  std::string text =
      fmt::format("{:<20}{:>6}{:>11}{:>12}{:>13}{:>13}{}\n", "attention", "heads", "kv heads",
                  "head width", "parameters", "per head",
                  summary.attentions.front().kv_head_parameters > 0 ? "  per kv head" : "");
  const auto& layers = summary.attentions;
  for (size_t begin = 0; begin < layers.size();) {
    size_t end = begin + 1;
    while (end < layers.size() && alike(layers[begin], layers[end])) ++end;
    const AttentionSummary& layer = layers[begin];
    std::string name = layer.site.name;
    if (end - begin > 1) name += fmt::format(" to {}", layers[end - 1].site.name);
    text += fmt::format("{:<20}{:>6}{:>11}{:>12}{:>13}{:>13}", name, layer.site.heads.size(),
                        layer.site.kv_heads, layer.site.head_dim, grouped(layer.parameters),
                        grouped(layer.head_parameters));
    if (layer.kv_head_parameters > 0)
      text += fmt::format("{:>13}", grouped(layer.kv_head_parameters));
    const bool pruned = !layer.site.heads.empty() &&
                        std::ranges::max(layer.site.heads) + 1 != std::ssize(layer.site.heads);
    if (pruned) text += fmt::format("   H{}", fmt::join(layer.site.heads, " H"));
    if (!layer.shape.fixed.empty()) text += fmt::format("   fixed: {}", fixed_heads(layer));
    if (layer.routing) {
      text +=
          fmt::format("   routed: {} of {}", layer.routing->active, layer.routing->heads.size());
    }
    text += '\n';
    begin = end;
  }
  return text;
}

std::string comparison_table(const Comparison& c) {
  const auto head = [](const HeadCost& cost) {
    return cost.heads == 1 ? fmt::format("1 head of {}", cost.head_dim)
                           : fmt::format("{} heads of {}", cost.heads, cost.head_dim);
  };
  std::string text = fmt::format(
      "one layer ({}) over {} tokens, and one head as wide as all of its "
      "heads\n{:<32}{:>18}{:>18}\n",
      c.layer, grouped(c.tokens), "", head(c.heads), head(c.one));
  const auto row = [&](const char* name, int64_t HeadCost::*count) {
    text +=
        fmt::format("  {:<30}{:>18}{:>18}\n", name, grouped(c.heads.*count), grouped(c.one.*count));
  };
  row("parameters without W_O", &HeadCost::parameters_without_output);
  row("parameters with W_O", &HeadCost::parameters);
  row("multiply-adds", &HeadCost::multiply_adds);
  row("attention distributions", &HeadCost::distributions);
  return text;
}

std::string model_text(const ModelSummary& summary, const std::optional<std::string>& tokenizer,
                       const std::optional<Comparison>& comparison) {
  const ModelConfig& config = summary.config;
  std::string text = fmt::format("{}: {}\n\n", architecture_of(config), to_string(config.task));
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<14}{}\n", name, value);
  };
  row("parameters", grouped(summary.parameters));
  row("in attention",
      fmt::format("{} ({:.1f} %)", grouped(summary.attention_parameters),
                  100. * static_cast<double>(summary.attention_parameters) /
                      static_cast<double>(std::max<int64_t>(1, summary.parameters))));
  row("stored as", fmt::format("{}, {}", summary.dtype, bytes_to_text(summary.bytes)));
  row("hidden size", grouped(config.width));
  row("vocab size", fmt::format("{}, {}", grouped(config.vocabulary),
                                tokenizer ? *tokenizer + " tokenizer" : "no tokenizer"));
  if (config.max_positions > 0) row("longest text", grouped(config.max_positions) + " tokens");
  if (!config.labels.empty() &&
      (config.task == Task::classify || config.task == Task::classify_tokens)) {
    row("labels", fmt::format("{}", fmt::join(config.labels, ", ")));
  }
  if (!summary.attentions.empty()) text += "\n" + layer_table(summary);
  if (comparison) text += "\n" + comparison_table(*comparison);
  return text;
}

void inspect(const InspectOptions& options, const CommonOptions& common) {
  const std::filesystem::path folder = find_model(options.model);
  const ModelSummary summary = summarize(folder);
  const std::optional<std::string> tokenizer = tokenizer_kind(folder);
  const std::optional<Comparison> comparison = compare(summary, options.tokens);
  write_output(common, common.json ? as_json(summary, tokenizer, comparison)
                                   : model_text(summary, tokenizer, comparison));
}

}  // namespace

void add_inspect(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App& command =
      add_command(app, "inspect", "What a model holds, layer by layer, and what its heads cost",
                  "Example:\n  headwise inspect sentence-transformers/all-MiniLM-L6-v2", common,
                  [options, &common] { inspect(*options, common); });
  add_model(command, "MODEL", options->model);
  command
      .add_option("--tokens", options->tokens,
                  "Length of the text whose multiply-adds are counted; default: 128")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24).description(""))
      ->type_name("N");
}

}  // namespace headwise::program
