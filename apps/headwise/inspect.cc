// headwise inspect: what a folder holds, and what its heads cost, without loading its weights.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "command.h"
#include "headwise/io/json_text.h"
#include "headwise/io/model_folder.h"
#include "headwise/model/head_cost.h"
#include "headwise/text/tokenizer_kind.h"
#include "options.h"
#include "screen.h"

namespace headwise::program {
namespace {

struct InspectOptions {
  std::string model{};
  int64_t tokens = 128;
};

std::string architecture_of(const ModelConfig& config) {
  return config.architecture.empty() ? config.model_type : config.architecture;
}

Json as_json(const HeadCost& cost) {
  return {{"heads", cost.heads},
          {"kv_heads", cost.kv_heads},
          {"head_dim", cost.head_dim},
          {"parameters", cost.parameters},
          {"parameters_without_output", cost.parameters_without_output},
          {"multiply_adds", cost.multiply_adds},
          {"distributions", cost.distributions}};
}

/// "H2" and its pattern of each fixed head.
std::vector<std::pair<std::string, std::string>> fixed_heads(const AttentionSummary& layer) {
  std::vector<std::pair<std::string, std::string>> heads;
  const size_t learned = layer.site.heads.size() - layer.shape.fixed.size();
  for (size_t i = 0; i < layer.shape.fixed.size(); ++i) {
    heads.emplace_back(fmt::format("H{}", layer.site.heads[learned + i]),
                       to_string(layer.shape.fixed[i]));
  }
  return heads;
}

Json as_json(const AttentionSummary& layer) {
  Json json = {{"name", layer.site.name},
               {"heads", layer.site.heads.size()},
               {"kv_heads", layer.site.kv_heads},
               {"head_dim", layer.site.head_dim},
               {"value_dim", layer.site.value_dim},
               {"head_names", layer.site.heads},
               {"fixed", Json::object()}};
  for (const auto& [head, pattern] : fixed_heads(layer)) json["fixed"][head] = pattern;
  if (layer.routing) {
    json["routing"] = {{"routed", layer.routing->heads.size()}, {"active", layer.routing->active}};
  }
  json["parameters"] = layer.parameters;
  json["head_parameters"] = layer.head_parameters;
  json["kv_head_parameters"] = layer.kv_head_parameters;
  return json;
}

Json as_json(const ModelSummary& summary, const std::optional<std::string>& tokenizer,
             const std::optional<OneHeadComparison>& comparison) {
  const ModelConfig& config = summary.config;
  Json json = {{"architecture", architecture_of(config)},
               {"model_type", config.model_type},
               {"task", to_string(config.task)},
               {"dtype", summary.dtype},
               {"parameters", summary.parameters},
               {"attention_parameters", summary.attention_parameters},
               {"bytes", summary.bytes},
               {"hidden_size", config.width},
               {"vocab_size", config.vocabulary},
               {"max_position_embeddings", nullptr},
               {"tokenizer", nullptr},
               {"layers", Json::array()}};
  if (config.max_positions > 0) json["max_position_embeddings"] = config.max_positions;
  if (tokenizer) json["tokenizer"] = *tokenizer;
  for (const AttentionSummary& layer : summary.attentions) json["layers"].push_back(as_json(layer));
  if (comparison) {
    json["comparison"] = {{"layer", comparison->layer},
                          {"tokens", comparison->tokens},
                          {"heads", as_json(comparison->heads)},
                          {"one_head", as_json(comparison->one)}};
  }
  return json;
}

bool alike(const AttentionSummary& a, const AttentionSummary& b) {
  return a.site.side == b.site.side && a.site.kind == b.site.kind && a.site.heads == b.site.heads &&
         a.site.kv_heads == b.site.kv_heads && a.site.head_dim == b.site.head_dim &&
         a.site.value_dim == b.site.value_dim && a.shape.fixed == b.shape.fixed;
}

std::string layer_table(const std::vector<AttentionSummary>& layers) {
  Table table({-20, 6, 11, 12, 13, 13});
  table.row({"attention", "heads", "kv heads", "head width", "parameters", "per head",
             layers.front().kv_head_parameters > 0 ? "  per kv head" : ""});
  for (size_t begin = 0; begin < layers.size();) {
    size_t end = begin + 1;
    while (end < layers.size() && alike(layers[begin], layers[end])) ++end;
    const AttentionSummary& layer = layers[begin];
    const AttentionSite& site = layer.site;
    std::string name = site.name, more;
    if (end - begin > 1) name += fmt::format(" to {}", layers[end - 1].site.name);
    if (layer.kv_head_parameters > 0)
      more += fmt::format("{:>13}", grouped(layer.kv_head_parameters));
    if (!site.heads.empty() && std::ranges::max(site.heads) + 1 != std::ssize(site.heads)) {
      more += fmt::format("   H{}", fmt::join(site.heads, " H"));  // pruned
    }
    const char* before = "   fixed: ";
    for (const auto& [head, pattern] : fixed_heads(layer)) {
      more += fmt::format("{}{} {}", std::exchange(before, ", "), head, pattern);
    }
    if (layer.routing) {
      more +=
          fmt::format("   routed: {} of {}", layer.routing->active, layer.routing->heads.size());
    }
    table.row({name, fmt::format("{}", site.heads.size()), fmt::format("{}", site.kv_heads),
               fmt::format("{}", site.head_dim), grouped(layer.parameters),
               grouped(layer.head_parameters), more});
    begin = end;
  }
  return table.text();
}

std::string comparison_table(const OneHeadComparison& c) {
  const auto head = [](const HeadCost& cost) {
    return cost.heads == 1 ? fmt::format("1 head of {}", cost.head_dim)
                           : fmt::format("{} heads of {}", cost.heads, cost.head_dim);
  };
  Table table({-32, 18, 18});
  table.row({"", head(c.heads), head(c.one)});
  const auto row = [&](const char* name, int64_t HeadCost::*count) {
    table.row({fmt::format("  {}", name), grouped(c.heads.*count), grouped(c.one.*count)});
  };
  row("parameters without W_O", &HeadCost::parameters_without_output);
  row("parameters with W_O", &HeadCost::parameters);
  row("multiply-adds", &HeadCost::multiply_adds);
  row("attention distributions", &HeadCost::distributions);
  return fmt::format("one layer ({}) over {} tokens, and one head as wide as all of its heads\n{}",
                     c.layer, grouped(c.tokens), table.text());
}

std::string model_text(const ModelSummary& summary, const std::optional<std::string>& tokenizer,
                       const std::optional<OneHeadComparison>& comparison) {
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
  if (!summary.attentions.empty()) text += "\n" + layer_table(summary.attentions);
  if (comparison) text += "\n" + comparison_table(*comparison);
  return text;
}

void inspect(const InspectOptions& options, const CommonOptions& common) {
  const std::filesystem::path folder = find_model(options.model);
  const ModelSummary summary = summarize(folder);
  const std::optional<std::string> tokenizer = tokenizer_kind(folder);
  const std::optional<OneHeadComparison> comparison =
      compare_with_one_head(summary, options.tokens);
  write_output(common, common.json ? json_text(as_json(summary, tokenizer, comparison))
                                   : model_text(summary, tokenizer, comparison));
}

}  // namespace

void add_inspect(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App& command =
      add_command(app, "inspect", "What a model holds, layer by layer, and what its heads cost",
                  "Example:\n  headwise inspect sentence-transformers/all-MiniLM-L6-v2", common,
                  [options, &common] { inspect(*options, common); });
  Options declare(command);
  declare.model("MODEL", options->model);
  declare.tokens(options->tokens, "Length of the text whose multiply-adds are counted");
}

}  // namespace headwise::program
