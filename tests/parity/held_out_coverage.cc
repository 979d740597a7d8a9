// How often the interval that a study reports holds the change that all remaining text shows.
//
// Splits sentences of one source at random, again and again: one part chooses a quarter of the
// heads as a study does, one is held out, and the rest, at least ten times as much, says what the
// cut really costs. The ablations of all sentences are measured once; each choice of heads then
// takes a pass over them. Choices may be fewer than splits: each then has several held-out halves.
// docs/results/held_out.md has the command and the figures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/shuffle.h"
#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "headwise/judge/verdict.h"
#include "headwise/model/model.h"
#include "headwise/model/sentence_embedding.h"
#include "headwise/observe/evaluation.h"
#include "headwise/plan/make_plan.h"
#include "headwise/text/tokenizer.h"
#include "observe/adaptive_ablation.h"
#include "observe/loss_sweep.h"
#include "observe/loss_table.h"
#include "plan/model_quality.h"

namespace headwise {
namespace {

enum : uint32_t { kHeldOut = 0xC07E };
constexpr double kKeep = 0.75;
constexpr int64_t kMostTokens = 64;  // of a sentence: longer ones are left out

/// The first column of each line, each sentence once.
EvaluationSet read(const std::filesystem::path& file, const Tokenizer& tokenizer,
                   const ModelConfig& config, int64_t count) {
  TokenBatch texts;
  std::set<std::string> seen;
  std::ifstream lines(file);
  for (std::string line; texts.sequences() < count && std::getline(lines, line);) {
    line = line.substr(0, line.find('\t'));
    if (!seen.insert(line).second) continue;
    const Encoding encoding = tokenizer.encode(line);
    const auto tokens = std::ssize(encoding.ids);
    if (tokens < 5 || tokens > kMostTokens) continue;
    texts.add(encoding.ids, config.token_types > 0 ? std::span<const int32_t>(encoding.type_ids)
                                                   : std::span<const int32_t>());
  }
  if (texts.sequences() < count) {
    throw Error({.what = "there are too few sentences of 5 to 64 tokens",
                 .where = file.string(),
                 .got = fmt::format("{}", texts.sequences()),
                 .expected = fmt::format("{}", count)});
  }
  switch (default_task(config)) {
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
        model_(load(folder)),
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
    if (set_.task == LossTask::fidelity) {
      embeddings_ = ModelQuality(model_, set_)
                        .outputs(std::vector<uint8_t>(names_.size(), 1), set_.size())
                        .embeddings;
    }
    tokens_.assign(sweep.scorer().tokens().begin(), sweep.scorer().tokens().end());
    std::cerr << '\n';
  }

  struct Split {
    double chosen_on = 0, reported = 0, rest = 0;  // changes of the loss
    ConfidenceInterval interval{}, naive{};        // of the held-out half; of the choosing one
  };

  /// The first seed draws the sentences that choose heads, the second the held-out ones.
  Split split(uint64_t choice, uint64_t seed) {
    std::vector<int64_t> order(set_.size());
    std::iota(order.begin(), order.end(), 0);
    Random random(choice);
    permute(order, random);
    std::vector<int64_t> others(order.begin() + half_, order.end());
    Random again(derived_seed(seed, 0, 0, kHeldOut));
    permute(others, again);
    std::ranges::copy(others, order.begin() + half_);
    const auto part = [&](int64_t begin, int64_t end) {
      std::vector<int64_t> numbers(order.begin() + begin, order.begin() + end);
      std::ranges::sort(numbers);
      return numbers;
    };
    const std::vector<int64_t> choosing = part(0, half_), held_out = part(half_, 2 * half_);
    const std::vector<int64_t> rest = part(2 * half_, set_.size());
    const Verdict chosen = verdict(choosing);
    const Plan made = plan(model_, chosen, {.keep = kKeep});
    std::vector<uint8_t> kept(names_.size(), 1);
    for (const std::string& head : made.drop) {
      kept[std::ranges::find(names_, head) - names_.begin()] = 0;
    }
    if (kept != kept_) values_of_kept_ = losses(kept);
    kept_ = kept;
    const std::vector<double>& values = values_of_kept_;
    const RatioEstimate naive = estimate(values, choosing), reported = estimate(values, held_out);
    if (seed == 0) check(chosen, choosing, held_out, reported);
    return {.chosen_on = naive.value,
            .reported = reported.value,
            .rest = estimate(values, rest).value,
            .interval = reported.interval,
            .naive = naive.interval};
  }

 private:
  /// Of all sentences, with what is kept of the heads.
  std::vector<double> losses(const std::vector<uint8_t>& kept) const {
    if (set_.task != LossTask::fidelity) {
      Ablation together;
      for (size_t h = 0; h < kept.size(); ++h) {
        if (!kept[h]) together.heads.push_back(static_cast<int64_t>(h));
      }
      const SentencePooling pooling = SentencePooling::find_or_mean(folder_);
      return LossSweep(model_, pooling, set_, {}).run(std::vector<Ablation>{together}).ablated[0];
    }
    const ModelQuality quality(model_, set_);
    const auto embeddings = quality.outputs(kept, set_.size()).embeddings;
    std::vector<double> losses;
    for (size_t x = 0; x < embeddings.size(); ++x) {
      double squares = 0;
      for (size_t c = 0; c < embeddings[x].size(); ++c) {
        const double difference = double{embeddings[x][c]} - embeddings_[x][c];
        squares += difference * difference;
      }
      losses.push_back(squares / 2);
    }
    return losses;
  }

  RatioEstimate estimate(const std::vector<double>& values,
                         const std::vector<int64_t>& examples) const {
    std::vector<double> differences;
    for (const int64_t x : examples) differences.push_back(values[x] - values_.base[x]);
    return estimate_ratio(differences, some(tokens_, examples), 0.05);
  }

  /// Throws unless the interval is the one that a plan reports.
  void check(const Verdict& verdict, const std::vector<int64_t>& choosing,
             const std::vector<int64_t>& held_out, const RatioEstimate& found) const {
    const EvaluationSet first = examples_of(set_, choosing), second = examples_of(set_, held_out);
    const ConfidenceInterval reported = *plan(model_, verdict, {.keep = kKeep, .random_sets = 0},
                                              {.evaluation = &first, .held_out = &second})
                                             .held_out->interval;
    const double width = reported.high - reported.low;
    if (std::abs(reported.low - found.interval.low) < 1e-3 * width &&
        std::abs(reported.high - found.interval.high) < 1e-3 * width) {
      return;
    }
    throw Error({.what = "the interval is not the one that a plan reports",
                 .got = fmt::format("{} to {}", found.interval.low, found.interval.high),
                 .expected = fmt::format("{} to {}", reported.low, reported.high)});
  }

  /// What ablating each head alone does to these sentences.
  Verdict verdict(const std::vector<int64_t>& examples) const {
    const std::vector<int64_t> tokens = some(tokens_, examples);
    const LossStatistic statistic(set_.task, tokens, {});
    const double tolerance = tolerance_of(set_.task, statistic.loss(some(values_.base, examples)));
    Verdict verdict;
    for (size_t a = 0; a < names_.size(); ++a) {
      const RatioEstimate estimate = this->estimate(values_.ablated[a], examples);
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
  std::vector<std::vector<float>> embeddings_;  // fidelity: of the model itself
  std::vector<uint8_t> kept_;                   // of the last split
  std::vector<double> values_of_kept_;
};

void run(const std::string& folder, const std::string& file, int64_t half, int64_t splits,
         int64_t choices) {
  const int64_t all = 12 * half;
  Coverage coverage(folder, file, half, all);
  int64_t held = 0, naive = 0;
  double chosen_on = 0, reported = 0, rest = 0;
  const auto within = [](const ConfidenceInterval& interval, double value) {
    return interval.low <= value && value <= interval.high;
  };
  for (int64_t s = 0; s < splits; ++s) {
    const Coverage::Split split =
        coverage.split(static_cast<uint64_t>(s * choices / splits), static_cast<uint64_t>(s));
    held += within(split.interval, split.rest);
    naive += within(split.naive, split.rest);
    chosen_on += split.chosen_on / static_cast<double>(splits);
    reported += split.reported / static_cast<double>(splits);
    rest += split.rest / static_cast<double>(splits);
    std::cerr << fmt::format("\rsplit {} of {}: {} held", s + 1, splits, held) << std::flush;
  }
  std::cerr << '\n';
  std::cout << fmt::format(
      "{} splits, {} choices of heads: {} sentences choose, {} are held out, {} remain\n"
      "the held-out interval holds the change over the rest in {} of {}\n"
      "the interval of the sentences that chose the heads does in {} of {}\n"
      "mean change: {:.6g} choosing, {:.6g} held out, {:.6g} rest\n",
      splits, choices, half, half, all - 2 * half, held, splits, naive, splits, chosen_on, reported,
      rest);
}

}  // namespace
}  // namespace headwise

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    std::cerr << "usage: held_out_coverage MODEL FILE SENTENCES_OF_A_HALF SPLITS [CHOICES]\n";
    return 2;
  }
  try {
    const int64_t splits = std::max(1L, std::atol(argv[4]));
    const int64_t choices = argc == 6 ? std::clamp<int64_t>(std::atol(argv[5]), 1, splits) : splits;
    headwise::run(argv[1], argv[2], std::max(5L, std::atol(argv[3])), splits, choices);
  } catch (const std::exception& error) {
    std::cerr << "held_out_coverage: " << error.what() << '\n';
    return 1;
  }
}
