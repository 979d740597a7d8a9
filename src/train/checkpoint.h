// What a training needs to go on as if it had never stopped: weights, moments and counters, in one
// file that is there whole or not at all, and weights alone of states that may be wanted later.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/io/json.h"
#include "headwise/train/trainable_model.h"
#include "train/optimizer.h"

namespace headwise {

/// What must be the same when a training goes on.
struct TrainIdentity {
  std::string settings{};  // TrainSettings::identity
  uint64_t seed = 0;
  std::map<std::string, std::string> files{};  // "data.train": what file_identity says
  std::string simd{};                          // may differ, but then the bits do as well
};

/// The files of an identity that was written as JSON.
std::map<std::string, std::string> read_file_identities(const JsonObject& object);

/// Throws Error that says what differs, but for the SIMD target. `where` is the place of `before`.
void require_same(const std::filesystem::path& where, const TrainIdentity& before,
                  const TrainIdentity& now);

/// Where a training is.
struct TrainState {
  int64_t step = 0;   // steps made
  int64_t epoch = 0;  // of the next batch
  int64_t batch = 0;  // the next one of its epoch
  int64_t tokens = 0;
  double seconds = 0, step_seconds = 0;  // in all, and without evaluations
  int64_t log_bytes = 0;

  int64_t evaluated = -1;         // the last step that was evaluated
  int64_t best_step = -1;         // -1: none yet
  double best = 0;                // the metric there
  int64_t stale = 0;              // evaluations since then
  std::vector<int64_t> recent{};  // the last evaluated steps, to be averaged in the end
};

/// What a checkpoint says beside weights and moments, and back. Throws Error for what is none;
/// `where` names the text in messages.
std::string to_json(const TrainState& state, const TrainIdentity& identity);
std::pair<TrainState, TrainIdentity> train_state_from_json(std::string_view text,
                                                           const std::string& where);

/// The files of a training that can be resumed, in a folder of their own.
class Checkpoints {
 public:
  explicit Checkpoints(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  bool exist() const;

  /// Throws Error, and leaves what was there, if the disk is full.
  void write(const TrainState& state, const TrainIdentity& identity, TrainableModel& model,
             const Optimizer& optimizer) const;

  /// Sets weights and moments. Throws Error that says what differs if the training was another one.
  /// `other_simd` becomes the SIMD target of the checkpoint if that is another one.
  TrainState read(const TrainIdentity& identity, TrainableModel& model, Optimizer& optimizer,
                  std::optional<std::string>& other_simd) const;

  /// The weights alone, at a step; all names of `kept` stay, other snapshots go.
  void write_snapshot(int64_t step, TrainableModel& model) const;
  void remove_snapshots_but(const std::vector<int64_t>& kept) const;

  /// The mean of the weights at some steps becomes the model's.
  void load_mean(const std::vector<int64_t>& steps, TrainableModel& model) const;

 private:
  std::filesystem::path state_file() const { return folder_ / "state.safetensors"; }
  std::filesystem::path snapshot_file(int64_t step) const;

  std::filesystem::path folder_;
};

}  // namespace headwise
