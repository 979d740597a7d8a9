// headwise observe: what every head was seen to do.
#include "headwise/observe/observe.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "headwise/core/error.h"
#include "headwise/io/tensor_file.h"
#include "inputs.h"
#include "io/file.h"
#include "io/sha256.h"
#include "observe_screen.h"
#include "progress.h"

namespace headwise::program {
namespace {

struct ObserveVerb {
  InputOptions input{};
  std::string treebank{}, coreference{};
  std::vector<std::string> measure{};
  std::string only{}, pairs = "layer";
  int64_t sample = 0;
  std::string lexicon{};
  bool no_probes = false, resume = false;

  bool wants(const std::string& part) const {
    return measure.empty() || std::ranges::find(measure, part) != measure.end();
  }
};

constexpr int64_t kMostEvidence = int64_t{1} << 30;  // bytes of a file

std::string hash_of(std::span<const std::filesystem::path> files) {
  Sha256 sha;
  for (const std::filesystem::path& file : files) {
    sha.add(MappedFile(file).bytes());
    throw_if_interrupted();
  }
  return sha.finish();
}

std::string hash_of(const ObservedCorpus& corpus) {
  Sha256 sha;
  for (const ObservedText& text : corpus.texts) {
    const auto size = static_cast<uint64_t>(text.ids.size());
    sha.add(std::as_bytes(std::span(&size, 1)));
    sha.add(std::as_bytes(std::span(text.ids)));
    sha.add(std::as_bytes(std::span(text.decoder_ids)));
  }
  return sha.finish();
}

ObservedCorpus read_corpus(const ObserveVerb& verb, const Session& session,
                           const CommonOptions& common) {
  ObservedCorpus corpus{.name = verb.input.file.empty() ? "command line" : verb.input.file};
  if (verb.input.file == "-") corpus.name = "standard input";
  std::vector<Input> inputs = read_inputs(verb.input, session, {.start_decoder = true});
  if (verb.sample > 0 && std::ssize(inputs) > verb.sample) inputs.resize(verb.sample);
  Progress progress(std::ssize(inputs), "texts", common.quiet);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Input& input = inputs[i];
    if (input.encoding.ids.empty()) continue;  // an empty line says nothing about heads
    if (session.config().encoder_decoder()) {
      prepare_decoder(session, common.seed, i, input);
      progress.advance(1);
    }
    ObservedText text{.ids = input.encoding.ids,
                      .types = input.encoding.type_ids,
                      .decoder_ids = std::move(input.decoder_ids)};
    text.encoding = std::move(input.encoding);
    corpus.texts.push_back(std::move(text));
  }
  return corpus;
}

ObserveData read_data(const ObserveVerb& verb, const Session& session,
                      const CommonOptions& common) {
  ObserveData data;
  if (verb.input.has_input()) data.corpus = read_corpus(verb, session, common);
  if (!verb.treebank.empty()) data.treebank = read_conllu(verb.treebank);
  if (!verb.coreference.empty()) {
    const bool entities = verb.coreference.find(".conllu") != std::string::npos;
    data.coreference = entities ? read_entities(verb.coreference) : read_gap(verb.coreference);
  }
  const auto cut = [&](auto& items) {
    if (verb.sample > 0 && std::ssize(items) > verb.sample) items.resize(verb.sample);
  };
  cut(data.treebank);
  cut(data.coreference);
  if (data.corpus.texts.empty() && session.tokenizer() != nullptr) {
    // What heads look at can be seen in any text.
    data.corpus.name = verb.treebank;
    for (const TreeSentence& tree : data.treebank) {
      data.corpus.texts.push_back(
          observed_text(session.model(), *session.tokenizer(), tree.text, tree.id));
    }
  }
  return data;
}

Evidence begin(const ObserveVerb& verb, const Session& session, const ObserveData& data,
               const CommonOptions& common) {
  Evidence evidence = no_evidence(session.model());
  const TensorFiles weights = TensorFiles::open(session.folder());
  evidence.model = {.name = session.folder().filename().string(),
                    .architecture = session.config().architecture.empty()
                                        ? session.config().model_type
                                        : session.config().architecture,
                    .sha256 = hash_of(weights.files())};
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
  add_file("treebank", verb.treebank, std::ssize(data.treebank));
  add_file("coreference", verb.coreference, std::ssize(data.coreference));
  add_file("lexicon", verb.no_probes ? "" : verb.lexicon, 0);
  evidence.options = {{"seed", std::to_string(common.seed)},
                      {"pairs", verb.pairs},
                      {"sample", std::to_string(verb.sample)},
                      {"measure", fmt::format("{}", fmt::join(verb.measure, ","))},
                      {"only", verb.only},
                      {"probes", verb.no_probes ? "no" : "yes"},
                      {"gates", fmt::format("{}", fmt::join(verb.input.gates, ","))}};
  return evidence;
}

/// What an interrupted run left, if it was the same one.
std::optional<Evidence> left_over(const std::string& file, const Evidence& fresh) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  Evidence left = evidence_from_json(read_file(file, kMostEvidence), file);
  const auto check = [&](bool same, const char* what) {
    if (same) return;
    throw Error({.what = "the observation to be continued was another one",
                 .where = file,
                 .got = fmt::format("another {}", what),
                 .expected = "the same model, data and options",
                 .hint = "leave --resume away to begin anew"});
  };
  check(left.model == fresh.model, "model");
  check(left.corpora == fresh.corpora, "text, treebank or file of coreference");
  check(left.options == fresh.options, "set of options");
  return left;
}

void observe_model(const ObserveVerb& verb, const CommonOptions& common) {
  check_options(verb.input, false);
  if (verb.resume && common.out.empty()) misuse("--resume: -o names the file to be continued");
  const Session session(verb.input);
  const ObserveData data = read_data(verb, session, common);
  const std::string part_file = common.out + ".part";
  Evidence so_far = begin(verb, session, data, common);
  if (verb.resume) {
    if (std::optional<Evidence> left = left_over(part_file, so_far)) so_far = std::move(*left);
  }
  std::unique_ptr<Progress> progress;
  std::string shown;
  int64_t done_before = 0;
  ObserveOptions options{.look = verb.wants("look"),
                         .know = verb.wants("know"),
                         .relate = verb.wants("relate"),
                         .probes = !verb.no_probes,
                         .all_pairs = verb.pairs == "all",
                         .gates = session.gates(),
                         .seed = common.seed};
  if (!verb.lexicon.empty()) options.lexicon = ProbeLexicon::read(verb.lexicon);
  if (!verb.only.empty()) options.only = session.model().find_heads(verb.only);
  options.progress = [&](const std::string& part, int64_t done, int64_t total) {
    if (shown != part || done < done_before) {
      progress = std::make_unique<Progress>(total, part, common.quiet);
      shown = part;
      done_before = 0;
    }
    progress->advance(done - done_before);
    done_before = done;
  };
  if (!common.out.empty()) {
    options.saved = [&](const Evidence& evidence) {
      write_file_whole(part_file, to_json(evidence));
    };
  }
  const Evidence evidence = observe(session.model(), session.tokenizer(), data, options, so_far);
  progress.reset();
  const std::string json = to_json(evidence);
  CommonOptions screen = common;
  screen.out.clear();
  if (!common.out.empty()) {
    write_file_whole(common.out, json);
    std::filesystem::remove(part_file);
  }
  deliver(screen, common.json ? json : for_people(evidence));
  if (!common.out.empty()) note(common, fmt::format("{} has every number", common.out));
}

}  // namespace

void add_observe(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<ObserveVerb>();
  CLI::App& verb = add_verb(
      app, "observe", "What every head was seen to do, in numbers",
      "Texts show what heads look at, a treebank which relations they know. Without any, the\n"
      "built-in probes are used. -o FILE gets the evidence as JSON: see docs/formats.md.\n\n"
      "Example:\n"
      "  headwise observe ./minilm --input reviews.txt --treebank en.conllu -o evidence.json",
      common, [options, &common] { observe_model(*options, common); });
  add_inputs(verb, options->input, false);
  verb.add_option("--treebank", options->treebank, "Universal Dependencies: a CoNLL-U file")
      ->type_name("FILE");
  verb.add_option("--coref", options->coreference,
                  "Pronouns and names: GAP's tab-separated file, or CoNLL-U with Entity=")
      ->type_name("FILE");
  verb.add_option(
          "--measure", options->measure,
          "look, know, relate, matter, with commas between; default: all that the data allow")
      ->delimiter(',')
      ->check(CLI::IsMember({"look", "know", "relate", "matter"}).description(""))
      ->type_name("LIST");
  verb.add_option("--only", options->only, "Only these heads: L3, L4.H2; default: all")
      ->type_name("LIST");
  verb.add_option("--pairs", options->pairs,
                  "Compare heads of one layer, or all of one kind of attention: layer or all")
      ->check(CLI::IsMember({"layer", "all"}).description(""))
      ->type_name("P");
  verb.add_option("--sample", options->sample, "At most so many texts and sentences")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40).description(""))
      ->type_name("N");
  verb.add_flag("--no-probes", options->no_probes, "Leave the built-in probes out");
  verb.add_option("--probe-lexicon", options->lexicon, "Words of another language for the probes")
      ->type_name("FILE");
  verb.add_flag("--resume", options->resume, "Go on after the last finished part");
}

}  // namespace headwise::program
