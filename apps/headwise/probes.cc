// headwise probes: the built-in probes as files, for other tools and for people.
#include "headwise/text/probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "command.h"
#include "headwise/io/json_text.h"
#include "options.h"

namespace headwise::program {
namespace {

constexpr int64_t kMostProbes = 1'000'000;

struct ProbesOptions {
  int64_t count = kProbeCount;
  std::string lexicon{};  // empty: English
};

std::string_view part(const std::string& text, TokenSpan bytes) {
  return std::string_view(text).substr(bytes.begin, bytes.end - bytes.begin);
}

constexpr size_t kLongest = 100;  // of texts that are shown, in bytes

/// The sentence, of the first ones, whose subject is farthest from its command.
std::string example_of(const std::vector<TreeSentence>& sentences) {
  constexpr size_t kFirst = 40;
  const TreeWord* subject = nullptr;
  const TreeSentence* chosen = nullptr;
  int64_t farthest = 0;
  for (size_t s = 0; s < std::min(kFirst, sentences.size()); ++s) {
    const TreeSentence& sentence = sentences[s];
    for (int64_t i = 0; i < std::ssize(sentence.words); ++i) {
      const TreeWord& word = sentence.words[i];
      if (word.relation != "nsubj" || word.head - i <= farthest) continue;
      if (sentence.text.size() > kLongest) continue;
      farthest = word.head - i;
      subject = &word;
      chosen = &sentence;
    }
  }
  if (subject == nullptr) return "";
  return fmt::format("  {}\n    the subject of \"{}\" is \"{}\", {} words before it\n",
                     chosen->text, chosen->words[subject->head].form, subject->form, farthest);
}

std::string probes_text(const Probes& probes, const ProbeLexicon& lexicon,
                        const std::string& folder) {
  std::string text = fmt::format("{} probes in {}\n\n", lexicon.language(), folder);
  const auto row = [&](size_t count, const char* what, const char* file) {
    text += fmt::format("{:>9}  {:<44}{}\n", grouped(static_cast<int64_t>(count)), what, file);
  };
  row(probes.sentences.size(), "sentences with their trees", "sentences.conllu");
  row(probes.coreference.size(), "pronouns with two names", "coreference.tsv");
  row(probes.fields.size(), "lists of words of four semantic fields", "fields.tsv");
  row(probes.rare.size(), "sentences with one rare word", "rare.tsv");
  const auto further = [&](const char* what, const char* file) {
    text += fmt::format("{:>9}  {:<44}{}\n", "", what, file);
  };
  further("the words, to start another language from", "lexicon.json");
  further("the built-in text, a sentence per line", "text.txt");
  std::string examples = example_of(probes.sentences);
  if (!probes.coreference.empty()) {
    const CoreferenceItem& item = probes.coreference.front();
    examples +=
        fmt::format("  {}\n    \"{}\" is {}, not {}\n", item.text, part(item.text, item.pronoun),
                    part(item.text, item.right), part(item.text, item.wrong));
  }
  const auto short_enough = [](const RareItem& item) { return item.text.size() <= kLongest; };
  const auto rare = std::ranges::find_if(probes.rare, short_enough);
  if (rare != probes.rare.end()) {
    const RareItem& item = *rare;
    examples +=
        fmt::format("  {}\n    \"{}\" is the rare word\n", item.text, part(item.text, item.word));
  }
  if (!examples.empty()) text += "\nFor instance\n" + examples;
  return text;
}

std::string as_json(const Probes& probes, const ProbeLexicon& lexicon, const std::string& folder,
                    uint64_t seed, const std::vector<std::string>& files) {
  std::map<std::string, int64_t> relations;
  int64_t words = 0;
  for (const TreeSentence& sentence : probes.sentences) {
    words += std::ssize(sentence.words);
    for (const TreeWord& word : sentence.words) ++relations[word.relation];
  }
  return json_text({{"folder", folder},
                    {"language", lexicon.language()},
                    {"seed", seed},
                    {"sentences", probes.sentences.size()},
                    {"words", words},
                    {"coreference", probes.coreference.size()},
                    {"fields", probes.fields.size()},
                    {"rare", probes.rare.size()},
                    {"relations", relations},
                    {"files", files}});
}

void make_probes(const ProbesOptions& options, const CommonOptions& common) {
  usage_error_if(common.out.empty(), "-o names the folder that the probes are written to");
  const std::filesystem::path folder = common.out;
  const ProbeLexicon lexicon =
      options.lexicon.empty() ? ProbeLexicon::english() : ProbeLexicon::read(options.lexicon);
  const Probes probes = headwise::make_probes(lexicon, options.count, common.seed);
  const std::vector<std::string> files = write_probes(probes, lexicon, folder);
  print_result(common.json ? as_json(probes, lexicon, folder.string(), common.seed, files)
                           : probes_text(probes, lexicon, folder.string()));
}

}  // namespace

void add_probes(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<ProbesOptions>();
  CLI::App& command = add_command(
      app, "probes", "The built-in probe sentences, with their answers, as files",
      "-o is the folder that they are written to: sentences with trees (CoNLL-U), pronouns with\n"
      "names (the columns of GAP), semantic fields and rare words; and the built-in text. See\n"
      "docs/probes.md.\n\n"
      "Example:\n"
      "  headwise probes -o ./probes",
      common, [options, &common] { make_probes(*options, common); });
  Options declare(command);
  declare.add("--count", options->count, "N",
              fmt::format("How many of each kind; default: {}", kProbeCount),
              whole_number(1, kMostProbes));
  declare.lexicon(options->lexicon);
}

}  // namespace headwise::program
