// All metrics, by the pass that they see.
#include <algorithm>

#include "observe/head_metric.h"

namespace headwise {

std::span<const HeadMetricKind> head_metric_kinds() {
  using enum DataPass;
  static const std::vector<HeadMetricKind> kKinds = {
      {attention,
       {"entropy", "entropy_ratio", "confidence", "distance", "mass_previous", "mass_self",
        "mass_next", "mass_first", "mass_last", "mass_special", "mass_punctuation", "mass_window",
        "offset_share", "diagonal"},
       statistics_metric},
      {attention, {"rare_share", "rare_chance"}, rare_tokens_metric},
      {attention, {"semantic"}, semantics_metric},
      {attention, {"contribution_norm", "constancy"}, contributions_metric},
      {attention, {"direct_logit"}, direct_logits_metric},
      {similarity, {"js"}, divergence_metric},
      {similarity, {"output_cka"}, similarity_metric},
      {treebank, {"relation"}, relations_metric},
      {treebank, {"upos", "upos_selectivity"}, parts_of_speech_metric},
      {coreference, {"coreference"}, coreference_metric},
      {alignment, {"alignment", "alignment_read"}, alignment_metric},
      {repeated, {"induction", "duplicate", "previous_on_random"}, repetition_metric},
      {fields, {"same_field"}, field_probe_metric},
      {rare, {"rare_word"}, rare_probe_metric},
  };
  return kKinds;
}

bool is_wanted(const HeadMetricKind& kind, const MeasureSelection& measures) {
  return std::ranges::any_of(kind.measures,
                             [&](std::string_view name) { return measures.has(name); });
}

bool is_wanted(DataPass pass, const MeasureSelection& measures) {
  return std::ranges::any_of(head_metric_kinds(), [&](const HeadMetricKind& kind) {
    return kind.pass == pass && is_wanted(kind, measures);
  });
}

}  // namespace headwise
