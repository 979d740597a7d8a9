// Reads "headwise" and "pruned_heads", and derives key/value heads and groups from what is left.
#include "model/config_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/config_families.h"

namespace headwise {
namespace {

/// The heads of one attention before any is pruned.
struct HeadShape {
  int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
};

void fill(AttentionConfig& attention, const HeadShape& shape, const std::vector<int64_t>& pruned) {
  attention.head_dim = shape.head_dim;
  attention.value_dim = shape.value_dim;
  attention.group = shape.heads / shape.kv_heads;
  for (int64_t head = 0; head < shape.heads; ++head) {
    if (std::ranges::binary_search(pruned, head)) continue;
    const auto kv = static_cast<int32_t>(head / attention.group);
    if (attention.kv_heads.empty() || attention.kv_heads.back() != kv) {
      attention.kv_heads.push_back(kv);
    }
    attention.heads.push_back(static_cast<int32_t>(head));
    attention.kv_head.push_back(static_cast<int32_t>(attention.kv_heads.size()) - 1);
  }
}

/// An object whose fields are names of attentions, each taken once.
class ByAttention {
 public:
  ByAttention() = default;
  explicit ByAttention(const JsonObject& object) : object_(object) {
    for (std::string& name : object_->names()) left_.insert(std::move(name));
  }

  /// The name of a field that is there for this attention, which may be spelled in two ways.
  std::optional<std::string> take(const std::string& prefix, size_t layer) {
    std::vector<std::string> spellings = {fmt::format("{}L{}", prefix, layer)};
    if (prefix.empty()) spellings.push_back(fmt::format("{}", layer));
    for (const std::string& spelling : spellings) {
      if (left_.erase(spelling) > 0) return spelling;
    }
    return {};
  }

  void finish(const char* what, bool encoder_decoder) const {
    if (left_.empty()) return;
    object_->refuse(
        *left_.begin(), what,
        encoder_decoder ? "enc.L0, dec.L0, cross.L0 and so on" : "the number of a layer, once");
  }

  const JsonObject& object() const { return *object_; }

 private:
  std::optional<JsonObject> object_;
  std::set<std::string> left_;
};

ByAttention read_own_heads(ConfigFields& fields, const ModelConfig& config) {
  if (!fields.has("headwise")) return {};
  const JsonObject object = fields.object().object("headwise");
  object.only({"attention"});
  const bool scaled = std::ranges::any_of(config.decoder.attention,
                                          [](const AttentionConfig& a) { return !!a.scale; });
  if (config.relative.buckets > 0 || config.model_type == "gpt_neox" || scaled) {
    object.refuse("attention", "this architecture cannot have heads by layer",
                  "bert, gpt2, llama or marian without scales by layer");
  }
  return ByAttention(object.object("attention"));
}

HeadShape read_shape(const JsonObject& all, const std::string& name, const ModelConfig& config,
                     int64_t rotary_dim) {
  const JsonObject own = all.object(name);
  own.only({"heads", "kv_heads", "head_dim", "value_dim"});
  HeadShape shape{.heads = own.integer("heads", 1, kMostHeads),
                  .head_dim = own.integer("head_dim", 1, kWidestHead),
                  .value_dim = own.integer("value_dim", 1, kWidestHead)};
  shape.kv_heads = own.optional_integer("kv_heads", 1, shape.heads).value_or(shape.heads);
  if (shape.heads % shape.kv_heads != 0) {
    own.refuse("kv_heads", "the heads do not divide among the key/value heads",
               fmt::format("a number that divides {}", shape.heads));
  }
  if (config.positions == PositionKind::rotary && shape.head_dim != rotary_dim) {
    own.refuse("head_dim", "with rotary positions all heads are of one width",
               fmt::format("{}", rotary_dim),
               "value_dim may differ; or choose an architecture without rotary positions");
  }
  return shape;
}

std::vector<int64_t> read_pruned(const JsonObject& all, const std::string& name, int64_t heads) {
  std::vector<int64_t> pruned = all.integers(name, 0, heads - 1);
  std::ranges::sort(pruned);
  if (std::ranges::adjacent_find(pruned) != pruned.end()) {
    all.refuse(name, "a pruned head is named twice", "each head once");
  }
  return pruned;
}

}  // namespace

void set_heads(ConfigFields& fields, ModelConfig& config) {
  ByAttention own = read_own_heads(fields, config);
  ByAttention pruned = fields.has("pruned_heads")
                           ? ByAttention(fields.object().object("pruned_heads"))
                           : ByAttention();
  const auto fill_all = [&](std::vector<AttentionConfig>& attentions, const StackConfig& stack,
                            const char* prefix) {
    for (size_t layer = 0; layer < attentions.size(); ++layer) {
      HeadShape shape{stack.heads, stack.kv_heads, stack.head_dim, stack.head_dim};
      if (const auto name = own.take(prefix, layer)) {
        shape = read_shape(own.object(), *name, config, stack.head_dim);
      }
      const auto name = pruned.take(prefix, layer);
      fill(attentions[layer], shape,
           name ? read_pruned(pruned.object(), *name, shape.heads) : std::vector<int64_t>());
    }
  };
  const bool two = config.encoder_decoder();
  fill_all(config.encoder.attention, config.encoder, two ? "enc." : "");
  fill_all(config.decoder.attention, config.decoder, two ? "dec." : "");
  fill_all(config.decoder.cross, config.decoder, "cross.");
  own.finish("the heads are of an attention that is not there", two);
  pruned.finish("the pruned heads are of an attention that is not there", two);
}

}  // namespace headwise
