// Parses groups of heads, and checks what they are added to.
#include "observe_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "command.h"
#include "headwise/core/error.h"
#include "headwise/judge/category_groups.h"
#include "headwise/judge/verdict.h"
#include "stage_files.h"

namespace headwise::program {

std::vector<NamedHeads> named_groups(const std::vector<std::string>& groups, const Model& model) {
  std::vector<NamedHeads> named;
  for (const std::string& group : groups) {
    const size_t equals = std::min(group.find('='), group.size());
    const std::string name = group.substr(0, equals);
    if (name.empty() || std::ranges::find(named, name, &NamedHeads::name) != named.end()) {
      usage_error(fmt::format("--group {}: expected NAME=HEADS, each name once", group));
    }
    if (name.starts_with("role:") ||
        std::ranges::find(model.attentions(), name, &AttentionSite::name) !=
            model.attentions().end()) {
      usage_error(fmt::format(
          "--group {}: --ablate layers and --verdict give such names; choose another: mine=HEADS",
          group));
    }
    NamedHeads& to = named.emplace_back(NamedHeads{.name = name});
    const bool has_name = equals < group.size();
    for (const HeadIndex& head : model.find_heads(has_name ? group.substr(equals + 1) : name)) {
      to.heads.push_back(model.attentions()[head.site].first + head.index);
    }
  }
  return named;
}

std::vector<NamedHeads> groups_of_verdict(const std::string& file, const Model& model,
                                          const Evidence::ModelIdentity& identity) {
  const Verdict verdict = read_verdict(file);
  check_about(verdict, file, identity.name, identity.sha256);
  return category_groups(verdict, model);
}

void check_appendable(const Evidence& evidence, const Evidence& fresh, const std::string& file) {
  const auto check = [&](bool same, const char* what) {
    if (same) return;
    throw Error({.what = "the evidence to be added to is another one",
                 .where = file,
                 .got = fmt::format("another {}", what),
                 .expected = "the same model, and the same data for the loss"});
  };
  check(evidence.model.sha256 == fresh.model.sha256, "model");
  const auto data_of = [](const Evidence& one) {
    const auto data = one.corpora.find("data");
    const auto found = data == one.corpora.end() ? one.corpora.find("text") : data;
    return found == one.corpora.end() ? std::string() : found->first + " " + found->second.sha256;
  };
  check(data_of(evidence) == data_of(fresh), "text or data");
}

}  // namespace headwise::program
