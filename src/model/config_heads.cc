// Reads "pruned_heads", and derives key/value heads and groups from what is left.
#include "model/config_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace headwise {
namespace {

using Pruned = std::map<std::string, std::vector<int64_t>>;

void fill(AttentionConfig& attention, const StackConfig& stack,
          const std::vector<int64_t>& pruned) {
  const int64_t group = stack.heads / stack.kv_heads;
  for (int64_t head = 0; head < stack.heads; ++head) {
    if (std::ranges::find(pruned, head) != pruned.end()) continue;
    const auto kv = static_cast<int32_t>(head / group);
    if (attention.kv_heads.empty() || attention.kv_heads.back() != kv) {
      attention.kv_heads.push_back(kv);
    }
    attention.heads.push_back(static_cast<int32_t>(head));
    attention.kv_head.push_back(static_cast<int32_t>(attention.kv_heads.size()) - 1);
  }
}

/// Takes the entry of one attention out of `pruned`, which the config may spell in two ways.
std::vector<int64_t> take(Pruned& pruned, const std::string& prefix, size_t layer) {
  std::vector<std::string> spellings = {fmt::format("{}L{}", prefix, layer)};
  if (prefix.empty()) spellings.push_back(fmt::format("{}", layer));
  for (const std::string& spelling : spellings) {
    if (auto entry = pruned.extract(spelling)) return entry.mapped();
  }
  return {};
}

}  // namespace

void set_heads(ConfigFields& fields, ModelConfig& config) {
  Pruned pruned;
  if (fields.has("pruned_heads")) {
    const JsonObject object = fields.object().object("pruned_heads");
    const int64_t most = std::max(config.encoder.heads, config.decoder.heads);
    for (const std::string& name : object.names()) {
      pruned[name] = object.integers(name, 0, most - 1);
      std::vector<int64_t> sorted = pruned[name];
      std::ranges::sort(sorted);
      if (std::ranges::adjacent_find(sorted) != sorted.end()) {
        object.refuse(name, "a pruned head is named twice", "each head once");
      }
      if (!sorted.empty() && sorted.back() >= most) {
        object.refuse(name, "a pruned head is not in the layer", fmt::format("0 to {}", most - 1));
      }
    }
  }
  const auto fill_all = [&](std::vector<AttentionConfig>& attentions, const StackConfig& stack,
                            const char* prefix) {
    for (size_t layer = 0; layer < attentions.size(); ++layer) {
      fill(attentions[layer], stack, take(pruned, prefix, layer));
    }
  };
  const bool two = config.encoder_decoder();
  fill_all(config.encoder.attention, config.encoder, two ? "enc." : "");
  fill_all(config.decoder.attention, config.decoder, two ? "dec." : "");
  fill_all(config.decoder.cross, config.decoder, "cross.");
  if (!pruned.empty()) {
    fields.object()
        .object("pruned_heads")
        .refuse(pruned.begin()->first, "the pruned heads are of an attention that is not there",
                two ? "enc.L0, dec.L0, cross.L0 and so on" : "the number of a layer");
  }
}

}  // namespace headwise
