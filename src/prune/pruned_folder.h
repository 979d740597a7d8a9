// The folder of a pruned model on its way to disk.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/prune/prune.h"
#include "io/folder_lock.h"
#include "io/json.h"
#include "prune/compensate.h"

namespace headwise {

/// A folder that is made aside and becomes `out`, or is gone with this object. The work is done in
/// OUT.headwise-part, which one process at a time may have; what a process that died left there is
/// removed.
class FolderAside {
 public:
  /// Throws Error unless `out` can be made, and if another process is making it.
  explicit FolderAside(std::filesystem::path out);
  ~FolderAside();
  FolderAside(const FolderAside&) = delete;
  FolderAside& operator=(const FolderAside&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// A name for another folder, which is gone with this object.
  std::filesystem::path beside(const std::string& name) const { return room_ / name; }
  /// Also after a loss of power, `out` has all of its files, or is not there.
  void become_out();

 private:
  void take_room();
  void remove_room();

  std::filesystem::path out_, room_, path_;
  std::optional<FolderLock> lock_;
};

/// Throws Error if `out` is the model's folder, or lies in it: what is in there is copied.
void check_outside(const std::filesystem::path& folder, const std::filesystem::path& out);

/// A model and the heads that it loses.
struct Pruning {
  const Model& model;
  const std::filesystem::path& folder;
  std::vector<float> gates{};             // [heads], 0 for those that are dropped
  std::vector<Correction> corrections{};  // per attention; empty: none
  const LoadOptions& load;
};

/// What config.json says of a pruned model.
struct PrunedConfig {
  std::string text{};
  std::optional<ModelConfig> compact{};  // none in the masked form
};

/// Throws Error if the architecture cannot have the form.
PrunedConfig pruned_config(const Pruning& pruning, PruneForm form);
void write_pruned(const Pruning& pruning, PruneForm form, const std::filesystem::path& to);

}  // namespace headwise
