// Prunes, measures what came of it, and says so.
#include "prune_verb.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/prune/recover.h"
#include "io/file.h"
#include "progress.h"
#include "prune/pruned_folder.h"

namespace headwise::program {
namespace {

/// A new folder beside the result, for models before the last one; gone at the end.
class RoundsFolder {
 public:
  explicit RoundsFolder(const std::filesystem::path& out) {
    { const FolderAside can_be_made(out); }
    std::string name = out.string() + ".rounds-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      throw Error({.what = "a folder for the rounds cannot be made",
                   .where = name,
                   .got = std::generic_category().message(errno)});
    }
    path_ = name;
  }
  RoundsFolder(const RoundsFolder&) = delete;
  RoundsFolder& operator=(const RoundsFolder&) = delete;
  ~RoundsFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

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

/// In rounds: some heads go, then the model learns to do without them. The proof is of the last
/// one.
PrunedModel cut_and_train(const PruneWork& work, std::span<const std::string> heads,
                          const Session& session, const Uncut& whole,
                          const std::filesystem::path& out, bool quiet,
                          std::optional<LossEvidence>& cut) {
  const auto count = std::ssize(heads);
  PruneOptions how = work.how;
  how.finish = [&](const std::filesystem::path& folder) {
    if (!work.recovers()) return;
    if (work.quality && work.rounds == 1) {
      const Model untrained = Model::load(folder, work.how.load);
      cut = loss_of(untrained, folder, *work.quality, &session.model(), throw_if_interrupted);
    }
    PartProgress progress(quiet);
    recover(folder, session.model(), *work.recovery,
            with_progress(work.training, "steps", progress), work.how.load);
  };
  if (work.rounds == 1) return prune(whole.model, whole.folder, heads, out, how);
  const RoundsFolder rounds(out);
  std::filesystem::path from = whole.folder;
  std::optional<Model> before;  // none: the model itself
  for (int64_t round = 0;; ++round) {
    const int64_t begin = count * round / work.rounds, end = count * (round + 1) / work.rounds;
    const bool last = round + 1 == work.rounds;
    how.form = last ? work.how.form : PruneForm::compact;  // in which heads keep their names
    const std::filesystem::path to = last ? out : rounds.path() / fmt::format("{}", round);
    PrunedModel pruned =
        prune(before ? *before : whole.model, from, heads.subspan(begin, end - begin), to, how);
    if (last) return pruned;
    before = std::move(pruned.model);
    from = to;
  }
}

/// Gates choose the heads of a model that was trained with them.
PrunedModel cut_by_gates(const PruneWork& work, const Session& session,
                         const std::filesystem::path& out, bool quiet, PruneOutcome& outcome) {
  const std::filesystem::path plan = out.string() + ".plan.json";
  if (std::filesystem::exists(plan)) {
    throw Error({.what = "prune: the plan would overwrite a file",
                 .where = plan.string(),
                 .hint = "move it away, or give another -o"});
  }
  const RoundsFolder rounds(out);
  const std::filesystem::path folder = rounds.path() / "gated";
  std::filesystem::create_directory(folder);
  {
    PartProgress progress(quiet);
    GateOptions gates = *work.gates;
    gates.training = with_progress(gates.training, "gates", progress);
    outcome.gated =
        learn_plan(session.model(), session.folder(), *work.recovery, gates, folder, work.how.load);
  }
  const Model gated = Model::load(folder, work.how.load);
  PrunedModel pruned = cut_and_train(work, outcome.gated->plan.drop, session, {gated, folder}, out,
                                     quiet, outcome.report.cut);
  outcome.plan = plan.string();
  write_file_whole(outcome.plan, to_json(outcome.gated->plan));
  return pruned;
}

}  // namespace

PruneOutcome prune_and_measure(const PruneWork& work, const Session& session,
                               const std::string& out, bool quiet) {
  PruneOutcome outcome{.report = {.form = std::string(to_string(work.how.form)),
                                  .compensate = std::string(to_string(work.how.compensate)),
                                  .out = out,
                                  .recovered = work.recovers()}};
  PruneReport& report = outcome.report;
  const Model& model = session.model();
  check_form(model, session.folder(), work.how.form, work.how.load);
  std::vector<std::string> heads;  // one by one
  if (!work.drop.empty()) {
    for (const HeadIndex head : model.find_heads(fmt::format("{}", fmt::join(work.drop, ",")))) {
      heads.push_back(model.attentions()[head.site].head_name(head.index));
    }
  }
  std::filesystem::path folder = std::filesystem::path(out).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const PrunedModel after = work.gates
                                ? cut_by_gates(work, session, folder, quiet, outcome)
                                : cut_and_train(work, heads, session, {model, session.folder()},
                                                folder, quiet, report.cut);
  if (work.gates) heads = outcome.gated->plan.drop;
  report.proof = after.proof;
  report.before = {.heads = model.heads(), .summary = summarize(session.folder())};
  report.after = {.heads = model.heads() - std::ssize(heads), .summary = summarize(folder)};
  if (work.quality) {
    report.before.loss =
        loss_of(model, session.folder(), *work.quality, nullptr, throw_if_interrupted);
    report.after.loss = loss_of(after.model, folder, *work.quality, &model, throw_if_interrupted);
  }
  report.speed =
      compare_speed(model, after.model, {.tokens = work.tokens, .check = throw_if_interrupted});
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

std::string for_people(const PruneOutcome& outcome) {
  std::string text = for_people(outcome.report);
  if (outcome.gated) text += fmt::format("\ngates chose the heads: {}\n", outcome.plan);
  return text;
}

std::string for_people(const PruneReport& report) {
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
