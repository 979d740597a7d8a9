// Reads "headwise" and "pruned_heads", and derives key/value heads and groups from what is left.
#include "model/config_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/families/family.h"
#include "model/families/stack_fields.h"

namespace headwise {
namespace {

/// The heads of one attention before any is pruned.
struct HeadShape {
  int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
};

using FixedHeads = std::map<int64_t, FixedPattern>;  // by the name of the head

void fill(AttentionConfig& attention, const HeadShape& shape, const std::vector<int64_t>& pruned,
          const FixedHeads& fixed) {
  attention.head_dim = shape.head_dim;
  attention.value_dim = shape.value_dim;
  attention.group = shape.heads / shape.kv_heads;
  const auto add = [&](int64_t head) {
    const auto kv = static_cast<int32_t>(head / attention.group);
    const auto at = std::ranges::find(attention.kv_heads, kv);
    attention.kv_head.push_back(static_cast<int32_t>(at - attention.kv_heads.begin()));
    if (at == attention.kv_heads.end()) attention.kv_heads.push_back(kv);
    attention.heads.push_back(static_cast<int32_t>(head));
  };
  const auto is_pruned = [&](int64_t head) { return std::ranges::binary_search(pruned, head); };
  for (int64_t head = 0; head < shape.heads; ++head) {
    if (!is_pruned(head) && !fixed.contains(head)) add(head);
  }
  for (const auto& [head, pattern] : fixed) {
    if (is_pruned(head)) continue;
    add(head);
    attention.fixed.push_back(pattern);
  }
}

/// An object whose fields are names of attentions, each taken once.
class ByAttention {
 public:
  ByAttention() = default;
  explicit ByAttention(const std::optional<JsonObject>& object) : object_(object) {
    if (!object_) return;
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

  /// Fields for single heads of an attention: "L0.H3".
  std::map<int64_t, std::string> take_heads(const std::string& prefix, size_t layer,
                                            int64_t heads) {
    std::map<int64_t, std::string> found;
    if (left_.empty()) return found;
    for (int64_t head = 0; head < heads; ++head) {
      std::string name = fmt::format("{}L{}.H{}", prefix, layer, head);
      if (left_.erase(name) > 0) found[head] = std::move(name);
    }
    return found;
  }

  void finish(const char* what, bool encoder_decoder) const {
    finish(what,
           encoder_decoder ? "enc.L0, dec.L0, cross.L0 and so on" : "the number of a layer, once");
  }
  void finish(const char* what, const char* expected) const {
    if (!left_.empty()) object_->refuse(*left_.begin(), what, expected);
  }

  const JsonObject& object() const { return *object_; }

 private:
  std::optional<JsonObject> object_;
  std::set<std::string> left_;
};

HeadFields read_fields(ConfigFields& fields, const ModelConfig& config) {
  HeadFields found;
  if (fields.has("pruned_heads")) found.pruned = fields.object().object("pruned_heads");
  if (!fields.has("headwise")) return found;
  const JsonObject object = fields.object().object("headwise");
  object.only({"attention", "fixed", "routing"});
  const bool per_head =
      family_of(config).names.storage == ProjectionStorage::fused_per_head;  // as many of each
  if (config.relative.buckets > 0 || per_head) {
    object.refuse(object.names().empty() ? "attention" : object.names().front(),
                  "this architecture cannot have heads of its own",
                  "an architecture without relative bias, and not gpt_neox");
  }
  const bool scaled = std::ranges::any_of(config.decoder.attention,
                                          [](const AttentionConfig& a) { return !!a.scale; });
  if (scaled && object.has("attention")) {
    object.refuse("attention", "this architecture cannot have heads by layer",
                  "bert, gpt2, llama or marian without scales by layer");
  }
  found.attention = object.optional_object("attention");
  found.fixed = object.optional_object("fixed");
  found.routing = object.optional_object("routing");
  return found;
}

enum class Sees { both_sides, the_past, a_source };

FixedPattern read_pattern(const JsonObject& fixed, const std::string& name, Sees sees) {
  const auto pattern = parse_fixed_pattern(fixed.text(name));
  if (!pattern) {
    fixed.refuse(name, "the pattern is not known",
                 "previous, next, first, or window(n) with n from 1");
  }
  using Kind = FixedPattern::Kind;
  if (sees == Sees::the_past && pattern->kind == Kind::next) {
    fixed.refuse(name, "a causal attention does not see the next token",
                 "previous, first or window(n)");
  }
  if (sees == Sees::a_source && pattern->kind != Kind::first) {
    fixed.refuse(name, "tokens of the source are not beside those of the target", "first");
  }
  return *pattern;
}

RoutingConfig read_routing(const JsonObject& routing, const std::string& attention_name,
                           const AttentionConfig& attention, int64_t heads,
                           const FixedHeads& fixed) {
  routing.only({"shared", "active", "balance"});
  const int64_t shared = routing.integer("shared", 0, kMostHeads);
  RoutingConfig result{.active = routing.integer("active", 1, kMostHeads)};
  result.balance = static_cast<float>(routing.optional_number("balance").value_or(0.01));
  if (!(result.balance >= 0) || !std::isfinite(result.balance)) {
    routing.refuse("balance", "the weight of a loss cannot be this", "0 or more");
  }
  int64_t learned = 0;
  for (int64_t head = 0; head < heads; ++head) {
    if (fixed.contains(head) || learned++ < shared) continue;
    const auto at = std::ranges::find(attention.heads, head);
    result.heads.push_back(
        at == attention.heads.end() ? -1 : static_cast<int32_t>(at - attention.heads.begin()));
  }
  if (std::ssize(result.heads) < result.active) {
    routing.refuse("active",
                   fmt::format("{} has {} learned heads, of which {} are shared", attention_name,
                               learned, std::min(shared, learned)),
                   "at most as many as the heads that are not shared");
  }
  return result;
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
  set_heads(read_fields(fields, config), config);
}

void set_heads(const HeadFields& fields, ModelConfig& config) {
  ByAttention own(fields.attention), fixed(fields.fixed), pruned(fields.pruned);
  const auto fill_all = [&](std::vector<AttentionConfig>& attentions, const StackConfig& stack,
                            const char* prefix, Sees sees) {
    for (size_t layer = 0; layer < attentions.size(); ++layer) {
      HeadShape shape{stack.heads, stack.kv_heads, stack.head_dim, stack.head_dim};
      if (const auto name = own.take(prefix, layer)) {
        shape = read_shape(own.object(), *name, config, stack.head_dim);
      }
      FixedHeads patterns;
      for (const auto& [head, name] : fixed.take_heads(prefix, layer, shape.heads)) {
        patterns[head] = read_pattern(fixed.object(), name, sees);
      }
      const auto name = pruned.take(prefix, layer);
      fill(attentions[layer], shape,
           name ? read_pruned(pruned.object(), *name, shape.heads) : std::vector<int64_t>(),
           patterns);
      if (fields.routing) {
        attentions[layer].routing =
            read_routing(*fields.routing, fmt::format("{}L{}", prefix, layer), attentions[layer],
                         shape.heads, patterns);
      }
    }
  };
  const bool two = config.encoder_decoder();
  fill_all(config.encoder.attention, config.encoder, two ? "enc." : "", Sees::both_sides);
  fill_all(config.decoder.attention, config.decoder, two ? "dec." : "", Sees::the_past);
  fill_all(config.decoder.cross, config.decoder, "cross.", Sees::a_source);
  own.finish("the heads are of an attention that is not there", two);
  fixed.finish("there is no such head", two ? "enc.L0.H0, dec.L0.H0, cross.L0.H0 and so on"
                                            : "the name of a head, for instance L0.H0");
  pruned.finish("the pruned heads are of an attention that is not there", two);
}

}  // namespace headwise
