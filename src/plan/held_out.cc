// What a plan costs, as JSON and back.
#include "headwise/plan/held_out.h"

#include "headwise/io/json_text.h"
#include "plan/held_out_json.h"

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const BeforeAfter& numbers) {
  return {{"before", numbers.before}, {"after", numbers.after}};
}

BeforeAfter before_after_from(const JsonObject& json) {
  return {.before = json.number("before"), .after = json.number("after")};
}

}  // namespace

std::string to_json(const HeldOut& held_out) {
  Json json = {{"examples", held_out.examples}};
  if (!held_out.reason.empty()) json["reason"] = held_out.reason;
  if (held_out.examples > 0) {
    json["chosen_on"] = held_out.chosen_on;
    if (!held_out.source.empty()) json["source"] = held_out.source;
    json["task"] = held_out.task;
    json["before"] = held_out.loss.before;
    json["after"] = held_out.loss.after;
    json["change"] = held_out.change;
    if (held_out.interval) {
      json["low"] = held_out.interval->low;
      json["high"] = held_out.interval->high;
    }
    json["random"] = {{"draws", held_out.random.draws}};
    if (held_out.random.draws > 0) {
      json["random"]["change"] = held_out.random.change;
      json["random"]["median"] = held_out.random.median;
    }
    if (held_out.tokens > 0) json["tokens"] = held_out.tokens;
    if (held_out.masks > 1) json["masks"] = held_out.masks;
    if (const auto& near = held_out.neighbours) {
      json["neighbours"] = {{"of", near->of}, {"kept", near->kept}};
    }
    if (held_out.perplexity) json["perplexity"] = json_of(*held_out.perplexity);
    if (held_out.agreement) json["agreement"] = *held_out.agreement;
    if (!held_out.score_name.empty()) {
      json["score"] = json_of(held_out.score);
      json["score"]["name"] = held_out.score_name;
    }
  }
  return json_text(json);
}

HeldOut held_out_from(const JsonObject& json) {
  HeldOut held_out{.examples = json.integer("examples"),
                   .reason = json.optional_text("reason").value_or("")};
  if (held_out.examples == 0) return held_out;
  held_out.chosen_on = json.integer("chosen_on");
  held_out.source = json.optional_text("source").value_or("");
  held_out.task = json.text("task");
  held_out.loss = before_after_from(json);
  held_out.change = json.number("change");
  if (json.has("low")) {
    held_out.interval = ConfidenceInterval{json.number("low"), json.number("high")};
  }
  const JsonObject random = json.object("random");
  held_out.random.draws = random.integer("draws");
  held_out.random.change = random.optional_number("change").value_or(0);
  held_out.random.median = random.optional_number("median").value_or(0);
  held_out.tokens = json.optional_integer("tokens").value_or(0);
  held_out.masks = json.optional_integer("masks").value_or(1);
  if (const auto near = json.optional_object("neighbours")) {
    held_out.neighbours = {.of = near->integer("of"), .kept = near->number("kept")};
  }
  if (const auto perplexity = json.optional_object("perplexity")) {
    held_out.perplexity = before_after_from(*perplexity);
  }
  held_out.agreement = json.optional_number("agreement");
  if (const auto score = json.optional_object("score")) {
    held_out.score_name = score->text("name");
    held_out.score = before_after_from(*score);
  }
  return held_out;
}

}  // namespace headwise
