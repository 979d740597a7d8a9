// One stage after the other; each leaves its file.
#include "headwise/study/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/io/json_text.h"
#include "headwise/judge/category_groups.h"
#include "headwise/judge/judge.h"
#include "headwise/observe/text_data.h"
#include "headwise/plan/follow_plan.h"
#include "headwise/plan/support.h"
#include "headwise/report/report.h"
#include "headwise/text/lines.h"
#include "headwise/text/sample_text.h"
#include "io/file.h"
#include "io/folder_aside.h"
#include "io/folder_lock.h"
#include "plan/model_cost.h"
#include "study/budget.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr const char* kEvidencePart = "evidence.json.part";
constexpr const char* kStudyPart = "study.json.part";
constexpr int64_t kGroupExamples = 32;
constexpr int64_t kFewestToSplit = 20;  // examples with something to score
constexpr double kMaskedPasses = 2;     // that held-out texts with all masks may take
constexpr int64_t kFewestMasks = 2, kMostMasks = 4, kThoroughMasks = 6;
constexpr int64_t kLongTokens = 512;
constexpr size_t kMostBytes = size_t{1} << 30;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// summary.json is the last file that a study writes.
bool has_finished_study(const fs::path& folder) {
  return is_there(folder / "summary.json") && is_there(folder / "report.html");
}

/// Whether a study was stopped here, maybe while it saved itself for the first time.
bool has_stopped_study(const fs::path& folder) {
  if (!fs::is_directory(folder) || fs::is_empty(folder)) return false;
  if (is_there(folder / "summary.json")) return false;
  const auto files = std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  return is_there(folder / kStudyPart) ||
         std::ssize(left_half_written(folder / kStudyPart)) == files;
}

/// The stage that a part of an observation belongs to.
std::string stage_of(std::string_view part) {
  static const std::map<std::string_view, std::string> kStages = {
      {"treebank", "linguistic"},       {"coreference", "linguistic"}, {"alignment", "linguistic"},
      {"weights", "similarity"},        {"gradient", "gradients"},     {"ablation", "ablation"},
      {"repeated sequences", "probes"}, {"probes", "probes"},          {"translation", "ablation"}};
  const auto at = kStages.find(part);
  return at == kStages.end() ? std::string(part) : at->second;
}

PlanOptions plan_options(const StudyOptions& options, std::optional<HeadOrder> order) {
  return {.keep = options.keep.value_or(kUsualKeep),
          .order = order,
          .uniform = options.form == PruneForm::uniform,
          .seed = options.seed};
}

int64_t rows_of(const EvaluationSet& set) {
  return set.examples.all.source.rows() + set.examples.all.target.rows();
}

int64_t scored_examples(const EvaluationSet& set) {
  if (!scores_tokens(set.task)) return set.size();
  const TokenBatch& texts =
      set.task == LossTask::translate ? set.examples.all.target : set.examples.all.source;
  const std::vector<int32_t>& labels = set.examples.all.labels;
  int64_t count = 0;
  for (int64_t x = 0; x < set.size(); ++x) {
    count += std::any_of(labels.begin() + texts.offsets[x], labels.begin() + texts.offsets[x + 1],
                         [](int32_t label) { return label != kIgnoreIndex; });
  }
  return count;
}

bool is_empty(const ObserveData& data) {
  return data.corpus.texts.empty() && data.treebank.empty() && data.coreference.empty() &&
         !data.evaluation;
}

class StudyRun {
 public:
  StudyRun(const Model& model, StudyInput input, const StudyOptions& options, fs::path out)
      : model_(model), input_(std::move(input)), options_(options), out_(std::move(out)) {}

  Study run() {
    std::optional<FolderLock> lock;
    if (!out_.empty()) {
      make_folder(out_);
      lock.emplace(out_);
    }
    read_input();
    input_.data.options["study"] = asked_for();
    Evidence so_far = identify(model_, input_.data, observe_options());
    if (options_.resume) {
      for (const char* part : {kStudyPart, kEvidencePart}) {
        for (const fs::path& file : left_half_written(out_ / part)) fs::remove(file);
      }
      resume(so_far);
    }
    begin();
    observe(std::move(so_far));
    begin_stage("judge");
    judge_heads();
    end_stage();
    if (input_.data.evaluation && !study_.verdict.categories.empty()) ablate_groups();
    make_plan();
    if (study_.plan.supported || options_.keep) cut();
    finish();
    return std::move(study_);
  }

 private:
  /// Texts, or the built-in text, as data. Weights are hashed.
  void read_input() {
    begin_stage("load");
    const auto begin = Clock::now();
    if (!input_.texts.empty()) {
      input_.data = text_data(model_, input_.texts, {.truncate = true, .seed = options_.seed});
    } else if (is_empty(input_.data)) {
      read_built_in_text();
    }
    (void)model_.hash(check());
    input_.load_seconds += seconds_since(begin);
  }

  void read_built_in_text() {
    const TextOptions options{
        .name = "built-in text",
        .truncate = true,
        .seed = options_.seed,
        .progress = [this](int64_t done, int64_t total) { report(done, total); }};
    input_.data = text_data(model_, lines_of(sample_text()), options);
    if (!input_.data.evaluation) return;
    input_.held_out = built_in_examples(model_, true, options);
    input_.held_out_source = kBuiltInHeldOut;
    if (options_.passes || options_.seconds) {
      input_.more = built_in_examples(model_, false, options);
    }
  }

  /// The options that a resumed study must share.
  std::string asked_for() const {
    std::string budget = options_.thorough ? "thorough" : "usual passes";
    if (options_.passes) budget = fmt::format("{} passes", *options_.passes);
    if (options_.seconds) budget = fmt::format("{} s", *options_.seconds);
    return fmt::format("keep {}, order {}, form {}, {}, seed {}, {} probes",
                       options_.keep ? fmt::format("{}", *options_.keep) : "usual",
                       options_.order ? to_string(*options_.order) : "usual",
                       to_string(options_.form), budget, options_.seed,
                       options_.probes ? "with" : "without");
  }

  /// Reads what an earlier run left.
  void resume(Evidence& so_far) {
    if (!is_there(out_ / kStudyPart)) return;
    const std::string where = (out_ / kStudyPart).string();
    const nlohmann::json json = parse_json(read_file(where, kMostBytes), where);
    const JsonObject root(json, where);
    study_.budget = root.number("budget");
    study_.pass_seconds = root.number("pass_seconds");
    for (const JsonObject& stage : root.objects("stages")) {
      study_.stages.push_back({.name = stage.text("name"), .seconds = stage.number("seconds")});
    }
    const fs::path part = out_ / kEvidencePart;
    if (!is_there(part)) return;
    Evidence left = evidence_from_json(read_file(part, kMostBytes), part.string());
    check_continues(left, so_far, part.string());
    so_far = std::move(left);
    continued_ = true;
  }

  /// Times a pass, and divides the budget.
  void begin() {
    begin_stage("load");
    if (study_.stages.empty()) {
      study_.stages.push_back({.name = "load", .seconds = input_.load_seconds});
      study_.pass_seconds = time_pass();
      study_.budget = budget();
      end_stage();
    }
    split();
    std::optional<double> passes;
    if (!options_.thorough) passes = study_.budget;
    budgets_ = stage_budgets(model_, input_, options_.probes, passes, held_out_passes_);
    if (options_.started) {
      double all = 0;
      for (const StageBudget& stage : budgets_) all += stage.passes;
      options_.started(all, all * study_.pass_seconds);
    }
  }

  double budget() const {
    if (options_.thorough) return 0;
    if (options_.passes) return *options_.passes;
    if (options_.seconds) return *options_.seconds / study_.pass_seconds;
    return usual_passes(model_);
  }

  /// The faster of two: the first one also fills caches.
  double time_pass() {
    double fastest = 0;
    for (int run = 0; run < 2; ++run) {
      const auto begin = Clock::now();
      if (input_.data.evaluation) {
        (void)loss_of(model_, *input_.data.evaluation, nullptr, check());
      } else {
        for (const ObservedText& text : input_.data.corpus.texts) {
          report(0, 1);
          TokenBatch source, target;
          source.add(text.ids, text.types);
          if (!text.decoder_ids.empty()) target.add(text.decoder_ids);
          (void)(target.sequences() > 0 ? model_.forward(source, target) : model_.forward(source));
        }
      }
      const double seconds = std::max(1e-6, seconds_since(begin));
      fastest = run == 0 ? seconds : std::min(fastest, seconds);
    }
    return fastest;
  }

  /// Leaves the examples that choose heads in the input.
  void split() {
    if (!input_.data.evaluation) {
      not_held_out_ = "no loss was measured";
      return;
    }
    EvaluationSet& choosing = *input_.data.evaluation;
    const auto rows_of_pass = static_cast<double>(rows_of(choosing));
    if (input_.held_out) {
      held_out_ = std::move(*input_.held_out);
      held_out_source_ = input_.held_out_source;
      if (held_out_.task != choosing.task) {
        throw Error({.what = "held-out examples are of another task",
                     .got = std::string(to_string(held_out_.task)),
                     .expected = std::string(to_string(choosing.task))});
      }
    } else {
      SplitExamples halves = split_examples(choosing);
      const int64_t scored =
          std::min(scored_examples(halves.choosing), scored_examples(halves.held_out));
      if (2 * scored < kFewestToSplit) {
        const int64_t all = scored_examples(choosing);
        not_held_out_ =
            all < kFewestToSplit
                ? fmt::format("{} examples are too few to hold half of them out, {} would do", all,
                              kFewestToSplit)
                : fmt::format(
                      "the halves would have {} and {} examples (equal ones stay together), {} "
                      "each would do",
                      scored_examples(halves.choosing), scored_examples(halves.held_out),
                      kFewestToSplit / 2);
        return;
      }
      choosing = std::move(halves.choosing);
      held_out_ = std::move(halves.held_out);
      held_out_source_ = "a half of the examples, drawn with a fixed seed";
    }
    choosing_share_ = static_cast<double>(rows_of(choosing)) / rows_of_pass;
    held_out_passes_.first_masks = static_cast<double>(rows_of(held_out_)) / rows_of_pass;
    add_masks();
    held_out_passes_.all = static_cast<double>(rows_of(held_out_)) / rows_of_pass;
  }

  /// More positions of the same texts, as far as that costs no more than two passes.
  void add_masks() {
    const Tokenizer* const tokenizer = model_.tokenizer();
    if (held_out_.task != LossTask::mlm || held_out_.masks > 1 || tokenizer == nullptr ||
        !tokenizer->special_tokens().mask) {
      return;
    }
    const auto affordable =
        static_cast<int64_t>(kMaskedPasses / held_out_passes_.first_masks + 0.5);
    const int64_t masks =
        options_.thorough ? kThoroughMasks : std::clamp(affordable, kFewestMasks, kMostMasks);
    held_out_ = with_masks(held_out_, masking_of(*tokenizer, model_.config()), masks);
  }

  ObserveOptions observe_options() const {
    ObserveOptions options{.probes = options_.probes, .seed = options_.seed};
    options.importance.ablation_mean = options_.thorough;
    if (!options_.thorough) options.importance.adaptive_tolerance = kUsualTolerance;
    return options;
  }

  void observe(Evidence so_far) {
    ObserveOptions options = observe_options();
    ImportanceOptions& importance = options.importance;
    if (!options_.thorough) {
      importance.adaptive = {.passes = passes_of(budgets_, "ablation") / choosing_share_};
      if (input_.more && study_.budget > usual_passes(model_)) {
        importance.adaptive->more = &*input_.more;
      }
    }
    begin_stage("attention");
    options.progress = [&](const std::string& part, int64_t done, int64_t total) {
      if (const std::string stage = stage_of(part); stage != stage_) {
        end_stage();
        begin_stage(stage);
      }
      report(done, total);
    };
    options.saved = [&](const Evidence& evidence) {
      end_stage();
      save(evidence);
    };
    study_.evidence = headwise::observe(model_, input_.data, options, std::move(so_far));
    end_stage();
  }

  void judge_heads() {
    study_.verdict = judge(study_.evidence);
    write("verdict.json", to_json(study_.verdict));
  }

  void ablate_groups() {
    begin_stage("groups");
    if (std::ranges::find(study_.evidence.finished, "groups") == study_.evidence.finished.end()) {
      ImportanceOptions options{.groups = category_groups(study_.verdict, model_),
                                .seed = options_.seed};
      if (!options_.thorough) {
        options.adaptive = {.passes = passes_of(budgets_, "groups") / choosing_share_,
                            .group_examples = kGroupExamples};
      }
      options.progress = [&](std::string_view, int64_t done, int64_t total) {
        report(done, total);
      };
      append_groups(model_, *input_.data.evaluation, options, study_.evidence);
      study_.evidence.finished.push_back("groups");
    }
    judge_heads();
    end_stage();
    save(study_.evidence);
  }

  void make_plan() {
    begin_stage("plan");
    const fs::path file = out_ / "plan.json";
    if (continued_ && is_there(file)) {
      study_.plan = plan_from_json(read_file(file, kMostBytes), file.string());
      note_held_out();
      return;
    }
    PlanOptions options = plan_options(options_, options_.order);
    PlanData data;
    if (input_.data.evaluation) {
      data.evaluation = &*input_.data.evaluation;
      data.held_out = &held_out_;
      options.order = options_.order.value_or(default_order(study_.verdict));
      if (held_out_.size() > 0) options.curves = {*options.order};
      if (!options_.thorough) {
        // Greedy orders measure all heads again after every step.
        options.step = std::max<int64_t>(1, model_.heads() / 8);
        if (options.order == HeadOrder::greedy) options.curves.clear();
        options.draws = 2;
        options.points = 4;
        options.more_points = 3;
      }
    }
    data.progress = [&](std::string_view, int64_t done, int64_t total) { report(done, total); };
    study_.plan = plan(model_, study_.verdict, options, data);
    if (!study_.plan.held_out) study_.plan.held_out = HeldOut{.reason = not_held_out_};
    HeldOut& held_out = *study_.plan.held_out;
    held_out.source = held_out_source_;
    if (held_out.examples > 0) held_out.chosen_on = choosing_examples(study_.evidence);
    assess(study_.verdict, study_.plan);
    note_held_out();
    write("plan.json", to_json(study_.plan));
    end_stage();
    save(study_.evidence);
  }

  /// Which positions were scored stands in the evidence.
  void note_held_out() {
    if (!study_.plan.held_out || study_.plan.held_out->examples == 0) return;
    const HeldOut& held_out = *study_.plan.held_out;
    study_.evidence.held_out = LossEvidence{
        .task = held_out.task,
        .value = held_out.loss.before,
        .examples = held_out_.size(),
        .tokens = scores_tokens(held_out_.task) ? held_out.tokens : held_out_.examples.all.tokens(),
        .positions = held_out_.positions,
        .masks = held_out_.masks};
  }

  /// The loss of the held-out examples without or with the plan: the pruned model is proved to be
  /// the original with these heads ablated.
  std::optional<LossEvidence> held_out_loss(double BeforeAfter::*when) const {
    const HeldOut& held_out = *study_.plan.held_out;
    if (held_out.examples == 0) return std::nullopt;
    LossEvidence loss{.task = held_out.task,
                      .value = held_out.loss.*when,
                      .examples = held_out.examples,
                      .tokens = held_out.tokens};
    if (!held_out.score_name.empty()) loss.scores[held_out.score_name] = held_out.score.*when;
    return loss;
  }

  void cut() {
    begin_stage("prune");
    PruneOptions options{.form = options_.form, .seed = options_.seed};
    if (!out_.empty()) options.out = out_ / "model";
    if (options_.resume) fs::remove_all(options.out);  // of a run that was killed after it
    const bool two = model_.config().encoder_decoder();
    for (const ObservedText& text : input_.data.corpus.texts) {
      if (two && text.decoder_ids.empty()) continue;  // of a treebank
      options.source.add(text.ids, text.types);
      if (two) options.target.add(text.decoder_ids);
    }
    options.progress = [&](std::string_view, int64_t, int64_t) { report(0, 1); };
    options.measure = [&](const Model& pruned, PruneReport& report) {
      report.before.loss = held_out_loss(&BeforeAfter::before);
      report.after.loss = held_out_loss(&BeforeAfter::after);
      SpeedOptions speed{.check = check()};
      if (!options_.thorough) {
        speed.fewest = 3;
        speed.seconds = study_.pass_seconds;
      }
      report.speed = compare_speed(model_, pruned, speed);
    };
    study_.pruned = headwise::prune(model_, study_.plan, options);
    study_.prune = study_.pruned->report();
    end_stage();
  }

  Savings savings() const {
    const ModelSummary summary = summarize(model_.folder());
    const int64_t heads = model_.heads();
    const auto expected = [&](const std::string& name) {
      const Expected& numbers = study_.plan.expected;
      return BeforeAfter{numbers.at(name + "_before"), numbers.at(name)};
    };
    Savings savings{.heads = expected("heads"),
                    .parameters = expected("parameters"),
                    .multiply_adds = expected("multiply_adds")};
    const std::vector<uint8_t> all(heads, 1), none(heads, 0);
    const auto share = [&](auto ModelCost::*of, int64_t tokens) {
      return 1 - static_cast<double>(cost_of(summary, none, tokens).*of) /
                     static_cast<double>(cost_of(summary, all, tokens).*of);
    };
    savings.most_parameters = share(&ModelCost::parameters, 128);
    savings.most_multiply_adds = share(&ModelCost::multiply_adds, 128);
    const int64_t most = summary.config.max_positions;
    if (most == 0 || most >= kLongTokens) {
      savings.long_tokens = kLongTokens;
      savings.most_multiply_adds_long = share(&ModelCost::multiply_adds, kLongTokens);
    }
    if (!study_.prune) return savings;
    const PruneReport& prune = *study_.prune;
    savings.bytes = {static_cast<double>(prune.before.summary.bytes),
                     static_cast<double>(prune.after.summary.bytes)};
    if (!prune.speed.empty()) savings.speed = prune.speed.back();
    return savings;
  }

  void finish() {
    begin_stage("report");
    study_.samples = sample_maps(model_, input_.data.corpus);
    write("samples.json", study_.samples);
    study_.undecided = undecided_heads(study_.verdict, study_.evidence, model_, choosing_share_);
    study_.savings = savings();
    study_.keep_given = options_.keep.has_value();
    write("evidence.json", to_json(study_.evidence));
    if (!out_.empty()) write("report.html", headwise::report(study_, options_));
    end_stage();
    write("summary.json", to_json(study_, options_));
    // With kStudyPart alone, --resume would begin anew.
    if (out_.empty()) return;
    for (const char* part : {kStudyPart, kEvidencePart}) fs::remove(out_ / part);
  }

  void begin_stage(std::string name) {
    stage_ = std::move(name);
    begin_ = Clock::now();
  }

  /// Adds the time since the stage began, or went on.
  void end_stage() {
    auto stage = std::ranges::find(study_.stages, stage_, &StudyStage::name);
    if (stage == study_.stages.end()) {
      stage = study_.stages.insert(stage, {.name = stage_});
    }
    stage->seconds += seconds_since(begin_);
    begin_ = Clock::now();
    for (StudyStage& one : study_.stages) one.passes = one.seconds / study_.pass_seconds;
  }

  void write(const char* file, const std::string& text) const {
    if (!out_.empty()) write_file_whole(out_ / file, text);
  }

  /// What a later run needs to go on.
  void save(const Evidence& evidence) const {
    if (out_.empty()) return;
    Json json = {{"budget", study_.budget},
                 {"pass_seconds", study_.pass_seconds},
                 {"stages", Json::array()}};
    for (const StudyStage& stage : study_.stages) {
      json["stages"].push_back({{"name", stage.name}, {"seconds", stage.seconds}});
    }
    write(kStudyPart, json_text(json));
    write(kEvidencePart, to_json(evidence));
  }

  std::function<void()> check() {
    return [this] { report(0, 1); };
  }

  void report(int64_t done, int64_t total) const {
    if (!options_.progress) return;
    const double spent = seconds_since(begin_);
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    double left = std::max(0., passes_of(budgets_, stage_) * study_.pass_seconds - spent);
    if (share > 0.05) left = spent / share - spent;
    double later = 0;
    const auto stage = std::ranges::find(budgets_, stage_, &StageBudget::name);
    for (auto at = stage; at != budgets_.end(); ++at) {
      if (at != stage) later += at->passes * study_.pass_seconds;
    }
    options_.progress({.stage = stage_,
                       .done = done,
                       .total = total,
                       .stage_seconds = left,
                       .seconds = left + later});
  }

  const Model& model_;
  StudyInput input_;
  const StudyOptions& options_;
  fs::path out_;
  Study study_;
  std::vector<StageBudget> budgets_;
  EvaluationSet held_out_;  // no examples: nothing is held out
  std::string held_out_source_, not_held_out_;
  double choosing_share_ = 1;  // a pass over the examples that choose heads, in passes
  HeldOutPasses held_out_passes_;
  bool continued_ = false;  // evidence of an earlier run was read
  std::string stage_;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

double Study::seconds() const {
  double sum = 0;
  for (const StudyStage& stage : stages) sum += stage.seconds;
  return sum;
}

double Study::passes() const { return seconds() / pass_seconds; }

void check_study(const Model& model, const StudyOptions& options, const fs::path& out) {
  if (out.empty() && options.resume) {
    throw Error({.what = "a study without a folder cannot be continued",
                 .expected = "the folder of the study that was stopped"});
  }
  const bool left = has_stopped_study(out);
  const char* const other =
      has_finished_study(out) ? "a study that is finished" : "a folder with other files";
  if (fs::exists(out) &&
      !(fs::is_directory(out) && (fs::is_empty(out) || (options.resume && left)))) {
    throw Error({.what = "the folder of a study must be new or empty",
                 .where = out.string(),
                 .got = left ? "a study that was stopped" : other,
                 .hint = left ? "continue it with --resume, or name another folder with -o"
                              : "name another folder with -o"});
  }
  if (!out.empty()) check_outside(model.folder(), out);
  check_form(model, options.form);
  // Throws if no plan can meet the budget: one that draws heads needs no evidence.
  plan(model, judge(no_evidence(model)), plan_options(options, HeadOrder::random));
}

std::optional<EvaluationSet> built_in_examples(const Model& model, bool held_out,
                                               const TextOptions& options) {
  // Neighbouring lines belong to one scene: single held-out lines would resemble lines that chose
  // heads.
  constexpr size_t kBlock = 8, kEvery = 13;  // about as many tokens as sample_text has
  std::vector<std::string> texts;
  const std::vector<std::string> lines = lines_of(longer_sample_text());
  for (size_t i = 0; i < lines.size(); ++i) {
    if ((i / kBlock % kEvery == 0) == held_out) texts.push_back(lines[i]);
  }
  TextOptions built_in = options;
  built_in.truncate = true;
  return text_data(model, texts, built_in).evaluation;
}

Study study(const Model& model, StudyInput input, const StudyOptions& options,
            const fs::path& out) {
  check_study(model, options, out);
  return StudyRun(model, std::move(input), options, out).run();
}

std::string report(const Study& study, const StudyOptions& options) {
  return report_page(report_data({{"evidence", to_json(study.evidence)},
                                  {"verdict", to_json(study.verdict)},
                                  {"plan", to_json(study.plan)},
                                  {"samples", study.samples},
                                  {"summary", to_json(study, options)}}));
}

}  // namespace headwise
