// All watchers, by the pass that they look at.
#include "observe/watcher.h"

namespace headwise {

std::span<const WatcherKind> watcher_kinds() {
  static constexpr WatcherKind kKinds[] = {
      {WatchPass::look, watch_statistics},          {WatchPass::look, watch_rare_tokens},
      {WatchPass::look, watch_semantics},           {WatchPass::look, watch_contributions},
      {WatchPass::look, watch_direct_logits},       {WatchPass::relate, watch_divergence},
      {WatchPass::relate, watch_similarity},        {WatchPass::treebank, watch_relations},
      {WatchPass::treebank, watch_parts_of_speech}, {WatchPass::coreference, watch_coreference},
      {WatchPass::alignment, watch_alignment},      {WatchPass::repeated, watch_repetition},
      {WatchPass::fields, watch_field_probe},       {WatchPass::rare, watch_rare_probe},
  };
  return kKinds;
}

}  // namespace headwise
