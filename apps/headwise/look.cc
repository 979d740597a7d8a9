// How a text is looked at: one pass for what the model makes of it, which the maps are taken from.
#include "look.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/report/report.h"
#include "run_task.h"

namespace headwise::program {
namespace {

constexpr int64_t kCandidates = 10, kContinuation = 20;

/// What is shown for a folder.
std::string shown_task(const Session& session) {
  const std::string_view task = default_run_task(session.model());
  if (task == "classify") return "classify";
  if (task == "fill" && session.tokenizer()->special_tokens().mask) return "fill";
  if (task == "generate" || task == "translate") {
    return session.config().encoder_decoder() ? "translate" : "next";
  }
  return "embed";
}

Batch batch_of(const Input& input) {
  Batch batch{.inputs = {&input, 1}};
  batch.tokens.add(input.encoding.ids, input.encoding.type_ids);
  batch.decoder.add({});
  return batch;
}

double norm(const Json& vector) {
  double squares = 0;
  for (const Json& value : vector) squares += value.get<double>() * value.get<double>();
  return std::sqrt(squares);
}

double cosine(const Json& a, const Json& b) {
  double product = 0;
  for (size_t i = 0; i < a.size(); ++i) product += a[i].get<double>() * b[i].get<double>();
  const double lengths = norm(a) * norm(b);
  return lengths > 0 ? std::clamp(product / lengths, -1., 1.) : 0;
}

/// Scores by label, the largest first. Of models that label tokens: the mean over them, and the
/// best label of each.
Json scores_json(const Json& result, const std::vector<std::string>& labels) {
  std::vector<std::pair<std::string, double>> scores;
  Json tokens;
  if (result["scores"].is_object()) {
    for (const auto& [label, score] : result["scores"].items()) scores.emplace_back(label, score);
  } else {
    for (const std::string& label : labels) scores.emplace_back(label, 0);
    const Json& rows = result["scores"];
    tokens = Json::array();
    for (size_t row = 0; row < rows.size(); ++row) {
      double best = 0;
      for (size_t i = 0; i < scores.size(); ++i) {
        const auto score = rows[row][i].get<double>();
        scores[i].second += score / static_cast<double>(rows.size());
        best = std::max(best, score);
      }
      tokens.push_back({{"label", result["labels"][row]}, {"score", best}});
    }
  }
  std::ranges::stable_sort(scores, std::greater<>(), [](const auto& each) { return each.second; });
  Json told = {{"scores", Json::array()}};
  for (const auto& [label, score] : scores) {
    told["scores"].push_back({{"label", label}, {"score", score}});
  }
  if (!tokens.is_null()) told["tokens"] = std::move(tokens);
  return told;
}

}  // namespace

Looker::Looker(const Session& session)
    : session_(session), pooling_(SentencePooling::find_or_mean(session.model().folder())) {
  if (session.tokenizer() == nullptr) {
    throw Error({.what = "the model has no tokenizer",
                 .where = session.model().folder().string(),
                 .expected = "a model that reads text"});
  }
  heads_ = session.model().find_heads("all");
  task_ = shown_task(session);
  const auto limit = [&](int64_t most) { most_tokens_ = std::min(most_tokens_, most); };
  if (session.config().max_positions > 0) limit(session.config().max_positions);
  if (task_ == "embed" && pooling_.max_tokens()) limit(*pooling_.max_tokens());
}

HeadGates Looker::gates_of(const LookRequest& request) const {
  HeadGates gates(session_.model());
  for (const auto& [heads, value] : request.gates) {
    if (!(value >= 0 && value <= 1)) {
      throw Error({.what = "a gate is not in range",
                   .where = fmt::format("gates.{}", heads),
                   .got = fmt::format("{}", value),
                   .expected = "a number from 0 (the head is off) to 1 (as it is)"});
    }
    gates.set(heads, value);
  }
  return gates;
}

Json Looker::look(const LookRequest& request) const {
  const HeadGates gates = gates_of(request);
  const bool any_gate = !gates.values().empty();
  Input input{.where = "text", .text = request.text};
  encode(input, session_, {.truncate = most_tokens_});
  if (input.encoding.ids.empty()) {
    throw Error({.what = "the text has no tokens",
                 .where = "text",
                 .got = "an empty text",
                 .expected = "at least one token"});
  }
  HeadRecorder recorder(session_.model(), heads_, HeadArrayKind::maps, throw_if_interrupted);
  Json original, gated;
  std::vector<HeadArray> maps;
  if (task_ == "translate") {
    const auto translate = [&](const Session& session) {
      input.decoder_ids.clear();
      prepare_decoder(session, 0, 0, input, most_tokens_);
      const auto written = std::span(input.decoder_ids).subspan(1);
      return Json{{"output", session.tokenizer()->decode(written)}};
    };
    original = translate(session_);
    if (any_gate) gated = translate(session_.with(gates));
    maps = session_.with(gates).record(input, heads_, HeadArrayKind::maps);
  } else {
    original = output(session_.without_gates(any_gate ? nullptr : &recorder), input);
    if (any_gate) gated = output(session_.with(gates, &recorder), input);
    maps = std::move(recorder.arrays);
  }
  if (task_ == "embed") {
    const auto told = [&](const Json& embedding) {
      return Json{{"similarity", cosine(embedding, original)}, {"norm", norm(embedding)}};
    };
    if (any_gate) gated = told(gated);
    original = told(original);
  }
  Json answer = {{"tokens", session_.tokens(input.encoding.ids)},
                 {"special", session_.tokenizer()->special_positions(input.encoding.ids)}};
  if (task_ == "translate") {
    answer["target_tokens"] = session_.tokens(input.decoder_ids);
    answer["target_special"] = session_.tokenizer()->special_positions(input.decoder_ids);
  }
  Json& all = answer["maps"] = Json::object();
  for (const HeadArray& map : maps) {
    all[map.name] = {
        {"rows", map.rows}, {"columns", map.columns}, {"data", encode_weights(map.values)}};
  }
  if (task_ == "fill" && original["fill"].empty()) {
    const int32_t mask = *session_.tokenizer()->special_tokens().mask;
    answer["note"] = fmt::format("write {} where the model shall fill in a word",
                                 session_.tokenizer()->token(mask));
  }
  answer["original"] = std::move(original);
  answer["gated"] = std::move(gated);
  if (std::ssize(input.encoding.ids) == most_tokens_ &&
      std::ssize(session_.tokenizer()->encode(request.text).ids) > most_tokens_) {
    answer["truncated"] = true;
  }
  return answer;
}

/// Of embed the embedding itself, which is compared later.
Json Looker::output(const Session& session, const Input& input) const {
  if (task_ == "next") return next(session, input);
  if (task_ == "embed") {
    const Batch batch = batch_of(input);
    const Activations hidden = session.model().forward(batch.tokens, session.forward());
    const Activations embedded = pooling_.embed(hidden.rows, batch.tokens.offsets);
    const float* const first = &embedded.rows(0, 0);
    return std::vector<float>(first, first + embedded.rows.extent(1));
  }
  if (task_ == "classify") {
    return scores_json(run(session, input, "classify"), label_names(session.config()));
  }
  const int32_t mask = *session.tokenizer()->special_tokens().mask;
  if (std::ranges::find(input.encoding.ids, mask) == input.encoding.ids.end()) {
    (void)session.model().forward(batch_of(input).tokens, session.forward());
    return {{"fill", Json::array()}};
  }
  return {{"fill", run(session, input, "fill")["fill"]}};
}

/// What headwise run says about the input.
Json Looker::run(const Session& session, const Input& input, const std::string& task) const {
  RunOptions options{.task = task};
  if (task == "fill") options.top = kCandidates;
  if (task == "generate") {
    options.beams = 1;
    options.temperature = 0.f;
    options.max_tokens = kContinuation;
    if (const int64_t positions = session.config().max_positions; positions > 0) {
      options.max_tokens = std::min(kContinuation, positions - std::ssize(input.encoding.ids) + 1);
    }
  }
  Results results(session, {.json = true});
  make_task(session, options, std::nullopt)->run(batch_of(input), results);
  return std::move(results.items.front());
}

Json Looker::next(const Session& session, const Input& input) const {
  const Activations out =
      next_token_probabilities(session.model(), batch_of(input).tokens, session.forward());
  const std::span<const float> shares = row_of(out.rows, 0);
  Json told = {{"candidates", Json::array()}};
  for (const int32_t id : largest(shares, kCandidates)) {
    told["candidates"].push_back(
        {{"token", session.tokenizer()->token(id)}, {"id", id}, {"probability", shares[id]}});
  }
  // Steps of writing are no passes that maps are of.
  told["continuation"] = run(session.with(session.gates()), input, "generate")["output"];
  return told;
}

}  // namespace headwise::program
