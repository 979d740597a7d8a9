// What run and attend are given: texts, ids, decoder texts, gates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/model/model.h"
#include "headwise/text/tokenizer.h"
#include "verb.h"

namespace headwise::program {

struct InputOptions {
  std::string model{};
  std::vector<std::string> texts{}, pairs{}, ids{}, type_ids{};
  std::string file{};
  bool paired_lines = false;
  std::vector<std::string> decoder_texts{}, decoder_ids{};
  std::string reference{};
  std::vector<std::string> gates{};
  bool truncate = false;
  bool allow_nonfinite = false;

  bool has_input() const { return !texts.empty() || !file.empty() || !ids.empty(); }
  bool has_decoder() const {
    return !decoder_texts.empty() || !decoder_ids.empty() || !reference.empty();
  }
};

/// MODEL and the options above. The flag --pairs is left to verbs that compare heads.
void add_inputs(CLI::App& verb, InputOptions& options, bool with_pairs = true);

/// One input, tokenized.
struct Input {
  std::string where{};  // "--text", "reviews.txt, line 3"
  std::string text{}, second{};
  bool paired = false;
  Encoding encoding{};  // of --ids: only ids and type_ids
  std::vector<int32_t> decoder_ids{};
  std::string decoder_text{};   // what these are of, if it was given as text
  Encoding decoder_encoding{};  // likewise; of the last of decoder_ids
};

/// A model ready to run: with its tokenizer, if it has one, and the gates that were asked for.
class Session {
 public:
  /// Throws Error for gates of heads that are not there or that are not in [0, 1].
  explicit Session(const InputOptions& options);

  const std::filesystem::path& folder() const { return folder_; }
  const Model& model() const { return model_; }
  const ModelConfig& config() const { return model_.config(); }
  const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }

  const std::vector<float>& gates() const { return gates_; }  // [heads], or none

  /// As the tokenizer stores them; the ids themselves if there is none.
  std::vector<std::string> tokens(std::span<const int32_t> ids) const;

  /// With the gates; every layer is a place to be interrupted at unless there is an observer.
  ForwardOptions forward(ForwardObserver* observer = nullptr) const;

 private:
  void set_gates(const std::vector<std::string>& gates);

  std::filesystem::path folder_;
  std::optional<Tokenizer> tokenizer_;
  Model model_;
  std::vector<float> gates_;
};

struct EncodeLimits {
  bool pairs = false;               // lines are pairs of texts
  std::optional<int64_t> cut_at{};  // what --truncate cuts to, if less than the positions
  bool start_decoder = false;       // decoder ids are given the start token if they lack it
};

/// Options that do not go together are misuse; so is no input, where one is needed.
void check_options(const InputOptions& options, bool needs_input = true);

/// A decoder that was given nothing to read reads what the model itself would write.
void prepare_decoder(const Session& session, uint64_t seed, uint64_t stream, Input& input);

/// All inputs in the order given: --text, --input, --ids. Throws Error for texts that the model
/// cannot take, naming the line.
std::vector<Input> read_inputs(const InputOptions& options, const Session& session,
                               const EncodeLimits& limits);

}  // namespace headwise::program
