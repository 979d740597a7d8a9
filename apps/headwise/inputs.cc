// Reads and tokenizes what run and attend are given, and says which line is at fault.
#include "inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/model/generate.h"
#include "headwise/text/lines.h"
#include "headwise/text/utf8.h"
#include "options.h"

namespace headwise::program {
namespace {

std::vector<int32_t> parse_ids(const std::string& text, const std::string& where) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto skip = [&] {
    while (at != end && (*at == ' ' || *at == ',' || *at == '\t' || *at == '\n')) ++at;
  };
  for (skip(); at != end; skip()) {
    int32_t id = 0;
    const auto [after, error] = std::from_chars(at, end, id);
    if (error != std::errc() ||
        (after != end && *after != ' ' && *after != ',' && *after != '\t' && *after != '\n')) {
      throw Error({.what = "these are no token ids",
                   .where = where,
                   .got = fmt::format("\"{}\"", text),
                   .expected = "whole numbers with spaces between them, for instance \"5 9 3\""});
    }
    ids.push_back(id);
    at = after;
  }
  return ids;
}

/// Lines of a file, which may be gzip, or of standard input if its name is "-".
std::vector<std::string> lines_of_file(const std::string& name) {
  if (name != "-" && std::filesystem::is_regular_file(name)) {
    return read_lines(name, InvalidUtf8::keep);  // who asked for the lines checks them
  }
  std::ifstream file;
  if (name != "-") {
    file.open(name, std::ios::binary);
    const std::string reason = std::generic_category().message(errno);
    const bool is_folder = std::filesystem::is_directory(name);
    if (!file || is_folder) {
      throw Error({.what = "the file cannot be read",
                   .where = name,
                   .got = is_folder ? "a folder" : reason,
                   .expected = "a text file",
                   .hint = "- reads standard input, --text takes a text itself"});
    }
  }
  std::istream& in = name == "-" ? std::cin : file;
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  throw_if_interrupted();
  return lines_of(text);
}

/// How many characters of a text are U+FFFD.
int64_t count_replacements(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  int64_t count = 0;
  for (size_t at = 0; (at = text.find(kReplacement, at)) != text.npos; ++count) at += 3;
  return count;
}

/// Refuses bytes that are no UTF-8, or replaces and counts them.
class Utf8Check {
 public:
  explicit Utf8Check(bool replaces) : replaces_(replaces) {}

  /// Throws Error unless it replaces.
  void operator()(std::string& text, const std::string& where) {
    const std::optional<size_t> invalid = find_invalid_utf8(text);
    if (!invalid) return;
    if (replaces_) {
      std::string valid = replace_invalid_utf8(text);
      replaced_ += count_replacements(valid) - count_replacements(text);
      text = std::move(valid);
      return;
    }
    throw Error({.what = "text: not UTF-8",
                 .where = fmt::format("{}, byte {}", where, *invalid + 1),
                 .got = fmt::format("byte {:02X}", static_cast<uint8_t>(text[*invalid])),
                 .expected = "text in UTF-8",
                 .hint = "convert it, for instance with iconv -t UTF-8 -f ENCODING; "
                         "--replace-invalid goes on with U+FFFD in its place"});
  }

  /// Says how much was replaced, with --quiet too: the texts are not those that were given.
  void report() const {
    if (replaced_ == 0) return;
    print_error(
        fmt::format("headwise: {} {} not UTF-8 and replaced by U+FFFD\n", replaced_,
                    replaced_ == 1 ? "place in the texts was" : "places in the texts were"));
  }

 private:
  bool replaces_;
  int64_t replaced_ = 0;
};

void split_pair(Input& input) {
  const size_t tab = input.text.find('\t');
  if (tab == std::string::npos) {
    throw Error({.what = "a line is no pair of texts",
                 .where = input.where,
                 .got = fmt::format("\"{}\"", input.text),
                 .expected = "two texts with a tab between them"});
  }
  input.second = input.text.substr(tab + 1);
  input.text.resize(tab);
  input.paired = true;
}

/// "--text", or "--text, the 2." where there are several.
std::string numbered(const char* option, size_t i, size_t count) {
  return count == 1 ? option : fmt::format("{}, the {}.", option, i + 1);
}

std::vector<Input> read_texts(const InputOptions& options, bool pairs, Utf8Check& check_utf8) {
  std::vector<Input> inputs;
  for (size_t i = 0; i < options.texts.size(); ++i) {
    inputs.push_back(
        {.where = numbered("--text", i, options.texts.size()), .text = options.texts[i]});
    check_utf8(inputs.back().text, inputs.back().where);
    if (!options.pairs.empty()) {
      inputs.back().second = options.pairs[i];
      check_utf8(inputs.back().second, numbered("--pair", i, options.pairs.size()));
      inputs.back().paired = true;
    } else if (options.texts[i].empty()) {
      throw Error({.what = "the text is empty",
                   .where = inputs.back().where,
                   .expected = "a text",
                   .hint = "is a shell variable unset?"});
    }
  }
  if (options.file.empty()) return inputs;
  const std::string name = options.file == "-" ? "standard input" : options.file;
  std::vector<std::string> lines = lines_of_file(options.file);
  if (lines.empty()) {
    throw Error({.what = "the file has no text", .where = name, .expected = "one text per line"});
  }
  for (std::string& line : lines) {
    const auto number = inputs.size() - options.texts.size() + 1;
    inputs.push_back({.where = fmt::format("{}, line {}", name, number), .text = std::move(line)});
    check_utf8(inputs.back().text, inputs.back().where);
    if (pairs) split_pair(inputs.back());
  }
  return inputs;
}

const Tokenizer& need_tokenizer(const Session& session) {
  if (session.tokenizer() != nullptr) return *session.tokenizer();
  throw Error(
      {.what = "the model has no tokenizer",
       .where = session.model().folder().string(),
       .expected = "tokenizer.json, vocab.txt, vocab.json and merges.txt, or tokenizer.model",
       .hint = "give token ids: --ids \"5 9 3\""});
}

/// The longest text that the model takes.
std::optional<int64_t> most_tokens(const Session& session) {
  const int64_t positions = session.config().max_positions;
  return positions > 0 ? std::optional(positions) : std::nullopt;
}

enum class From { text, ids };

void check_length(const Session& session, std::span<const int32_t> ids, From from,
                  const std::string& where) {
  const auto most = most_tokens(session);
  if (!most || std::ssize(ids) <= *most) return;
  throw Error({.what = "a text is longer than the model's positions",
               .where = where,
               .got = fmt::format("{} tokens", ids.size()),
               .expected = fmt::format("at most {}", *most),
               .hint = from == From::text ? "split the text, or let --truncate cut it"
                                          : "split them; ids are taken as they are"});
}

void check_ids(std::span<const int32_t> ids, int64_t vocabulary, const std::string& where) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocabulary) continue;
    throw Error({.what = "a token id is not in the vocabulary",
                 .where = fmt::format("{}, token {}", where, i),
                 .got = fmt::format("{}", ids[i]),
                 .expected = fmt::format("0 to {}", vocabulary - 1)});
  }
}

Input input_of_ids(const InputOptions& options, size_t i, const Session& session) {
  Input input{.where = numbered("--ids", i, options.ids.size())};
  input.encoding.ids = parse_ids(options.ids[i], input.where);
  if (!options.type_ids.empty()) {
    input.encoding.type_ids = parse_ids(options.type_ids[i], "--type-ids");
    if (input.encoding.type_ids.size() != input.encoding.ids.size()) {
      throw Error({.what = "not one type per token",
                   .where = "--type-ids",
                   .got = fmt::format("{}", input.encoding.type_ids.size()),
                   .expected = fmt::format("{}", input.encoding.ids.size())});
    }
  }
  check_length(session, input.encoding.ids, From::ids, input.where);
  check_ids(input.encoding.ids, session.config().vocabulary, input.where);
  return input;
}

/// What the decoder reads for one input.
struct DecoderInput {
  std::string where{};
  std::vector<int32_t> ids{};
  std::string text{};
  Encoding encoding{};
};

/// With the start token in front: of texts always, of ids if it is asked for and missing.
std::vector<DecoderInput> read_decoder_inputs(const InputOptions& options, const Session& session,
                                              const EncodeLimits& limits, Utf8Check& check_utf8) {
  const std::optional<int32_t> start = session.config().decoder_start;
  std::vector<DecoderInput> all;
  for (size_t i = 0; i < options.decoder_ids.size(); ++i) {
    DecoderInput one{.where = numbered("--decoder-ids", i, options.decoder_ids.size())};
    one.ids = parse_ids(options.decoder_ids[i], one.where);
    if (limits.start_decoder && start && (one.ids.empty() || one.ids.front() != *start)) {
      one.ids.insert(one.ids.begin(), *start);
    }
    check_length(session, one.ids, From::ids, one.where);
    all.push_back(std::move(one));
  }
  const bool is_file = !options.reference.empty();
  const auto texts = is_file ? lines_of_file(options.reference) : options.decoder_texts;
  EncodeOptions params{.target = true};
  if (options.truncate && most_tokens(session)) params.truncate = *most_tokens(session) - !!start;
  for (size_t i = 0; i < texts.size(); ++i) {
    DecoderInput one{.where = is_file ? fmt::format("{}, line {}", options.reference, i + 1)
                                      : numbered("--decoder-text", i, texts.size())};
    one.text = texts[i];
    check_utf8(one.text, one.where);
    one.encoding = need_tokenizer(session).encode(one.text, params);
    one.ids = one.encoding.ids;
    if (start) one.ids.insert(one.ids.begin(), *start);
    check_length(session, one.ids, From::text, one.where);
    all.push_back(std::move(one));
  }
  return all;
}

void read_decoder(const InputOptions& options, const Session& session, const EncodeLimits& limits,
                  Utf8Check& check_utf8, std::vector<Input>& inputs) {
  if (!options.has_decoder()) return;
  const ModelConfig& config = session.config();
  const char* const name = !options.decoder_ids.empty()     ? "--decoder-ids"
                           : !options.decoder_texts.empty() ? "--decoder-text"
                                                            : options.reference.c_str();
  if (!config.encoder_decoder()) {
    throw Error({.what = "the model has no encoder and decoder",
                 .where = name,
                 .got = config.model_type,
                 .expected = "marian or t5"});
  }
  std::vector<DecoderInput> all = read_decoder_inputs(options, session, limits, check_utf8);
  if (all.size() != inputs.size()) {
    throw Error({.what = "inputs and texts of the decoder are not as many",
                 .where = name,
                 .got = fmt::format("{}", all.size()),
                 .expected = fmt::format("{}", inputs.size())});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (all[i].ids.empty()) {
      throw Error({.what = "the decoder has nothing to read",
                   .where = all[i].where,
                   .expected = "at least one token"});
    }
    check_ids(all[i].ids, config.decoder_vocabulary, all[i].where);
    inputs[i].decoder_ids = std::move(all[i].ids);
    inputs[i].decoder_text = std::move(all[i].text);
    inputs[i].decoder_encoding = std::move(all[i].encoding);
  }
}

}  // namespace

void check_options(const InputOptions& options, bool needs_input) {
  usage_error_if(needs_input && !options.has_input(), "no input: give --text, --input or --ids");
  usage_error_if(!options.pairs.empty() && options.pairs.size() != options.texts.size(),
                 "--pair: give one for each --text");
  usage_error_if(options.paired_lines && options.file.empty(),
                 "--pairs: give the lines, with --input");
  usage_error_if(!options.type_ids.empty() && options.type_ids.size() != options.ids.size(),
                 "--type-ids: give one for each --ids");
  const int ways =
      !options.decoder_texts.empty() + !options.decoder_ids.empty() + !options.reference.empty();
  usage_error_if(ways > 1, "give one of --decoder-text, --decoder-ids and --reference");
}

void add_inputs(CLI::App& command, InputOptions& options, bool with_pairs) {
  Options(command).model("MODEL", options.model);
  Options group(command, "Input");
  group.list("--text", options.texts, "S", "A text; may be given several times");
  group.list(
      "--pair,--context", options.pairs, "S",
      "The second text of a pair, or where the answer of a question is; one for each --text");
  group.add("--input", options.file, "FILE", "A file with one text per line; - is standard input");
  if (with_pairs) {
    group.flag("--pairs", options.paired_lines,
               "Lines of --input are pairs, with a tab between the texts");
  }
  group.list("--ids", options.ids, "IDS",
             "Token ids, taken as they are: \"5 9 3\"; may be repeated");
  group.list("--type-ids", options.type_ids, "IDS", "Their token types; one for each --ids");
  group.list("--decoder-text", options.decoder_texts, "S",
             "Encoder-decoders: what the decoder reads, after its start token; one for each input");
  group.list("--decoder-ids", options.decoder_ids, "IDS", "The same as ids, taken as they are");
  group.add("--reference", options.reference, "FILE", "A file with one such text per line");
  group.truncate(options.truncate);
  group.flag("--replace-invalid", options.replace_invalid,
             "Replace what is not UTF-8 in texts by U+FFFD, and say how much; default: refuse it");
  group.allow_nonfinite(options.allow_nonfinite);
  group.list("--gate", options.gates, "HEADS=X",
             "Multiply heads by a number from 0 to 1: L3.H1=0, L3=0.5, L1,L2.H0=0; or ablate them "
             "to their mean output over the texts: L3.H1=mean; may be repeated");
}

void encode(Input& input, const Session& session, const EncodeOptions& options) {
  const Tokenizer& tokenizer = need_tokenizer(session);
  input.encoding = input.paired ? tokenizer.encode(input.text, input.second, options)
                                : tokenizer.encode(input.text, options);
  if (session.config().token_types == 0) input.encoding.type_ids.clear();
  check_length(session, input.encoding.ids, From::text, input.where);
  check_ids(input.encoding.ids, session.config().vocabulary, input.where);
}

void prepare_decoder(const Session& session, uint64_t seed, uint64_t stream, Input& input,
                     int64_t most) {
  if (!input.decoder_ids.empty()) return;
  TokenBatch source;
  source.add(input.encoding.ids, input.encoding.type_ids);
  input.decoder_ids = decoder_input(session.model(), source, seed, stream, session.forward(), most);
}

std::vector<Input> read_inputs(const InputOptions& options, const Session& session,
                               const EncodeLimits& limits) {
  EncodeOptions params;
  if (options.truncate) {
    params.truncate = most_tokens(session);
    if (limits.cut_at && (!params.truncate || *limits.cut_at < *params.truncate)) {
      params.truncate = limits.cut_at;
    }
  }
  Utf8Check check_utf8(options.replace_invalid);
  std::vector<Input> inputs = read_texts(options, limits.pairs || options.paired_lines, check_utf8);
  for (Input& input : inputs) encode(input, session, params);
  for (size_t i = 0; i < options.ids.size(); ++i) {
    inputs.push_back(input_of_ids(options, i, session));
  }
  read_decoder(options, session, limits, check_utf8, inputs);
  check_utf8.report();
  return inputs;
}

}  // namespace headwise::program
