// Readers of the five tasks.
#include "headwise/train/examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "train/text_encoder.h"
#include "train/text_files.h"

namespace headwise {
namespace {

std::string named(const Files& files) {
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.string());
  return fmt::format("{}", fmt::join(names, ", "));
}

void refuse_if_empty(const Examples& examples, const Files& files, const char* expected) {
  if (examples.size() > 0) return;
  throw Error({.what = "data: there is nothing to learn from",
               .where = named(files),
               .expected = expected});
}

int32_t need(std::optional<int32_t> id, int64_t vocabulary, const char* what, const char* where) {
  if (id && *id >= 0 && *id < vocabulary) return *id;
  throw Error({.what = fmt::format("data: the model has no {} token", what),
               .where = where,
               .got = id ? fmt::format("id {}", *id) : "",
               .expected = fmt::format("an id from 0 to {}", vocabulary - 1)});
}

/// What stands before a document of causal LM, and behind it.
struct Frame {
  std::optional<int32_t> begin{}, end{};
};

Frame frame_of(const Tokenizer& tokenizer, const ModelConfig& config) {
  const auto& special = tokenizer.special_tokens();
  const std::vector<int32_t> put = tokenizer.encode("").ids;  // by the template
  Frame frame;
  if (special.bos && !put.empty() && put.front() == *special.bos) {
    frame.begin = need(special.bos, config.vocabulary, "first", "the tokenizer's special tokens");
  }
  if (special.eos) {
    frame.end = need(special.eos, config.vocabulary, "end", "the tokenizer's special tokens");
  }
  return frame;
}

float parse_cosine(std::string_view text, const LineReader& reader) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= -1 && value <= 1) {
    return value;
  }
  throw Error({.what = "data: a score is no cosine",
               .where = reader.where(),
               .got = quote(text),
               .expected = "a number from -1 to 1",
               .hint = "scores of another range must be scaled, for instance divided by 5"});
}

/// Labels as numbers, in the order they are found at first.
class LabelColumn {
 public:
  explicit LabelColumn(const std::vector<std::string>& known) : open_(known.empty()) {
    for (const std::string& label : known) {
      numbers_.emplace(label, static_cast<int32_t>(&label - known.data()));
    }
  }

  int32_t number(std::string_view label, const LineReader& reader) {
    if (label.empty()) {
      throw Error({.what = "data: a label is empty", .where = reader.where()});
    }
    if (const auto found = numbers_.find(label); found != numbers_.end()) return found->second;
    if (open_) {
      const auto number = static_cast<int32_t>(numbers_.size());
      numbers_.emplace(label, number);
      return number;
    }
    throw Error({.what = "data: a label is not known",
                 .where = reader.where(),
                 .got = quote(label),
                 .expected = "one of " + some_labels()});
  }

  /// Renumbers what was found in sorted order, unless the labels were given.
  void finish(std::vector<std::string>& names, std::vector<int32_t>& labels) const {
    if (!open_) return;
    std::vector<int32_t> sorted(numbers_.size());
    for (const auto& [name, number] : numbers_) {
      sorted[static_cast<size_t>(number)] = static_cast<int32_t>(names.size());
      names.push_back(name);
    }
    for (int32_t& label : labels) label = sorted[static_cast<size_t>(label)];
  }

 private:
  std::string some_labels() const {
    constexpr size_t kMost = 20;
    std::vector<std::string> some;
    for (const auto& [name, number] : numbers_) {
      if (some.size() < kMost) some.push_back(quote(name));
    }
    if (numbers_.size() > kMost) some.push_back(fmt::format("… ({} in all)", numbers_.size()));
    return fmt::format("{}", fmt::join(some, ", "));
  }

  bool open_;
  std::map<std::string, int32_t, std::less<>> numbers_;
};

/// Both have been read up to the same line, and one has no more.
[[noreturn]] void refuse_other_length(LineReader& longer, const LineReader& shorter) {
  for (std::string_view line; longer.next(line);) {
  }
  throw Error({.what = "data: parallel files have different numbers of lines",
               .where = longer.path().string(),
               .got = fmt::format("{} lines", longer.line()),
               .expected = fmt::format("{}, as in {}", shorter.line(), shorter.path().string())});
}

}  // namespace

Masking masking_of(const Tokenizer& tokenizer, const ModelConfig& config) {
  Masking masking{.mask = need(tokenizer.special_tokens().mask, config.vocabulary, "mask",
                               "the tokenizer's special tokens")};
  const int64_t size = std::min(tokenizer.size(), config.vocabulary);
  masking.is_special.resize(static_cast<size_t>(config.vocabulary));
  for (int32_t id = 0; id < size; ++id) {
    const bool special = tokenizer.is_special(id);
    masking.is_special[static_cast<size_t>(id)] = special;
    if (!special && !tokenizer.token(id).empty()) masking.drawn.push_back(id);
  }
  if (masking.drawn.empty()) {
    throw Error({.what = "data: all tokens are special", .where = "the tokenizer"});
  }
  return masking;
}

int64_t Examples::tokens(int64_t example) const {
  const auto rows = [&](const TokenBatch& texts, int64_t each) {
    const auto first = static_cast<size_t>(example * each);
    return texts.offsets[first + static_cast<size_t>(each)] - texts.offsets[first];
  };
  return rows(all.source, texts_each) + (all.target.sequences() > 0 ? rows(all.target, 1) : 0);
}

Examples read_causal_lm(const Files& files, Documents documents, const Tokenizer& tokenizer,
                        const ModelConfig& config, const ReadOptions& options) {
  const TextEncoder encoder(tokenizer, config, options);
  const int64_t length = encoder.most();
  if (length == 0) {
    throw Error({.what = "data: blocks need a length, since the model takes texts of any",
                 .where = "length",
                 .expected = "at least 1"});
  }
  const Frame frame = frame_of(tokenizer, config);
  std::vector<int32_t> ids;
  for_each_piece(files, documents, options, [&](const Piece& piece, const LineReader& reader) {
    if (piece.begins && frame.begin) ids.push_back(*frame.begin);
    const std::vector<int32_t> part = encoder.encode_part(piece.text, reader);
    ids.insert(ids.end(), part.begin(), part.end());
    if (piece.ends && frame.end) ids.push_back(*frame.end);
  });
  Examples examples;
  const auto rows = static_cast<int64_t>(ids.size()) - 1;  // the last token is only a label
  for (int64_t begin = 0; begin < rows; begin += length) {
    const int64_t size = std::min(length, rows - begin);
    examples.all.source.add(std::span(ids).subspan(static_cast<size_t>(begin), size));
  }
  if (rows > 0) examples.all.labels.assign(ids.begin() + 1, ids.end());
  refuse_if_empty(examples, files, "a text of at least two tokens");
  return examples;
}

Examples read_masked_lm(const Files& files, const Tokenizer& tokenizer, const ModelConfig& config,
                        const ReadOptions& options) {
  const TextEncoder encoder(tokenizer, config, options);
  Examples examples{.masking = masking_of(tokenizer, config)};
  const auto is_special = [&](int32_t id) {
    return examples.masking->is_special[static_cast<size_t>(id)];
  };
  for_each_piece(files, Documents::lines, options,
                 [&](const Piece& piece, const LineReader& reader) {
                   const std::vector<int32_t> ids = encoder.encode(piece.text, reader);
                   if (std::all_of(ids.begin(), ids.end(), is_special)) return;
                   examples.all.source.add(ids);
                 });
  refuse_if_empty(examples, files, "a text per line");
  return examples;
}

Examples read_classification(const Files& files, std::vector<std::string>& labels,
                             const Tokenizer& tokenizer, const ModelConfig& config,
                             const ReadOptions& options) {
  const TextEncoder encoder(tokenizer, config, options);
  Examples examples;
  LabelColumn column(labels);
  for_each_row(files, 2, "text<TAB>label", options, [&](auto row, const LineReader& reader) {
    examples.all.source.add(encoder.encode(row[0], reader));
    examples.all.labels.push_back(column.number(row[1], reader));
  });
  refuse_if_empty(examples, files, "lines text<TAB>label");
  column.finish(labels, examples.all.labels);
  if (labels.size() < 2) {
    throw Error({.what = "data: there is only one label",
                 .where = named(files),
                 .got = quote(labels.front()),
                 .expected = "at least two"});
  }
  return examples;
}

Examples read_similarity(const Files& files, const Tokenizer& tokenizer, const ModelConfig& config,
                         const ReadOptions& options) {
  const TextEncoder encoder(tokenizer, config, options);
  Examples examples{.texts_each = 2};
  for_each_row(files, 3, "text<TAB>text<TAB>score", options,
               [&](auto row, const LineReader& reader) {
                 examples.all.source.add(encoder.encode(row[0], reader));
                 examples.all.source.add(encoder.encode(row[1], reader));
                 examples.all.scores.push_back(parse_cosine(row[2], reader));
               });
  refuse_if_empty(examples, files, "lines text<TAB>text<TAB>score");
  return examples;
}

Examples read_translation(const std::filesystem::path& source, const std::filesystem::path& target,
                          const Tokenizer& tokenizer, const ModelConfig& config,
                          const ReadOptions& options) {
  const TextEncoder encoder(tokenizer, config, options);
  const int64_t vocabulary = config.decoder_vocabulary;
  const int32_t start =
      need(config.decoder_start, vocabulary, "start", "config.json: decoder_start_token_id");
  const int32_t end = need(config.eos.empty() ? std::nullopt : std::optional(config.eos.front()),
                           vocabulary, "end", "config.json: eos_token_id");
  LineReader sources(source), targets(target);
  LineProgress progress(options);
  Examples examples;
  for (std::string_view line;;) {
    const bool more = sources.next(line);
    if (more) examples.all.source.add(encoder.encode(line, sources));
    if (more != targets.next(line)) {
      if (more) refuse_other_length(sources, targets);
      refuse_other_length(targets, sources);
    }
    if (!more) break;
    std::vector<int32_t> ids = encoder.encode_target(line, targets);
    ids.push_back(end);
    examples.all.labels.insert(examples.all.labels.end(), ids.begin(), ids.end());
    ids.insert(ids.begin(), start);
    ids.pop_back();
    examples.all.target.add(ids);
    progress.count();
  }
  refuse_if_empty(examples, {source, target}, "a text per line");
  return examples;
}

}  // namespace headwise
