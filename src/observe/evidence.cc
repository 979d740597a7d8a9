// Evidence in memory, and as the text of evidence.json.
#include "headwise/observe/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/io/json_text.h"
#include "io/stage_file.h"

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSchema = 1;

/// The value at "a/b/c" below an object; made if it is not there.
Json& at_path(Json& object, std::string_view path) {
  Json* at = &object;
  for (;;) {
    const size_t slash = path.find('/');
    at = &(*at)[std::string(path.substr(0, slash))];
    if (slash == std::string_view::npos) return *at;
    path.remove_prefix(slash + 1);
  }
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

/// Shares that have a baseline are accuracies.
void write_fields(const Measure& measure, Json& to) {
  to[measure.baseline ? "accuracy" : "value"] = measure.value;
  to["n"] = measure.n;
  if (measure.interval) {
    to["low"] = measure.interval->low;
    to["high"] = measure.interval->high;
  }
  if (measure.baseline) to["baseline"] = *measure.baseline;
}

/// Plain numbers stand for themselves, and their n under "n" where it is not `rows`. Ablations are
/// none, even where examples are too few for an interval, but for their means over layers.
void write_measures(const Measures& measures, int64_t rows, Json& to, bool of_layer = false) {
  Json counts = Json::object();
  for (const auto& [name, measure] : measures) {
    const bool ablation = !of_layer && name.starts_with("ablation_");
    if (measure.interval || measure.baseline || ablation) {
      write_fields(measure, at_path(to, name));
      continue;
    }
    at_path(to, name) = measure.value;
    if (measure.n != rows) at_path(counts, name) = measure.n;
  }
  if (!counts.empty()) to["n"] = std::move(counts);
}

Json json_of(const HeadEvidence& head) {
  Json json = {{"head", head.head}, {"rows", head.rows}};
  write_measures(head.measures, head.rows, json);
  if (!head.probes.empty()) {
    json["probes"] = Json::object();
    write_measures(head.probes, 0, json["probes"]);
  }
  return json;
}

Json json_of(const PairMatrix& matrix) {
  Json rows = Json::array();
  for (int64_t a = 0; a < std::ssize(matrix.heads); ++a) {
    Json row = Json::array();
    for (int64_t b = 0; b < std::ssize(matrix.heads); ++b) {
      row.push_back(number_or_null(matrix.at(a, b)));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json json_of(const std::map<std::string, BestHead>& best) {
  Json json = Json::object();
  for (const auto& [name, head] : best) {
    Json& entry = at_path(json, name);
    entry["head"] = head.head;
    write_fields(head.measured, entry);
    write_fields(head.chosen, entry["chosen"]);
  }
  return json;
}

Json json_of(const LossEvidence& loss) {
  Json json = {{"task", loss.task},
               {"value", loss.value},
               {"examples", loss.examples},
               {"tokens", loss.tokens}};
  for (const auto& [name, score] : loss.scores) json[name] = score;
  if (loss.masks > 1) json["masks"] = loss.masks;
  if (!loss.positions.empty()) json["positions"] = loss.positions;
  return json;
}

/// The names of a matrix's heads are those of its group, or of all heads.
std::vector<std::string> heads_of(const Evidence& evidence, const std::string& group) {
  std::vector<std::string> heads;
  for (const HeadEvidence& head : evidence.heads) {
    if (group == "all" || head.head.starts_with(group + ".")) heads.push_back(head.head);
  }
  return heads;
}

class EvidenceReader {
 public:
  EvidenceReader(const nlohmann::json& json, const std::string& where) : root_(json, where) {}

  Evidence read() {
    if (const int64_t schema = root_.integer("schema"); schema != kSchema) {
      root_.refuse("schema", "the evidence is of another version", fmt::format("{}", kSchema),
                   "observe the model again with this program");
    }
    Evidence evidence;
    const JsonObject model = root_.object("model");
    evidence.model = {.name = model.text("name"),
                      .architecture = model.text("architecture"),
                      .sha256 = model.text("sha256")};
    const JsonObject corpora = root_.object("corpus");
    for (const std::string& name : corpora.names()) {
      const JsonObject corpus = corpora.object(name);
      evidence.corpora[name] = {.name = corpus.text("name"),
                                .sha256 = corpus.text("sha256"),
                                .texts = corpus.integer("texts"),
                                .tokens = corpus.integer("tokens")};
    }
    const JsonObject options = root_.object("options");
    for (const std::string& name : options.names()) evidence.options[name] = options.text(name);
    if (root_.has("finished")) evidence.finished = root_.texts("finished");
    std::set<std::string> heads;
    for (const JsonObject& head : root_.objects("heads")) {
      evidence.heads.push_back(read_head(head));
      if (heads.insert(evidence.heads.back().head).second) continue;
      head.refuse("head", "a head is described twice", "each head once");
    }
    if (root_.has("pairs")) read_pairs(root_.object("pairs"), "", evidence);
    if (root_.has("layers")) {
      for (const JsonObject& layer : root_.objects("layers")) {
        evidence.layers.push_back(
            {.layer = layer.text("layer"), .measures = read_measures(layer, 0, {"layer"})});
      }
    }
    if (root_.has("best")) read_best(root_.object("best"), "", evidence.best);
    if (root_.has("best_probes")) read_best(root_.object("best_probes"), "", evidence.best_probes);
    if (root_.has("groups")) {
      for (const JsonObject& group : root_.objects("groups")) {
        evidence.groups.push_back({.name = group.text("name"),
                                   .heads = group.texts("heads"),
                                   .measures = read_measures(group, 0, {"name", "heads"})});
      }
    }
    if (root_.has("loss")) evidence.loss = read_loss(root_.object("loss"));
    if (root_.has("held_out")) evidence.held_out = read_loss(root_.object("held_out"));
    return evidence;
  }

 private:
  static HeadEvidence read_head(const JsonObject& json) {
    HeadEvidence head{.head = json.text("head"), .rows = json.integer("rows")};
    head.measures = read_measures(json, head.rows, {"head", "rows", "probes"});
    if (json.has("probes")) head.probes = read_measures(json.object("probes"), 0, {});
    return head;
  }

  static Measure read_fields(const JsonObject& json) {
    const bool share = json.has("accuracy") && json.value("accuracy").is_number();
    Measure measure{.value = json.number(share ? "accuracy" : "value"), .n = json.integer("n")};
    if (json.has("low")) measure.interval = {json.number("low"), json.number("high")};
    if (share) measure.baseline = json.number("baseline");
    return measure;
  }

  static bool is_measure(const JsonObject& json) {
    const auto number = [&](const char* name) {
      return json.has(name) && json.value(name).is_number();
    };
    return (number("accuracy") || number("value")) && number("n");
  }

  static Measures read_measures(const JsonObject& json, int64_t rows,
                                std::vector<std::string> other) {
    Measures measures;
    other.push_back("n");
    const std::optional<JsonObject> counts = json.optional_object("n");
    for (const std::string& name : json.names()) {
      if (std::ranges::find(other, name) != other.end()) continue;
      read_value(json, name, name, counts, rows, measures);
    }
    return measures;
  }

  /// What stands at `name` of an object, which is at `path` below the head's record.
  static void read_value(const JsonObject& json, const std::string& name, const std::string& path,
                         const std::optional<JsonObject>& counts, int64_t rows,
                         Measures& measures) {
    if (!json.value(name).is_object()) {
      const bool counted = counts && counts->has(name);
      measures.add(path, {.value = json.number(name), .n = counted ? counts->integer(name) : rows});
      return;
    }
    const JsonObject inner = json.object(name);
    const bool leaf = is_measure(inner);
    if (leaf) measures.add(path, read_fields(inner));
    const std::optional<JsonObject> inner_counts =
        counts && counts->has(name) ? std::optional(counts->object(name)) : std::nullopt;
    for (const std::string& part : inner.names()) {
      if (leaf && !inner.value(part).is_object()) continue;
      read_value(inner, part, path + "/" + part, inner_counts, rows, measures);
    }
  }

  static void read_best(const JsonObject& json, const std::string& path,
                        std::map<std::string, BestHead>& best) {
    for (const std::string& name : json.names()) {
      const JsonObject entry = json.object(name);
      const std::string at = path.empty() ? name : path + "/" + name;
      if (entry.has("head") && entry.value("head").is_string()) {
        best[at] = {.head = entry.text("head"),
                    .chosen = read_fields(entry.object("chosen")),
                    .measured = read_fields(entry)};
      } else {
        read_best(entry, at, best);
      }
    }
  }

  /// Groups are those whose values are arrays; what lies above them is the name.
  static void read_pairs(const JsonObject& json, const std::string& path, Evidence& evidence) {
    for (const std::string& name : json.names()) {
      if (json.value(name).is_object()) {
        read_pairs(json.object(name), path.empty() ? name : path + "/" + name, evidence);
        continue;
      }
      PairMatrix matrix = pair_matrix(heads_of(evidence, name));
      const nlohmann::json& rows = json.value(name);
      const auto size = matrix.heads.size();
      const auto refuse = [&] {
        json.refuse(name, "a matrix of pairs does not fit its heads",
                    fmt::format("{} rows of {} numbers", size, size));
      };
      if (!rows.is_array() || rows.size() != size) refuse();
      for (size_t a = 0; a < size; ++a) {
        if (!rows[a].is_array() || rows[a].size() != size) refuse();
        for (size_t b = 0; b < size; ++b) {
          if (rows[a][b].is_number()) {
            matrix.at(a, b) = rows[a][b].get<double>();
          } else if (!rows[a][b].is_null()) {
            refuse();
          }
        }
      }
      evidence.pairs[path][name] = std::move(matrix);
    }
  }

  static std::vector<std::vector<int32_t>> read_positions(const JsonObject& json) {
    std::vector<std::vector<int32_t>> positions;
    const auto refuse = [&] {
      json.refuse("positions", "positions are not lists of numbers", "a list for each example");
    };
    const nlohmann::json& lists = json.value("positions");
    if (!lists.is_array()) refuse();
    for (const nlohmann::json& list : lists) {
      std::vector<int32_t>& of_example = positions.emplace_back();
      if (!list.is_array()) refuse();
      for (const nlohmann::json& position : list) {
        if (!position.is_number_unsigned() || position.get<uint64_t>() > INT32_MAX) refuse();
        of_example.push_back(position.get<int32_t>());
      }
    }
    return positions;
  }

  static LossEvidence read_loss(const JsonObject& json) {
    LossEvidence loss{.task = json.text("task"),
                      .value = json.number("value"),
                      .examples = json.integer("examples"),
                      .tokens = json.integer("tokens")};
    for (const std::string& name : json.names()) {
      if (name == "positions") {
        loss.positions = read_positions(json);
      } else if (name == "masks") {
        loss.masks = json.integer("masks");
      } else if (name != "task" && name != "value" && name != "examples" && name != "tokens") {
        loss.scores[name] = json.number(name);
      }
    }
    return loss;
  }

  JsonObject root_;
};

}  // namespace

void Measures::add(const std::string& name, const Measure& measure) {
  if (std::isfinite(measure.value)) entries_[name] = measure;
}

const Measure* Measures::find(std::string_view name) const {
  const auto at = entries_.find(name);
  return at == entries_.end() ? nullptr : &at->second;
}

PairMatrix pair_matrix(std::vector<std::string> heads, double value) {
  const size_t size = heads.size() * heads.size();
  return {.heads = std::move(heads), .values = std::vector<double>(size, value)};
}

HeadEvidence& Evidence::head(std::string_view name) {
  return const_cast<HeadEvidence&>(std::as_const(*this).head(name));
}

const HeadEvidence& Evidence::head(std::string_view name) const {
  for (const HeadEvidence& head : heads) {
    if (head.head == name) return head;
  }
  throw Error({.what = "the evidence has no such head",
               .got = std::string(name),
               .expected = heads.empty()
                               ? ""
                               : fmt::format("{} to {}", heads.front().head, heads.back().head)});
}

void check_continues(const Evidence& left, const Evidence& now, const std::string& file) {
  const auto check = [&](bool same, const char* what) {
    if (same) return;
    throw Error({.what = "the observation to continue was another one",
                 .where = file,
                 .got = fmt::format("another {}", what),
                 .expected = "the same model, data and options",
                 .hint = "start anew without --resume"});
  };
  check(left.model == now.model, "model");
  check(left.corpora == now.corpora, "text, treebank, coreference, alignment, data or lexicon");
  const bool same = std::ranges::all_of(now.options, [&](const auto& option) {
    const auto at = left.options.find(option.first);
    return at != left.options.end() && at->second == option.second;
  });
  check(same, "set of options");
}

std::string to_json(const Evidence& evidence) {
  Json json = {{"schema", kSchema},
               {"model",
                {{"name", evidence.model.name},
                 {"architecture", evidence.model.architecture},
                 {"sha256", evidence.model.sha256}}},
               {"corpus", Json::object()},
               {"options", evidence.options},
               {"finished", evidence.finished},
               {"heads", Json::array()},
               {"pairs", Json::object()},
               {"layers", Json::array()},
               {"best", json_of(evidence.best)}};
  for (const auto& [name, corpus] : evidence.corpora) {
    json["corpus"][name] = {{"name", corpus.name},
                            {"sha256", corpus.sha256},
                            {"texts", corpus.texts},
                            {"tokens", corpus.tokens}};
  }
  for (const HeadEvidence& head : evidence.heads) json["heads"].push_back(json_of(head));
  for (const auto& [name, groups] : evidence.pairs) {
    for (const auto& [group, matrix] : groups) {
      at_path(json["pairs"], name)[group] = json_of(matrix);
    }
  }
  for (const LayerEvidence& layer : evidence.layers) {
    Json entry = {{"layer", layer.layer}};
    write_measures(layer.measures, 0, entry, true);
    json["layers"].push_back(std::move(entry));
  }
  if (!evidence.best_probes.empty()) json["best_probes"] = json_of(evidence.best_probes);
  if (!evidence.groups.empty()) {
    json["groups"] = Json::array();
    for (const GroupEvidence& group : evidence.groups) {
      Json entry = {{"name", group.name}, {"heads", group.heads}};
      write_measures(group.measures, 0, entry);
      json["groups"].push_back(std::move(entry));
    }
  }
  if (evidence.loss) json["loss"] = json_of(*evidence.loss);
  if (evidence.held_out) json["held_out"] = json_of(*evidence.held_out);
  return json_text(json);
}

Evidence evidence_from_json(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where);
  return EvidenceReader(json, where).read();
}

Evidence read_evidence(const std::filesystem::path& file) {
  Evidence evidence;
  read_stage_file(Stage::evidence, file, [&](std::string_view text, const std::string& where) {
    evidence = evidence_from_json(text, where);
  });
  return evidence;
}

}  // namespace headwise
