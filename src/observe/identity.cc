// What evidence knows a model, data and options by.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/observe/observe.h"
#include "io/file_hash.h"
#include "io/sha256.h"

namespace headwise {
namespace {

using CorpusIdentity = Evidence::CorpusIdentity;

template <class T>
void add_all(const std::vector<T>& values, Sha256& sha) {
  const uint64_t size = values.size();
  sha.add(std::as_bytes(std::span(&size, 1)));
  sha.add(std::as_bytes(std::span(values)));
}

std::string hash_of(const ObservedCorpus& corpus) {
  Sha256 sha;
  for (const ObservedText& text : corpus.texts) {
    const uint64_t sizes[] = {text.ids.size(), text.types.size(), text.decoder_ids.size()};
    sha.add(std::as_bytes(std::span(sizes)));
    sha.add(std::as_bytes(std::span(text.ids)));
    sha.add(std::as_bytes(std::span(text.types)));
    sha.add(std::as_bytes(std::span(text.decoder_ids)));
  }
  return sha.finish();
}

std::string hash_of(const std::string& text) {
  Sha256 sha;
  sha.add(text);
  return sha.finish();
}

std::string hash_of(const EvaluationSet& set) {
  Sha256 sha;
  sha.add(to_string(set.task));
  const TrainingBatch& all = set.examples.all;
  for (const TokenBatch* const batch : {&all.source, &all.target}) {
    add_all(batch->ids, sha);
    add_all(batch->types, sha);
    add_all(batch->offsets, sha);
  }
  add_all(all.labels, sha);
  add_all(all.scores, sha);
  return sha.finish();
}

std::map<std::string, CorpusIdentity> corpora_of(const ObserveData& data) {
  std::map<std::string, CorpusIdentity> corpora = data.files;
  const auto add = [&](const char* kind, int64_t texts, const auto& hash) {
    if (texts > 0 && !corpora.contains(kind)) corpora[kind] = {.sha256 = hash(), .texts = texts};
  };
  if (!data.corpus.texts.empty()) {
    corpora["text"] = {.name = data.corpus.name,
                       .sha256 = hash_of(data.corpus),
                       .texts = std::ssize(data.corpus.texts),
                       .tokens = data.corpus.tokens()};
  }
  add("treebank", std::ssize(data.treebank), [&] { return hash_of(to_conllu(data.treebank)); });
  add("coreference", std::ssize(data.coreference),
      [&] { return hash_of(to_gap(data.coreference)); });
  if (data.evaluation && data.corpus.texts.empty()) {
    add("data", data.evaluation->size(), [&] { return hash_of(*data.evaluation); });
  }
  return corpora;
}

std::string names_of(const Model& model, std::span<const HeadIndex> heads) {
  std::vector<std::string> names;
  for (const HeadIndex& head : heads) {
    names.push_back(model.attentions()[head.site].head_name(head.index));
  }
  return fmt::format("{}", fmt::join(names, ","));
}

std::string names_of(const Model& model, std::span<const NamedHeads> groups) {
  std::vector<std::string> texts;
  for (const NamedHeads& group : groups) {
    std::vector<std::string> names;
    for (const int64_t head : group.heads) names.push_back(model.head_name(head));
    texts.push_back(fmt::format("{}={}", group.name, fmt::join(names, ",")));
  }
  return fmt::format("{}", fmt::join(texts, ";"));
}

std::string gates_of(const Model& model, const ObserveOptions& options) {
  std::vector<std::string> texts;
  for (int64_t head = 0; head < std::ssize(options.gates); ++head) {
    if (options.gates[head] == 1) continue;
    texts.push_back(fmt::format("{}={}", model.head_name(head), options.gates[head]));
  }
  for (const HeadOutput& output : options.replaced) {
    texts.push_back(model.head_name(output.head) + "=mean");
  }
  return fmt::format("{}", fmt::join(texts, ","));
}

std::string ablated_of(const ImportanceOptions& options) {
  std::vector<std::string_view> parts;
  if (options.layers) parts.push_back("layers");
  if (options.pairs != ImportanceOptions::Pairs::none) parts.push_back("pairs");
  return fmt::format("{}", fmt::join(parts, ","));
}

/// The data that a loss is taken over.
std::string loss_data(const Evidence& evidence) {
  const auto data = evidence.corpora.find("data");
  const auto found = data == evidence.corpora.end() ? evidence.corpora.find("text") : data;
  return found == evidence.corpora.end() ? "" : found->first + " " + found->second.sha256;
}

void check_appendable(const Evidence& evidence, const Evidence& fresh, const std::string& where) {
  const auto check = [&](bool same, const char* what) {
    if (same) return;
    throw Error({.what = "the evidence to be added to is another one",
                 .where = where,
                 .got = fmt::format("another {}", what),
                 .expected = "the same model, and the same data for the loss"});
  };
  check(evidence.model.sha256 == fresh.model.sha256, "model");
  check(loss_data(evidence) == loss_data(fresh), "text or data");
}

}  // namespace

CorpusIdentity identity_of_files(const Files& files, int64_t texts,
                                 const std::function<void()>& check) {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : files) names.push_back(file.string());
  return {.name = fmt::format("{}", fmt::join(names, " ")),
          .sha256 = sha256_of_files(files, check),
          .texts = texts};
}

Evidence identify(const Model& model, const ObserveData& data, const ObserveOptions& options) {
  Evidence evidence = no_evidence(model);
  const ModelConfig& config = model.config();
  evidence.model = {
      .name = model.name(),
      .architecture = config.architecture.empty() ? config.model_type : config.architecture,
      .sha256 = model.hash([&] {
        if (options.progress) options.progress("hash of the weights", 0, 1);
      })};
  evidence.corpora = corpora_of(data);
  const ImportanceOptions& importance = options.importance;
  evidence.options = {
      {"seed", std::to_string(options.seed)},
      {"pairs", options.all_pairs ? "all" : "layer"},
      {"measure", fmt::format("{}", fmt::join(options.measures.names(), ","))},
      {"only", names_of(model, options.only)},
      {"loss", data.evaluation ? std::string(to_string(data.evaluation->task)) : ""},
      {"ablate", ablated_of(importance)},
      {"groups", names_of(model, importance.groups)},
      {"adaptive",
       importance.adaptive_tolerance ? fmt::format("{}", *importance.adaptive_tolerance) : ""},
      {"probes", options.probes ? "yes" : "no"},
      {"gates", gates_of(model, options)}};
  for (const auto& [name, value] : data.options) evidence.options[name] = value;
  return evidence;
}

void append_groups(const Model& model, const ObserveData& data, const ObserveOptions& options,
                   Evidence& evidence, const std::string& where) {
  const Evidence fresh = identify(model, data, options);
  check_appendable(evidence, fresh, where);
  if (!data.evaluation) {
    throw Error({.what = "groups are measured by a loss, and there is nothing to take it over",
                 .where = where,
                 .expected = "the texts or data of the evidence"});
  }
  ImportanceOptions importance = options.importance;
  importance.gates = options.gates;
  importance.seed = options.seed;
  for (const HeadIndex& head : options.only) {
    importance.heads.push_back(model.attentions()[head.site].first + head.index);
  }
  if (options.progress) {
    importance.progress = [&](std::string_view step, int64_t done, int64_t total) {
      options.progress(std::string(step), done, total);
    };
  }
  append_groups(model, *data.evaluation, importance, evidence);
  if (const auto verdict = fresh.corpora.find("verdict"); verdict != fresh.corpora.end()) {
    evidence.corpora["verdict"] = verdict->second;
  }
  for (const char* const option : {"groups", "ablate"}) {
    std::string& asked = evidence.options[option];
    const std::string& more = fresh.options.at(option);
    if (!more.empty()) asked += (asked.empty() ? "" : ";") + more;
  }
}

}  // namespace headwise
