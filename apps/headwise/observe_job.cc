// Reads what heads are measured on, measures, and keeps what is done.
#include "observe_job.h"

#include <fmt/format.h>

#include <filesystem>
#include <iterator>
#include <span>

#include "corpus.h"
#include "headwise/core/error.h"
#include "headwise/io/tensor_file.h"
#include "io/file.h"
#include "io/file_hash.h"
#include "io/sha256.h"
#include "observe/loss_batch.h"
#include "observe_groups.h"
#include "progress.h"
#include "stage_files.h"

namespace headwise::program {
namespace {

std::string hash_of(std::span<const std::filesystem::path> files) {
  return sha256_of_files(files, throw_if_interrupted);
}

std::string hash_of(const ObservedCorpus& corpus) {
  Sha256 sha;
  for (const ObservedText& text : corpus.texts) {
    const uint64_t sizes[] = {text.ids.size(), text.types.size(), text.decoder_ids.size()};
    sha.add(std::as_bytes(std::span(sizes)));
    sha.add(std::as_bytes(std::span(text.ids)));
    sha.add(std::as_bytes(std::span(text.types)));
    sha.add(std::as_bytes(std::span(text.decoder_ids)));
  }
  return sha.finish();
}

void read_texts(const ObserveArgs& args, const Session& session, const CommonOptions& common,
                ObserveData& data) {
  if (args.input.has_input()) {
    InputOptions input = args.input;
    input.truncate = input.truncate || args.cuts_texts;
    data.corpus = read_corpus(input, session, common, {args.alignment, args.sample});
  }
  if (!args.treebank.empty()) data.treebank = read_conllu(args.treebank);
  if (!args.coreference.empty()) {
    const std::string& file = args.coreference;
    const bool entities = file.ends_with(".conllu") || file.ends_with(".conllu.gz");
    data.coreference = entities ? read_entities(args.coreference) : read_gap(args.coreference);
  }
  const auto cut = [&](auto& items) {
    if (args.sample > 0 && std::ssize(items) > args.sample) items.resize(args.sample);
  };
  cut(data.treebank);
  cut(data.coreference);
  if (data.corpus.texts.empty() && session.tokenizer() != nullptr) {
    // What heads attend to can be seen in any text.
    data.corpus.name = args.treebank;
    for (const TreeSentence& tree : data.treebank) {
      data.corpus.texts.push_back(
          observed_text(session.model(), *session.tokenizer(), tree.text, tree.id));
    }
  }
}

/// What shows how much heads matter: --data, or the texts that were given.
std::optional<EvaluationSet> read_loss(const ObserveArgs& args, const Session& session,
                                       const ObservedCorpus& corpus, const CommonOptions& common) {
  const ModelConfig& config = session.config();
  const LossTask task = args.loss.empty() ? default_task(config) : loss_task(args.loss);
  if (!args.loss.empty()) check_output(task, config);
  std::optional<EvaluationSet> set;
  if (!args.data.empty()) {
    set = read_examples("--data", args.data, task, args.input.truncate, session);
  } else if (!corpus.texts.empty()) {
    TokenBatch source, target;
    for (const ObservedText& text : corpus.texts) {
      source.add(text.ids, text.types);
      if (!text.decoder_ids.empty()) target.add(text.decoder_ids);
    }
    const bool hides = session.tokenizer() != nullptr && session.tokenizer()->special_tokens().mask;
    if (task == LossTask::lm) {
      set = next_tokens(source);
    } else if (task == LossTask::mlm && hides) {
      set = hidden_tokens(source, masking_of(*session.tokenizer(), config));
    } else if (task == LossTask::fidelity) {
      set = unlabelled(source, target);
    } else if (!args.loss.empty()) {
      usage_error(fmt::format("--loss {}: --data names the file with what is wanted", args.loss));
    }
  } else if (!args.loss.empty()) {
    usage_error("--loss: give texts, or --data");
  }
  if (!set) return set;
  const bool asked = !args.loss.empty() || !args.data.empty();
  if (!asked && task != LossTask::fidelity && set->examples.all.scored() == 0) return std::nullopt;
  if (args.sample > 0) sample_examples(*set, args.sample, common.seed);
  if (args.positions) sample_positions(*set, *args.positions, common.seed);
  return set;
}

/// What an interrupted run left, if it was the same one.
std::optional<Evidence> left_over(const std::string& file, const Evidence& fresh) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  Evidence left = read_evidence(file);
  check_continues(left, fresh, file);
  return left;
}

ImportanceOptions importance_options(const ObserveArgs& args, const Session& session,
                                     const Evidence& fresh) {
  ImportanceOptions options{.adaptive_tolerance = args.adaptive,
                            .groups = named_groups(args.groups, session.model()),
                            .layers = args.ablates("layers")};
  if (args.ablates("pairs")) {
    options.pairs =
        args.pairs == "all" ? ImportanceOptions::Pairs::all : ImportanceOptions::Pairs::attention;
  }
  if (!args.verdict.empty()) {
    std::ranges::copy(groups_of_verdict(args.verdict, session.model(), fresh.model),
                      std::back_inserter(options.groups));
  }
  return options;
}

}  // namespace

std::string hash_of_weights(const std::filesystem::path& folder) {
  return hash_of(TensorFiles::open(folder).files());
}

Evidence identify(const ObserveArgs& args, const Session& session, const ObserveData& data,
                  const CommonOptions& common) {
  Evidence evidence = no_evidence(session.model());
  evidence.model = {.name = session.model().name(),
                    .architecture = session.config().architecture.empty()
                                        ? session.config().model_type
                                        : session.config().architecture,
                    .sha256 = session.model().hash(throw_if_interrupted)};
  if (!data.corpus.texts.empty()) {
    evidence.corpora["text"] = {.name = data.corpus.name,
                                .sha256 = hash_of(data.corpus),
                                .texts = std::ssize(data.corpus.texts),
                                .tokens = data.corpus.tokens()};
  }
  const auto add_file = [&](const char* kind, const std::string& file, int64_t items) {
    if (file.empty()) return;
    const std::filesystem::path path = file;
    evidence.corpora[kind] = {.name = file, .sha256 = hash_of(std::span(&path, 1)), .texts = items};
  };
  add_file("treebank", args.treebank, std::ssize(data.treebank));
  add_file("coreference", args.coreference, std::ssize(data.coreference));
  add_file("alignment", args.alignment, std::ssize(data.corpus.texts));
  if (!args.data.empty()) {
    const Files files(args.data.begin(), args.data.end());
    evidence.corpora["data"] = {.name = fmt::format("{}", fmt::join(args.data, " ")),
                                .sha256 = hash_of(files),
                                .texts = data.evaluation ? data.evaluation->size() : 0};
  }
  add_file("verdict", args.verdict, 0);
  add_file("lexicon", args.no_probes ? "" : args.lexicon, 0);
  evidence.options = {{"seed", std::to_string(common.seed)},
                      {"pairs", args.pairs},
                      {"sample", std::to_string(args.sample)},
                      {"measure", fmt::format("{}", fmt::join(args.measure, ","))},
                      {"only", args.only},
                      {"loss", args.loss},
                      {"ablate", fmt::format("{}", fmt::join(args.ablate, ","))},
                      {"groups", fmt::format("{}", fmt::join(args.groups, ";"))},
                      {"adaptive", args.adaptive ? fmt::format("{}", *args.adaptive) : ""},
                      {"positions", args.positions ? fmt::format("{}", *args.positions) : ""},
                      {"truncate", args.input.truncate ? "yes" : "no"},
                      {"probes", args.no_probes ? "no" : "yes"},
                      {"gates", fmt::format("{}", fmt::join(args.input.gates, ","))}};
  return evidence;
}

ObserveData read_observe_data(const ObserveArgs& args, const Session& session,
                              const CommonOptions& common) {
  ObserveData data;
  read_texts(args, session, common, data);
  if (args.measures().has_group("importance") || args.append) {
    data.evaluation = read_loss(args, session, data.corpus, common);
    data.folder = session.model().folder();
  }
  if (!data.evaluation && !args.append) {
    const auto refuse = [](bool given, const char* option) {
      if (given)
        usage_error(
            fmt::format("{}: a loss is needed: give texts, or --data, and leave importance "
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
  Evidence so_far = identify(args, session, data, common);
  ObserveOptions options{.measures = args.measures(),
                         .probes = !args.no_probes,
                         .all_pairs = args.pairs == "all",
                         .gates = session.gates(),
                         .replaced = session.replaced(),
                         .seed = common.seed,
                         .importance = importance_options(args, session, so_far)};
  if (!args.lexicon.empty()) options.lexicon = ProbeLexicon::read(args.lexicon);
  if (!args.only.empty()) options.only = session.model().find_heads(args.only);
  const std::string part_file = common.out + ".part";
  if (args.resume) {
    if (std::optional<Evidence> left = left_over(part_file, so_far)) so_far = std::move(*left);
  }
  std::optional<PartProgress> progress(common.quiet);
  options.progress = [&](const std::string& part, int64_t done, int64_t total) {
    progress->advance(part, done, total);
  };
  if (!common.out.empty()) {
    options.saved = [&](const Evidence& evidence) {
      write_file_whole(part_file, to_json(evidence));
    };
  }
  const Evidence evidence = observe(session.model(), session.tokenizer(), data, options, so_far);
  progress.reset();
  if (!common.out.empty()) {
    write_file_whole(common.out, to_json(evidence));
    std::filesystem::remove(part_file);
  }
  return evidence;
}

Evidence append_and_write(const ObserveArgs& args, const Session& session, const ObserveData& data,
                          const CommonOptions& common) {
  const Evidence fresh = identify(args, session, data, common);
  Evidence evidence = read_evidence(common.out);
  check_appendable(evidence, fresh, common.out);
  if (!data.evaluation)
    usage_error("--append: give the texts, or --data, that the loss was taken over");
  ImportanceOptions options = importance_options(args, session, fresh);
  options.gates = session.gates();
  options.seed = common.seed;
  for (const HeadIndex& head :
       args.only.empty() ? std::vector<HeadIndex>() : session.model().find_heads(args.only)) {
    options.heads.push_back(session.model().attentions()[head.site].first + head.index);
  }
  {
    PartProgress progress(common.quiet);
    options.progress = [&](std::string_view part, int64_t done, int64_t total) {
      progress.advance(part, done, total);
    };
    append_groups(session.model(), session.model().folder(), *data.evaluation, options, evidence);
  }
  for (const auto& [kind, corpus] : fresh.corpora) {
    if (kind == "verdict") evidence.corpora[kind] = corpus;
  }
  for (const char* option : {"groups", "ablate"}) {
    std::string& asked = evidence.options[option];
    const std::string& more = fresh.options.at(option);
    if (!more.empty()) asked += (asked.empty() ? "" : ";") + more;
  }
  write_file_whole(common.out, to_json(evidence));
  return evidence;
}

}  // namespace headwise::program
