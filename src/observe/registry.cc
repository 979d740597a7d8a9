// All watchers, by the pass that they look at.
#include <algorithm>

#include "observe/watcher.h"

namespace headwise {

std::span<const WatcherKind> watcher_kinds() {
  using enum WatchPass;
  static const std::vector<WatcherKind> kKinds = {
      {attention,
       {"entropy", "entropy_ratio", "confidence", "distance", "mass_previous", "mass_self",
        "mass_next", "mass_first", "mass_last", "mass_special", "mass_punctuation", "mass_window",
        "offset_share", "diagonal"},
       watch_statistics},
      {attention, {"rare_share", "rare_chance"}, watch_rare_tokens},
      {attention, {"semantic"}, watch_semantics},
      {attention, {"contribution_norm", "constancy"}, watch_contributions},
      {attention, {"direct_logit"}, watch_direct_logits},
      {similarity, {"js"}, watch_divergence},
      {similarity, {"output_cka"}, watch_similarity},
      {treebank, {"relation"}, watch_relations},
      {treebank, {"upos", "upos_selectivity"}, watch_parts_of_speech},
      {coreference, {"coreference"}, watch_coreference},
      {alignment, {"alignment", "alignment_read"}, watch_alignment},
      {repeated, {"induction", "duplicate", "previous_on_random"}, watch_repetition},
      {fields, {"same_field"}, watch_field_probe},
      {rare, {"rare_word"}, watch_rare_probe},
  };
  return kKinds;
}

bool is_wanted(const WatcherKind& kind, const MeasureSelection& measures) {
  return std::ranges::any_of(kind.measures,
                             [&](std::string_view name) { return measures.has(name); });
}

bool is_wanted(WatchPass pass, const MeasureSelection& measures) {
  return std::ranges::any_of(watcher_kinds(), [&](const WatcherKind& kind) {
    return kind.pass == pass && is_wanted(kind, measures);
  });
}

}  // namespace headwise
