// What a pruned model is, what it cost, and how to load it, in words and tables.
#include "headwise/prune/model_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/core/grouped.h"
#include "headwise/core/parallel.h"
#include "headwise/text/tokenizer_kind.h"
#include "io/file.h"
#include "model/compact_config.h"
#include "prune/card_metadata.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPlace = "path/to/this/folder";
constexpr std::string_view kSentence = "A sentence about heads.";

/// Why the heads of an order come first, as the end of a sentence.
std::string_view meaning_of(std::string_view order) {
  static const std::map<std::string_view, std::string_view> kMeanings = {
      {"gradient", "the gradient of the loss with respect to the head is smallest"},
      {"ablation", "the loss rises least when the head is ablated"},
      {"entropy", "the head spreads its attention most"},
      {"random", "chosen at random, as a control"},
      {"redundant-first", "another head is redundant with the head"},
      {"greedy", "the loss rises least when the head is ablated after the ones before it"},
      {"gates", "a gate that was learned with a penalty for open gates closed"}};
  const auto at = kMeanings.find(order);
  return at == kMeanings.end() ? "" : at->second;
}

/// The metadata that holds for the pruned model as well. What an evaluation of the original
/// measured (model-index) does not.
std::string metadata(const fs::path& folder, const PruneReport& report, bool transformers) {
  std::map<std::string, CardField> fields;
  for (const std::string_view card : {kModelCard, kOriginalCard}) {
    if (!is_there(folder / card)) continue;
    fields = read_card_metadata(read_file(folder / card, kLargestCard));
    break;
  }
  if (!report.original.empty()) fields["base_model"] = {.values = {report.original}};
  if (transformers) {
    const bool sentences = is_there(folder / "modules.json");
    fields.try_emplace("library_name",
                       CardField{{sentences ? "sentence-transformers" : "transformers"}});
  }
  CardField& tags = fields["tags"];
  tags.list = true;
  for (const char* tag : {"headwise", "pruned"}) {
    if (std::ranges::find(tags.values, tag) == tags.values.end()) tags.values.emplace_back(tag);
  }
  std::string text = "---\n";
  for (const char* name : {"language", "license", "license_name", "license_link", "library_name",
                           "pipeline_tag", "base_model", "datasets", "tags"}) {
    if (fields.contains(name)) text += card_field(name, fields[name]);
  }
  return text + "---\n";
}

std::string removed_heads(const PruneReport& report) {
  const std::set<std::string> removed(report.removed.begin(), report.removed.end());
  std::string text = "| attention | heads removed | heads left |\n|---|---|---|\n";
  for (const AttentionSummary& attention : report.before.summary.attentions) {
    const AttentionSite& site = attention.site;
    std::vector<int32_t> gone;
    for (int64_t i = 0; i < std::ssize(site.heads); ++i) {
      if (removed.contains(site.head_name(i))) gone.push_back(site.heads[i]);
    }
    if (gone.empty()) continue;
    text += fmt::format("| {} | {} | {} of {} |\n", site.name, fmt::join(gone, ", "),
                        site.heads.size() - gone.size(), site.heads.size());
  }
  return text;
}

/// Heads that a compact folder has lost, in this pruning or in one before.
int64_t heads_gone(const std::string& config) {
  const nlohmann::json json = nlohmann::json::parse(config);
  int64_t gone = 0;
  for (const auto& heads : json.value("pruned_heads", nlohmann::json::object())) {
    gone += std::ssize(heads);
  }
  return gone;
}

std::string what_was_removed(const PruneReport& report, const std::string& config) {
  std::string text = "## What was removed\n\n";
  if (report.removed.empty()) return text + "No heads.\n";
  text += removed_heads(report) + "\n";
  if (const int64_t before = heads_gone(config) - std::ssize(report.removed); before > 0) {
    text += fmt::format("{} other heads were gone before: `pruned_heads` in config.json has all.\n",
                        before);
  }
  if (report.order.empty()) {
    text += "The heads were named one by one.\n";
  } else {
    const std::string_view meaning = meaning_of(report.order);
    text +=
        fmt::format("A plan chose the heads, in the order `{}`{}{}.\n",
                    meaning.empty() ? "other" : report.order, meaning.empty() ? "" : ": ", meaning);
  }
  if (report.form == "masked") {
    text += "Form `masked`: tensors have their old shapes, and the output of these heads is 0.\n";
  } else {
    text += fmt::format(
        "Form `{}`: the rows of queries, keys and values of these heads and their columns of the "
        "output projection are gone.\n",
        report.form);
  }
  if (report.compensate != "none") {
    text += fmt::format("Compensation `{}`: the output projections make up for their output.\n",
                        report.compensate);
  }
  if (report.recovered) text += "The model was trained further after the heads were removed.\n";
  return text;
}

std::string what_it_cost(const PruneReport& report) {
  const ModelState &before = report.before, &after = report.after;
  std::string text = "## Measured\n\n|  | before | after | ratio |\n|---|--:|--:|--:|\n";
  for (const ReportRow& row : rows_of(report)) {
    text +=
        fmt::format("| {} | {} | {} | {} |\n", row.name, row.before, row.after, row.ratio_text());
  }
  text += "\n";
  if (before.loss && after.loss) {
    text += fmt::format("The loss is over {} examples{}.\n", grouped(after.loss->examples),
                        after.loss->task == "fidelity"
                            ? "; fidelity is 1 - cosine with the embedding of the original"
                            : "");
  } else {
    text += "No loss was measured.\n";
  }
  if (!report.speed.empty()) {
    text += fmt::format("Times are medians of passes with {} threads, before and after in turns.\n",
                        threads());
  }
  return text + fmt::format(
                    "Equality check{}: on {} {} ({} tokens) the hidden states of this model are "
                    "those of the original with these heads ablated; the largest difference is "
                    "{:.1e} of the largest hidden state.\n",
                    report.recovered ? ", before the training" : "", grouped(report.proof.texts),
                    report.proof.random_ids ? "texts of random ids" : "texts",
                    grouped(report.proof.tokens), report.proof.max_difference);
}

std::string code(std::string_view language, std::string_view text) {
  return fmt::format("```{}\n{}```\n", language, text);
}

std::string with_sentence_transformers(std::string_view argument) {
  return code("python", fmt::format("from sentence_transformers import SentenceTransformer\n\n"
                                    "model = SentenceTransformer(\"{}\"{})\n"
                                    "embeddings = model.encode([\"{}\"])\n"
                                    "print(embeddings)\n",
                                    kPlace, argument, kSentence));
}

std::string with_transformers(const fs::path& folder, const std::string& loader, bool two_stacks,
                              std::string_view argument) {
  const bool reads = tokenizer_kind(folder).has_value();
  const bool writes = loader.ends_with("LM") && !loader.ends_with("MaskedLM");
  std::string text =
      fmt::format("from transformers import {}{}\n\n", loader, reads ? ", AutoTokenizer" : "");
  text += fmt::format("model = {}.from_pretrained(\"{}\"{})\n", loader, kPlace, argument);
  if (!reads) return code("python", text);
  text += fmt::format("tokenizer = AutoTokenizer.from_pretrained(\"{}\")\n", kPlace);
  text += fmt::format("inputs = tokenizer(\"{}\", return_tensors=\"pt\")\n", kSentence);
  if (writes) {
    text +=
        "ids = model.generate(**inputs, max_new_tokens=20)\n"
        "print(tokenizer.decode(ids[0], skip_special_tokens=True))\n";
  } else if (!two_stacks) {
    text += "outputs = model(**inputs)\nprint(outputs)\n";
  }
  return code("python", text);
}

std::string how_to_load(const fs::path& folder, const std::string& config,
                        const std::string& loader) {
  const bool own = needs_modeling(config);
  const std::string_view argument = own ? ", trust_remote_code=True" : "";
  std::string text = "## How to load\n\n";
  if (loader.empty()) {
    text += "This architecture is one of headwise; transformers does not know it.\n\n";
  } else if (own) {
    text +=
        "The layers have different numbers of heads, for which the stock library has no "
        "field. `modeling_headwise.py` in this folder sets them up; "
        "`trust_remote_code=True` allows that. It needs transformers 5.\n\n";
  } else {
    text += "Stock libraries load this folder; it has no code of its own.\n\n";
  }
  if (!loader.empty()) {
    if (is_there(folder / "modules.json")) text += with_sentence_transformers(argument) + "\n";
    const bool two_stacks = nlohmann::json::parse(config).value("is_encoder_decoder", false);
    text += with_transformers(folder, loader, two_stacks, argument) + "\n";
  }
  return text + code("console", fmt::format("$ headwise inspect {0}\n"
                                            "$ headwise export {0} --onnx {0}/onnx/model.onnx\n",
                                            kPlace));
}

}  // namespace

void write_model_card(const fs::path& folder, const PruneReport& report) {
  const std::string config = read_file(folder / "config.json", kLargestConfig);
  const std::string loader = auto_class(config);
  const std::string original =
      report.original.empty() ? "the original model" : fmt::format("`{}`", report.original);
  std::string text = metadata(folder, report, !loader.empty());
  text +=
      fmt::format("{}\n\n# {} with {} of {} attention heads\n\n", kCardMark,
                  report.before.summary.config.model_type, report.after.heads, report.before.heads);
  text += fmt::format("This is {} without {} of its {} attention heads. headwise removed them.\n",
                      original, report.before.heads - report.after.heads, report.before.heads);
  if (is_there(folder / kOriginalCard)) {
    text += fmt::format(
        "[{0}]({0}) is the card of the original model: its figures and examples are about the "
        "model with all heads.\n",
        kOriginalCard);
  }
  text += "\n" + what_was_removed(report, config) + "\n" + what_it_cost(report) + "\n" +
          how_to_load(folder, config, loader);
  write_file_whole(folder / kModelCard, text);
}

}  // namespace headwise
