// Reads the tokenizer of a model and hashes its weights, once.
#include "model/model_source.h"

#include <future>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/model_folder.h"
#include "headwise/io/tensor_file.h"
#include "io/file_hash.h"
#include "io/folder_aside.h"
#include "model/model_parts.h"

namespace headwise {
namespace {

std::string last_part(const std::filesystem::path& folder) {
  const std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

ModelSource::ModelSource(std::filesystem::path folder, LoadOptions options)
    : folder_(std::move(folder)), name_(last_part(folder_)), options_(std::move(options)) {}

const Tokenizer* ModelSource::tokenizer() const {
  const std::lock_guard lock(mutex_);
  if (!tokenizer_is_read_) {
    if (!folder_.empty()) tokenizer_ = Tokenizer::find(folder_);
    tokenizer_is_read_ = true;
  }
  return tokenizer_ ? &*tokenizer_ : nullptr;
}

void ModelSource::set_tokenizer(std::optional<Tokenizer> tokenizer) {
  const std::lock_guard lock(mutex_);
  tokenizer_ = std::move(tokenizer);
  tokenizer_is_read_ = true;
}

const std::string& ModelSource::hash(const std::function<void()>& check) const {
  const std::lock_guard lock(mutex_);
  if (hash_.empty()) hash_ = sha256_of_files(TensorFiles::open(folder_).files(), check);
  return hash_;
}

void ModelSource::moved_to(const std::filesystem::path& folder) {
  folder_ = folder;
  name_ = last_part(folder);
}

Model load(const std::string& folder_or_id, const LoadOptions& options) {
  const std::filesystem::path folder = find_model(folder_or_id);
  // Both at once: each takes a good part of the time to the first result.
  std::future<std::optional<Tokenizer>> tokenizer =
      std::async(std::launch::async, [&folder] { return Tokenizer::find(folder); });
  Model model = read_model(folder, options);
  ModelSource& source = ModelSource::of(model);
  source.set_tokenizer(tokenizer.get());
  if (!std::filesystem::is_directory(folder_or_id)) source.set_name(folder_or_id);
  return model;
}

const std::filesystem::path& Model::folder() const { return source_->folder(); }
const std::string& Model::name() const { return source_->name(); }
const LoadOptions& Model::load_options() const { return source_->load_options(); }
const Tokenizer* Model::tokenizer() const { return source_->tokenizer(); }
const std::string& Model::hash(const std::function<void()>& check) const {
  return source_->hash(check);
}

void Model::save(const std::filesystem::path& folder) const {
  check_outside(this->folder(), folder);
  FolderAside aside(folder);
  copy_files(this->folder(), aside.path());
  const std::string copied = sha256_of_files(TensorFiles::open(aside.path()).files());
  if (copied != hash()) {
    throw Error({.what = "the weights that were written are not those of the model",
                 .where = folder.string(),
                 .got = copied,
                 .expected = hash(),
                 .hint = "were they written to meanwhile?"});
  }
  aside.become_out();
}

}  // namespace headwise
