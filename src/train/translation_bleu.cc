// Translates sources of similar lengths together.
#include "train/translation_bleu.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "headwise/text/bleu.h"

namespace headwise {
namespace {

constexpr int64_t kRowsAtOnce = 4096;  // of sources, times beams

}  // namespace

GenerateOptions translation_options(const std::filesystem::path& folder, const ModelConfig& config,
                                    int64_t beams, int64_t max_new_tokens) {
  GenerateOptions options = read_generation(folder, config);
  options.beams = beams;
  options.sample = false;
  options.max_new_tokens = max_new_tokens;
  if (config.max_positions > 0) {
    options.max_new_tokens = std::min(options.max_new_tokens, config.max_positions - 1);
  }
  return options;
}

double translation_bleu(const Model& model, const TokenBatch& sources,
                        const GenerateOptions& options, const Tokenizer& tokenizer,
                        std::span<const std::string> references,
                        const std::function<void(int64_t done)>& check) {
  const auto length = [&](int64_t i) { return sources.offsets[i + 1] - sources.offsets[i]; };
  std::vector<int64_t> order(sources.sequences());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, length);
  std::vector<std::string> written(order.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    check(static_cast<int64_t>(begin));
    TokenBatch batch;
    for (; end < order.size(); ++end) {
      const int64_t i = order[end];
      if (end > begin && (batch.rows() + length(i)) * options.beams > kRowsAtOnce) break;
      batch.add(std::span(sources.ids).subspan(sources.offsets[i], length(i)));
    }
    const std::vector<Generated> texts = generate(model, batch, options);
    for (size_t i = begin; i < end; ++i) {
      written[order[i]] = tokenizer.decode(texts[i - begin].ids);
    }
  }
  return corpus_bleu(written, references).score;
}

}  // namespace headwise
