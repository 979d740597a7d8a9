// Measures how much heads matter, and writes it down.
#include "headwise/observe/importance.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "headwise/core/error.h"
#include "model/stack_layout.h"
#include "observe/adaptive_ablation.h"
#include "observe/gate_gradients.h"
#include "observe/group_ablation.h"
#include "observe/label_scores.h"
#include "observe/loss_sweep.h"
#include "observe/loss_table.h"
#include "train/translation_bleu.h"

namespace headwise {
namespace {

constexpr int64_t kPairsAtOnce = 512;  // whose losses of all examples are in memory
constexpr int64_t kAdaptiveHalves = 2;

/// In place of those of the same names.
void add_groups(std::vector<GroupEvidence> groups, Evidence& evidence) {
  for (GroupEvidence& group : groups) {
    std::erase_if(evidence.groups,
                  [&](const GroupEvidence& old) { return old.name == group.name; });
    evidence.groups.push_back(std::move(group));
  }
}

void check_draws(const ImportanceOptions& options) {
  if (options.draws >= 0 && options.resamples >= 1) return;
  throw Error({.what = "an importance cannot be drawn so often",
               .got = fmt::format("{} draws, {} resamples", options.draws, options.resamples),
               .expected = "at least 0, at least 1"});
}

/// Throws Error unless it is the same loss over the same examples.
void check_same_loss(const Evidence& evidence, const LossEvidence& now) {
  const auto shown = [](const LossEvidence& loss) {
    return fmt::format("{} {:.6g} over {} examples, {} tokens", loss.task, loss.value,
                       loss.examples, loss.tokens);
  };
  const LossEvidence* const before = evidence.loss ? &*evidence.loss : nullptr;
  // Other machines round otherwise.
  if (before != nullptr && before->task == now.task && before->examples == now.examples &&
      before->tokens == now.tokens && before->positions == now.positions &&
      std::abs(before->value - now.value) <= 1e-4 * std::abs(now.value) + 1e-6) {
    return;
  }
  throw Error({.what = "the evidence to be added to has another loss",
               .got = before == nullptr ? "none" : shown(*before),
               .expected = shown(now),
               .hint = "give the data, task, gates and seed that it was measured with"});
}

std::vector<int64_t> numbers_below(int64_t end) {
  std::vector<int64_t> numbers(end);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

class Importance {
 public:
  Importance(const Model& model, const EvaluationSet& set, const ImportanceOptions& options,
             Evidence& evidence)
      : model_(model),
        set_(set),
        options_(options),
        evidence_(evidence),
        pooling_(SentencePooling::find_or_mean(model.folder())),
        sweep_(model, pooling_, set, {.gates = options.gates}),
        statistic_(set.task, sweep_.scorer().tokens(), set.examples.all.scores),
        all_(looked_at(numbers_below(model.heads()))),
        heads_(wanted()) {}

  double run() {
    if (options_.gradient) measure_gradients();
    if (only_gradients()) return 0;
    measure_heads();
    measure_groups();
    if (options_.pairs != ImportanceOptions::Pairs::none) measure_pairs();
    return passes_;
  }

  /// Groups for evidence of the same loss; throws Error, before they are measured, if it has
  /// another.
  double run_groups_for(const Evidence& evidence) {
    measure_heads();
    check_same_loss(evidence, *evidence_.loss);
    measure_groups();
    return passes_;
  }

 private:
  bool only_gradients() const {
    return options_.gradient && !options_.ablation_zero && !options_.ablation_mean &&
           options_.groups.empty() && !options_.layers &&
           options_.pairs == ImportanceOptions::Pairs::none;
  }

  /// Those asked for that the loss looks at.
  std::vector<int64_t> wanted() const {
    if (options_.heads.empty()) return all_;
    std::vector<int64_t> heads = looked_at(options_.heads);
    std::ranges::sort(heads);
    heads.erase(std::ranges::unique(heads).begin(), heads.end());
    return heads;
  }

  /// Those of them that the loss looks at, in their order.
  std::vector<int64_t> looked_at(const std::vector<int64_t>& heads) const {
    const bool decodes =
        !model_.config().encoder_decoder() || set_.examples.all.target.sequences() > 0;
    std::vector<int64_t> some;
    for (const int64_t head : heads) {
      check(head);
      const Side side = site_of_head(model_.attentions(), head)->side;
      if (decodes || side == Side::encoder) some.push_back(head);
    }
    return some;
  }

  void check(int64_t head) const {
    if (head >= 0 && head < model_.heads()) return;
    throw Error({.what = "there is no such head",
                 .got = fmt::format("{}", head),
                 .expected = fmt::format("0 to {}", model_.heads() - 1)});
  }

  std::string name_of(int64_t head) const {
    const AttentionSite& site = *site_of_head(model_.attentions(), head);
    return site.head_name(head - site.first);
  }

  /// Of one who may be left out of the evidence.
  void add(int64_t head, const std::string& name, const Measure& measure) {
    const auto found = std::ranges::find(evidence_.heads, name_of(head), &HeadEvidence::head);
    if (found != evidence_.heads.end()) found->measures.add(name, measure);
  }

  LossSweep::Progress progress(const char* step) const {
    if (!options_.progress) return {};
    return [this, step](int64_t done, int64_t total) { options_.progress(step, done, total); };
  }

  void measure_gradients() {
    EvaluationSet sample;
    if (options_.adaptive) {
      sample = set_;
      sample_examples(sample, options_.adaptive->gradient_examples, options_.seed);
    }
    const GateGradients gradients = gate_gradients(
        model_, pooling_, options_.adaptive ? sample : set_,
        {.gates = options_.gates, .seed = options_.seed, .progress = progress("gradient")});
    std::vector<double> norms(model_.heads());
    for (const AttentionSite& site : model_.attentions()) {
      double squares = 0;
      for (size_t h = 0; h < site.heads.size(); ++h) {
        squares += gradients.scores[site.first + h] * gradients.scores[site.first + h];
      }
      std::fill_n(norms.begin() + site.first, site.heads.size(), std::sqrt(squares));
    }
    for (const int64_t head : heads_) {
      const double score = gradients.scores[head];
      add(head, "gradient", {.value = score, .n = gradients.examples});
      add(head, "gradient_normalised", {.value = score / norms[head], .n = gradients.examples});
    }
  }

  void measure_heads() {
    std::vector<Ablation> ablations;
    for (const bool mean : {false, true}) {
      if (!(mean ? options_.ablation_mean : options_.ablation_zero)) continue;
      for (const int64_t head : heads_) ablations.push_back({.heads = {head}, .mean = mean});
    }
    AdaptiveResult result;
    if (options_.adaptive_tolerance && !ablations.empty()) {
      AdaptiveOptions params{.tolerance = *options_.adaptive_tolerance,
                             .resamples = options_.resamples,
                             .seed = options_.seed,
                             .progress = progress("ablation")};
      std::optional<LossSweep> more;
      if (options_.adaptive) {
        params.passes = options_.adaptive->passes;
        if (options_.adaptive->more != nullptr) {
          params.more = &more.emplace(model_, pooling_, *options_.adaptive->more,
                                      LossSweep::Options{.gates = options_.gates});
        }
      }
      result = ablate_adaptively(sweep_, ablations, params);
      passes_ += result.passes;
    } else {
      SweepValues values = sweep_.run(ablations, progress("ablation"));
      passes_ += sweep_.passes(ablations, numbers_below(set_.size()));
      result.base = std::move(values.base);
      result.labels = std::move(values.labels);
      result.ablations = measures(values.ablated, result.base);
    }
    for (size_t a = 0; a < ablations.size(); ++a) {
      add(ablations[a].heads[0], ablations[a].mean ? "ablation_mean" : "ablation_zero",
          result.ablations[a]);
    }
    if (options_.ablation_zero && !options_.adaptive_tolerance) {
      for (size_t i = 0; i < heads_.size(); ++i) changes_.push_back(result.ablations[i].value);
    }
    base_ = std::move(result.base);
    note_loss(result.labels);
  }

  std::vector<Measure> measures(std::span<const std::vector<double>> rows,
                                std::span<const double> base) const {
    const std::vector<std::optional<ConfidenceInterval>> intervals =
        statistic_.intervals(rows, base, options_.resamples, options_.seed);
    std::vector<Measure> measures;
    for (size_t a = 0; a < rows.size(); ++a) {
      measures.push_back(
          {.value = statistic_.change(rows[a], base), .n = set_.size(), .interval = intervals[a]});
    }
    return measures;
  }

  void note_loss(std::span<const int32_t> labels) {
    const std::span<const int64_t> tokens = sweep_.scorer().tokens();
    LossEvidence loss{.task = std::string(to_string(set_.task)),
                      .value = statistic_.loss(base_),
                      .examples = set_.size(),
                      .tokens = scores_tokens(set_.task)
                                    ? std::accumulate(tokens.begin(), tokens.end(), int64_t{0})
                                    : set_.examples.all.tokens(),
                      .positions = set_.positions};
    check_loss(set_.task, loss.value);
    if (set_.task == LossTask::similarity) loss.scores["spearman"] = 1 - loss.value;
    if (set_.task == LossTask::classify) {
      loss.scores = label_scores(labels, set_.examples.all.labels, model_.output_width());
    }
    if (options_.bleu && !set_.references.empty() && model_.tokenizer() != nullptr) {
      loss.scores["bleu"] = bleu();
    }
    evidence_.loss = std::move(loss);
  }

  /// Of what the model writes by itself.
  double bleu() const {
    GenerateOptions params = translation_options(model_.folder(), model_.config());
    if (!options_.gates.empty())
      params.forward.gates = {options_.gates.data(), {1, model_.heads()}};
    return translation_bleu(model_, set_.examples.all.source, params, *model_.tokenizer(),
                            set_.references, [&](int64_t done) {
                              if (options_.progress) {
                                options_.progress("translation", done, set_.size());
                              }
                            });
  }

  /// Each once.
  std::vector<int64_t> heads_of(const NamedHeads& group) const {
    std::vector<int64_t> heads;
    for (const int64_t head : group.heads) {
      check(head);
      if (std::ranges::find(heads, head) == heads.end()) heads.push_back(head);
    }
    return heads;
  }

  void measure_groups() {
    std::vector<GroupToAblate> groups;
    std::vector<GroupEvidence> measured;
    const auto add_group = [&](const std::string& name, std::vector<int64_t> heads, bool compared) {
      GroupEvidence& group = measured.emplace_back(GroupEvidence{.name = name});
      for (const int64_t head : heads) group.heads.push_back(name_of(head));
      groups.push_back({.heads = std::move(heads), .compared = compared});
    };
    for (const NamedHeads& group : options_.groups) {
      add_group(group.name, looked_at(heads_of(group)), options_.draws > 0);
    }
    for (const AttentionSite& site : model_.attentions()) {
      if (!options_.layers || site.heads.empty()) continue;
      std::vector<int64_t> heads(site.heads.size());
      std::iota(heads.begin(), heads.end(), site.first);
      if (!looked_at(heads).empty()) add_group(site.name, std::move(heads), false);
    }
    if (groups.empty()) return;
    GroupAblationOptions params{.halves = options_.draws,
                                .draws = options_.draws,
                                .resamples = options_.resamples,
                                .seed = options_.seed,
                                .progress = progress("groups")};
    if (options_.adaptive) {
      params.adaptive = true;
      params.halves = std::min(params.halves, kAdaptiveHalves);
      params.passes = options_.adaptive->passes - passes_;
      params.examples = first_examples(options_.adaptive->group_examples);
    }
    GroupAblations ablated = ablate_groups(sweep_, groups, all_, params);
    passes_ += ablated.passes;
    for (size_t g = 0; g < groups.size(); ++g) measured[g].measures = std::move(ablated.groups[g]);
    add_groups(std::move(measured), evidence_);
  }

  /// So many in random order, ascending.
  std::vector<int64_t> first_examples(int64_t count) const {
    std::vector<int64_t> examples = order_of_examples(set_.size(), options_.seed);
    examples.resize(std::min(count, set_.size()));
    std::ranges::sort(examples);
    return examples;
  }

  void measure_pairs() {
    if (changes_.empty()) {
      std::vector<Ablation> alone;
      for (const int64_t head : heads_) alone.push_back({.heads = {head}});
      for (const auto& row : sweep_.run(alone, progress("pairs")).ablated) {
        changes_.push_back(statistic_.change(row, base_));
      }
    }
    const bool all = options_.pairs == ImportanceOptions::Pairs::all;
    std::map<std::string, PairMatrix>& matrices = evidence_.pairs["synergy"];
    matrices.clear();
    struct Pair {
      PairMatrix* matrix;
      int64_t a, b;  // in the matrix
      size_t i, j;   // in heads_
    };
    std::vector<Pair> pairs;
    const auto add_group = [&](const std::string& name, int64_t first, int64_t count) {
      std::vector<std::string> names;
      for (int64_t h = first; h < first + count; ++h) names.push_back(name_of(h));
      PairMatrix& matrix = matrices[name] = pair_matrix(std::move(names));
      for (size_t i = 0; i < heads_.size(); ++i) {
        for (size_t j = i + 1; j < heads_.size(); ++j) {
          const int64_t a = heads_[i] - first, b = heads_[j] - first;
          if (a >= 0 && b < count) pairs.push_back({&matrix, a, b, i, j});
        }
      }
    };
    if (all) {
      add_group("all", 0, model_.heads());
    } else {
      for (const AttentionSite& site : model_.attentions()) {
        const int64_t end = site.first + std::ssize(site.heads);
        const bool measured = std::ranges::any_of(
            heads_, [&](int64_t head) { return head >= site.first && head < end; });
        if (measured) add_group(site.name, site.first, end - site.first);
      }
    }
    const auto total = std::ssize(pairs);
    for (int64_t begin = 0; begin < total; begin += kPairsAtOnce) {
      const int64_t end = std::min(begin + kPairsAtOnce, total);
      std::vector<Ablation> together;
      for (int64_t p = begin; p < end; ++p) {
        together.push_back({.heads = {heads_[pairs[p].i], heads_[pairs[p].j]}});
      }
      const SweepValues values = sweep_.run(together, [&](int64_t done, int64_t of) {
        if (!options_.progress) return;
        const double share = static_cast<double>(done) / static_cast<double>(of);
        options_.progress(
            "pairs", begin + static_cast<int64_t>(share * static_cast<double>(end - begin)), total);
      });
      for (int64_t p = begin; p < end; ++p) {
        const Pair& pair = pairs[p];
        const double synergy = statistic_.change(values.ablated[p - begin], base_) -
                               changes_[pair.i] - changes_[pair.j];
        pair.matrix->at(pair.a, pair.b) = pair.matrix->at(pair.b, pair.a) = synergy;
      }
    }
  }

  const Model& model_;
  const EvaluationSet& set_;
  const ImportanceOptions& options_;
  Evidence& evidence_;
  SentencePooling pooling_;
  LossSweep sweep_;
  LossStatistic statistic_;
  std::vector<int64_t> all_;     // heads that the loss looks at, ascending
  std::vector<int64_t> heads_;   // those of them that are measured, ascending
  std::vector<double> base_;     // values of the examples
  std::vector<double> changes_;  // of heads_, by zero ablation of all examples; empty: not yet
  double passes_ = 0;            // work of ablations
};

}  // namespace

std::string_view to_string(Standing standing) {
  switch (standing) {
    case Standing::essential:
      return "essential";
    case Standing::harmful:
      return "harmful";
    case Standing::replaceable:
      return "replaceable";
    case Standing::undecided:
      return "undecided";
  }
  return "";
}

Standing standing(const ConfidenceInterval& interval, double tolerance, LossTask task) {
  if (interval.low > tolerance) return Standing::essential;
  if (interval.high < 0 && task != LossTask::fidelity) return Standing::harmful;
  if (interval.high <= tolerance) return Standing::replaceable;
  return Standing::undecided;
}

double tolerance_of(LossTask task, double loss, double share) {
  return task == LossTask::fidelity ? share : share * loss;
}

double tolerated_share(const Evidence& evidence) {
  const auto adaptive = evidence.options.find("adaptive");
  if (adaptive == evidence.options.end() || adaptive->second.empty()) return kUsualTolerance;
  const std::string& text = adaptive->second;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0 &&
      std::isfinite(value)) {
    return value;
  }
  throw Error({.what = "the evidence has no usable tolerance",
               .where = "options.adaptive",
               .got = fmt::format("\"{}\"", text),
               .expected = "a number"});
}

double observe_importance(const Model& model, const EvaluationSet& set,
                          const ImportanceOptions& options, Evidence& evidence) {
  check_draws(options);
  if (options.adaptive_tolerance && !(*options.adaptive_tolerance > 0)) {
    throw Error({.what = "the tolerance must be a positive number",
                 .where = "adaptive",
                 .got = fmt::format("{}", *options.adaptive_tolerance)});
  }
  return Importance(model, set, options, evidence).run();
}

double append_groups(const Model& model, const EvaluationSet& set, const ImportanceOptions& options,
                     Evidence& evidence) {
  ImportanceOptions only_groups = options;
  only_groups.gradient = only_groups.ablation_zero = only_groups.ablation_mean = false;
  only_groups.adaptive_tolerance.reset();
  only_groups.bleu = false;
  check_draws(only_groups);
  Evidence measured;
  const double passes = Importance(model, set, only_groups, measured).run_groups_for(evidence);
  add_groups(std::move(measured.groups), evidence);
  return passes;
}

}  // namespace headwise
