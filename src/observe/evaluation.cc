// Makes sets of examples: from token ids, and from files.
#include "headwise/observe/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "core/shuffle.h"
#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "headwise/io/json.h"
#include "headwise/text/lines.h"
#include "observe/loss_batch.h"
#include "train/text_encoder.h"
#include "train/text_files.h"

namespace headwise {
namespace {

constexpr double kHiddenShare = 0.15;
constexpr uint64_t kMaskSeed = 0;   // no option moves masks
constexpr uint64_t kSplitSeed = 0;  // nor the halves of a split

enum : uint32_t { kHide = 0x3A5C0001, kPositions, kExamples, kSplit };

constexpr std::pair<const char*, LossTask> kTasks[] = {
    {"lm", LossTask::lm},
    {"mlm", LossTask::mlm},
    {"classify", LossTask::classify},
    {"translate", LossTask::translate},
    {"similarity", LossTask::similarity},
    {"fidelity", LossTask::fidelity},
};

/// The batch in which rows are scored, and where the token that row 0 says stands in its text.
const TokenBatch& scored_texts(const EvaluationSet& set) {
  return set.task == LossTask::translate ? set.examples.all.target : set.examples.all.source;
}
int64_t first_said(LossTask task) { return task == LossTask::lm ? 1 : 0; }

/// The token ids of an example, with the tokens that masks hide. Parts end with -1.
std::vector<int32_t> unmasked_ids(const EvaluationSet& set, int64_t example) {
  const TrainingBatch& all = set.examples.all;
  std::vector<int32_t> ids;
  const auto add = [&](const TokenBatch& texts, int64_t text) {
    for (int64_t row = texts.offsets[text]; row < texts.offsets[text + 1]; ++row) {
      const bool hidden = set.task == LossTask::mlm && all.labels[row] != kIgnoreIndex;
      ids.push_back(hidden ? all.labels[row] : texts.ids[row]);
    }
    ids.push_back(-1);
  };
  for (int64_t i = 0; i < set.examples.texts_each; ++i) {
    add(all.source, example * set.examples.texts_each + i);
  }
  if (all.target.sequences() > 0) add(all.target, example);
  return ids;
}

std::string header_hint(const LineReader& reader) {
  return reader.line() == 1 ? "if the first line is a header, remove it: tail -n +2 FILE" : "";
}

double parse_score(std::string_view text, const LineReader& reader) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value)) {
    return value;
  }
  throw Error({.what = "data: a score is no number",
               .where = reader.where(),
               .got = quote(text),
               .expected = "a number",
               .hint = header_hint(reader)});
}

/// A label by its name in the model, or by its number.
int32_t parse_label(std::string_view text, const ModelConfig& config, const LineReader& reader) {
  const auto named = std::ranges::find(config.labels, text);
  if (named != config.labels.end()) return static_cast<int32_t>(named - config.labels.begin());
  int32_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 0 &&
      number < std::ssize(config.labels)) {
    return number;
  }
  constexpr size_t kMost = 20;
  const std::span<const std::string> some =
      std::span(config.labels).first(std::min(kMost, config.labels.size()));
  throw Error(
      {.what = "data: a label is not one of the model's",
       .where = reader.where(),
       .got = quote(text),
       .expected = fmt::format("{}{}, or a number below {}", fmt::join(some, ", "),
                               config.labels.size() > kMost ? ", …" : "", config.labels.size()),
       .hint = header_hint(reader)});
}

void check_files(LossTask task, const Files& files) {
  const bool two = task == LossTask::translate;
  if (two ? files.size() == 2 : !files.empty()) return;
  throw Error({.what = fmt::format("data: {} needs other files", to_string(task)),
               .got = fmt::format("{} files", files.size()),
               .expected = two ? "two: sources and references" : "at least one"});
}

void refuse_if_empty(const EvaluationSet& set, const Files& files) {
  if (set.size() > 0) return;
  throw Error({.what = "data: there is nothing to judge a model by",
               .where = files.front().string(),
               .expected = "at least one example"});
}

TokenBatch read_texts(const Files& files, const TextEncoder& encoder, const ReadOptions& options) {
  TokenBatch texts;
  for (const std::filesystem::path& file : files) {
    LabelColumns columns;
    for_each_piece({file}, Documents::lines, options,
                   [&](const Piece& piece, const LineReader& reader) {
                     columns.see(piece.text);
                     texts.add(encoder.encode(piece.text, reader));
                   });
    columns.check(file);
  }
  return texts;
}

}  // namespace

std::string_view to_string(LossTask task) {
  for (const auto& [name, known] : kTasks) {
    if (known == task) return name;
  }
  return "";
}

std::vector<std::string_view> loss_task_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, task] : kTasks) names.push_back(name);
  return names;
}

LossTask loss_task(std::string_view name) {
  for (const auto& [known, task] : kTasks) {
    if (name == known) return task;
  }
  throw Error({.what = "there is no such loss",
               .got = quote(name),
               .expected = fmt::format("one of {}", fmt::join(loss_task_names(), ", "))});
}

LossTask default_task(const ModelConfig& config) {
  if (config.task == Task::causal_lm) return LossTask::lm;
  if (config.task == Task::masked_lm) return LossTask::mlm;
  return LossTask::fidelity;
}

EvaluationSet next_tokens(const TokenBatch& texts) {
  texts.check();
  EvaluationSet set{.task = LossTask::lm};
  set.examples.all.source = texts;
  std::vector<int32_t>& labels = set.examples.all.labels;
  labels.assign(texts.rows(), kIgnoreIndex);
  for (int64_t b = 0; b < texts.sequences(); ++b) {
    for (int64_t row = texts.offsets[b]; row + 1 < texts.offsets[b + 1]; ++row) {
      labels[row] = texts.ids[row + 1];
    }
  }
  return set;
}

EvaluationSet hidden_tokens(const TokenBatch& texts, const Masking& masking, int64_t masks) {
  texts.check();
  if (masks < 1) {
    throw Error({.what = "a text is masked at least once",
                 .where = "masks",
                 .got = fmt::format("{}", masks),
                 .expected = "at least 1"});
  }
  EvaluationSet set{.task = LossTask::mlm, .masks = masks};
  TokenBatch& source = set.examples.all.source;
  std::vector<int32_t>& labels = set.examples.all.labels;
  const auto is_special = [&](int32_t id) {
    return id >= 0 && id < std::ssize(masking.is_special) && masking.is_special[id];
  };
  for (int64_t b = 0; b < texts.sequences(); ++b) {
    std::vector<int64_t> candidates;
    for (int64_t row = texts.offsets[b]; row < texts.offsets[b + 1]; ++row) {
      if (!is_special(texts.ids[row])) candidates.push_back(row - texts.offsets[b]);
    }
    const int64_t n = std::ssize(candidates);
    const int64_t count = std::max<int64_t>(1, std::llround(kHiddenShare * static_cast<double>(n)));
    Random random(derived_seed(kMaskSeed, b, 0, kHide));
    const std::vector<int64_t> drawn = draw(std::move(candidates), masks * count, random);
    for (int64_t m = 0; m < masks; ++m) {
      const int64_t begin = source.rows();
      add_text(texts, b, source);
      labels.resize(source.rows(), kIgnoreIndex);
      std::vector<int32_t>& positions = set.positions.emplace_back();
      for (int64_t i = m * count; i < std::min((m + 1) * count, std::ssize(drawn)); ++i) {
        positions.push_back(static_cast<int32_t>(drawn[i]));
        labels[begin + drawn[i]] = source.ids[begin + drawn[i]];
        source.ids[begin + drawn[i]] = masking.mask;
      }
      std::ranges::sort(positions);
    }
  }
  return set;
}

EvaluationSet with_masks(const EvaluationSet& set, const Masking& masking, int64_t masks) {
  if (set.task != LossTask::mlm || set.masks != 1) {
    throw Error({.what = "masks are of masked LM, and of texts with one mask",
                 .got = fmt::format("{} with {} masks", to_string(set.task), set.masks)});
  }
  TokenBatch texts = set.examples.all.source;
  for (int64_t row = 0; row < texts.rows(); ++row) {
    const int32_t label = set.examples.all.labels[row];
    if (label != kIgnoreIndex) texts.ids[row] = label;
  }
  return hidden_tokens(texts, masking, masks);
}

EvaluationSet unlabelled(const TokenBatch& source, const TokenBatch& target) {
  source.check();
  target.check();
  EvaluationSet set;
  set.examples.all.source = source;
  set.examples.all.target = target;
  return set;
}

EvaluationSet read_evaluation(LossTask task, const Files& files, const Tokenizer& tokenizer,
                              const ModelConfig& config, const ReadOptions& options) {
  check_files(task, files);
  check_output(task, config);
  const TextEncoder encoder(tokenizer, config, options);
  EvaluationSet set{.task = task};
  TrainingBatch& all = set.examples.all;
  switch (task) {
    case LossTask::lm:
      set = next_tokens(read_texts(files, encoder, options));
      break;
    case LossTask::mlm:
      set = hidden_tokens(read_texts(files, encoder, options), masking_of(tokenizer, config));
      break;
    case LossTask::classify:
      for_each_row(files, 2, "text<TAB>label", options, [&](auto row, const LineReader& reader) {
        all.source.add(encoder.encode(row[0], reader));
        all.labels.push_back(parse_label(row[1], config, reader));
      });
      break;
    case LossTask::translate:
      set.examples = read_translation(files[0], files[1], tokenizer, config, options);
      set.references = read_lines(files[1]);
      break;
    case LossTask::similarity:
      set.examples.texts_each = 2;
      for_each_row(files, 3, "text<TAB>text<TAB>score", options,
                   [&](auto row, const LineReader& reader) {
                     all.source.add(encoder.encode(row[0], reader));
                     all.source.add(encoder.encode(row[1], reader));
                     all.scores.push_back(static_cast<float>(parse_score(row[2], reader)));
                   });
      break;
    case LossTask::fidelity:
      all.source = read_texts(files, encoder, options);
      break;
  }
  refuse_if_empty(set, files);
  return set;
}

void sample_positions(EvaluationSet& set, double share, uint64_t seed) {
  if (!scores_tokens(set.task)) {
    throw Error({.what = "positions can be sampled only of losses of tokens",
                 .where = "positions",
                 .got = std::string(to_string(set.task)),
                 .expected = "lm, mlm or translate"});
  }
  if (!(share > 0 && share <= 1)) {
    throw Error({.what = "this is no share of positions",
                 .where = "positions",
                 .got = fmt::format("{}", share),
                 .expected = "above 0, at most 1"});
  }
  std::vector<int32_t>& labels = set.examples.all.labels;
  std::vector<int64_t> scored;
  for (int64_t row = 0; row < std::ssize(labels); ++row) {
    if (labels[row] != kIgnoreIndex) scored.push_back(row);
  }
  const int64_t n = std::ssize(scored);
  if (n == 0 || share == 1) return;
  const int64_t count = std::max<int64_t>(1, std::llround(share * static_cast<double>(n)));
  std::vector<uint8_t> kept(labels.size());
  for (const int64_t i : choose_below(count, n, Random(derived_seed(seed, 0, 0, kPositions)))) {
    kept[scored[i]] = 1;
  }
  const TokenBatch& texts = scored_texts(set);
  set.positions.assign(set.size(), {});
  for (int64_t b = 0; b < texts.sequences(); ++b) {
    for (int64_t row = texts.offsets[b]; row < texts.offsets[b + 1]; ++row) {
      if (kept[row] == 0) {
        labels[row] = kIgnoreIndex;
      } else {
        set.positions[b].push_back(
            static_cast<int32_t>(row - texts.offsets[b] + first_said(set.task)));
      }
    }
  }
}

EvaluationSet examples_of(const EvaluationSet& set, std::span<const int64_t> examples) {
  const TrainingBatch& all = set.examples.all;
  const TokenBatch& texts = scored_texts(set);
  EvaluationSet some{.task = set.task, .masks = set.masks};
  some.examples.texts_each = set.examples.texts_each;
  TrainingBatch& to = some.examples.all;
  for (const int64_t x : examples) {
    for (int64_t i = 0; i < set.examples.texts_each; ++i) {
      add_text(all.source, x * set.examples.texts_each + i, to.source);
    }
    if (all.target.sequences() > 0) add_text(all.target, x, to.target);
    if (!all.scores.empty()) to.scores.push_back(all.scores[x]);
    if (set.task == LossTask::classify) {
      to.labels.push_back(all.labels[x]);
    } else if (!all.labels.empty()) {
      to.labels.insert(to.labels.end(), all.labels.begin() + texts.offsets[x],
                       all.labels.begin() + texts.offsets[x + 1]);
    }
    if (!set.positions.empty()) some.positions.push_back(set.positions[x]);
    if (!set.references.empty()) some.references.push_back(set.references[x]);
  }
  return some;
}

SplitExamples split_examples(const EvaluationSet& set) {
  std::map<std::vector<int32_t>, std::vector<int64_t>> equal;  // texts, in their order
  const int64_t texts = set.size() / set.masks;
  for (int64_t text = 0; text < texts; ++text) {
    equal[unmasked_ids(set, text * set.masks)].push_back(text);
  }
  std::vector<std::vector<int64_t>> groups;
  for (auto& [ids, members] : equal) groups.push_back(std::move(members));
  // The shuffle must not depend on token ids, only on which texts are equal.
  std::ranges::sort(groups);
  Random random(derived_seed(kSplitSeed, 0, 0, kSplit));
  permute(groups, random);
  // Large groups first: the small ones make up for them.
  std::ranges::stable_sort(groups, std::ranges::greater(), &std::vector<int64_t>::size);
  std::vector<uint8_t> is_held_out(texts);
  int64_t choosing = 0, held_out = 0;
  for (const std::vector<int64_t>& group : groups) {
    const bool hold_out = held_out < choosing;
    (hold_out ? held_out : choosing) += std::ssize(group);
    for (const int64_t text : group) is_held_out[text] = hold_out;
  }
  std::vector<int64_t> first, second;
  for (int64_t x = 0; x < set.size(); ++x) {
    (is_held_out[x / set.masks] ? second : first).push_back(x);
  }
  return {.choosing = examples_of(set, first), .held_out = examples_of(set, second)};
}

void sample_examples(EvaluationSet& set, int64_t count, uint64_t seed) {
  if (count < 1) {
    throw Error({.what = "there must be examples in a sample",
                 .where = "sample",
                 .got = fmt::format("{}", count),
                 .expected = "at least 1"});
  }
  if (count >= set.size()) return;
  set = examples_of(set, sample(count, set.size(), seed));
}

std::vector<int64_t> sample(int64_t count, int64_t n, uint64_t seed) {
  return choose_below(count, n, Random(derived_seed(seed, 0, 0, kExamples)));
}

}  // namespace headwise
