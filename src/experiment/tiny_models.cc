// Trains models of 8 heads on the built-in text.
#include "experiment/tiny_models.h"

#include <fmt/format.h>

#include "headwise/io/output_file.h"
#include "headwise/text/sample_text.h"
#include "headwise/train/settings.h"
#include "headwise/train/trainer.h"

namespace headwise {
namespace {

class Checked : public TrainObserver {
 public:
  explicit Checked(const std::function<void()>& check) : check_(check) {}
  void stepped(const TrainProgress&) override { check_(); }

 private:
  const std::function<void()>& check_;
};

}  // namespace

bool is_tiny_model(const std::string& name) { return name == "tiny-lm" || name == "tiny-encoder"; }

void train_tiny_model(const std::string& name, const std::filesystem::path& folder,
                      const std::function<void()>& check) {
  const bool causal = name == "tiny-lm";
  const std::filesystem::path text = folder.string() + ".txt";
  write_file_whole(text, longer_sample_text());
  const std::string settings = fmt::format(
      R"({{"task": "{}", "model": {{"architecture": "{}", "hidden_size": 32, "layers": 2, "heads": 4,
           "max_position_embeddings": 32, "vocab_size": 400}},
           "data": {{"train": "{}", "length": 32{}}},
           "tokens_per_batch": 500, "steps": 60, "dropout": 0, "optimizer": {{"rate": 5e-3}}}})",
      causal ? "causal_lm" : "masked_lm", causal ? "llama" : "bert", text.filename().string(),
      causal ? R"(, "documents": "lines")" : R"(, "truncate": true)");
  Checked observer(check);
  train(parse_train_settings(settings, name, folder.parent_path()), folder, false, observer);
}

}  // namespace headwise
