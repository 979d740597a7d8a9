// What a pass over one text shows of chosen heads: attention maps, queries, keys, values, outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/core/view.h"
#include "headwise/model/model.h"

namespace headwise {

enum class HeadArrayKind {
  maps,          // attention weights [rows, keys]
  q,             // [rows, head_dim]
  k,             // [keys, head_dim], of the key/value head
  v,             // [keys, value_dim], likewise
  z,             // outputs [rows, value_dim], after gates
  contribution,  // what they add to the residual stream [rows, width]
};
std::string_view to_string(HeadArrayKind kind);
HeadArrayKind head_array_kind(std::string_view name);  // throws Error that lists the names
std::vector<std::string_view> head_array_kind_names();

/// [rows, columns] of one head.
struct HeadArray {
  const AttentionSite* site = nullptr;
  std::string name{};  // "L3.H1"
  std::vector<float> values{};
  int64_t rows = 0, columns = 0;

  View<const float, 2> view() const { return {values.data(), {rows, columns}}; }
};

/// Keeps one kind of array of chosen heads during a forward pass over one text.
///
///   HeadRecorder recorder(model, model.find_heads("L3"), HeadArrayKind::maps);
///   model.forward(batch, {.observer = &recorder});
///   recorder.arrays.front().view()(row, key)
///
/// The pass throws Error for queries and keys of fixed heads, which have none.
class HeadRecorder : public ForwardObserver {
 public:
  /// `check` is called at every layer, and may throw to stop. The model must outlive it.
  HeadRecorder(const Model& model, const std::vector<HeadIndex>& heads, HeadArrayKind kind,
               std::function<void()> check = {});

  void on_resid_post(Side side, int64_t layer, View<const float, 2> rows) override;
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2> lse) override;

  std::vector<HeadArray> arrays;  // in the order of the heads given

 private:
  HeadArrayKind kind_;
  std::function<void()> check_;
  std::map<std::string, std::vector<std::pair<int64_t, size_t>>> wanted_;  // by the site's name
};

}  // namespace headwise
