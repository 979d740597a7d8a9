// Reads what heads are measured on, measures, and keeps what is done.
#include "observe_job.h"

#include <fmt/format.h>

#include <filesystem>
#include <iterator>
#include <span>

#include "corpus.h"
#include "headwise/core/error.h"
#include "headwise/io/output_file.h"
#include "headwise/judge/category_groups.h"
#include "headwise/judge/verdict.h"
#include "headwise/observe/text_data.h"
#include "progress.h"

namespace headwise::program {
namespace {

void read_texts(const ObserveArgs& args, const Session& session, const CommonOptions& common,
                ObserveData& data) {
  if (args.input.has_input()) {
    InputOptions input = args.input;
    input.truncate = input.truncate || args.cuts_texts;
    data.corpus = read_corpus(input, session, common, {args.alignment, args.sample});
  }
  if (!args.treebank.empty()) data.treebank = read_conllu(args.treebank);
  if (!args.coreference.empty()) data.coreference = read_coreference(args.coreference);
  keep_sample(data.treebank, args.sample, common.seed);
  keep_sample(data.coreference, args.sample, common.seed);
  if (data.corpus.texts.empty() && session.tokenizer() != nullptr) {
    data.corpus = corpus_of(session.model(), data.treebank, args.treebank);
  }
}

/// What shows how much heads matter: --data, or the texts that were given.
std::optional<EvaluationSet> read_loss(const ObserveArgs& args, const Session& session,
                                       const ObservedCorpus& corpus, const CommonOptions& common) {
  std::optional<LossTask> loss;
  if (!args.loss.empty()) loss = loss_task(args.loss);
  std::optional<EvaluationSet> set;
  if (!args.data.empty()) {
    const LossTask task = loss.value_or(default_task(session.config()));
    set = read_examples("--data", args.data, task, args.input.truncate, session);
  } else {
    set = evaluation_of(session.model(), corpus, loss);
    usage_error_if(
        loss && !set,
        corpus.texts.empty()
            ? "--loss: give texts, or --data"
            : fmt::format("--loss {}: --data names the file with what is wanted", args.loss));
  }
  if (!set) return set;
  if (args.sample > 0) sample_examples(*set, args.sample, common.seed);
  if (args.positions) sample_positions(*set, *args.positions, common.seed);
  return set;
}

/// The files that the data are from, and how they were made.
void name_files(const ObserveArgs& args, ObserveData& data) {
  const auto add = [&](const char* kind, const std::string& file, int64_t items) {
    if (!file.empty()) data.files[kind] = identity_of_files({file}, items, throw_if_interrupted);
  };
  add("treebank", args.treebank, std::ssize(data.treebank));
  add("coreference", args.coreference, std::ssize(data.coreference));
  add("alignment", args.alignment, std::ssize(data.corpus.texts));
  if (!args.data.empty()) {
    data.files["data"] =
        identity_of_files({args.data.begin(), args.data.end()},
                          data.evaluation ? data.evaluation->size() : 0, throw_if_interrupted);
  }
  add("verdict", args.verdict, 0);
  add("lexicon", args.no_probes ? "" : args.lexicon, 0);
  data.options = {{"sample", std::to_string(args.sample)},
                  {"positions", args.positions ? fmt::format("{}", *args.positions) : ""},
                  {"truncate", args.input.truncate ? "yes" : "no"}};
}

/// NAME=HEADS or HEADS, of the model. Names of attentions and roles are refused.
std::vector<NamedHeads> named_groups(const std::vector<std::string>& groups, const Model& model) {
  std::vector<NamedHeads> named;
  for (const std::string& group : groups) {
    const size_t equals = std::min(group.find('='), group.size());
    const std::string name = group.substr(0, equals);
    usage_error_if(name.empty() || std::ranges::find(named, name, &NamedHeads::name) != named.end(),
                   fmt::format("--group {}: expected NAME=HEADS, each name once", group));
    if (name.starts_with("role:") ||
        std::ranges::find(model.attentions(), name, &AttentionSite::name) !=
            model.attentions().end()) {
      usage_error(fmt::format(
          "--group {}: --ablate layers and --verdict give such names; choose another: mine=HEADS",
          group));
    }
    NamedHeads& to = named.emplace_back(NamedHeads{.name = name});
    const bool has_name = equals < group.size();
    for (const HeadIndex& head : model.find_heads(has_name ? group.substr(equals + 1) : name)) {
      to.heads.push_back(model.attentions()[head.site].first + head.index);
    }
  }
  return named;
}

/// The categories of a verdict. Throws Error if it is about another model.
std::vector<NamedHeads> groups_of_verdict(const std::string& file, const Model& model) {
  const Verdict verdict = read_verdict(file);
  check_fits(verdict, model, file, throw_if_interrupted);
  return category_groups(verdict, model);
}

ImportanceOptions importance_options(const ObserveArgs& args, const Session& session) {
  ImportanceOptions options{.adaptive_tolerance = args.adaptive,
                            .groups = named_groups(args.groups, session.model()),
                            .layers = args.ablates("layers")};
  if (args.ablates("pairs")) {
    options.pairs =
        args.pairs == "all" ? ImportanceOptions::Pairs::all : ImportanceOptions::Pairs::attention;
  }
  if (!args.verdict.empty()) {
    std::ranges::copy(groups_of_verdict(args.verdict, session.model()),
                      std::back_inserter(options.groups));
  }
  return options;
}

ObserveOptions observe_options(const ObserveArgs& args, const Session& session,
                               const CommonOptions& common) {
  ObserveOptions options{.measures = args.measures(),
                         .probes = !args.no_probes,
                         .all_pairs = args.pairs == "all",
                         .gates = session.gates().values(),
                         .replaced = session.gates().replaced(),
                         .seed = common.seed,
                         .importance = importance_options(args, session)};
  if (!args.lexicon.empty()) options.lexicon = ProbeLexicon::read(args.lexicon);
  if (!args.only.empty()) options.only = session.model().find_heads(args.only);
  return options;
}

}  // namespace

ObserveData read_observe_data(const ObserveArgs& args, const Session& session,
                              const CommonOptions& common) {
  ObserveData data;
  read_texts(args, session, common, data);
  if (args.measures().has_group("importance") || args.append) {
    data.evaluation = read_loss(args, session, data.corpus, common);
  }
  if (!data.evaluation && !args.append) {
    const auto refuse = [](bool given, const char* option) {
      usage_error_if(
          given, fmt::format("{}: a loss is needed: give texts, or --data, and leave importance "
                             "in --measure",
                             option));
    };
    refuse(!args.groups.empty(), "--group");
    refuse(!args.verdict.empty(), "--verdict");
    refuse(!args.ablate.empty(), "--ablate");
    refuse(args.adaptive.has_value(), "--adaptive");
    refuse(args.positions.has_value(), "--positions");
    refuse(!args.data.empty(), "--data");
    refuse(!args.loss.empty(), "--loss");
    for (const std::string& name : args.measure) {
      refuse(MeasureSelection({name}).has_group("importance"),
             fmt::format("--measure {}", name).c_str());
    }
  }
  name_files(args, data);
  return data;
}

void check_texts(const ObserveArgs& args, const ObserveData& data) {
  if (args.input.has_input() && data.corpus.texts.empty()) {
    throw Error({.what = "there is no text to observe",
                 .where = args.input.file.empty() ? "--text, --ids" : args.input.file,
                 .expected = "at least one that is not empty"});
  }
  const bool labelled = !args.treebank.empty() || !args.coreference.empty();
  if (!args.input.has_input() && !labelled && args.no_probes && args.data.empty()) {
    usage_error("observe: there is nothing to look at; give texts, or leave the probes in");
  }
}

Evidence observe_and_write(const ObserveArgs& args, const Session& session, const ObserveData& data,
                           const CommonOptions& common) {
  ObserveOptions options = observe_options(args, session, common);
  options.out = common.out;
  options.resume = args.resume;
  Progress progress(common.quiet);
  options.progress = [&](const std::string& part, int64_t done, int64_t total) {
    progress.advance(part, done, total);
  };
  return observe(session.model(), data, options);
}

Evidence append_and_write(const ObserveArgs& args, const Session& session, const ObserveData& data,
                          const CommonOptions& common) {
  Evidence evidence = read_evidence(common.out);
  ObserveOptions options = observe_options(args, session, common);
  Progress progress(common.quiet);
  options.progress = [&](const std::string& part, int64_t done, int64_t total) {
    progress.advance(part, done, total);
  };
  append_groups(session.model(), data, options, evidence, common.out);
  write_file_whole(common.out, to_json(evidence));
  return evidence;
}

}  // namespace headwise::program
