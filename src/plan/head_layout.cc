// Reads layouts from configs, and from the names of heads.
#include "plan/head_layout.h"

#include <algorithm>
#include <charconv>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "model/head_tensors.h"

namespace headwise {
namespace {

int32_t number(std::string_view digits, const std::string& head) {
  int32_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [after, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || error != std::errc() || after != end || value < 0) {
    throw Error({.what = "this is no name of a head",
                 .where = "the verdict",
                 .got = quote(head),
                 .expected = "a name such as L3.H1 or cross.L3.H1"});
  }
  return value;
}

/// The attention that a head is in, without its heads.
AttentionSite site_of(const std::string& head) {
  const size_t dot = head.rfind(".H");
  const std::string name = head.substr(0, dot);
  const size_t layer = name.rfind('L');
  const std::string kind = name.substr(0, std::min(layer, name.size()));
  const bool known = kind.empty() || kind == "enc." || kind == "dec." || kind == "cross.";
  const bool whole = dot != std::string::npos && layer != std::string::npos && known;
  return {.side = kind == "dec." || kind == "cross." ? Side::decoder : Side::encoder,
          .kind = kind == "cross." ? AttentionKind::cross : AttentionKind::self,
          .layer = number(whole ? std::string_view(name).substr(layer + 1) : "", head),
          .name = name};
}

}  // namespace

HeadLayout::HeadLayout(const ModelConfig& config)
    : sites(attention_sites(config)), shared_bias(config.relative.buckets > 0) {
  for (const AttentionSite& site : sites) {
    const AttentionConfig& attention = attention_at(config, site);
    for (const int32_t kv : attention.kv_head) kv_heads.push_back(attention.kv_heads[kv]);
  }
}

HeadLayout::HeadLayout(const Verdict& verdict) {
  for (const HeadVerdict& head : verdict.heads) {
    AttentionSite site = site_of(head.head);
    auto at = std::ranges::find(sites, site.name, &AttentionSite::name);
    if (at == sites.end()) at = sites.insert(sites.end(), std::move(site));
    const int32_t name = number(std::string_view(head.head).substr(at->name.size() + 2), head.head);
    if (std::ranges::find(at->heads, name) != at->heads.end()) {
      throw Error(
          {.what = "a head is named twice", .where = "the verdict", .got = quote(head.head)});
    }
    at->heads.push_back(name);
  }
  for (AttentionSite& site : sites) {
    site.first = heads();
    kv_heads.insert(kv_heads.end(), site.heads.begin(), site.heads.end());
  }
}

int64_t HeadLayout::site(int64_t head) const {
  int64_t s = 0;
  while (head >= sites[s].first + std::ssize(sites[s].heads)) ++s;
  return s;
}

std::string HeadLayout::name(int64_t head) const {
  const AttentionSite& site = sites[this->site(head)];
  return site.head_name(head - site.first);
}

int64_t HeadLayout::find(std::string_view name) const {
  for (const AttentionSite& site : sites) {
    if (!name.starts_with(site.name)) continue;
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
      if (site.head_name(h) == name) return site.first + h;
    }
  }
  throw Error({.what = "the model has no such head",
               .got = quote(name),
               .expected = heads() == 0 ? "" : this->name(0) + " to " + this->name(heads() - 1),
               .hint = "is the verdict of this model?"});
}

}  // namespace headwise
