// The tasks of headwise run: each turns batches of inputs into results.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/io/json_text.h"
#include "headwise/model/generate.h"
#include "headwise/model/predict.h"
#include "headwise/model/sentence_embedding.h"
#include "inputs.h"

namespace headwise::program {

constexpr int64_t kTop = 5;  // candidates that are shown, unless told otherwise

struct RunOptions {
  InputOptions input{};
  std::string task{};     // empty: the default
  std::string against{};  // "original", or another model; empty: nothing
  std::optional<int64_t> top{};
  std::optional<int32_t> mask{};
  std::optional<int64_t> max_tokens{}, beams{}, top_k{};
  std::optional<float> length_penalty{}, temperature{}, top_p{};
  uint64_t seed = 0;
};

struct Batch {
  std::span<const Input> inputs{};
  int64_t first = 0;  // among all inputs
  TokenBatch tokens{}, decoder{};

  int64_t sequences() const { return std::ssize(inputs); }
};

/// What leaves the program: JSON or lines for people, and an array if there is a file for it.
class Results {
 public:
  struct Form {
    bool json = false;
    bool array = false;  // numbers go to a file of their own, and not into the JSON
    bool keeps = array;  // numbers are kept in `values`
    bool bare = false;   // the JSON of an input is without its ids and tokens
  };
  Results(const Session& session, const Form& form) : session_(session), form_(form) {}

  bool is_json() const { return form_.json; }
  bool is_array() const { return form_.array; }

  /// The JSON of one more input, with its ids and tokens.
  Json& add(const Input& input);
  /// The same with these rows, unless they go to a file.
  void add(const Input& input, const char* name, View<const float, 2> rows);

  void keep(View<const float, 2> rows);

  std::vector<Json> items;       // of the inputs
  Json totals = Json::object();  // fields beside the list of them
  std::string text;
  std::vector<float> values;         // of the array
  std::vector<int64_t> row_shape{};  // of one of its rows

 private:
  const Session& session_;
  Form form_;
};

class RunTask {
 public:
  virtual ~RunTask() = default;
  virtual void run(const Batch& batch, Results& results) = 0;
  virtual void finish(Results&) {}  // adds what is about all inputs

  virtual bool has_array() const { return true; }  // numbers for -o FILE.npy

  /// The token that a masked input has in place of what is to be filled in.
  virtual std::optional<int32_t> mask() const { return std::nullopt; }

  /// The most texts, beams counted, that are worth running at once.
  virtual int64_t most_texts() const { return 1 << 20; }
  /// Whether an input must not share a batch with the one before.
  virtual bool apart(const Input&, const Input&) const { return false; }
};

/// Throws Error if the model cannot do it.
void check_task(const std::string& name, const Session& session);

std::unique_ptr<RunTask> make_task(const Session& session, const RunOptions& options,
                                   std::optional<SentencePooling> pooling);

/// The same task of two models, side by side: `after` is the one with the gates.
std::unique_ptr<RunTask> make_against(const Session& before, const Session& after,
                                      const RunOptions& options);

std::unique_ptr<RunTask> make_hidden(const Session& session);
std::unique_ptr<RunTask> make_logits(const Session& session, const RunOptions& options);
std::unique_ptr<RunTask> make_embed(const Session& session, SentencePooling pooling);
std::unique_ptr<RunTask> make_nll(const Session& session);
std::unique_ptr<RunTask> make_fill(const Session& session, const RunOptions& options);
std::unique_ptr<RunTask> make_classify(const Session& session);
std::unique_ptr<RunTask> make_answer(const Session& session);
std::unique_ptr<RunTask> make_generate(const Session& session, const RunOptions& options);

/// Throws Error for a text without tokens, which has no such thing as `what`.
void need_tokens(const Batch& batch, const char* what);

/// What a text says, shortened for a line.
std::string caption(const Session& session, const Input& input);

/// Whether a row of the output layer is over tokens.
bool gives_tokens(const ModelConfig& config);

std::span<const float> row_of(View<const float, 2> rows, int64_t row);

}  // namespace headwise::program
