// Words of texts into merges, and these into the files that `tokenizers` and transformers read.
#include "headwise/text/train_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/io/json_text.h"
#include "io/file.h"
#include "text/bpe_merges.h"
#include "text/byte_alphabet.h"
#include "text/pipeline.h"
#include "text/unicode.h"
#include "text/word_patterns.h"

namespace headwise {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kBytes = 256;
constexpr int64_t kLargestVocabulary = 10'000'000;

[[noreturn]] void refuse_training(const char* what, std::string where, std::string got,
                                  std::string expected) {
  throw Error({.what = what,
               .where = std::move(where),
               .got = std::move(got),
               .expected = std::move(expected)});
}

/// Roles as the files name them; empty ones are left out.
std::vector<std::pair<const char*, std::string>> named_roles(const BpeSettings::Roles& roles) {
  std::vector<std::pair<const char*, std::string>> named = {
      {"unk_token", roles.unk},  {"bos_token", roles.bos}, {"eos_token", roles.eos},
      {"cls_token", roles.cls},  {"sep_token", roles.sep}, {"pad_token", roles.pad},
      {"mask_token", roles.mask}};
  std::erase_if(named, [](const auto& role) { return role.second.empty(); });
  return named;
}

void check(const BpeSettings& settings) {
  const auto& special = settings.special;
  for (size_t i = 0; i < special.size(); ++i) {
    std::string bytes;
    if (special[i].empty() || std::find(special.begin(), special.begin() + i, special[i]) !=
                                  special.begin() + static_cast<ptrdiff_t>(i)) {
      refuse_training("tokenizer: special tokens must differ and not be empty", "special",
                      quote(special[i]), "every token once");
    }
    if (text::append_bytes(special[i], bytes) && bytes.size() == 1) {
      refuse_training("tokenizer: a special token is the token of a byte", "special",
                      quote(special[i]), "more than one character");
    }
  }
  for (const auto& [name, token] : named_roles(settings.roles)) {
    if (std::find(special.begin(), special.end(), token) != special.end()) continue;
    refuse_training("tokenizer: the token of a role is no special token", name, quote(token),
                    fmt::format("one of {} special tokens", special.size()));
  }
  const int64_t least = kBytes + std::ssize(special);
  if (settings.vocabulary < least || settings.vocabulary > kLargestVocabulary) {
    refuse_training(
        "tokenizer: a vocabulary of this size cannot be", "vocabulary",
        fmt::format("{} tokens", settings.vocabulary),
        fmt::format("{} (the bytes and the special tokens) to {}", least, kLargestVocabulary));
  }
}

/// "[CLS] $A [SEP]:1" as template_json takes it; it must name the texts.
std::vector<std::string> items_of(const std::string& pattern,
                                  const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  std::istringstream words(pattern);
  for (std::string word; words >> word;) {
    const bool typed = word.size() > 2 && word[word.size() - 2] == ':' &&
                       (word.back() == '0' || word.back() == '1');
    items.push_back(typed ? word : word + ":0");
  }
  for (const std::string& text : texts) {
    if (std::none_of(items.begin(), items.end(),
                     [&](const auto& item) { return item.starts_with(text + ':'); })) {
      refuse_training("tokenizer: a template leaves out a text", "template", quote(pattern), text);
    }
  }
  return items;
}

OrderedJson template_of(const BpeSettings& settings) {
  if (settings.single.empty()) return nullptr;
  text::Vocabulary special;
  for (const std::string& token : settings.special) {
    special.add(token, static_cast<int32_t>(special.size()));
  }
  const std::string pair = settings.pair.empty() ? "$A $B:1" : settings.pair;
  return text::template_json(items_of(settings.single, {"$A"}), items_of(pair, {"$A", "$B"}),
                             special);
}

OrderedJson added_tokens(const std::vector<std::string>& special) {
  std::vector<text::AddedToken> tokens;
  for (const std::string& token : special) tokens.push_back({.content = token, .special = true});
  OrderedJson out = text::to_json(tokens);
  for (size_t id = 0; id < out.size(); ++id) out[id]["id"] = id;
  return out;
}

OrderedJson byte_level_part(bool prefix) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", prefix},
          {"trim_offsets", true},
          {"use_regex", true}};
}

OrderedJson model_of(const text::LearnedBpe& bpe) {
  OrderedJson vocabulary = OrderedJson::object();
  for (size_t id = 0; id < bpe.tokens.size(); ++id) {
    // Assignment by name would search for it among all.
    vocabulary.get_ref<OrderedJson::object_t&>().emplace_back(bpe.tokens[id], id);
  }
  OrderedJson merges = OrderedJson::array();
  for (const text::BpeMerge& merge : bpe.merges) {
    merges.push_back(bpe.tokens[static_cast<size_t>(merge.left)] + ' ' +
                     bpe.tokens[static_cast<size_t>(merge.right)]);
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

OrderedJson config_of(const BpeSettings& settings) {
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false}};
  if (settings.longest_text > 0) config["model_max_length"] = settings.longest_text;
  for (const auto& [name, token] : named_roles(settings.roles)) config[name] = token;
  return config;
}

void write_json(const std::filesystem::path& file, const OrderedJson& json) {
  write_file_whole(file, json_text(json, 2));
}

}  // namespace

struct BpeTrainer::Words {
  text::CountedWords counted;
  text::Gpt2Words pattern;
  std::vector<text::Match> matches;
};

BpeTrainer::BpeTrainer() : words_(std::make_unique<Words>()) {}
BpeTrainer::BpeTrainer(BpeTrainer&&) noexcept = default;
BpeTrainer::~BpeTrainer() = default;

void BpeTrainer::add(std::string_view text) {
  const std::string valid = text::is_valid_utf8(text) ? "" : text::lossy_utf8(text);
  if (!valid.empty()) text = valid;
  words_->matches.clear();
  words_->pattern.find(text, words_->matches);
  for (const text::Match& match : words_->matches) {
    words_->counted.add(text.substr(match.begin, match.end - match.begin));
  }
}

void BpeTrainer::train(const BpeSettings& settings, const std::filesystem::path& folder) const {
  check(settings);
  const OrderedJson post_processor = template_of(settings);
  const text::LearnedBpe bpe = text::learn_bpe(words_->counted, settings.special,
                                               settings.vocabulary, settings.min_frequency);
  OrderedJson specials = OrderedJson::object();
  for (const auto& [name, token] : named_roles(settings.roles)) specials[name] = token;
  write_json(folder / "tokenizer_config.json", config_of(settings));
  write_json(folder / "special_tokens_map.json", specials);
  write_json(folder / "tokenizer.json", {{"version", "1.0"},
                                         {"truncation", nullptr},
                                         {"padding", nullptr},
                                         {"added_tokens", added_tokens(settings.special)},
                                         {"normalizer", nullptr},
                                         {"pre_tokenizer", byte_level_part(false)},
                                         {"post_processor", post_processor},
                                         {"decoder", byte_level_part(true)},
                                         {"model", model_of(bpe)}});
}

BpeSettings bpe_settings(std::string_view architecture) {
  if (architecture == "bert") {
    return {.special = {"[PAD]", "[CLS]", "[SEP]", "[MASK]"},
            .roles = {.cls = "[CLS]", .sep = "[SEP]", .pad = "[PAD]", .mask = "[MASK]"},
            .single = "[CLS] $A [SEP]",
            .pair = "[CLS] $A [SEP] $B:1 [SEP]:1"};
  }
  if (architecture == "marian") {
    return {.special = {"<pad>", "</s>"},
            .roles = {.eos = "</s>", .pad = "<pad>"},
            .single = "$A </s>",
            .pair = "$A $B </s>"};
  }
  if (architecture == "gpt2") {
    return {.special = {"<|endoftext|>"},
            .roles = {.bos = "<|endoftext|>", .eos = "<|endoftext|>", .pad = "<|endoftext|>"}};
  }
  if (architecture == "llama") {
    return {.special = {"<pad>", "<s>", "</s>"},
            .roles = {.bos = "<s>", .eos = "</s>", .pad = "<pad>"}};
  }
  refuse_training("tokenizer: no special tokens are known for this architecture", "architecture",
                  quote(architecture), "bert, gpt2, llama or marian");
}

}  // namespace headwise
