// Makes texts that heads are measured on out of inputs.
#include "corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/text/alignment.h"
#include "headwise/text/lines.h"
#include "progress.h"

namespace headwise::program {
namespace {

/// What --alignment says about each input; nothing without it.
std::vector<std::vector<AlignedWords>> read_alignment(const std::string& file,
                                                      const std::vector<Input>& inputs) {
  if (file.empty()) return {};
  auto lines = read_alignments(file);
  if (lines.size() != inputs.size()) {
    throw Error({.what = "inputs and alignments are not as many",
                 .where = file,
                 .got = fmt::format("{} lines", lines.size()),
                 .expected = fmt::format("{}, one for each input", inputs.size())});
  }
  return lines;
}

/// The source tokens of each that the decoder reads; those that were put in front have none.
std::vector<std::vector<int32_t>> align(const Input& input, std::span<const AlignedWords> words,
                                        const std::string& where) {
  auto aligned = aligned_tokens(words, {input.text, input.encoding},
                                {input.decoder_text, input.decoder_encoding}, where);
  aligned.insert(aligned.begin(), input.decoder_ids.size() - aligned.size(), {});
  return aligned;
}

}  // namespace

ObservedCorpus read_corpus(const InputOptions& input_options, const Session& session,
                           const CommonOptions& common, const CorpusOptions& options) {
  ObservedCorpus corpus{.name = input_options.file.empty() ? input_options.texts_name
                                                           : input_options.file};
  if (input_options.file == "-") corpus.name = "standard input";
  std::vector<Input> inputs = read_inputs(input_options, session, {.start_decoder = true});
  LabelColumns columns;
  for (const Input& input : inputs) {
    if (!input.text.empty()) columns.see(input.text);
  }
  if (!input_options.file.empty() && !input_options.paired_lines) columns.check(corpus.name);
  auto alignments = read_alignment(options.alignment, inputs);
  std::vector<int64_t> lines(inputs.size());
  std::iota(lines.begin(), lines.end(), 1);
  keep_sample(inputs, options.sample, common.seed);
  keep_sample(lines, options.sample, common.seed);
  if (!alignments.empty()) keep_sample(alignments, options.sample, common.seed);
  Progress progress(std::ssize(inputs), "texts", common.quiet);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Input& input = inputs[i];
    // An empty line says nothing about heads.
    if (std::ranges::all_of(input.encoding.special, [](uint8_t put) { return put != 0; }) &&
        (input.encoding.ids.empty() || !input.encoding.special.empty())) {
      continue;
    }
    if (session.config().encoder_decoder()) {
      prepare_decoder(session, common.seed, i, input);
      progress.advance(1);
    }
    ObservedText text{.ids = input.encoding.ids, .types = input.encoding.type_ids};
    if (!alignments.empty()) {
      text.aligned =
          align(input, alignments[i], fmt::format("{}, line {}", options.alignment, lines[i]));
    }
    text.decoder_ids = std::move(input.decoder_ids);
    text.encoding = std::move(input.encoding);
    corpus.texts.push_back(std::move(text));
  }
  return corpus;
}

EvaluationSet read_examples(const char* option, const std::vector<std::string>& files,
                            LossTask task, bool truncate, const Session& session) {
  if (session.tokenizer() == nullptr) {
    throw Error({.what = "the model has no tokenizer",
                 .where = option,
                 .expected = "a model that reads text",
                 .hint = "observe also takes token ids: --ids \"5 9 3\""});
  }
  usage_error_if(
      task == LossTask::fidelity && session.config().encoder_decoder(),
      fmt::format("{}: of an encoder-decoder, give two files and --loss translate", option));
  return read_evaluation(task, Files(files.begin(), files.end()), *session.tokenizer(),
                         session.config(), {.truncate = truncate});
}

}  // namespace headwise::program
