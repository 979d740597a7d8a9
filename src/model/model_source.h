// Where a model is from, and what is read from there when it is first asked for.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "headwise/model/model.h"
#include "headwise/text/tokenizer.h"

namespace headwise {

/// Several threads may ask at once.
class ModelSource {
 public:
  ModelSource() = default;
  ModelSource(std::filesystem::path folder, LoadOptions options);

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& name() const { return name_; }
  const LoadOptions& load_options() const { return options_; }

  const Tokenizer* tokenizer() const;
  const std::string& hash(const std::function<void()>& check) const;

  static ModelSource& of(Model& model) { return *model.source_; }
  void set_name(std::string name) { name_ = std::move(name); }
  void set_tokenizer(std::optional<Tokenizer> tokenizer);
  /// The folder was renamed.
  void moved_to(const std::filesystem::path& folder);
  /// Keeps a temporary folder as long as the model.
  void keep(std::shared_ptr<const void> folder) { kept_ = std::move(folder); }

 private:
  std::filesystem::path folder_;
  std::string name_;
  LoadOptions options_;
  std::shared_ptr<const void> kept_;

  mutable std::mutex mutex_;
  mutable bool tokenizer_is_read_ = false;
  mutable std::optional<Tokenizer> tokenizer_;
  mutable std::string hash_;  // empty: not computed
};

/// Reads a model without its tokenizer, which is read when it is first asked for.
Model read_model(const std::filesystem::path& folder, const LoadOptions& options = {});

}  // namespace headwise
