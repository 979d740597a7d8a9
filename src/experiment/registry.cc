// The experiments that can be run, and the rule that many of them share.
#include <vector>

#include "experiment/claims/claims.h"
#include "experiment/experiment_kind.h"

namespace headwise {

std::span<const ExperimentKind> experiment_kinds() {
  static const std::vector<ExperimentKind> kAll = [] {
    std::vector<ExperimentKind> all;
    all.push_back(several_heads());
    all.push_back(separate_softmax());
    all.push_back(head_specialisation());
    all.push_back(train_many_prune_few());
    all.push_back(head_dropout());
    all.push_back(convolution_as_heads());
    all.push_back(programs_as_heads());
    all.push_back(layers_by_depth());
    all.push_back(redundant_partner());
    all.push_back(single_heads());
    all.push_back(lower_layers());
    all.push_back(role_groups());
    all.push_back(free_heads());
    all.push_back(harmful_heads());
    all.push_back(gradients_are_enough());
    all.push_back(graceful_failure());
    return all;
  }();
  return kAll;
}

void decide_over_models(int64_t holds, int64_t fails, int64_t models, Finding& finding) {
  if (models == 0) return;
  if (holds == models) {
    finding.outcome = ClaimOutcome::confirmed;
  } else if (fails == models) {
    finding.outcome = ClaimOutcome::refuted;
  } else if (holds > 0 && fails > 0) {
    finding.outcome = ClaimOutcome::depends;
    finding.depends_on = "the model";
  }
}

}  // namespace headwise
