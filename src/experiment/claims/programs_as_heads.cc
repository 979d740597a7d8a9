// Whether constructed programs run exactly, and need more layers with fewer heads.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "experiment/claims/claims.h"
#include "headwise/construct/construct.h"

namespace headwise {
namespace {

using nlohmann::json;

std::string trial_name(const std::string& program, int64_t max_heads) {
  return fmt::format("{} heads={}", program, max_heads == 0 ? "any" : fmt::format("{}", max_heads));
}

std::string neighbours_name(int64_t count) { return fmt::format("neighbours-{}", count); }

/// Whether the last `count` tokens, a power of two, are all equal to this one.
std::string neighbours_program(int64_t count) {
  std::string text = "alphabet: a b c\nlength: 16\n";
  std::vector<std::string> equal;
  for (int64_t i = 1; i <= count; ++i) {
    text += fmt::format("t{0} = aggregate(select(indices, indices - {0}, ==), tokens, \"-\")\n", i);
    equal.push_back(fmt::format("t{} == tokens", i));
  }
  // Two by two: all of them at once have too many combinations of values.
  for (size_t n = equal.size() / 2; n >= 1; n /= 2) {
    for (size_t i = 0; i < n; ++i) {
      equal[i] = fmt::format("({} and {})", equal[2 * i], equal[2 * i + 1]);
    }
  }
  return text + fmt::format("return {}\n", equal.front());
}

json counts_of(const Construction& made) {
  return {{"layers", made.layers.size()},           {"heads", made.heads()},
          {"most_heads", made.most_heads()},        {"hidden_size", made.width},
          {"intermediate_size", made.intermediate}, {"parameters", made.parameters}};
}

json check(const Program& program, int64_t max_heads, int64_t texts, uint64_t seed,
           TrialContext& context) {
  const std::filesystem::path folder = context.folder() / "model";
  std::filesystem::remove_all(folder);
  construct(program, {.max_heads = max_heads, .check_texts = 0}, folder);
  const ConstructionCheck checked = check_construction(Model::load(folder), program, texts, seed);
  return {{"texts", checked.texts},
          {"tokens", checked.tokens},
          {"different", checked.different},
          {"refused", checked.refused},
          {"all", checked.all}};
}

json run_program(const std::string& name, int64_t max_heads, const json& settings,
                 TrialContext& context) {
  const Program program = Program::load(name);
  json result = counts_of(plan_construction(program, {.max_heads = max_heads}));
  const json &brief = settings.at("short"), &drawn = settings.at("drawn");
  ProgramOptions options{.length = brief.at("length").get<int64_t>(),
                         .alphabet = program.alphabet()};
  options.alphabet.resize(std::min(options.alphabet.size(), brief.at("tokens").get<size_t>()));
  result["checks"] = {
      check(Program::load(name, options), max_heads, brief.at("texts"), 0, context)};
  const auto seeds = drawn.at("seeds").get<std::vector<uint64_t>>();
  for (size_t i = 0; i < seeds.size(); ++i) {
    context.progress(static_cast<int64_t>(i + 1), std::ssize(seeds) + 1);
    result["checks"].push_back(
        check(program, max_heads, drawn.at("texts"), seeds[i] + context.seed(), context));
  }
  return result;
}

json run_neighbours(int64_t count, int64_t max_heads, const json& settings, TrialContext& context) {
  const Program program = Program::parse(neighbours_program(count), neighbours_name(count));
  json result = counts_of(plan_construction(program, {.max_heads = max_heads}));
  result["checks"] = {
      check(program, max_heads, settings.at("drawn").at("texts"), context.seed(), context)};
  return result;
}

std::vector<ExperimentTrial> trials(const json& settings) {
  std::vector<ExperimentTrial> trials;
  for (const std::string name : settings.at("programs")) {
    for (const int64_t max_heads : {0, 1}) {
      trials.push_back({.name = trial_name(name, max_heads), .run = [=](TrialContext& context) {
                          return run_program(name, max_heads, settings, context);
                        }});
    }
  }
  for (const int64_t count : settings.at("neighbours")) {
    std::vector<int64_t> most = settings.at("max_heads");
    most.insert(most.begin(), 0);
    for (const int64_t max_heads : most) {
      trials.push_back({.name = trial_name(neighbours_name(count), max_heads),
                        .run = [=](TrialContext& context) {
                          return run_neighbours(count, max_heads, settings, context);
                        }});
    }
  }
  return trials;
}

Finding judge(const json& settings, const TrialResults& results) {
  Finding finding{.figure_name = "of the tokens have the label that the program gives"};
  int64_t tokens = 0, different = 0, refused = 0;
  for (const auto& [name, result] : results) {
    for (const json& check : result.at("checks")) {
      tokens += check.at("tokens").get<int64_t>();
      different += check.at("different").get<int64_t>();
      refused += check.at("refused").get<int64_t>();
    }
  }
  finding.n = tokens;
  finding.figure = static_cast<double>(tokens - different) / static_cast<double>(tokens);
  finding.interval = share_interval(tokens - different, tokens);

  std::vector<std::string> names = settings.at("programs"), more, same;
  for (const int64_t count : settings.at("neighbours")) names.push_back(neighbours_name(count));
  const auto layers = [&](const std::string& name, int64_t max_heads) {
    return results.at(trial_name(name, max_heads)).at("layers").get<int64_t>();
  };
  for (const std::string& name : names) {
    if (results.at(trial_name(name, 0)).at("most_heads") == 1) continue;
    const int64_t any = layers(name, 0), one = layers(name, 1);
    (one > any ? more : same).push_back(fmt::format("{} ({} and {})", name, any, one));
  }
  finding.why = fmt::format(
      "{} of {} tokens have another label than their program gives{}. Of the programs with several "
      "heads in a layer, these need more layers with one head per layer (layers with any number of "
      "heads, and with one): {}. These do not: {}.",
      different, tokens, refused == 0 ? "" : fmt::format(", and {} texts have no answer", refused),
      more.empty() ? "none" : fmt::format("{}", fmt::join(more, ", ")),
      same.empty() ? "none" : fmt::format("{}", fmt::join(same, ", ")));
  if (different > 0 || refused > 0 || (more.empty() && !same.empty())) {
    finding.outcome = ClaimOutcome::refuted;
  } else if (!more.empty() && same.empty()) {
    finding.outcome = ClaimOutcome::confirmed;
  } else if (!more.empty()) {
    finding.outcome = ClaimOutcome::depends;
    finding.depends_on =
        "whether heads or feed-forward layers are the longest chain of the program";
  }
  Plot& plot = finding.plot;
  plot = {.title = "Layers that a program compiles into",
          .x_label = "heads that a layer may have",
          .y_label = "layers"};
  const std::vector<int64_t> most = settings.at("max_heads");
  for (const int64_t heads : most) plot.x_names.push_back(fmt::format("{}", heads));
  plot.x_names.push_back("any");
  for (const int64_t count : settings.at("neighbours")) {
    PlotSeries& series =
        plot.series.emplace_back(PlotSeries{.name = neighbours_name(count), .line = true});
    for (size_t i = 0; i <= most.size(); ++i) {
      const int64_t heads = i < most.size() ? most[i] : 0;
      series.points.push_back({.x = static_cast<double>(i),
                               .y = static_cast<double>(layers(neighbours_name(count), heads))});
    }
  }
  for (const std::string name : settings.at("programs")) {
    PlotSeries& series = plot.series.emplace_back(PlotSeries{.name = name});
    series.points = {
        {.x = 0, .y = static_cast<double>(layers(name, 1))},
        {.x = static_cast<double>(most.size()), .y = static_cast<double>(layers(name, 0))}};
  }
  return finding;
}

}  // namespace

ExperimentKind programs_as_heads() {
  return {.name = "programs-as-heads", .trials = trials, .judge = judge};
}

}  // namespace headwise
