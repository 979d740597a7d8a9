// Prunes, measures what came of it, and says so.
#include "prune_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/model_folder.h"
#include "headwise/model/summary.h"
#include "headwise/prune/recover.h"
#include "io/file.h"
#include "progress.h"
#include "prune/pruned_folder.h"

namespace headwise::program {
namespace {

FineTuneOptions with_progress(FineTuneOptions training, const char* what, PartProgress& progress) {
  training.progress = [what, &progress](int64_t done, int64_t steps, double) {
    progress.advance(what, done, steps);
  };
  return training;
}

/// A model before heads are cut out of it.
struct Uncut {
  const Model& model;
  const std::filesystem::path& folder;
};

/// Measures what the whole work came to: with rounds or gates, the last cut is a part of it.
void measure_pruned(const PruneJob& work, std::span<const std::string> heads,
                    const Session& session, const Model& pruned,
                    const std::filesystem::path& folder, PruneReport& report) {
  const Model& model = session.model();
  report.original = id_of_folder(session.model().folder());
  report.removed.assign(heads.begin(), heads.end());
  report.recovered = work.recovers();
  report.before = {.heads = model.heads(), .summary = summarize(session.model().folder())};
  if (work.quality) {
    report.before.loss =
        loss_of(model, session.model().folder(), *work.quality, nullptr, throw_if_interrupted);
    report.after.loss = loss_of(pruned, folder, *work.quality, &model, throw_if_interrupted);
  }
  report.speed =
      compare_speed(model, pruned, {.tokens = work.tokens, .check = throw_if_interrupted});
}

/// In rounds: some heads go, then the model learns to do without them. The proof is of the last
/// one.
PruneReport cut_and_train(const PruneJob& work, std::span<const std::string> heads,
                          const Session& session, const Uncut& whole,
                          const std::filesystem::path& out, bool quiet) {
  const auto count = std::ssize(heads);
  std::optional<LossEvidence> cut;
  PruneOptions options = work.options;
  options.finish = [&](const std::filesystem::path& folder) {
    if (!work.recovers()) return;
    if (work.quality && work.rounds == 1) {
      const Model untrained = Model::load(folder, work.options.load);
      cut = loss_of(untrained, folder, *work.quality, &session.model(), throw_if_interrupted);
    }
    PartProgress progress(quiet);
    recover(folder, session.model(), *work.recovery,
            with_progress(work.training, "steps", progress), work.options.load);
  };
  const auto measure = [&](const Model& pruned, const std::filesystem::path& folder,
                           PruneReport& report) {
    report.cut = cut;
    measure_pruned(work, heads, session, pruned, folder, report);
  };
  if (work.rounds == 1) {
    options.measure = measure;
    return prune(whole.model, whole.folder, heads, out, options).report;
  }
  FolderAside aside(out);
  std::filesystem::path from = whole.folder;
  std::optional<Model> before;  // none: the model itself
  for (int64_t round = 0;; ++round) {
    const int64_t begin = count * round / work.rounds, end = count * (round + 1) / work.rounds;
    const bool last = round + 1 == work.rounds;
    options.form =
        last ? work.options.form : PruneForm::compact;  // in which heads keep their names
    if (last) options.measure = measure;
    const std::filesystem::path to = last ? aside.path() : aside.beside(fmt::format("{}", round));
    PrunedModel pruned =
        prune(before ? *before : whole.model, from, heads.subspan(begin, end - begin), to, options);
    if (last) {
      aside.become_out();
      return pruned.report;
    }
    before = std::move(pruned.model);
    from = to;
  }
}

/// Gates choose the heads of a model that was trained with them.
PruneReport cut_by_gates(const PruneJob& work, const Session& session,
                         const std::filesystem::path& out, bool quiet, PruneOutcome& outcome) {
  const std::filesystem::path plan = out.string() + ".plan.json";
  if (std::filesystem::exists(plan)) {
    throw Error({.what = "prune: the plan would overwrite a file",
                 .where = plan.string(),
                 .hint = "move it away, or give another -o"});
  }
  FolderAside aside(out);
  const std::filesystem::path folder = aside.beside("gated");
  std::filesystem::create_directory(folder);
  {
    PartProgress progress(quiet);
    GateOptions gates = *work.gates;
    gates.training = with_progress(gates.training, "gates", progress);
    outcome.gated = learn_plan(session.model(), session.model().folder(), *work.recovery, gates,
                               folder, work.options.load);
  }
  const Model gated = Model::load(folder, work.options.load);
  const PruneReport report =
      cut_and_train(work, outcome.gated->plan.drop, session, {gated, folder}, aside.path(), quiet);
  outcome.plan = plan.string();
  aside.become_out();
  // A plan without its model would stop every later run.
  write_file_whole(outcome.plan, to_json(outcome.gated->plan));
  return report;
}

}  // namespace

PruneOutcome prune_and_measure(const PruneJob& work, const Session& session, const std::string& out,
                               bool quiet) {
  PruneOutcome outcome;
  const Model& model = session.model();
  check_form(model, session.model().folder(), work.options.form, work.options.load);
  std::vector<std::string> heads;  // one by one
  if (!work.drop.empty()) {
    for (const HeadIndex head : model.find_heads(fmt::format("{}", fmt::join(work.drop, ",")))) {
      heads.push_back(model.attentions()[head.site].head_name(head.index));
    }
  }
  std::filesystem::path folder = std::filesystem::path(out).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  outcome.report = work.gates ? cut_by_gates(work, session, folder, quiet, outcome)
                              : cut_and_train(work, heads, session,
                                              {model, session.model().folder()}, folder, quiet);
  outcome.report.out = out;
  return outcome;
}

std::string to_json(const PruneOutcome& outcome) {
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(to_json(outcome.report));
  if (outcome.gated) {
    json["gates"] = {{"plan", outcome.plan}, {"values", Json::object()}};
    for (const auto& [head, gate] : outcome.gated->gates) json["gates"]["values"][head] = gate;
  }
  return json.dump(2) + "\n";
}

std::string to_text(const PruneOutcome& outcome) {
  std::string text = to_text(outcome.report);
  if (outcome.gated) text += fmt::format("\ngates chose the heads: {}\n", outcome.plan);
  return text;
}

std::string to_text(const PruneReport& report) {
  std::string text = fmt::format("{:<22}{:>16}{:>16}{:>10}\n", "", "before", "after", "ratio");
  const auto row = [&](const std::string& name, const std::string& before, const std::string& after,
                       double ratio) {
    text += fmt::format("{:<22}{:>16}{:>16}{:>10}\n", name, before, after,
                        std::isfinite(ratio) ? fmt::format("{:.3f}", ratio) : "");
  };
  const auto count = [&](const char* name, int64_t before, int64_t after) {
    row(name, grouped(before), grouped(after),
        static_cast<double>(after) / static_cast<double>(std::max<int64_t>(1, before)));
  };
  const ModelState &before = report.before, &after = report.after;
  count("heads", before.heads, after.heads);
  count("parameters", before.summary.parameters, after.summary.parameters);
  count("in attention", before.summary.attention_parameters, after.summary.attention_parameters);
  count("bytes of weights", before.summary.bytes, after.summary.bytes);
  const auto number = [&](const std::string& name, double a, double b) {
    row(name, fmt::format("{:.4f}", a), fmt::format("{:.4f}", b), b / a);
  };
  if (before.loss && report.cut) {
    number(before.loss->task + ", untrained", before.loss->value, report.cut->value);
  }
  if (before.loss && after.loss) {
    number(before.loss->task + " loss", before.loss->value, after.loss->value);
    for (const auto& [score, value] : before.loss->scores) {
      const auto other = after.loss->scores.find(score);
      if (other != after.loss->scores.end()) number(score, value, other->second);
    }
  }
  for (const SpeedComparison& at : report.speed) {
    row(fmt::format("ms for {} x {}", at.texts, at.tokens), fmt::format("{:.2f}", at.before * 1e3),
        fmt::format("{:.2f}", at.after * 1e3), at.after / at.before);
  }
  const char* const other = report.form == "masked" ? "compact" : "masked";
  text += fmt::format(
      "\n{}{} equals {} on {} {} ({} tokens): largest difference {:.1e} of the "
      "largest hidden state\n",
      report.recovered ? "before training, " : "", report.form, other, report.proof.texts,
      report.proof.random_ids ? "texts of random ids" : "texts", grouped(report.proof.tokens),
      report.proof.max_difference);
  return text;
}

}  // namespace headwise::program
