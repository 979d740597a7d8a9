// headwise compare: which head of one model does what a head of another one does; two heads of one
// model side by side.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "corpus.h"
#include "headwise/core/error.h"
#include "headwise/io/json_text.h"
#include "headwise/judge/head_pair.h"
#include "headwise/observe/match.h"
#include "headwise/text/probes.h"
#include "inputs.h"
#include "observe_job.h"
#include "options.h"
#include "progress.h"
#include "screen.h"

namespace headwise::program {
namespace {

struct CompareArgs {
  InputOptions input{};
  std::string other{}, head{};  // a model; or two heads
  std::string verdict{};
  int64_t sample = 0;
  bool across = false;
};

/// The built-in probes; without a tokenizer, random tokens.
ObservedCorpus built_in(const CompareArgs& args, const Session& session,
                        const CommonOptions& common) {
  ObservedCorpus corpus;
  if (session.tokenizer() != nullptr) {
    InputOptions input = args.input;
    input.truncate = true;
    for (TreeSentence& sentence :
         probe_sentences(ProbeLexicon::english(), kProbeSentences, common.seed)) {
      input.texts.push_back(std::move(sentence.text));
    }
    corpus = read_corpus(input, session, common, {.sample = args.sample});
    corpus.name = "built-in sentences";
    return corpus;
  }
  return random_corpus(session.config(), common.seed);
}

Json as_json(const ObservedCorpus& corpus) {
  return {{"name", corpus.name}, {"texts", corpus.texts.size()}, {"tokens", corpus.tokens()}};
}

Json as_json(const ModelMatch& match, const ObservedCorpus& corpus) {
  Json matches = Json::array(), layers = Json::array();
  for (const LayerMatch& layer : match.layers) {
    for (const HeadMatch& pair : layer.matches) {
      matches.push_back({{"a", pair.a}, {"b", pair.b}, {"js", json_number(pair.js)}});
    }
    layers.push_back({{"layer", layer.layer},
                      {"mean", json_number(layer.mean)},
                      {"random_mean", json_number(layer.random_mean)}});
  }
  return {{"matches", std::move(matches)},
          {"mean", json_number(match.mean)},
          {"random_mean", json_number(match.random_mean)},
          {"layers", std::move(layers)},
          {"corpus", as_json(corpus)}};
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

/// The measures that are shown, in this order, if a head has them.
constexpr const char* kShownMeasures[] = {
    "entropy",   "confidence", "distance",     "mass_previous", "mass_self",
    "mass_next", "mass_first", "mass_special", "mass_window",   "rare_share",
    "semantic",  "induction",  "duplicate",    "diagonal",      "contribution_norm",
    "constancy", "qk_rank",    "ov_rank",      "copying"};

Json as_json(const HeadPair& facts, const ObservedCorpus& corpus) {
  const HeadComparison& pair = facts.comparison;
  Json json = {{"a", pair.a}, {"b", pair.b}, {"rows", pair.rows}, {"js", json_number(pair.js)}};
  if (pair.others_js) json["others_js"] = json_number(*pair.others_js);
  json["output_cka"] = json_number(pair.output_cka);
  for (const char* const side : {"q", "k", "v", "o"}) {
    const SubspaceRelation& relation = pair.subspaces.at(side);
    json["subspace_overlap"][side] = json_number(relation.overlap);
    json["principal_angle"][side] = json_number(relation.angle);
  }
  for (const std::string& name : {pair.a, pair.b}) {
    Json head = {{"head", name}, {"roles", named_roles(facts.verdict, name)}};
    for (const char* const measure : kShownMeasures) {
      const Measure* const found = facts.evidence.head(name).measures.find(measure);
      if (found != nullptr) head[measure] = json_number(found->value);
    }
    json["heads"].push_back(std::move(head));
  }
  json["corpus"] = as_json(corpus);
  return json;
}

std::string heads_text(const HeadPair& facts, const ObservedCorpus& corpus) {
  const HeadComparison& pair = facts.comparison;
  std::string text =
      fmt::format("{} and {}\n{}: {} texts, {} tokens\n\n", pair.a, pair.b, corpus.name,
                  grouped(std::ssize(corpus.texts)), grouped(corpus.tokens()));
  text += fmt::format(
      "  js                  {:>8.4f}   0: they attend to the same, 0.69: to nothing "
      "in common\n",
      pair.js);
  if (pair.others_js) {
    text += fmt::format("{:22}{:>8.4f}   between the other heads of their layers\n", "",
                        *pair.others_js);
  }
  text += fmt::format(
      "  output cka          {:>8.4f}   1: the same output up to rotation and "
      "scale\n",
      pair.output_cka);
  text +=
      fmt::format("  subspace overlap  {:>10}{:>10}{:>10}{:>10}\n{:20}", "q", "k", "v", "o", "");
  for (const char* const side : {"q", "k", "v", "o"}) {
    text += fmt::format("{:>10.4f}", pair.subspaces.at(side).overlap);
  }
  Table table({-22, 14, 14});
  table.row({"", pair.a, pair.b});
  for (const char* const measure : kShownMeasures) {
    const Measure* const a = facts.evidence.head(pair.a).measures.find(measure);
    const Measure* const b = facts.evidence.head(pair.b).measures.find(measure);
    const auto value = [](const Measure* m) { return m ? fmt::format("{:.4f}", m->value) : "-"; };
    if (a || b) table.row({fmt::format("  {}", measure), value(a), value(b)});
  }
  text += fmt::format("\n\n{}", table.text());
  text += '\n';
  for (const std::string& name : {pair.a, pair.b}) {
    const std::vector<std::string> roles = named_roles(facts.verdict, name);
    text += fmt::format("  {:<10}{}\n", name,
                        roles.empty() ? "no role" : fmt::format("{}", fmt::join(roles, ", ")));
  }
  return text;
}

void compare_two_heads(const CompareArgs& args, const CommonOptions& common) {
  usage_error_if(args.across, "--across is for two models");
  const Session session(args.input);
  session.refuse_means("does not go with compare");
  ObserveData data{.corpus = args.input.has_input()
                                 ? read_corpus(args.input, session, common, {.sample = args.sample})
                                 : built_in(args, session, common)};
  Progress progress(common.quiet);
  HeadPairOptions options{.gates = session.gates().values(),
                          .seed = common.seed,
                          .progress = [&](const std::string& part, int64_t done, int64_t total) {
                            progress.advance(part, done, total);
                          }};
  if (!args.verdict.empty()) {
    options.verdict = read_verdict(args.verdict);
    check_fits(*options.verdict, session.model(), args.verdict, throw_if_interrupted);
  }
  const HeadPair facts = compare_pair(session.model(), args.other, args.head, data, options);
  progress.clear();
  write_output(common, common.json ? json_text(as_json(facts, data.corpus))
                                   : heads_text(facts, data.corpus));
}

void compare(const CompareArgs& args, const CommonOptions& common) {
  check_options(args.input, false);
  if (!args.head.empty()) return compare_two_heads(args, common);
  usage_error_if(!args.verdict.empty(), "--verdict is for two heads: MODEL L7.H9 L7.H10");
  usage_error_if(args.other.find(".H") != std::string::npos && !std::filesystem::exists(args.other),
                 fmt::format("compare {}: give two heads, such as L7.H9 L7.H10", args.other));
  const Session a(args.input);
  a.refuse_means("does not go with compare");
  InputOptions other = args.input;
  other.model = args.other;
  const Session b(other);
  check_same_tokens(a.model(), b.model());
  const ObservedCorpus corpus = args.input.has_input()
                                    ? read_corpus(args.input, a, common, {.sample = args.sample})
                                    : built_in(args, a, common);
  Progress progress(common.quiet);
  const ModelMatch match = match_heads(
      a.model(), b.model(), corpus,
      {.across = args.across,
       .gates_a = a.gates().values(),
       .gates_b = b.gates().values(),
       .progress = [&](int64_t done, int64_t total) { progress.advance("texts", done, total); }});
  progress.clear();
  write_output(common, common.json ? json_text(as_json(match, corpus)) : match_text(match, corpus));
}

}  // namespace

void add_compare(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<CompareArgs>();
  CLI::App& command = add_command(
      app, "compare", "Which heads of two models do the same; or two heads of a model side by side",
      "Two seeds or checkpoints with the same vocabulary read the same texts; without any, the\n"
      "built-in sentences. Heads are matched one to one by what they attend to. With two heads in\n"
      "place of the other model, these two are compared.\n\n"
      "Example:\n"
      "  headwise compare ./seed-1 ./seed-2 --input reviews.txt\n"
      "  headwise compare ./minilm L3.H9 L3.H10",
      common, [options, &common] { compare(*options, common); });
  add_inputs(command, options->input, false);
  Options declare(command);
  declare.argument("OTHER", options->other, "The model to be compared with; or a head, L7.H9")
      ->required();
  declare.argument("HEAD", options->head, "The head to be compared with it, L7.H10");
  declare.verdict(options->verdict,
                  "Two heads: take their roles from this verdict or study; default: from the texts "
                  "and the built-in probes");
  declare.flag("--across", options->across,
               "Match heads of all layers with each other; default: of the same layer");
  declare.sample(options->sample, "texts, drawn by the seed");
}

}  // namespace headwise::program
