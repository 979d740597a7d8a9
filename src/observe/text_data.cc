// Tokenizes texts, and finds the loss that they allow.
#include "headwise/observe/text_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/model/generate.h"
#include "observe/loss_batch.h"

namespace headwise {
namespace {

const Tokenizer& tokenizer_of(const Model& model) {
  if (model.tokenizer() != nullptr) return *model.tokenizer();
  throw Error(
      {.what = "the model has no tokenizer",
       .where = model.folder().string(),
       .expected = "tokenizer.json, vocab.txt, vocab.json and merges.txt, or tokenizer.model",
       .hint = "give token ids"});
}

/// Whether there is nothing but what the template put.
bool is_empty(const Encoding& encoding) {
  return std::ranges::all_of(encoding.special, [](uint8_t put) { return put != 0; });
}

}  // namespace

ObserveData text_data(const Model& model, std::span<const std::string> texts,
                      const TextOptions& options) {
  const Tokenizer& tokenizer = tokenizer_of(model);
  const ModelConfig& config = model.config();
  EncodeOptions encoding;
  if (options.truncate && config.max_positions > 0) encoding.truncate = config.max_positions;
  ObserveData data{.corpus = {.name = options.name}};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (options.progress) options.progress(static_cast<int64_t>(i), std::ssize(texts));
    if (is_empty(tokenizer.encode(texts[i], encoding))) continue;
    ObservedText text = observed_text(model, tokenizer, texts[i],
                                      fmt::format("{}, text {}", options.name, i + 1), encoding);
    if (config.encoder_decoder()) {
      TokenBatch source;
      source.add(text.ids, text.types);
      text.decoder_ids = decoder_input(model, source, options.seed, i);
    }
    data.corpus.texts.push_back(std::move(text));
  }
  data.evaluation = evaluation_of(model, data.corpus, options.loss);
  data.options = {{"truncate", options.truncate ? "yes" : "no"}};
  return data;
}

ObservedCorpus corpus_of(const Model& model, std::span<const TreeSentence> treebank,
                         std::string name) {
  ObservedCorpus corpus{.name = std::move(name)};
  const Tokenizer& tokenizer = tokenizer_of(model);
  for (const TreeSentence& tree : treebank) {
    corpus.texts.push_back(observed_text(model, tokenizer, tree.text, tree.id));
  }
  return corpus;
}

std::vector<CoreferenceItem> read_coreference(const std::filesystem::path& file) {
  const std::string name = file.string();
  const bool entities = name.ends_with(".conllu") || name.ends_with(".conllu.gz");
  return entities ? read_entities(file) : read_gap(file);
}

std::optional<EvaluationSet> evaluation_of(const Model& model, const ObservedCorpus& corpus,
                                           std::optional<LossTask> loss) {
  const LossTask task = loss.value_or(default_task(model.config()));
  if (loss) check_output(task, model.config());
  if (corpus.texts.empty()) return std::nullopt;
  TokenBatch source, target;
  for (const ObservedText& text : corpus.texts) {
    source.add(text.ids, text.types);
    if (!text.decoder_ids.empty()) target.add(text.decoder_ids);
  }
  std::optional<EvaluationSet> set;
  const Tokenizer* const tokenizer = model.tokenizer();
  if (task == LossTask::lm) {
    set = next_tokens(source);
  } else if (task == LossTask::mlm && tokenizer != nullptr && tokenizer->special_tokens().mask) {
    set = hidden_tokens(source, masking_of(*tokenizer, model.config()));
  } else if (task == LossTask::fidelity) {
    set = unlabelled(source, target);
  }
  const bool scored = set && (task == LossTask::fidelity || set->examples.all.scored() > 0);
  if (!loss && !scored) return std::nullopt;
  return set;
}

Evidence observe(const Model& model, std::span<const std::string> texts,
                 const ObserveOptions& options) {
  return observe(model, text_data(model, texts, {.truncate = true, .seed = options.seed}), options);
}

}  // namespace headwise
