// headwise study: the whole pipeline on one model.
#include "headwise/study/study.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/text/lines.h"
#include "headwise/text/sample_text.h"
#include "observe_job.h"
#include "options.h"
#include "progress.h"
#include "screens.h"

namespace headwise::program {
namespace {

constexpr const char* kBuiltInText = "built-in text";

struct StudyArgs {
  ObserveArgs observe{};
  std::string keep{}, order{}, form = "compact", budget{};
  std::optional<double> passes{};
  bool thorough = false, resume = false, verbose = false;
};

/// "90s", "3m", "1.5h", or a number of seconds.
std::optional<double> parse_duration(std::string_view text) {
  double unit = 1;
  if (!text.empty()) {
    const std::string_view units = "smh";
    const double seconds[] = {1, 60, 3600};
    if (const size_t at = units.find(text.back()); at != std::string_view::npos) {
      unit = seconds[at];
      text.remove_suffix(1);
    }
  }
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || after != end || !(value > 0) ||
      !std::isfinite(value)) {
    return std::nullopt;
  }
  return unit * value;
}

CLI::Validator is_duration() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        return parse_duration(text) ? "" : fmt::format("{} is no time, such as 90s or 3m", text);
      },
      "");
}

StudyOptions study_options(const StudyArgs& args, const CommonOptions& common) {
  StudyOptions options{.passes = args.passes,
                       .thorough = args.thorough,
                       .resume = args.resume,
                       .form = prune_form(args.form),
                       .probes = !args.observe.no_probes,
                       .seed = common.seed,
                       .command = common.command};
  if (!args.budget.empty()) options.seconds = parse_duration(args.budget);
  if (!args.keep.empty()) options.keep = parse_share(args.keep);
  if (!args.order.empty()) options.order = head_order(args.order);
  return options;
}

/// Examples of the longer built-in text.
std::optional<EvaluationSet> longer_examples(const StudyArgs& args, const Session& session,
                                             const CommonOptions& common, bool held_out) {
  TextOptions options{.seed = common.seed,
                      .progress = [](int64_t, int64_t) { throw_if_interrupted(); }};
  if (!args.observe.loss.empty()) options.loss = loss_task(args.observe.loss);
  std::optional<EvaluationSet> set = built_in_examples(session.model(), held_out, options);
  if (set && args.observe.sample > 0) sample_examples(*set, args.observe.sample, common.seed);
  return set;
}

void run_study(StudyArgs args, const CommonOptions& common) {
  const auto begin = std::chrono::steady_clock::now();
  const bool built_in = !args.observe.input.has_input() && args.observe.treebank.empty();
  if (built_in) {
    args.observe.input.texts = lines_of(sample_text());
    args.observe.input.texts_name = kBuiltInText;
    args.observe.cuts_texts = true;
  }
  const Session session(args.observe.input);
  StudyOptions options = study_options(args, common);
  check_study(session.model(), options, common.out);
  StudyInput input{.data = read_observe_data(args.observe, session, common)};
  check_texts(args.observe, input.data);
  if (built_in && args.observe.data.empty() && input.data.evaluation) {
    input.held_out = longer_examples(args, session, common, true);
    input.held_out_source = kBuiltInHeldOut;
    if (args.passes || options.seconds) {
      input.more = longer_examples(args, session, common, false);
    }
  }
  input.load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  StatusLine line(common.quiet);
  options.started = [&](double passes, double seconds) {
    log_info(common, fmt::format("a study of {} heads: about {} ({:.0f} passes over {} texts)",
                                 session.model().heads(), duration(seconds), passes,
                                 input.data.evaluation ? input.data.evaluation->size()
                                                       : std::ssize(input.data.corpus.texts)));
    if (args.passes && passes > 1.1 * *args.passes) {
      log_info(common, fmt::format("--passes {:g} is less than statistics, probes, gradients, "
                                   "random sets and timing cost before any ablation",
                                   *args.passes));
    }
  };
  options.progress = [&](const StudyProgress& progress) {
    throw_if_interrupted();
    if (line.is_due()) line.show(to_text(progress));
  };
  Study result;
  try {
    result = study(session.model(), input, options, common.out);
  } catch (const Interrupted&) {
    line.clear();
    log_info(common, fmt::format("stopped; --resume continues it in {}", common.out));
    throw;
  }
  line.clear();
  if (common.json && !result.plan.supported) {
    const StudyWords words = in_words(result);
    log_info(common, fmt::format("warning: {} {}", words.support, words.help));
  }
  print_result(common.json ? to_json(result, options) : to_text(result, common.out, args.verbose));
}

void add_budget_options(CLI::App& command, StudyArgs& args) {
  Options declare(command);
  CLI::Option* const passes =
      declare.add("--passes", args.passes, "N",
                  "Budget in forward passes over the texts; default: 100, or 0.55 for each of "
                  "over 180 heads",
                  finite(1));
  CLI::Option* const budget =
      declare.add("--budget", args.budget, "TIME", "Budget as a time: 90s, 3m, 1h", is_duration());
  budget->excludes(passes);
  declare
      .flag("--thorough", args.thorough,
            "All examples for every head, 20 draws for every group, full curves, and "
            "ablation_mean; no budget")
      ->excludes(passes)
      ->excludes(budget);
  declare.resume(args.resume, "Continue a study that was stopped, with the same options");
  declare.flag("--verbose", args.verbose, "Print every table");
}

}  // namespace

void add_study(CLI::App& app, CommonOptions& common) {
  const auto args = std::make_shared<StudyArgs>();
  CLI::App& command = add_command(
      app, "study", "The whole pipeline: observe, judge, plan, prune, report",
      "-o DIR gets evidence.json, verdict.json, plan.json, summary.json, the pruned model, and\n"
      "report.html, which shows it all.\n"
      "Without texts, a built-in text and the built-in probes are used.\n\n"
      "Example:\n"
      "  headwise study ./minilm -o study\n"
      "  headwise study ./minilm --input reviews.txt --treebank en.conllu --keep 0.6 -o study\n"
      "  headwise study ./minilm --budget 5m -o study",
      common, [args, &common] {
        usage_error_if(common.out.empty(), "study: -o names the folder of its files");
        check_options(args->observe.input, false);
        if (!args->observe.input.gates.empty()) {
          usage_error(
              "--gate: a study is of the unchanged model; plans choose the heads to ablate");
        }
        run_study(*args, common);
      });
  ObserveArgs& observe = args->observe;
  add_inputs(command, observe.input, false);
  Options declare(command);
  declare.treebank(observe.treebank);
  declare.coreference(observe.coreference);
  declare.loss(observe.loss, "; default: as observe's");
  declare.data(observe.data, "What the loss is taken over", "; default: the texts");
  declare.sample(observe.sample, "texts and sentences, drawn by the seed");
  declare.no_probes(observe.no_probes);
  declare.keep(args->keep, "; default: 0.75, and no model where the data do not support it");
  declare.order(args->order);
  declare.form(args->form);
  add_budget_options(command, *args);
}

}  // namespace headwise::program
