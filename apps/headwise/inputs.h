// What run and attend are given: texts, ids, decoder texts, gates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "headwise/model/config.h"
#include "headwise/model/head_arrays.h"
#include "headwise/model/model.h"
#include "headwise/observe/head_gates.h"
#include "headwise/text/tokenizer.h"

namespace headwise::program {

struct InputOptions {
  std::string model{};
  std::vector<std::string> texts{}, pairs{}, ids{}, type_ids{};
  std::string texts_name = "command line";  // of a corpus of these texts
  std::string file{};
  bool paired_lines = false;
  std::vector<std::string> decoder_texts{}, decoder_ids{};
  std::string reference{};
  std::vector<std::string> gates{};
  bool truncate = false;
  bool allow_nonfinite = false;
  bool replace_invalid = false;  // bytes that are no UTF-8, by U+FFFD

  bool has_input() const { return !texts.empty() || !file.empty() || !ids.empty(); }
  bool has_decoder() const {
    return !decoder_texts.empty() || !decoder_ids.empty() || !reference.empty();
  }
};

/// MODEL and the options above. The flag --pairs is left to commands that compare heads.
void add_inputs(CLI::App& command, InputOptions& options, bool with_pairs = true);

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
  /// Throws Error for gates of heads that are not there or that are neither in [0, 1] nor "mean".
  explicit Session(const InputOptions& options);

  /// The same model, shared, with other gates, and with another observer of every pass, or none.
  Session with(HeadGates gates, ForwardObserver* observer = nullptr) const;
  Session without_gates(ForwardObserver* observer = nullptr) const {
    return with(HeadGates(model()), observer);
  }

  const Model& model() const { return *model_; }
  const ModelConfig& config() const { return model().config(); }
  const Tokenizer* tokenizer() const { return model().tokenizer(); }

  const HeadGates& gates() const { return gates_; }

  /// As the tokenizer stores them; the ids themselves if there is none.
  std::vector<std::string> tokens(std::span<const int32_t> ids) const;
  std::string token(int32_t id) const;

  /// Measures the outputs of heads of --gate HEADS=mean over all rows of the texts.
  void measure_means(const ObservedCorpus& corpus);
  void measure_means(std::span<const Input> inputs);
  /// Throws Error if there are such heads, for commands that cannot have them; `why` ends a
  /// sentence.
  void refuse_means(const std::string& why) const;

  /// Arrays of heads from one pass over the input, and through the decoder if one of the heads is
  /// there and it has something to read.
  std::vector<HeadArray> record(const Input& input, const std::vector<HeadIndex>& heads,
                                HeadArrayKind kind) const;

  /// With the gates; every layer is a place to be interrupted at unless there is an observer.
  ForwardOptions forward(ForwardObserver* observer = nullptr) const;

 private:
  std::shared_ptr<const Model> model_;
  HeadGates gates_;
  ForwardObserver* observer_ = nullptr;
};

/// Whether one of the heads is in a decoder beside an encoder.
bool asks_decoder(const Model& model, const std::vector<HeadIndex>& heads);

struct EncodeLimits {
  bool pairs = false;               // lines are pairs of texts
  std::optional<int64_t> cut_at{};  // what --truncate cuts to, if less than the positions
  bool start_decoder = false;       // decoder ids are given the start token if they lack it
};

/// Options that do not go together are usage errors; so is no input, where one is needed.
void check_options(const InputOptions& options, bool needs_input = true);

/// Tokenizes the text of an input. Throws Error if the model cannot take it.
void encode(Input& input, const Session& session, const EncodeOptions& params);

/// A decoder that was given nothing to read reads what the model itself would write, at most `most`
/// tokens.
void prepare_decoder(const Session& session, uint64_t seed, uint64_t stream, Input& input,
                     int64_t most = INT64_MAX);

/// All inputs in the order given: --text, --input, --ids. Throws Error for texts that the model
/// cannot take, and for what is no UTF-8 unless it is to be replaced, naming the line.
std::vector<Input> read_inputs(const InputOptions& options, const Session& session,
                               const EncodeLimits& limits);

}  // namespace headwise::program
