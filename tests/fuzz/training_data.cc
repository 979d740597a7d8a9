// Any bytes are training data whose every example is in one batch, or are refused.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "files.h"
#include "fuzz.h"
#include "headwise/text/bleu.h"
#include "headwise/train/batches.h"
#include "text/bpe_merges.h"
#include "text/line_reader.h"
#include "text/unicode.h"

namespace headwise {
namespace {

using fuzz::must;
using fuzz::succeeds;
using Lines = std::vector<std::string>;

constexpr size_t kMostText = size_t{1} << 18;  // gzip may hold a thousand times its size

/// Special tokens of every task, and bytes.
Tokenizer make_tokenizer() {
  std::string folder = (std::filesystem::temp_directory_path() / "headwise-XXXXXX").string();
  must(::mkdtemp(folder.data()) != nullptr, "no temporary folder");
  BpeSettings settings = bpe_settings("bert");
  settings.special.push_back("</s>");
  settings.vocabulary = 256 + std::ssize(settings.special);
  BpeTrainer().train(settings, folder);
  Tokenizer tokenizer = Tokenizer::load(folder);
  std::filesystem::remove_all(folder);
  return tokenizer;
}

/// Nothing if there is more than the fuzzer has time for.
Lines lines_of_file(const std::filesystem::path& file) {
  Lines lines;
  size_t size = 0;
  LineReader reader(file);
  for (std::string_view line; reader.next(line);) {
    must(text::is_valid_utf8(line), "a line that is no UTF-8");
    must(line.find('\n') == line.npos && line.find('\0') == line.npos,
         "a line with its end or NUL");
    size += line.size() + 1;
    if (size <= kMostText) lines.emplace_back(line);
  }
  must(size > kMostText || reader.line() == std::ssize(lines), "a line that is not counted");
  return size > kMostText ? Lines() : lines;
}

void check_batches(const Examples& examples, int64_t vocabulary) {
  for (const bool shuffle : {true, false}) {
    const Epoch epoch(examples, {.tokens = 64, .seed = 1, .shuffle = shuffle}, 1);
    int64_t count = 0;
    for (int64_t i = 0; i < epoch.batches(); ++i) {
      const TrainingBatch batch = epoch.batch(i);
      batch.source.check();
      batch.target.check();
      count += std::ssize(epoch.examples(i));
      const int64_t tokens = batch.source.rows() + batch.target.rows();
      must(tokens <= 64 || epoch.examples(i).size() == 1, "a batch above its budget");
      for (const int32_t id : batch.source.ids) must(id >= 0 && id < vocabulary, "no token id");
      for (const int32_t label : batch.labels)
        must(label == kIgnoreIndex || label >= 0, "no label");
    }
    must(count == examples.size(), "an example that is not in a batch");
  }
}

void read_tasks(const std::filesystem::path& file) {
  static const Tokenizer tokenizer = make_tokenizer();
  const ModelConfig config{.vocabulary = tokenizer.size(),
                           .decoder_vocabulary = tokenizer.size(),
                           .max_positions = 40,
                           .decoder_start = 0,
                           .eos = {4}};
  for (const bool truncate : {false, true}) {
    const ReadOptions options{.truncate = truncate};
    const auto check = [&](const auto& read) {
      succeeds([&] { check_batches(read(), config.vocabulary); });
    };
    check([&] { return read_causal_lm({file}, Documents::lines, tokenizer, config, options); });
    check([&] { return read_causal_lm({file}, Documents::files, tokenizer, config, options); });
    check([&] { return read_masked_lm({file}, tokenizer, config, options); });
    check([&] { return read_similarity({file}, tokenizer, config, options); });
    check([&] { return read_translation(file, file, tokenizer, config, options); });
    check([&] {
      std::vector<std::string> labels;
      return read_classification({file, file}, labels, tokenizer, config, options);
    });
  }
}

void learn(const Lines& lines) {
  text::CountedWords words;
  for (const std::string& line : lines) {
    if (!line.empty()) words.add(line);
  }
  const text::LearnedBpe bpe = text::learn_bpe(words, {"< >"}, 400, 1);
  must(bpe.tokens.size() == 257 + bpe.merges.size() && bpe.tokens.size() <= 400, "tokens amiss");
  for (size_t i = 0; i < bpe.merges.size(); ++i) {
    const auto [left, right] = bpe.merges[i];
    must(left > 0 && right > 0 && std::max(left, right) < static_cast<int32_t>(257 + i),
         "a merge of later tokens");
    must(bpe.tokens[257 + i] ==
             bpe.tokens[static_cast<size_t>(left)] + bpe.tokens[static_cast<size_t>(right)],
         "a merge that gives another token");
  }
}

void score(const Lines& lines) {
  if (lines.empty()) return;
  Lines moved = lines;
  std::rotate(moved.begin(), moved.begin() + 1, moved.end());
  const Bleu same = corpus_bleu(lines, lines), other = corpus_bleu(moved, lines);
  must(same.matches == same.totals, "a text that does not match itself");
  must(same.totals[3] == 0 || same.score > 99.999, "no full score for the same texts");
  must(other.score >= 0 && other.score <= 100.001, "a score out of range");
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headwise;
  const fuzz::MemoryFile file(fuzz::text(data, size));
  const std::string path = file.path();
  Lines lines;
  if (!succeeds([&] { lines = lines_of_file(path); }) || !lines.empty()) read_tasks(path);
  learn(lines);
  score(lines);
  return 0;
}
