// Chooses a few texts that people can take in, and keeps what heads attend to in them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "headwise/io/json_text.h"
#include "headwise/model/head_arrays.h"
#include "headwise/report/report.h"
#include "text/base64.h"

namespace headwise {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kTexts = 4;
constexpr int64_t kLikedTokens = 16, kMostTokens = 96;

/// Those of nearest to the length one likes to read, in the order of the corpus.
std::vector<const ObservedText*> chosen(const ObservedCorpus& corpus) {
  std::vector<const ObservedText*> texts;
  for (const ObservedText& text : corpus.texts) {
    if (!text.ids.empty() && std::ssize(text.ids) <= kMostTokens) texts.push_back(&text);
  }
  std::ranges::stable_sort(texts, {}, [](const ObservedText* text) {
    return std::abs(std::ssize(text->ids) - kLikedTokens);
  });
  texts.resize(std::min(texts.size(), kTexts));
  std::ranges::sort(texts);
  return texts;
}

OrderedJson tokens_of(const Tokenizer* tokenizer, const std::vector<int32_t>& ids) {
  OrderedJson tokens = OrderedJson::array();
  for (const int32_t id : ids) {
    tokens.push_back(tokenizer == nullptr ? std::to_string(id) : tokenizer->token(id));
  }
  return tokens;
}

OrderedJson special_of(const Tokenizer* tokenizer, const std::vector<int32_t>& ids) {
  return tokenizer == nullptr ? OrderedJson::array()
                              : OrderedJson(tokenizer->special_positions(ids));
}

}  // namespace

std::string encode_weights(std::span<const float> weights) {
  std::string bytes;
  bytes.reserve(weights.size());
  for (const float weight : weights) {
    bytes.push_back(static_cast<char>(std::lround(255 * std::clamp(weight, 0.f, 1.f))));
  }
  return text::encode_base64(bytes);
}

std::string sample_maps(const Model& model, const ObservedCorpus& corpus) {
  const Tokenizer* const tokenizer = model.tokenizer();
  OrderedJson samples = OrderedJson::array();
  for (const ObservedText* text : chosen(corpus)) {
    HeadRecorder recorder(model, model.find_heads("all"), HeadArrayKind::maps);
    TokenBatch source, target;
    source.add(text->ids, text->types);
    OrderedJson sample = {{"tokens", tokens_of(tokenizer, text->ids)},
                          {"special", special_of(tokenizer, text->ids)}};
    if (text->decoder_ids.empty()) {
      (void)model.forward(source, {.observer = &recorder});
    } else {
      target.add(text->decoder_ids);
      (void)model.forward(source, target, {.observer = &recorder});
      sample["target_tokens"] = tokens_of(tokenizer, text->decoder_ids);
      sample["target_special"] = special_of(tokenizer, text->decoder_ids);
    }
    OrderedJson& maps = sample["maps"] = OrderedJson::object();
    for (const HeadArray& map : recorder.arrays) {
      maps[map.name] = {
          {"rows", map.rows}, {"columns", map.columns}, {"data", encode_weights(map.values)}};
    }
    samples.push_back(std::move(sample));
  }
  return json_text({{"schema", 1}, {"samples", std::move(samples)}});
}

}  // namespace headwise
