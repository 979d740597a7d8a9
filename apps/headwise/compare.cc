// headwise compare: which head of one model does what a head of another one does.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "corpus.h"
#include "headwise/core/error.h"
#include "headwise/observe/match.h"
#include "headwise/text/probes.h"
#include "inputs.h"
#include "json_writer.h"
#include "observe/repeated.h"
#include "progress.h"

namespace headwise::program {
namespace {

struct CompareVerb {
  InputOptions input{};
  std::string other{};
  int64_t sample = 0;
  bool across = false;
};

/// Both must mean the same by an id.
void check_same_vocabulary(const Session& a, const Session& b) {
  if (a.tokenizer() != nullptr && b.tokenizer() != nullptr) {
    check_same_tokens(*a.tokenizer(), *b.tokenizer(), b.folder().string());
  } else if (a.config().vocabulary != b.config().vocabulary) {
    throw Error({.what = "the models do not have the same tokens",
                 .where = b.folder().string(),
                 .got = fmt::format("{} tokens", b.config().vocabulary),
                 .expected = fmt::format("{}", a.config().vocabulary)});
  }
}

/// The built-in probes; without a tokenizer, random tokens.
ObservedCorpus built_in(const CompareVerb& verb, const Session& session,
                        const CommonOptions& common) {
  ObservedCorpus corpus;
  if (session.tokenizer() != nullptr) {
    InputOptions input = verb.input;
    input.truncate = true;
    for (TreeSentence& sentence :
         probe_sentences(ProbeLexicon::english(), kProbeCount, common.seed)) {
      input.texts.push_back(std::move(sentence.text));
    }
    corpus = read_corpus(input, session, common, {.sample = verb.sample});
    corpus.name = "built-in sentences";
    return corpus;
  }
  corpus.name = "random tokens";
  RepeatedSequences sequences = repeated_sequences(session.config(), nullptr, common.seed);
  for (size_t i = 0; i < sequences.ids.size(); ++i) {
    ObservedText& text = corpus.texts.emplace_back();
    text.ids = std::move(sequences.ids[i]);
    if (!sequences.decoder_ids.empty()) text.decoder_ids = std::move(sequences.decoder_ids[i]);
  }
  return corpus;
}

std::string json_of(const ModelMatch& match, const ObservedCorpus& corpus) {
  JsonWriter json;
  json.begin_object();
  json.key("matches");
  json.begin_array();
  for (const LayerMatch& layer : match.layers) {
    for (const HeadMatch& pair : layer.matches) {
      json.begin_object();
      json.field("a", pair.a);
      json.field("b", pair.b);
      json.field("js", pair.js);
      json.end_object();
    }
  }
  json.end_array();
  json.field("mean", match.mean);
  json.field("random_mean", match.random_mean);
  json.key("layers");
  json.begin_array();
  for (const LayerMatch& layer : match.layers) {
    json.begin_object();
    json.field("layer", layer.layer);
    json.field("mean", layer.mean);
    json.field("random_mean", layer.random_mean);
    json.end_object();
  }
  json.end_array();
  json.key("corpus");
  json.begin_object();
  json.field("name", corpus.name);
  json.field("texts", corpus.texts.size());
  json.field("tokens", corpus.tokens());
  json.end_object();
  json.end_object();
  return json.take();
}

/// A table per layer, some pairs in a line.
std::string match_text(const ModelMatch& match, const ObservedCorpus& corpus) {
  constexpr size_t kPairs = 4;
  std::string text = fmt::format(
      "js {:.4f} between matched heads in the mean, {:.4f} by chance (0: the same maps)\n"
      "{}: {} texts, {} tokens\n",
      match.mean, match.random_mean, corpus.name, grouped(std::ssize(corpus.texts)),
      grouped(corpus.tokens()));
  for (const LayerMatch& layer : match.layers) {
    text += fmt::format("\n{:<10}js {:.4f}, by chance {:.4f}\n", layer.layer, layer.mean,
                        layer.random_mean);
    for (size_t i = 0; i < layer.matches.size(); ++i) {
      const HeadMatch& pair = layer.matches[i];
      text += fmt::format("{}{:<32}", i % kPairs == 0 ? "  " : "",
                          fmt::format("{} - {} {:.4f}", pair.a, pair.b, pair.js));
      if (i % kPairs == kPairs - 1 || i + 1 == layer.matches.size()) {
        text.erase(text.find_last_not_of(' ') + 1);
        text += "\n";
      }
    }
  }
  return text;
}

void compare(const CompareVerb& verb, const CommonOptions& common) {
  check_options(verb.input, false);
  const Session a(verb.input);
  InputOptions other = verb.input;
  other.model = verb.other;
  const Session b(other);
  check_same_vocabulary(a, b);
  const ObservedCorpus corpus = verb.input.has_input()
                                    ? read_corpus(verb.input, a, common, {.sample = verb.sample})
                                    : built_in(verb, a, common);
  std::optional<Progress> progress(std::in_place, std::ssize(corpus.texts), "texts", common.quiet);
  int64_t before = 0;
  const ModelMatch match = match_heads(a.model(), b.model(), corpus,
                                       {.across = verb.across,
                                        .gates_a = a.gates(),
                                        .gates_b = b.gates(),
                                        .progress = [&](int64_t done, int64_t) {
                                          progress->advance(done - std::exchange(before, done));
                                        }});
  progress.reset();
  deliver(common, common.json ? json_of(match, corpus) : match_text(match, corpus));
}

}  // namespace

void add_compare(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<CompareVerb>();
  CLI::App& verb = add_verb(
      app, "compare", "Which heads of two models do the same",
      "Two seeds or checkpoints with the same vocabulary read the same texts; without any, the\n"
      "built-in sentences. Heads are matched one to one by what they look at.\n\n"
      "Example:\n"
      "  headwise compare ./seed-1 ./seed-2 --input reviews.txt",
      common, [options, &common] { compare(*options, common); });
  add_inputs(verb, options->input, false);
  verb.add_option("OTHER", options->other, "The model to be compared with")
      ->required()
      ->type_name("");
  verb.add_flag("--across", options->across,
                "Match heads of all layers with each other; default: of the same layer");
  verb.add_option("--sample", options->sample, "At most so many texts")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40).description(""))
      ->type_name("N");
}

}  // namespace headwise::program
