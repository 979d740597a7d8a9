// headwise run: what a model computes for texts, by its task.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/npy.h"
#include "headwise/observe/match.h"
#include "options.h"
#include "progress.h"
#include "run_task.h"

namespace headwise::program {
namespace {

constexpr int64_t kMostRows = 2048;  // of a batch; more would not be faster

/// The inputs from `begin` on that go together.
Batch next_batch(const std::vector<Input>& inputs, size_t begin, const RunTask& task) {
  Batch batch{.first = static_cast<int64_t>(begin)};
  size_t end = begin;
  for (; end < inputs.size(); ++end) {
    const Input& input = inputs[end];
    const auto rows =
        static_cast<int64_t>(std::max(input.encoding.ids.size(), input.decoder_ids.size()));
    if (end > begin && (std::max(batch.tokens.rows(), batch.decoder.rows()) + rows > kMostRows ||
                        static_cast<int64_t>(end - begin) >= task.most_texts() ||
                        task.apart(inputs[end - 1], input))) {
      break;
    }
    batch.tokens.add(input.encoding.ids, input.encoding.type_ids);
    batch.decoder.add(input.decoder_ids);
  }
  batch.inputs = std::span(inputs).subspan(begin, end - begin);
  return batch;
}

/// What the task does not heed must not seem to have had an effect.
void check_heeded(const RunOptions& options, const Session& session) {
  const auto only = [&](bool given, const char* option, std::vector<std::string_view> tasks) {
    if (!given || std::ranges::find(tasks, options.task) != tasks.end()) return;
    usage_error(fmt::format("{} is not for {}, but for {}", option, options.task,
                            fmt::join(tasks, " and ")));
  };
  only(options.max_tokens.has_value(), "--max-tokens", {"generate", "translate"});
  only(options.beams.has_value(), "--beams", {"generate", "translate"});
  only(options.length_penalty.has_value(), "--length-penalty", {"generate", "translate"});
  only(options.temperature.has_value(), "--temperature", {"generate", "translate"});
  only(options.top_k.has_value(), "--top-k", {"generate", "translate"});
  only(options.top_p.has_value(), "--top-p", {"generate", "translate"});
  only(options.top.has_value(), "--top", {"fill", "logits"});
  only(options.mask.has_value(), "--mask", {"fill"});
  only(options.input.has_decoder() && session.config().encoder_decoder(), "a text of the decoder",
       {"hidden", "logits", "nll"});
}

/// Outputs mean the same only if the models were made for the same task. Hidden states and
/// embeddings are there without an output layer.
void check_same_task(const RunOptions& options, const Session& before, const Session& after) {
  if (options.task == "hidden" || options.task == "embed") return;
  const auto refuse = [&](std::string_view got, std::string_view expected) {
    throw Error({.what = "the models are not for the same task",
                 .where = fmt::format("--against {}", options.against),
                 .got = fmt::format("a folder for {}", got),
                 .expected = std::string(expected),
                 .hint = "--task hidden and --task embed compare any models with the same tokens"});
  };
  const ModelConfig &a = before.config(), &b = after.config();
  if (a.task != b.task) refuse(to_string(a.task), to_string(b.task));
  const auto kind = [](const ModelConfig& config) {
    return config.regression    ? "regression"
           : config.multi_label ? "classification with several labels each"
                                : "classification with one label each";
  };
  if (options.task == "classify" &&
      (a.regression != b.regression || a.multi_label != b.multi_label)) {
    refuse(kind(a), kind(b));
  }
}

void write_array(const Results& results, const CommonOptions& common) {
  std::vector<int64_t> shape = results.row_shape;
  int64_t row = 1;
  for (const int64_t extent : shape) row *= extent;
  shape.insert(shape.begin(), row == 0 ? 0 : std::ssize(results.values) / row);
  write_npy(common.out, results.values, shape);
  log_info(common, fmt::format("{} has float32 [{}]", common.out, fmt::join(shape, ", ")));
}

/// The model that --against names.
std::optional<Session> session_before(const RunOptions& options, const Session& session,
                                      const CommonOptions& common) {
  if (options.against.empty()) return std::nullopt;
  usage_error_if(common.out_is_array(), "--against gives tables: -o FILE.npy takes one model");
  if (options.against == "original") {
    if (options.input.gates.empty()) {
      usage_error("--against original: the model without gates; give --gate, or another model");
    }
    return session.without_gates();
  }
  InputOptions input = options.input;
  input.model = options.against;
  input.gates.clear();
  std::optional<Session> other(std::in_place, input);
  check_same_tokens(session.model(), other->model());
  return other;
}

void run(RunOptions options, const CommonOptions& common) {
  options.seed = common.seed;
  check_options(options.input);
  Session session(options.input);
  const std::optional<Session> before = session_before(options, session, common);
  std::optional<SentencePooling> pooling = SentencePooling::find(session.model().folder());
  if (options.task.empty()) options.task = default_run_task(session.model());
  check_task(options.task, session);
  if (before) {
    check_task(options.task, *before);
    check_same_task(options, *before, session);
  }
  check_heeded(options, session);
  usage_error_if(
      options.task == "answer" && options.input.pairs.size() != options.input.texts.size(),
      "answer: give the --context of each --text");
  const std::optional<int64_t> cut_at =
      options.task == "embed" && pooling ? pooling->max_tokens() : std::nullopt;
  const std::vector<Input> inputs = read_inputs(options.input, session,
                                                {.pairs = options.task == "answer",
                                                 .cut_at = cut_at,
                                                 .start_decoder = options.task == "nll"});
  session.measure_means(inputs);
  const std::unique_ptr<RunTask> task = before ? make_against(*before, session, options)
                                               : make_task(session, options, std::move(pooling));
  usage_error_if(common.out_is_array() && !task->has_array(),
                 fmt::format("{} gives text: -o FILE.npy is for numbers", options.task));
  if (cut_at && std::ranges::any_of(inputs, [&](const Input& input) {
        return std::ssize(input.encoding.ids) > *cut_at;
      })) {
    log_info(common, fmt::format("a text has more than the {} tokens to which the folder says that "
                                 "texts are cut; --truncate does so",
                                 *cut_at));
  }
  Results results(session, {.json = common.json, .array = common.out_is_array()});
  JsonList list;
  {
    Progress progress(std::ssize(inputs), "texts", common.quiet);
    for (size_t begin = 0; begin < inputs.size();) {
      const Batch batch = next_batch(inputs, begin, *task);
      task->run(batch, results);
      for (const Json& item : std::exchange(results.items, {})) list.add(item);
      begin += batch.inputs.size();
      progress.advance(batch.sequences());
    }
  }
  task->finish(results);
  if (common.out_is_array()) write_array(results, common);
  if (common.json) {
    Json before_list = {{"task", options.task}};
    if (before) before_list["against"] = options.against;
    write_output(common, list.document(before_list, "results", results.totals));
  } else if (!common.out_is_array()) {
    write_output(common, results.text);
  }
}

void add_generation(CLI::App& command, RunOptions& options) {
  Options group(command, "Generation (default: what the folder says)");
  group.add("--max-tokens", options.max_tokens, "N", "At most so many new tokens; default: 64",
            finite(0));
  group.add("--beams", options.beams, "N", "Beam search with so many beams; 1: greedy",
            whole_number(1, 1024));
  group.add("--length-penalty", options.length_penalty, "X", "Of beam search", finite());
  group.add("--temperature", options.temperature, "X", "Draw tokens at this temperature; 0: greedy",
            finite(0));
  group.add("--top-k", options.top_k, "K", "Draw among the k most probable tokens; 0: all",
            finite(0));
  group.add("--top-p", options.top_p, "P", "Draw among the tokens that make up this probability",
            finite(0));
}

}  // namespace

void add_run(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App& command = add_command(
      app, "run", "What a model makes of texts: embeddings, labels, probabilities, text",
      "A question goes into --text, where its answer is into --context. With -o FILE.npy the rows\n"
      "of all texts go into one array: [tokens, width] of hidden and logits, [texts, width] of\n"
      "embed, [texts, labels] of classify, [tokens, 2] of answer (begins and ends of spans),\n"
      "[tokens] of nll. Any other -o FILE gets what would be printed.\n\n"
      "Example:\n"
      "  headwise run ./bert --task fill --text \"Paris is the [MASK] of France.\" --gate L3.H1=0\n"
      "  headwise run ./gpt2 --text \"Once upon a time\" --gate L3.H1=mean --against original\n"
      "  headwise run ./pruned --input reviews.txt --against ./original-model",
      common, [options, &common] { run(*options, common); });
  add_inputs(command, options->input);
  Options declare(command);
  declare.add(
      "--task", options->task, "T",
      fmt::format("{}; default: the default for the folder", fmt::join(run_task_names(), ", ")),
      is_one_of(run_task_names()));
  declare.add("--top", options->top, "N", "How many candidates fill and logits show; default: 5",
              whole_number(1, 1 << 20));
  declare.add("--against", options->against, "MODEL",
              "Compare: before, after and change side by side. original: the same model without "
              "--gate; or another model with the same tokens");
  declare.add("--mask", options->mask, "ID", "fill: the id of the mask token, without a tokenizer");
  add_generation(command, *options);
}

}  // namespace headwise::program
