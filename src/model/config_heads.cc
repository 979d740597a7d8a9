// Reads "pruned_heads", and derives key/value heads and groups from what is left.
#include "model/config_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace headwise {
namespace {

void fill(AttentionConfig& attention, const StackConfig& stack,
          const std::vector<int64_t>& pruned) {
  const int64_t group = stack.heads / stack.kv_heads;
  for (int64_t head = 0; head < stack.heads; ++head) {
    if (std::ranges::binary_search(pruned, head)) continue;
    const auto kv = static_cast<int32_t>(head / group);
    if (attention.kv_heads.empty() || attention.kv_heads.back() != kv) {
      attention.kv_heads.push_back(kv);
    }
    attention.heads.push_back(static_cast<int32_t>(head));
    attention.kv_head.push_back(static_cast<int32_t>(attention.kv_heads.size()) - 1);
  }
}

/// The entries of "pruned_heads", each taken once.
class PrunedHeads {
 public:
  explicit PrunedHeads(ConfigFields& fields) {
    if (!fields.has("pruned_heads")) return;
    object_ = fields.object().object("pruned_heads");
    for (std::string& name : object_->names()) left_.insert(std::move(name));
  }

  /// Those of one attention of `heads` heads, which the config may spell in two ways.
  std::vector<int64_t> take(const std::string& prefix, size_t layer, int64_t heads) {
    std::vector<std::string> spellings = {fmt::format("{}L{}", prefix, layer)};
    if (prefix.empty()) spellings.push_back(fmt::format("{}", layer));
    for (const std::string& spelling : spellings) {
      if (left_.erase(spelling) == 0) continue;
      std::vector<int64_t> pruned = object_->integers(spelling, 0, heads - 1);
      std::ranges::sort(pruned);
      if (std::ranges::adjacent_find(pruned) != pruned.end()) {
        object_->refuse(spelling, "a pruned head is named twice", "each head once");
      }
      return pruned;
    }
    return {};
  }

  void finish(const char* expected) const {
    if (left_.empty()) return;
    object_->refuse(*left_.begin(), "the pruned heads are of an attention that is not there",
                    expected);
  }

 private:
  std::optional<JsonObject> object_;
  std::set<std::string> left_;
};

}  // namespace

void set_heads(ConfigFields& fields, ModelConfig& config) {
  PrunedHeads pruned(fields);
  const auto fill_all = [&](std::vector<AttentionConfig>& attentions, const StackConfig& stack,
                            const char* prefix) {
    for (size_t layer = 0; layer < attentions.size(); ++layer) {
      fill(attentions[layer], stack, pruned.take(prefix, layer, stack.heads));
    }
  };
  const bool two = config.encoder_decoder();
  fill_all(config.encoder.attention, config.encoder, two ? "enc." : "");
  fill_all(config.decoder.attention, config.decoder, two ? "dec." : "");
  fill_all(config.decoder.cross, config.decoder, "cross.");
  pruned.finish(two ? "enc.L0, dec.L0, cross.L0 and so on" : "the number of a layer, once");
}

}  // namespace headwise
