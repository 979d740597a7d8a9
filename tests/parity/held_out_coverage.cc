// How often the interval that a study reports holds the change that all remaining text shows.
//
// Splits sentences of one source at random, again and again: one part chooses a quarter of the
// heads as a study does, one is held out, and the rest, at least ten times as much, says what the
// cut really costs. docs/results/held_out.md has the command and the figures.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/shuffle.h"
#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/judge/verdict.h"
#include "headwise/model/model.h"
#include "headwise/model/sentence_embedding.h"
#include "headwise/observe/evaluation.h"
#include "headwise/plan/make_plan.h"
#include "headwise/text/tokenizer.h"
#include "observe/loss_sweep.h"
#include "observe/loss_table.h"
#include "observe/race.h"
#include "plan/model_quality.h"

namespace headwise {
namespace {

constexpr double kKeep = 0.75;
constexpr int64_t kMostTokens = 64;  // of a sentence: longer ones are left out

/// The first column of each line, each sentence once.
EvaluationSet read(const std::filesystem::path& file, const Tokenizer& tokenizer,
                   const ModelConfig& config, int64_t count) {
  TokenBatch texts;
  std::set<std::string> seen;
  std::ifstream lines(file);
  for (std::string line; texts.texts() < count && std::getline(lines, line);) {
    line = line.substr(0, line.find('\t'));
    if (!seen.insert(line).second) continue;
    const Encoding encoding = tokenizer.encode(line);
    const auto tokens = std::ssize(encoding.ids);
    if (tokens < 5 || tokens > kMostTokens) continue;
    texts.add(encoding.ids, config.token_types > 0 ? std::span<const int32_t>(encoding.type_ids)
                                                   : std::span<const int32_t>());
  }
  if (texts.texts() < count) {
    throw Error({.what = "there are too few sentences of 5 to 64 tokens",
                 .where = file.string(),
                 .got = fmt::format("{}", texts.texts()),
                 .expected = fmt::format("{}", count)});
  }
  switch (natural_loss(config)) {
    case LossTask::lm:
      return next_tokens(texts);
    case LossTask::mlm:
      return hidden_tokens(texts, masking_of(tokenizer, config));
    default:
      return unlabelled(texts);
  }
}

/// Some of the values, by their numbers.
template <class T>
std::vector<T> some(const std::vector<T>& values, const std::vector<int64_t>& numbers) {
  std::vector<T> chosen;
  for (const int64_t x : numbers) chosen.push_back(values[x]);
  return chosen;
}

class Coverage {
 public:
  Coverage(const std::filesystem::path& folder, const std::filesystem::path& file, int64_t half,
           int64_t all)
      : folder_(folder),
        half_(half),
        model_(Model::load(folder)),
        tokenizer_(Tokenizer::load(folder)),
        set_(read(file, tokenizer_, model_.config(), all)) {
    const SentencePooling pooling = SentencePooling::find_or_mean(folder);
    LossSweep sweep(model_, pooling, set_, {});
    for (const AttentionSite& site : model_.attentions()) {
      for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
        ablations_.push_back({.heads = {site.first + h}});
        names_.push_back(site.head_name(h));
      }
    }
    values_ = sweep.run(ablations_, [](int64_t done, int64_t total) {
      std::cerr << fmt::format("\rablations: {} %", 100 * done / total) << std::flush;
    });
    tokens_.assign(sweep.scorer().tokens().begin(), sweep.scorer().tokens().end());
    std::cerr << '\n';
  }

  struct Split {
    double chosen_on = 0, reported = 0, rest = 0;  // changes of the loss
    ConfidenceInterval interval{}, naive{};        // of the held-out half; of the choosing one
  };

  Split split(uint64_t seed) const {
    std::vector<int64_t> order(set_.size());
    std::iota(order.begin(), order.end(), 0);
    Random random(seed);
    permute(order, random);
    const auto part = [&](int64_t begin, int64_t end) {
      std::vector<int64_t> numbers(order.begin() + begin, order.begin() + end);
      std::ranges::sort(numbers);
      return numbers;
    };
    const std::vector<int64_t> choosing = part(0, half_), held_out = part(half_, 2 * half_);
    const EvaluationSet first = examples_of(set_, choosing), second = examples_of(set_, held_out),
                        others = examples_of(set_, part(2 * half_, set_.size()));
    const Plan made = plan(verdict(choosing), {.keep = kKeep, .random_sets = 0},
                           {.folder = folder_,
                            .model = &model_,
                            .evaluation = &first,
                            .held_out = &second,
                            .tokenizer = &tokenizer_});
    std::vector<uint8_t> kept(names_.size(), 1);
    for (const std::string& head : made.drop) {
      kept[std::ranges::find(names_, head) - names_.begin()] = 0;
    }
    const std::vector<std::vector<uint8_t>> choices = {kept};
    const auto changes = [&](const EvaluationSet& set) {
      return ModelQuality(model_, folder_, set, nullptr).compare(choices).changes.front();
    };
    const ModelQuality::Change naive = changes(first);
    return {.chosen_on = naive.change,
            .reported = made.held_out->change,
            .rest = changes(others).change,
            .interval = *made.held_out->interval,
            .naive = *naive.interval};
  }

 private:
  /// What ablating each head alone does to these sentences.
  Verdict verdict(const std::vector<int64_t>& examples) const {
    const std::vector<int64_t> tokens = some(tokens_, examples);
    const std::vector<double> base = some(values_.base, examples);
    const LossStatistic statistic(set_.task, tokens, {});
    const double tolerance = tolerance_of(set_.task, statistic.loss(base));
    Verdict verdict;
    for (size_t a = 0; a < names_.size(); ++a) {
      std::vector<double> differences = some(values_.ablated[a], examples);
      for (size_t i = 0; i < differences.size(); ++i) differences[i] -= base[i];
      const RatioEstimate estimate = estimate_ratio(differences, tokens, 0.05);
      HeadVerdict& head = verdict.heads.emplace_back(HeadVerdict{.head = names_[a]});
      head.importance.ablation_zero = Measure{
          .value = estimate.value, .n = std::ssize(examples), .interval = estimate.interval};
      head.standing = standing(estimate.interval, tolerance, set_.task);
    }
    return verdict;
  }

  std::filesystem::path folder_;
  int64_t half_;
  Model model_;
  Tokenizer tokenizer_;
  EvaluationSet set_;
  std::vector<Ablation> ablations_;
  std::vector<std::string> names_;
  SweepValues values_;
  std::vector<int64_t> tokens_;
};

void run(const std::string& folder, const std::string& file, int64_t half, int64_t splits) {
  const int64_t all = 12 * half;
  const Coverage coverage(folder, file, half, all);
  int64_t held = 0, naive = 0;
  double chosen_on = 0, reported = 0, rest = 0;
  const auto within = [](const ConfidenceInterval& interval, double value) {
    return interval.low <= value && value <= interval.high;
  };
  for (int64_t s = 0; s < splits; ++s) {
    const Coverage::Split split = coverage.split(static_cast<uint64_t>(s));
    held += within(split.interval, split.rest);
    naive += within(split.naive, split.rest);
    chosen_on += split.chosen_on / static_cast<double>(splits);
    reported += split.reported / static_cast<double>(splits);
    rest += split.rest / static_cast<double>(splits);
    std::cerr << fmt::format("\rsplit {} of {}: {} held", s + 1, splits, held) << std::flush;
  }
  std::cerr << '\n';
  std::cout << fmt::format(
      "{} splits: {} sentences choose, {} are held out, {} remain\n"
      "the held-out interval holds the change over the rest in {} of {}\n"
      "the interval of the sentences that chose the heads does in {} of {}\n"
      "mean change: {:.6g} choosing, {:.6g} held out, {:.6g} rest\n",
      splits, half, half, all - 2 * half, held, splits, naive, splits, chosen_on, reported, rest);
}

}  // namespace
}  // namespace headwise

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: held_out_coverage MODEL FILE SENTENCES_OF_A_HALF SPLITS\n";
    return 2;
  }
  try {
    headwise::run(argv[1], argv[2], std::max(5L, std::atol(argv[3])),
                  std::max(1L, std::atol(argv[4])));
  } catch (const std::exception& error) {
    std::cerr << "held_out_coverage: " << error.what() << '\n';
    return 1;
  }
}
