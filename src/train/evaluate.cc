// Evaluation in batches; translations by beam search of the saved model.
#include "train/evaluate.h"

#include <fmt/format.h>

#include "headwise/core/error.h"
#include "headwise/train/batches.h"
#include "model/model_source.h"
#include "text/line_reader.h"
#include "train/translation_bleu.h"

namespace headwise {
namespace {

std::vector<std::string> read_references(const std::filesystem::path& file, int64_t examples) {
  std::vector<std::string> references;
  LineReader reader(file);
  for (std::string_view line; reader.next(line);) references.emplace_back(line);
  if (std::ssize(references) != examples) {
    throw Error({.what = "not as many references as texts that were read",
                 .where = file.string(),
                 .got = fmt::format("{} lines", references.size()),
                 .expected = fmt::format("{}", examples)});
  }
  return references;
}

}  // namespace

Evaluation Evaluator::operator()(const Examples& examples) const {
  // What masked LM hides is the same in every evaluation, whatever the training's seed.
  const Epoch all(examples, {.tokens = settings_.tokens_per_batch, .seed = 0, .shuffle = false}, 0);
  Loss sum;
  for (int64_t index = 0; index < all.batches(); ++index) {
    check_();
    const Loss loss = model_.evaluate(all.batch(index));
    sum.loss += loss.nll;  // without what only training adds
    sum.scored += loss.scored;
    sum.correct += loss.correct;
  }
  if (sum.scored == 0) {
    throw Error({.what = "evaluation: nothing is scored",
                 .expected = "examples with something to predict"});
  }
  const auto scored = static_cast<double>(sum.scored);
  Evaluation result{.loss = sum.loss / scored, .scored = sum.scored};
  if (settings_.task != TrainTask::similarity) {
    result.accuracy = static_cast<double>(sum.correct) / scored;
  }
  return result;
}

double Evaluator::bleu(const Examples& examples, const DataFiles& files,
                       const std::filesystem::path& saved) const {
  const std::vector<std::string> wanted = read_references(files.files[1], examples.size());
  const Model model = read_model(saved);
  const GenerateOptions options =
      translation_options(saved, model.config(), settings_.evaluate.beam, settings_.data.length);
  return translation_bleu(model, examples.all.source, options, tokenizer_, wanted,
                          [&](int64_t) { check_(); });
}

}  // namespace headwise
