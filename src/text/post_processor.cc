// The post-processors of a tokenizer.json, as lists of what follows what.
#include "text/post_processor.h"

#include <algorithm>
#include <utility>

namespace headwise::text {
namespace {

using Items = std::vector<TemplateItem>;
using Groups = std::vector<Items>;  // one for each text at first

constexpr size_t kMostItems = 4096;  // of a template

struct Plan {
  Groups single{{{0, 0, 0}}};
  Groups pair{{{0, 0, 0}}, {{1, 0, 1}}};
  std::vector<bool> trims{};
};

TemplateItem special(int32_t id, int32_t type) { return {-1, id, type}; }

// ["[SEP]", 102]
int32_t token_id(const JsonObject& part, const char* field) {
  const nlohmann::json& value = part.value(field);
  if (!value.is_array() || value.size() != 2 || !value[0].is_string() ||
      !value[1].is_number_integer() || value[1] < 0 || value[1] > INT32_MAX) {
    part.refuse(field, "tokenizer: not a token with its id", "[\"token\", id]");
  }
  return value[1].get<int32_t>();
}

void surround(Groups& groups, int32_t cls, int32_t sep, bool double_sep, int32_t last_type) {
  for (size_t i = 0; i < groups.size(); ++i) {
    const int32_t type = i == 0 ? 0 : last_type;
    if (i == 0 || double_sep)
      groups[i].insert(groups[i].begin(), special(i == 0 ? cls : sep, type));
    groups[i].push_back(special(sep, type));
  }
}

Groups apply_template(const JsonObject& part, const char* field, const Groups& groups) {
  const JsonObject specials = part.object("special_tokens");
  Groups out;
  std::vector<bool> put(groups.size());
  size_t size = 0;
  for (const JsonObject& piece : part.objects(field)) {
    Items items;
    if (piece.has("Sequence")) {
      const JsonObject sequence = piece.object("Sequence");
      const std::string& name = sequence.text("id");
      const size_t index = name == "A" ? 0 : name == "B" ? 1 : 2;
      if (index >= groups.size()) {
        sequence.refuse("id", "tokenizer: a template names a text that is not there",
                        groups.size() == 1 ? "A" : "A or B");
      }
      if (put[index]) {  // or encodings could be longer than the text by any factor
        sequence.refuse("id", "tokenizer: a template puts a text twice", "every text once");
      }
      put[index] = true;
      const auto type = static_cast<int32_t>(sequence.integer("type_id", 0, INT32_MAX));
      items = groups[index];
      for (TemplateItem& item : items) item.type = type;
    } else {
      const JsonObject token = piece.object("SpecialToken");
      const auto type = static_cast<int32_t>(token.integer("type_id", 0, INT32_MAX));
      for (const int64_t id : specials.object(token.text("id")).integers("ids", 0, INT32_MAX)) {
        items.push_back(special(static_cast<int32_t>(id), type));
      }
    }
    size += items.size();
    if (size > kMostItems) {
      part.refuse(field, "tokenizer: a template puts too many tokens",
                  "at most " + std::to_string(kMostItems));
    }
    out.push_back(std::move(items));
  }
  return out;
}

void apply(const JsonObject& part, Plan& plan) {
  const std::string& type = part.text("type");
  if (type == "Sequence") {
    for (const JsonObject& step : part.objects("processors")) apply(step, plan);
  } else if (type == "ByteLevel") {
    if (part.boolean("trim_offsets")) plan.trims.push_back(part.boolean("add_prefix_space"));
  } else if (type == "BertProcessing") {
    const int32_t cls = token_id(part, "cls");
    const int32_t sep = token_id(part, "sep");
    surround(plan.single, cls, sep, false, 1);
    surround(plan.pair, cls, sep, false, 1);
  } else if (type == "RobertaProcessing") {
    const int32_t cls = token_id(part, "cls");
    const int32_t sep = token_id(part, "sep");
    if (part.boolean("trim_offsets")) plan.trims.push_back(part.boolean("add_prefix_space"));
    for (Groups* groups : {&plan.single, &plan.pair}) {
      for (Items& items : *groups) {
        for (TemplateItem& item : items) item.type = 0;
      }
      surround(*groups, cls, sep, true, 0);
    }
  } else if (type == "TemplateProcessing") {
    if (plan.single.size() != 1 || plan.pair.size() != 2) {
      part.refuse("type", "tokenizer: a second template", "one template");
    }
    plan.single = apply_template(part, "single", plan.single);
    plan.pair = apply_template(part, "pair", plan.pair);
  } else {
    part.refuse("type", "tokenizer: a post-processor that is not known",
                "BertProcessing, ByteLevel, RobertaProcessing, Sequence or TemplateProcessing");
  }
}

Items joined(const Groups& groups) {
  Items out;
  for (const Items& items : groups) out.insert(out.end(), items.begin(), items.end());
  return out;
}

}  // namespace

PostProcessor make_post_processor(const JsonObject& part) {
  Plan plan;
  apply(part, plan);
  return {joined(plan.single), joined(plan.pair), std::move(plan.trims)};
}

}  // namespace headwise::text
