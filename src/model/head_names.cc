// The names of heads: "L3.H1", "L3", "cross.L3.H1", and lists of them.
#include "model/head_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "core/trimmed.h"
#include "headwise/core/error.h"
#include "headwise/model/model.h"

namespace headwise {
namespace {

/// "L0 to L5, each with H0 to H11", of all attentions.
std::string what_exists(std::span<const AttentionSite> sites) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < sites.size();) {
    size_t end = begin + 1;
    while (end < sites.size() && sites[end].layer == sites[end - 1].layer + 1) ++end;
    parts.push_back(end - begin == 1
                        ? sites[begin].name
                        : fmt::format("{} to {}", sites[begin].name, sites[end - 1].name));
    begin = end;
  }
  return fmt::format("a layer ({}) or one of its heads, for instance {}.H0", fmt::join(parts, ", "),
                     sites.empty() ? "L0" : sites.front().name);
}

[[noreturn]] void refuse_heads(std::string what, std::string_view got, std::string expected,
                               std::string hint = "") {
  throw Error({.what = std::move(what),
               .where = "the list of heads",
               .got = fmt::format("\"{}\"", got),
               .expected = std::move(expected),
               .hint = std::move(hint)});
}

/// Adds the heads that one name of a list stands for.
void find(std::span<const AttentionSite> sites, std::string_view name,
          std::vector<HeadIndex>& found) {
  const auto add = [&](int64_t site, int64_t index) {
    const HeadIndex head{.site = site, .index = index};
    if (std::ranges::find(found, head) == found.end()) found.push_back(head);
  };
  const size_t dot = name.rfind(".H");
  const std::string_view layer = name.substr(0, dot);
  for (int64_t s = 0; s < std::ssize(sites); ++s) {
    const AttentionSite& site = sites[s];
    if (layer != site.name && name != "all") continue;
    bool any = false;
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
      if (dot != std::string_view::npos && name != site.head_name(h)) continue;
      add(s, h);
      any = true;
    }
    if (name == "all") continue;
    if (any || dot == std::string_view::npos) return;
    refuse_heads("the layer has no such head", name,
                 site.heads.empty() ? "none: the layer has no heads"
                                    : fmt::format("one of H{}", fmt::join(site.heads, ", H")));
  }
  if (name == "all") return;
  if (const std::string proper = proper_head_name(name); !proper.empty()) {
    refuse_heads("heads are written L3.H1", name, what_exists(sites),
                 fmt::format("did you mean {}?", proper));
  }
  const bool ambiguous = name.starts_with('L') && !sites.empty() && !sites[0].name.starts_with('L');
  refuse_heads("there is no such layer", name, what_exists(sites),
               ambiguous ? fmt::format("enc.{0}, dec.{0} or cross.{0}?", name) : "");
}

}  // namespace

std::string proper_head_name(std::string_view name) {
  static const std::regex kOther(R"(((?:enc|dec|cross)\.)?[Ll]?(\d+)(?:[._:-]?[Hh]|[._:-])(\d+))");
  std::cmatch parts;
  if (!std::regex_match(name.data(), name.data() + name.size(), parts, kOther)) return "";
  std::string proper = fmt::format("{}L{}.H{}", parts[1].str(), parts[2].str(), parts[3].str());
  return proper == name ? "" : proper;
}

std::vector<AttentionSite> attention_sites(const ModelConfig& config) {
  std::vector<AttentionSite> sites;
  int64_t first = 0;
  const auto add = [&](Side side, AttentionKind kind,
                       const std::vector<AttentionConfig>& attentions, const char* prefix) {
    for (size_t layer = 0; layer < attentions.size(); ++layer) {
      const AttentionConfig& attention = attentions[layer];
      sites.push_back({.side = side,
                       .kind = kind,
                       .layer = static_cast<int64_t>(layer),
                       .name = fmt::format("{}L{}", prefix, layer),
                       .heads = attention.heads,
                       .kv_heads = static_cast<int64_t>(attention.kv_heads.size()),
                       .head_dim = attention.head_dim,
                       .value_dim = attention.value_dim,
                       .first = first});
      first += static_cast<int64_t>(attention.heads.size());
    }
  };
  const bool two = config.encoder_decoder();
  add(Side::encoder, AttentionKind::self, config.encoder.attention, two ? "enc." : "");
  add(Side::decoder, AttentionKind::self, config.decoder.attention, two ? "dec." : "");
  add(Side::decoder, AttentionKind::cross, config.decoder.cross, "cross.");
  return sites;
}

std::string AttentionSite::head_name(int64_t index) const {
  return fmt::format("{}.H{}", name, heads[index]);
}

std::vector<HeadIndex> Model::find_heads(std::string_view list) const {
  std::vector<HeadIndex> found;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = trimmed(list.substr(begin, end - begin));
    if (name.empty()) {
      refuse_heads("a name is missing between commas", list, what_exists(attentions()));
    }
    find(attentions(), name, found);
    begin = end + 1;
  }
  return found;
}

}  // namespace headwise
