// Whether models fail gracefully when heads fail: random sets of them, and noise on their outputs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "core/shuffle.h"
#include "experiment/claims/claims.h"
#include "experiment/subject.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "headwise/model/score.h"

namespace headwise {
namespace {

using nlohmann::json;

/// Adds normal noise to what one head says; its deviation is a multiple of the root mean square of
/// the output of that head in the pass.
class NoisyHead : public ForwardObserver {
 public:
  NoisyHead(int64_t head, double amount, uint64_t seed)
      : head_(head), amount_(amount), random_(seed) {}

  bool wants_hidden() const override { return true; }
  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention&,
            View<float, 3> z, View<const float, 2>) override {
    const int64_t h = head_ - site.first;
    if (h < 0 || h >= std::ssize(site.heads)) return;
    double squares = 0;
    for (int64_t t = 0; t < z.extent(0); ++t) {
      for (int64_t d = 0; d < z.extent(2); ++d) squares += z(t, h, d) * z(t, h, d);
    }
    const auto n = static_cast<double>(z.extent(0) * z.extent(2));
    const auto deviation = static_cast<float>(amount_ * std::sqrt(squares / n));
    for (int64_t t = 0; t < z.extent(0); ++t) {
      for (int64_t d = 0; d < z.extent(2); ++d) z(t, h, d) += deviation * random_.normal();
    }
  }

 private:
  int64_t head_;
  double amount_;
  Random random_;
};

double loss_of(const Model& model, const TokenBatch& batch, ForwardObserver* observer) {
  double sum = 0;
  int64_t count = 0;
  for (const float nll : next_token_nll(model, batch, {.observer = observer})) {
    if (std::isnan(nll)) continue;
    sum += nll;
    ++count;
  }
  return sum / static_cast<double>(count);
}

json run(const json& settings, const Subject& subject, TrialContext& context) {
  const Model& model = context.model(subject.model);
  const EvaluationSet set = examples_of(subject, model, context);
  HeadLosses losses(model, set);
  const double loss = losses.loss(context);
  json result = {{"loss", loss}, {"alone", to_json(losses.changes(each_head(model), context))}};
  std::vector<std::vector<int64_t>> sets;
  for (const double share : settings.at("failing")) {
    const auto count =
        static_cast<int64_t>(std::lround(share * static_cast<double>(model.heads())));
    for (int64_t d = 0; d < settings.at("draws"); ++d) {
      sets.push_back(
          choose_below(count, model.heads(), Random(derived_seed(context.seed(), count, 0, 0), d)));
    }
  }
  result["sets"] = sets;
  result["failed"] = to_json(losses.changes(sets, context)).at("value");
  // Noise on one head at a time.
  EvaluationSet some = set;
  sample_examples(some, settings.at("noise_examples"), 0);
  const TokenBatch& batch = some.examples.all.source;
  const double whole = loss_of(model, batch, nullptr);
  for (const double amount : settings.at("noise")) {
    json row = json::array();
    for (int64_t head = 0; head < model.heads(); ++head) {
      NoisyHead noise(head, amount, derived_seed(context.seed(), head, 1, 0));
      row.push_back(
          std::stod(fmt::format("{:.6g}", (loss_of(model, batch, &noise) - whole) / whole)));
      context.progress(head, model.heads());
    }
    result["noise"].push_back(std::move(row));
  }
  return result;
}

std::vector<ExperimentTrial> trials(const json& settings) {
  return subject_trials(settings, [=](const Subject& subject, TrialContext& context) {
    return run(settings, subject, context);
  });
}

Finding judge(const json& settings, const TrialResults& results) {
  const double steep = settings.at("steep");
  const auto shares = settings.at("failing").get<std::vector<double>>();
  const size_t draws = settings.at("draws");
  const auto amounts = settings.at("noise").get<std::vector<double>>();
  Finding finding{
      .figure_name = fmt::format(
          "times the sum of their single costs is what {:.0f} % of the heads cost together",
          100 * settings.at("decides").get<double>())};
  finding.plot = {.title = "Random heads fail: cost together over the sum of their single costs",
                  .x_label = "share of the heads that fail",
                  .y_label = "ratio",
                  .y_marks = {1, steep}};
  std::vector<double> ratios_at;
  std::vector<std::string> words, noise_words;
  for (const Subject& subject : subjects_of(settings)) {
    const json& result = results.at(subject.name);
    const std::vector<Estimate> alone = estimates_from(result.at("alone"));
    const double loss = result.at("loss");
    PlotSeries& series =
        finding.plot.series.emplace_back(PlotSeries{.name = subject.name, .line = true});
    for (size_t s = 0; s < shares.size(); ++s) {
      // The ratio of means over draws: the sum of single costs of one draw may be near 0.
      std::vector<double> together, sums;
      for (size_t d = s * draws; d < (s + 1) * draws; ++d) {
        double sum = 0;
        for (const int64_t head : result.at("sets").at(d)) sum += alone.at(head).value;
        together.push_back(result.at("failed").at(d));
        sums.push_back(sum);
      }
      const double ratio = mean_of(together).value / mean_of(sums).value;
      series.points.push_back({.x = shares[s], .y = ratio});
      if (shares[s] != settings.at("decides")) continue;
      std::vector<double> excess;
      for (size_t d = 0; d < draws; ++d) excess.push_back(together[d] - steep * sums[d]);
      const Estimate above = mean_of(excess);
      ratios_at.push_back(ratio);
      words.push_back(fmt::format("{} {:.2g} (the loss rises by {:.2g} %)", subject.name, ratio,
                                  100 * mean_of(together).value / loss));
      for (const bool graceful : {true, false}) {
        finding.family.push_back({.name = fmt::format("{}: {} {:.2g} times the sum", subject.name,
                                                      graceful ? "below" : "above", steep),
                                  .figure = ratio,
                                  .n = above.n,
                                  .p = graceful ? above.p_below(0) : above.p_above(0)});
      }
    }
    // Noise of the size of a head's output, beside its ablation.
    const auto one = std::ranges::find(amounts, 1.) - amounts.begin();
    double noise = 0, cost = 0;
    for (size_t h = 0; h < alone.size(); ++h) {
      noise += result.at("noise").at(one).at(h).get<double>();
      cost += alone[h].value / loss;
    }
    noise_words.push_back(fmt::format("{:.2g}", noise / cost));
  }
  const std::vector<double> corrected = holm(finding.family);
  int64_t graceful = 0, steeper = 0;
  for (size_t t = 0; t < corrected.size(); t += 2) {
    graceful += corrected[t] < 0.05;
    steeper += corrected[t + 1] < 0.05;
  }
  const Estimate mean = mean_of(ratios_at);
  finding.figure = mean.value;
  finding.interval = mean.interval();
  finding.n = mean.n;
  finding.why = fmt::format(
      "Heads that fail together cost, over the sum of their single costs: {}. That is below {:.2g} "
      "in {} of "
      "{} models on data and above in {} (corrected p < 0.05). Noise as large as a head's output "
      "costs {} "
      "times its ablation, summed over heads.",
      fmt::join(words, "; "), steep, graceful, mean.n, steeper, fmt::join(noise_words, ", "));
  decide_over_models(graceful, steeper, mean.n, finding);
  return finding;
}

}  // namespace

ExperimentKind graceful_failure() {
  return {.name = "graceful-failure", .trials = trials, .judge = judge};
}

}  // namespace headwise
