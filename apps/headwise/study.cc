// headwise study: the whole way, from a model to what its heads do and a smaller one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/judge/judge.h"
#include "headwise/kernels/simd.h"
#include "headwise/plan/make_plan.h"
#include "headwise/report/report.h"
#include "headwise/text/sample_text.h"
#include "heat_map.h"
#include "io/file.h"
#include "judge_screen.h"
#include "observe_verb.h"
#include "plan_screen.h"
#include "progress.h"
#include "prune/pruned_folder.h"
#include "prune_verb.h"

namespace headwise::program {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct StudyVerb {
  ObserveVerb observe{};
  std::string keep = "0.75", order = "ablation", form = "compact";
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32] = "";
  if (const std::tm* utc = std::gmtime(&now)) std::strftime(text, sizeof text, "%Y-%m-%d", utc);
  return text;
}

/// A folder of its own: nothing is overwritten. It is made when all that can be checked was.
fs::path free_folder(const std::string& name) {
  const fs::path folder = name;
  if (fs::exists(folder) && !(fs::is_directory(folder) && fs::is_empty(folder))) {
    throw Error({.what = "the folder of a study must be new or empty",
                 .where = name,
                 .expected = "a folder that is not there yet",
                 .hint = "-o names another one"});
  }
  return folder;
}

/// One stage after the other; each leaves its file in the folder.
class Study {
 public:
  Study(const StudyVerb& verb, const CommonOptions& common)
      : verb_(verb), common_(common), folder_(free_folder(common.out)), session_(input_of(verb_)) {
    check_outside(session_.folder(), folder_);
    check_form(session_.model(), session_.folder(), prune_form(verb_.form), session_.load());
    check_budget();
  }

  void run() {
    begin("observe", "what every head was seen to do");
    const ObserveData data = read_observe_data(verb_.observe, session_, common_);
    check_texts(verb_.observe, data);
    make_folder(folder_);
    const Evidence evidence =
        observe_and_write(verb_.observe, session_, data, out("evidence.json"));
    begin("judge", "what that means");
    write_verdict(evidence);
    if (data.evaluation && !verdict_.categories.empty()) {
      begin("observe", "all heads of a role closed together");
      ObserveVerb groups = verb_.observe;
      groups.append = true;
      groups.verdict = (folder_ / "verdict.json").string();
      write_verdict(append_and_write(groups, session_, data, out("evidence.json")));
    }
    begin("plan", "which heads can go");
    make_plan(data);
    begin("prune", "a model without them");
    cut(data);
    write_file_whole(folder_ / "samples.json",
                     sample_maps(session_.model(), session_.tokenizer(), data.corpus));
    seconds_ = std::chrono::duration<double>(Clock::now() - start_).count();
    const std::string summary = summarise().dump(2) + "\n";
    write_file_whole(folder_ / "summary.json", summary);
    write_file_whole(folder_ / "report.html", report_page(report_data(folder_)));
    CommonOptions screen = common_;
    screen.out.clear();
    deliver(screen, common_.json ? summary : for_people());
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// The sample text, where nothing else is given.
  static const InputOptions& input_of(StudyVerb& verb) {
    ObserveVerb& observe = verb.observe;
    if (!observe.input.has_input() && observe.treebank.empty()) {
      observe.input.texts = lines_of(sample_text());
      observe.cuts_texts = true;
    }
    return observe.input;
  }

  CommonOptions out(const char* file) const {
    CommonOptions options = common_;
    options.out = (folder_ / file).string();
    return options;
  }

  void begin(const char* stage, const char* what) {
    note(common_, fmt::format("{}: {}", stage, what));
  }

  void write_verdict(const Evidence& evidence) {
    verdict_ = judge(evidence);
    write_file_whole(folder_ / "verdict.json", to_json(verdict_));
  }

  PlanOptions plan_options(HeadOrder order) const {
    PlanOptions options{.keep = parse_share(verb_.keep), .order = order, .seed = common_.seed};
    options.uniform = verb_.form == "uniform";
    return options;
  }

  /// Throws Error if no plan can meet the budget: one that draws heads needs no evidence.
  void check_budget() const {
    plan(judge(no_evidence(session_.model())), plan_options(HeadOrder::random),
         {.folder = session_.folder()});
  }

  void make_plan(const ObserveData& data) {
    PlanOptions options = plan_options(head_order(verb_.order));
    PlanData measured{
        .folder = session_.folder(), .model = &session_.model(), .tokenizer = session_.tokenizer()};
    if (data.evaluation) {
      measured.evaluation = &*data.evaluation;
      options.curves = {options.order};
    }
    PartProgress progress(common_.quiet);
    measured.progress = [&](std::string_view step, int64_t done, int64_t total) {
      progress.advance(step, done, total);
    };
    plan_ = plan(verdict_, options, measured);
    write_file_whole(folder_ / "plan.json", to_json(plan_));
  }

  void cut(const ObserveData& data) {
    PruneWork work{.drop = plan_.drop,
                   .how = {.form = prune_form(verb_.form), .seed = common_.seed},
                   .quality = data.evaluation};
    work.how.load.allow_nonfinite = verb_.observe.input.allow_nonfinite;
    const bool two = session_.config().encoder_decoder();
    for (const ObservedText& text : data.corpus.texts) {
      if (two && text.decoder_ids.empty()) continue;  // of a treebank
      work.how.source.add(text.ids, text.types);
      if (two) work.how.target.add(text.decoder_ids);
    }
    work.how.progress = [](std::string_view) { throw_if_interrupted(); };
    outcome_ = prune_and_measure(work, session_, (folder_ / "model").string(), common_.quiet);
  }

  Json summarise() const {
    std::map<std::string, int64_t> roles, standings;
    for (const HeadVerdict& head : verdict_.heads) {
      std::set<std::string> own;  // a head may know several relations
      for (const Role& role : head.roles) own.insert(role.role);
      for (const std::string& role : own) ++roles[role];
      if (head.standing) ++standings[std::string(to_string(*head.standing))];
    }
    return {{"schema", 1},
            {"model", verdict_.model.name},
            {"architecture", verdict_.model.architecture},
            {"sha256", verdict_.model.sha256},
            {"heads", verdict_.heads.size()},
            {"roles", roles},
            {"standings", standings},
            {"clusters", verdict_.clusters},
            {"dropped", plan_.drop},
            {"prune", Json::parse(to_json(outcome_))},
            {"seconds", seconds_},
            {"made",
             {{"command", common_.command},
              {"version", HEADWISE_VERSION},
              {"seed", common_.seed},
              {"threads", threads()},
              {"simd", simd_target()},
              {"date", today()}}}};
  }

  std::string for_people() const {
    const auto title = [](const char* words) { return fmt::format("\n== {}\n\n", words); };
    return program::for_people(verdict_, choose_color("auto"), terminal_width()) +
           title("What can go") + program::for_people(plan_) + title("What came of it") +
           program::for_people(outcome_) +
           "\nThe loss is of the texts that the heads were chosen by: on others it may rise more.\n"
           "headwise prune --data FILE measures it on others\n" +
           fmt::format(
               "\n{} has evidence.json, verdict.json, plan.json, summary.json and model/ ({})\n"
               "headwise judge {} --explain all says a sentence about every head\n"
               "\n{} shows all of it, in any browser\n",
               folder_.string(), duration(seconds_), (folder_ / "evidence.json").string(),
               (folder_ / "report.html").string());
  }

  StudyVerb verb_;
  const CommonOptions& common_;
  fs::path folder_;
  Session session_;
  Verdict verdict_;
  Plan plan_;
  PruneOutcome outcome_;
  Clock::time_point start_ = Clock::now();
  double seconds_ = 0;
};

}  // namespace

void add_study(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<StudyVerb>();
  CLI::App& verb = add_verb(
      app, "study", "The whole way: observe, judge, plan, prune, report",
      "-o DIR gets evidence.json, verdict.json, plan.json, summary.json, the pruned model, and\n"
      "report.html, which shows it all.\n"
      "Without texts, a text that comes with the program and its probes are used.\n\n"
      "Example:\n"
      "  headwise study ./minilm -o study\n"
      "  headwise study ./minilm --input reviews.txt --treebank en.conllu --keep 0.6 -o study",
      common, [options, &common] {
        if (common.out.empty()) misuse("study: -o names the folder of its files");
        check_options(options->observe.input, false);
        if (!options->observe.input.gates.empty()) {
          misuse("--gate: a study is of the model as it is; plans close heads");
        }
        Study(*options, common).run();
      });
  ObserveVerb& observe = options->observe;
  add_inputs(verb, observe.input, false);
  verb.add_option("--treebank", observe.treebank, "Universal Dependencies: a CoNLL-U file")
      ->type_name("FILE");
  verb.add_option("--coref", observe.coreference,
                  "Pronouns and names: GAP's tab-separated file, or CoNLL-U with Entity=")
      ->type_name("FILE");
  verb.add_option("--loss", observe.loss,
                  "lm, mlm, classify, translate, similarity or fidelity; default: as observe's")
      ->check(is_loss())
      ->type_name("TASK");
  add_list(verb, "--data", observe.data, "What the loss is taken over; default: the texts")
      ->type_name("FILE");
  verb.add_option("--sample", observe.sample, "At most so many texts and sentences")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40).description(""))
      ->type_name("N");
  verb.add_flag("--no-probes", observe.no_probes, "Leave the built-in probes out");
  verb.add_option("--keep", options->keep,
                  "This share of the heads stays: 0.6 or 60%; default: 0.75")
      ->check(is_share())
      ->type_name("SHARE");
  verb.add_option("--order", options->order,
                  "Which heads go first: gradient, ablation (default), entropy, random, "
                  "twins-first or greedy")
      ->check(is_order())
      ->type_name("ORDER");
  verb.add_option("--form", options->form, "masked, compact (default) or uniform")
      ->check(is_form())
      ->type_name("FORM");
}

}  // namespace headwise::program
