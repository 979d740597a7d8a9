// Positions and masks of padded texts in operators of ONNX.
#include "export/onnx_texts.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace headwise::onnx {

Texts::Texts(Graph& graph, Value mask) : graph_(graph), mask_(std::move(mask)) {
  const Value count = graph.node("CumSum", {mask_, graph.scalar(int64_t{1})});
  positions_ = graph.node(
      "Max", {graph.node("Sub", {count, graph.scalar(int64_t{1})}), graph.scalar(int64_t{0})});
}

Value Texts::distances() {
  if (distances_.empty()) {
    const Value count = graph_.squeeze(graph_.extent(mask_, 1), {0});
    const Value index =
        graph_.node("Range", {graph_.scalar(int64_t{0}), count, graph_.scalar(int64_t{1})});
    distances_ = graph_.node("Sub", {graph_.unsqueeze(index, {0}), graph_.unsqueeze(index, {1})});
  }
  return distances_;
}

Value Texts::cached(const char* kind, const AttentionMask& mask, Make make) {
  const std::string key = fmt::format("{} {} {} {} {} {}", kind, mask.causal, mask.left, mask.right,
                                      mask.shift, mask.first_keys);
  const auto found = masks_.find(key);
  if (found != masks_.end()) return found->second;
  const Value made = (this->*make)(mask);
  return masks_[key] = made;
}

Value Texts::make_visible(const AttentionMask& mask) {
  Value seen = graph_.unsqueeze(graph_.cast(mask_, Type::boolean), {1, 2});
  const auto also = [&](const Value& condition) { seen = graph_.node("And", {seen, condition}); };
  const auto at_most = [&](int64_t most) {
    also(graph_.node("LessOrEqual", {distances(), graph_.scalar(most)}));
  };
  if (mask.causal) at_most(0);
  if (mask.right != kUnlimited) at_most(mask.shift + mask.right);
  if (mask.left != kUnlimited) {
    also(graph_.node("GreaterOrEqual", {distances(), graph_.scalar(mask.shift - mask.left)}));
  }
  if (mask.first_keys != kUnlimited) {
    also(graph_.unsqueeze(graph_.node("Less", {positions_, graph_.scalar(mask.first_keys)}),
                          {1, 2}));
  }
  return seen;
}

Value Texts::make_scores(const AttentionMask& mask) {
  // Finite, so that padding, which may see nothing, does not become NaN.
  const Value hidden = graph_.scalar(std::numeric_limits<float>::lowest());
  return graph_.node("Where", {visible(mask), graph_.scalar(0.f), hidden});
}

Value Texts::make_weights(const AttentionMask& mask) {
  const Value seen = graph_.cast(visible(mask), Type::float32);
  const Value count = graph_.node("ReduceSum", {seen, graph_.list({-1})});
  return graph_.node("Div", {seen, graph_.node("Max", {count, graph_.scalar(1.f)})});
}

Value Texts::at(End end, const Value& rows) {
  // Not every runtime finds the largest of int64.
  const Value index = graph_.node("ArgMax", {graph_.cast(mask_, Type::int32)},
                                  {{"axis", int64_t{1}},
                                   {"keepdims", int64_t{1}},
                                   {"select_last_index", int64_t{end == End::last ? 1 : 0}}});
  return graph_.node("GatherND", {rows, index}, {{"batch_dims", int64_t{1}}});
}

}  // namespace headwise::onnx
