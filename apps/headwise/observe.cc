// headwise observe: what every head was seen to do.
#include <fmt/format.h>

#include <memory>

#include "headwise/core/error.h"
#include "headwise/io/output_file.h"
#include "observe_job.h"
#include "options.h"
#include "screens.h"

namespace headwise::program {
namespace {

void check_append(const ObserveArgs& args, const CommonOptions& common) {
  if (!args.append) return;
  usage_error_if(common.out.empty(), "--append: -o names the evidence to be added to");
  usage_error_if(args.resume, "give one of --append and --resume");
  usage_error_if(args.verdict.empty() && args.groups.empty() && !args.ablates("layers"),
                 "--append: give --verdict, --group or --ablate layers");
  usage_error_if(args.ablates("pairs"), "--append adds groups, no pairs");
  usage_error_if(args.adaptive || !args.coreference.empty(),
                 "--append adds groups: --adaptive and --coref are of observations");
  usage_error_if(
      !args.treebank.empty() && (args.input.has_input() || !args.data.empty()),
      "--append --treebank: for a loss that was taken over its sentences, and nothing else");
}

void observe_model(const ObserveArgs& args, const CommonOptions& common) {
  check_options(args.input, false);
  check_append(args, common);
  if (!args.alignment.empty() &&
      (!args.input.ids.empty() || !args.input.pairs.empty() ||
       (args.input.decoder_texts.empty() && args.input.reference.empty()))) {
    usage_error("--alignment: give texts, and their translations by --reference or --decoder-text");
  }
  usage_error_if(args.adaptive && *args.adaptive == 0, "--adaptive: a tolerance above 0");
  usage_error_if(args.resume && common.out.empty(), "--resume: -o names the file to be continued");
  Session session(args.input);
  if (args.append) session.refuse_means("does not go with --append, which measures importance");
  if (session.config().encoder_decoder() && !args.input.has_decoder()) {
    session.refuse_means("needs texts for the decoder: --reference or --decoder-text");
  }
  const ObserveData data = read_observe_data(args, session, common);
  check_texts(args, data);
  session.measure_means(data.corpus);
  const Evidence evidence = args.append ? append_and_write(args, session, data, common)
                                        : observe_and_write(args, session, data, common);
  if (!args.csv.empty()) write_file_whole(args.csv, to_csv(evidence));
  print_result(common.json ? to_json(evidence) : to_text(evidence));
  if (!common.out.empty()) log_info(common, fmt::format("{} has every number", common.out));
}

/// The groups, each with what it holds, in lines of at most 90 characters.
std::string measures_text() {
  constexpr size_t kWidth = 90;
  std::string text;
  for (const MeasureGroup& group : measure_groups()) {
    std::string line = fmt::format("  {:<12}{}:", group.name, group.meaning);
    for (const std::string_view measure : group.measures) {
      const std::string word =
          fmt::format(" {}{}", measure, measure == group.measures.back() ? "" : ",");
      if (line.size() + word.size() > kWidth) {
        text += line + '\n';
        line = std::string(13, ' ');
      }
      line += word;
    }
    text += line + '\n';
  }
  return text;
}

CLI::Validator is_measure() {
  const auto check = [](const std::string& name) -> std::string {
    try {
      (void)MeasureSelection({name});
      return "";
    } catch (const Error& error) {
      const ErrorDetail& detail = error.detail();
      return fmt::format("there is no measure {}{}; there are: {}", name,
                         detail.hint.empty() ? "" : ": " + detail.hint, detail.expected);
    }
  };
  return CLI::Validator(check, "");
}

}  // namespace

void add_observe(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<ObserveArgs>();
  CLI::App& command = add_command(
      app, "observe", "What every head was seen to do, in numbers",
      fmt::format(
          "Texts show what heads attend to, a treebank which relations they find. Without any,\n"
          "the built-in probes are used. -o FILE gets the evidence as JSON: see "
          "docs/formats.md.\n\n"
          "Measures:\n{}\n"
          "Example:\n"
          "  headwise observe ./minilm --input reviews.txt --treebank en.conllu -o evidence.json\n"
          "  headwise observe ./minilm --input reviews.txt --measure entropy,js --csv heads.csv",
          measures_text()),
      common, [options, &common] { observe_model(*options, common); });
  add_inputs(command, options->input, false);
  Options declare(command);
  declare.treebank(options->treebank);
  declare.coreference(options->coreference);
  declare.add("--alignment", options->alignment, "FILE",
              "Encoder-decoders: which words of texts and --reference belong together, a line "
              "per pair: 0-0 1-2 …");
  declare.commas("--measure", options->measure,
                 "Groups or single measures, which are listed below, with commas between; default: "
                 "all that the data allow",
                 is_measure());
  Options matter(command, "How much heads matter");
  matter.loss(options->loss,
              "; default: lm of causal models, mlm of models with such an output, else fidelity, "
              "which needs no labels");
  matter.data(options->data, "What the loss is taken over", "; default: the texts");
  matter.add("--positions", options->positions, "SHARE",
             "Take the loss at this share of the tokens, drawn by the seed", between(1e-6, 1));
  matter.add("--adaptive", options->adaptive, "TOLERANCE",
             "Spend no more examples on a head than its standing at this tolerance needs",
             finite(0));
  matter.commas("--ablate", options->ablate,
                "Ablate also pairs of heads of a layer (of any with --pairs all), or whole layers: "
                "pairs, layers",
                is_one_of({"pairs", "layers"}));
  matter.list("--group", options->groups, "NAME=HEADS",
              "Ablate these heads together: early=L0,L1.H2; may be repeated");
  matter.verdict(options->verdict, "Ablate all heads of each role of a verdict together");
  matter.flag("--append", options->append,
              "Add groups to the evidence of -o, and measure nothing else again");
  declare.add("--only", options->only, "LIST", "Only these heads: L3, L4.H2; default: all");
  declare.add("--pairs", options->pairs, "P",
              "Compare heads of one layer, or all of one kind of attention: layer or all",
              is_one_of({"layer", "all"}));
  declare.sample(options->sample, "texts and sentences, drawn by the seed");
  declare.no_probes(options->no_probes);
  declare.lexicon(options->lexicon);
  declare.resume(options->resume, "Go on after the last finished part");
  declare.add(
      "--csv", options->csv, "FILE",
      "Write a table, too: a row per head, a column per number, for spreadsheets and pandas");
}

}  // namespace headwise::program
