// Whether early layers are local and syntactic, middle ones long-range, and late ones matter most
// for the task.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "experiment/claims/claims.h"
#include "experiment/subject.h"
#include "headwise/observe/observe.h"
#include "headwise/plan/support.h"
#include "headwise/text/tokenizer.h"
#include "headwise/text/treebank.h"

namespace headwise {
namespace {

using nlohmann::json;

/// What a head's number should do with depth.
struct Statement {
  const char* name;
  const char* label;  // in the plot
  const char* measure;
  bool from_middle;  // over the distance from the middle layer instead of depth
  double sign;       // of the rank correlation that is claimed
};
constexpr Statement kStatements[] = {
    {"early layers are local", "early local", "distance", false, 1},
    {"early layers are syntactic", "early syntactic", "syntax", false, -1},
    {"middle layers are long-range", "middle long-range", "distance", true, -1},
    {"late layers matter most", "late matter most", "gradient", false, 1}};

/// How much better than the best fixed offset a head finds its best relation. Relations with few
/// items are left out.
double syntax_of(const HeadEvidence& head, int64_t fewest) {
  double best = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [name, measure] : head.measures) {
    if (!name.starts_with("relation/") || measure.n < fewest || !measure.baseline) continue;
    best = std::fmax(best, measure.value - *measure.baseline);
  }
  return best;
}

json run(const json& settings, const Subject& subject, TrialContext& context) {
  const Model& model = context.model(subject.model);
  const EvaluationSet set = examples_of(subject, model, context);
  const Evidence evidence = measure_heads(model, set, {"distance", "gradient"}, context);
  json result = {{"distance", values_of(evidence, "distance")},
                 {"gradient", values_of(evidence, "gradient")}};
  const std::string treebank = settings.at("treebank");
  if (!treebank.empty()) {
    ObserveData data{.treebank = read_conllu(context.data(treebank))};
    data.treebank.resize(std::min<size_t>(data.treebank.size(), settings.at("sentences")));
    std::erase_if(data.treebank, [&](const TreeSentence& sentence) {
      const int64_t most = model.config().max_positions;
      return most > 0 && std::ssize(model.tokenizer()->encode(sentence.text).ids) > most;
    });
    ObserveOptions options{.measures = {"relation"}, .probes = false};
    options.progress = [&](const std::string&, int64_t done, int64_t total) {
      context.progress(done, total);
    };
    for (const HeadEvidence& head : observe(model, data, options).heads) {
      result["syntax"].push_back(syntax_of(head, settings.at("fewest_items")));
    }
  }
  for (const AttentionSite& site : model.attentions()) {
    for (size_t h = 0; h < site.heads.size(); ++h) result["layers"].push_back(site.layer);
  }
  return result;
}

std::vector<ExperimentTrial> trials(const json& settings) {
  return subject_trials(settings, [=](const Subject& subject, TrialContext& context) {
    return run(settings, subject, context);
  });
}

Finding judge(const json& settings, const TrialResults& results) {
  const double matters = settings.at("matters");
  Finding finding;
  finding.plot = {
      .title = "Rank correlation of layers with what is claimed to rise (claimed: above 0)",
      .y_label = "rank correlation, in the claimed direction",
      .y_marks = {0}};
  struct Tally {
    int64_t holds = 0, contradicted = 0, flat = 0, all = 0;
  };
  std::vector<Tally> tallies(std::size(kStatements));
  std::vector<size_t> statement_of;
  const std::vector<Subject> subjects = subjects_of(settings);
  for (const Subject& subject : subjects) {
    PlotSeries& series = finding.plot.series.emplace_back(PlotSeries{.name = subject.model});
    const json& result = results.at(subject.name);
    const auto layers = result.at("layers").get<std::vector<double>>();
    const double middle = *std::ranges::max_element(layers) / 2;
    for (size_t s = 0; s < std::size(kStatements); ++s) {
      const Statement& statement = kStatements[s];
      if (!result.contains(statement.measure)) continue;
      std::vector<double> depth, value;
      for (size_t h = 0; h < layers.size(); ++h) {
        const json& number = result.at(statement.measure).at(h);
        if (number.is_null()) continue;
        depth.push_back(statement.from_middle ? std::abs(layers[h] - middle) : layers[h]);
        value.push_back(statement.sign * number.get<double>());
      }
      const auto correlation = rank_correlation(depth, value);
      if (!correlation) continue;
      statement_of.push_back(s);
      ++tallies[s].all;
      tallies[s].flat += correlation->interval.high < matters;
      finding.family.push_back({.name = fmt::format("{}: {}", subject.model, statement.name),
                                .figure = correlation->value,
                                .interval = correlation->interval,
                                .n = std::ssize(value),
                                .p = correlation->p});
      series.points.push_back({.x = static_cast<double>(s) +
                                    0.1 * (static_cast<double>(finding.plot.series.size()) - 2),
                               .y = correlation->value,
                               .low = correlation->interval.low,
                               .high = correlation->interval.high});
    }
  }
  const std::vector<double> corrected = holm(finding.family);
  for (size_t t = 0; t < corrected.size(); ++t) {
    if (corrected[t] >= 0.05) continue;
    ++(finding.family[t].figure > 0 ? tallies[statement_of[t]].holds
                                    : tallies[statement_of[t]].contradicted);
  }
  std::vector<std::string> words;
  int64_t holds = 0, contradicted = 0, flat = 0, all = 0;
  for (size_t s = 0; s < tallies.size(); ++s) {
    const Tally& tally = tallies[s];
    finding.plot.x_names.emplace_back(kStatements[s].label);
    words.push_back(fmt::format("{}: holds in {}, the reverse in {}, of {}", kStatements[s].name,
                                tally.holds, tally.contradicted, tally.all));
    holds += tally.holds;
    contradicted += tally.contradicted;
    flat += tally.flat;
    all += tally.all;
  }
  finding.figure_name = "of the statements hold, over models";
  finding.figure = static_cast<double>(holds) / static_cast<double>(all);
  finding.interval = share_interval(holds, all);
  finding.n = all;
  finding.why = fmt::format("{} models (corrected p < 0.05).", fmt::join(words, "; "));
  if (holds == all) {
    finding.outcome = ClaimOutcome::confirmed;
  } else if (flat == all) {
    finding.outcome = ClaimOutcome::refuted;
  } else if (holds > 0 && contradicted > 0) {
    finding.outcome = ClaimOutcome::depends;
    finding.depends_on = "the statement and the model";
  }
  return finding;
}

}  // namespace

ExperimentKind layers_by_depth() {
  return {.name = "layers-by-depth", .trials = trials, .judge = judge};
}

}  // namespace headwise
