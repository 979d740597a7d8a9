// Where the heads of a model are, as far as plans need to know it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/model/config.h"
#include "headwise/model/model.h"

namespace headwise {

struct HeadLayout {
  std::vector<AttentionSite> sites{};
  std::vector<int32_t> kv_heads{};  // [heads], the name of each one's key/value head
  /// T5, MPNet: all self attentions of a side share a table with a column per head, and the config
  /// has one number of heads for attentions of all kinds.
  bool shared_bias = false;

  explicit HeadLayout(const ModelConfig& config);
  /// What names tell: that heads share keys is not among it.
  explicit HeadLayout(const Verdict& verdict);

  int64_t heads() const { return std::ssize(kv_heads); }
  std::string name(int64_t head) const;
  int64_t site(int64_t head) const;  // where it is among the sites

  /// The number of a head; throws Error if there is none of this name.
  int64_t find(std::string_view name) const;
};

}  // namespace headwise
