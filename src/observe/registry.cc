// All watchers, by the pass that they look at.
#include "observe/watcher.h"

namespace headwise {

std::span<const WatcherKind> watcher_kinds() {
  static constexpr WatcherKind kKinds[] = {
      {"statistics", WatchPass::look, watch_statistics},
      {"rare tokens", WatchPass::look, watch_rare_tokens},
      {"semantics", WatchPass::look, watch_semantics},
      {"contributions", WatchPass::look, watch_contributions},
      {"direct logits", WatchPass::look, watch_direct_logits},
      {"divergence", WatchPass::relate, watch_divergence},
      {"similarity", WatchPass::relate, watch_similarity},
      {"relations", WatchPass::treebank, watch_relations},
      {"parts of speech", WatchPass::treebank, watch_parts_of_speech},
      {"coreference", WatchPass::coreference, watch_coreference},
      {"repetition", WatchPass::repeated, watch_repetition},
      {"field probe", WatchPass::fields, watch_field_probe},
      {"rare probe", WatchPass::rare, watch_rare_probe},
  };
  return kKinds;
}

}  // namespace headwise
