// Evaluation in batches; translations by beam search of the saved model.
#include "train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "headwise/core/error.h"
#include "headwise/model/generate.h"
#include "headwise/text/bleu.h"
#include "headwise/train/batches.h"
#include "text/line_reader.h"

namespace headwise {
namespace {

constexpr int64_t kRowsAtOnce = 4096;  // of sources, times beams

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

std::span<const int32_t> source_of(const Examples& examples, int64_t example) {
  const TokenBatch& all = examples.all.source;
  return std::span(all.ids).subspan(
      static_cast<size_t>(all.offsets[example]),
      static_cast<size_t>(all.offsets[example + 1] - all.offsets[example]));
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
  const Model model = Model::load(saved);
  GenerateOptions how = read_generation(saved, model.config());
  how.beams = settings_.evaluate.beam;
  how.sample = false;
  how.max_new_tokens = settings_.data.length;
  if (model.config().max_positions > 0) {
    how.max_new_tokens = std::min(how.max_new_tokens, model.config().max_positions - 1);
  }
  std::vector<int64_t> order(static_cast<size_t>(examples.size()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int64_t i) { return source_of(examples, i).size(); });
  std::vector<std::string> written(order.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    check_();
    TokenBatch batch;
    for (; end < order.size(); ++end) {
      const auto source = source_of(examples, order[end]);
      const int64_t rows = batch.rows() + std::ssize(source);
      if (end > begin && rows * how.beams > kRowsAtOnce) break;
      batch.add(source);
    }
    const std::vector<Generated> texts = generate(model, batch, how);
    for (size_t i = begin; i < end; ++i) {
      written[static_cast<size_t>(order[i])] = tokenizer_.decode(texts[i - begin].ids);
    }
  }
  return corpus_bleu(written, wanted).score;
}

}  // namespace headwise
