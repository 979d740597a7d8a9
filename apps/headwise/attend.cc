// headwise attend: what chosen heads attend to, and what they carry.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "headwise/core/error.h"
#include "headwise/io/npy.h"
#include "heat_map.h"
#include "options.h"
#include "progress.h"
#include "run_task.h"
#include "screen.h"

namespace headwise::program {
namespace {

struct AttendOptions {
  InputOptions input{};
  std::string heads{};  // empty: all, or one layer for people
  std::string what = "maps";
  std::string color = "auto";
};

std::vector<HeadIndex> all_of(const Model& model, int64_t site) {
  std::vector<HeadIndex> heads;
  for (int64_t h = 0; h < std::ssize(model.attentions()[site].heads); ++h)
    heads.push_back({site, h});
  return heads;
}

/// All heads; for people those of one layer: the first one's, or of the last cross attention.
std::vector<HeadIndex> default_heads(const Model& model, const CommonOptions& common) {
  if (common.json || common.out_is_array()) return model.find_heads("all");
  std::vector<int64_t> sites(model.attentions().size());
  std::iota(sites.begin(), sites.end(), 0);
  if (model.config().encoder_decoder()) std::ranges::reverse(sites);
  for (const int64_t site : sites) {
    if (model.attentions()[site].heads.empty()) continue;
    if (model.attentions().size() > 1) {
      log_info(common, fmt::format("these are the heads of {}; --heads names others, for instance "
                                   "--heads {}, or all",
                                   model.attentions()[site].name, model.attentions().back().name));
    }
    return all_of(model, site);
  }
  return {};
}

/// The tokens that the rows and the columns of a map stand for.
struct MapTokens {
  std::vector<std::string> rows{}, columns{};
};

MapTokens tokens_of(const Session& session, const Input& input, const AttentionSite& site,
                    HeadArrayKind what) {
  const bool reads_decoder = session.config().encoder_decoder() && site.side == Side::decoder;
  const bool cross = site.kind == AttentionKind::cross;
  const auto shown = [&](std::span<const int32_t> ids) {
    std::vector<std::string> tokens = session.tokens(ids);
    for (std::string& token : tokens) token = printable(token);
    return tokens;
  };
  const std::vector<std::string> text = shown(input.encoding.ids);
  const std::vector<std::string> own = reads_decoder ? shown(input.decoder_ids) : text;
  const bool of_keys = what == HeadArrayKind::k || what == HeadArrayKind::v;
  return {.rows = cross && of_keys ? text : own, .columns = cross ? text : own};
}

Json as_json(const Session& session, const Input& input, const std::vector<HeadArray>& arrays,
             HeadArrayKind what, bool in_file) {
  Json json = {{"ids", input.encoding.ids}, {"tokens", session.tokens(input.encoding.ids)}};
  const auto any = [&](auto is) { return std::ranges::any_of(arrays, is); };
  if (session.config().encoder_decoder() &&
      any([](const HeadArray& a) { return a.site->side == Side::decoder; })) {
    json["decoder_ids"] = input.decoder_ids;
    json["decoder_tokens"] = session.tokens(input.decoder_ids);
  }
  if (any([](const HeadArray& a) { return a.site->kind == AttentionKind::cross; })) {
    json["source_tokens"] = session.tokens(input.encoding.ids);
  }
  if (in_file) return json;
  Json& all = json[to_string(what)] = Json::object();
  for (const HeadArray& array : arrays) all[array.name] = json_rows(array.view());
  return json;
}

std::string vectors_to_text(const HeadArray& array, const std::vector<std::string>& tokens) {
  constexpr int64_t kShown = 6;
  std::string text =
      fmt::format("{}{:>9}   first of {} values\n", padded("", 16), "length", array.columns);
  for (int64_t row = 0; row < array.rows; ++row) {
    double squares = 0;
    std::string first;
    for (int64_t c = 0; c < array.columns; ++c) {
      const float value = array.view()(row, c);
      squares += double{value} * value;
      if (c < kShown) first += fmt::format("{:>9.4f}", value);
    }
    text += fmt::format("  {}{:>9.4f} {}{}\n", padded(tokens[row], 14), std::sqrt(squares), first,
                        array.columns > kShown ? "  …" : "");
  }
  return text;
}

std::string arrays_text(const Session& session, const Input& input,
                        const std::vector<HeadArray>& arrays, const AttendOptions& options) {
  const Color color = choose_color(options.color);
  const HeadArrayKind what = head_array_kind(options.what);
  std::string text = caption(session, input) + "\n";
  for (const HeadArray& array : arrays) {
    const MapTokens tokens = tokens_of(session, input, *array.site, what);
    text += fmt::format("\n{}{}\n", array.name,
                        what == HeadArrayKind::maps ? ", weights in percent" : ", " + options.what);
    if (what != HeadArrayKind::maps) {
      text += vectors_to_text(array, tokens.rows);
      continue;
    }
    text += draw({.weights = array.view(),
                  .rows = tokens.rows,
                  .columns = tokens.columns,
                  .square = array.site->kind == AttentionKind::self},
                 color, terminal_width());
  }
  return text;
}

void write_array(const std::vector<HeadArray>& arrays, const CommonOptions& common) {
  std::vector<float> values;
  for (const HeadArray& array : arrays) {
    const HeadArray& first = arrays.front();
    if (array.rows != first.rows || array.columns != first.columns) {
      throw Error({.what = "the heads have not all the same shape",
                   .where = common.out,
                   .got = fmt::format("{} [{}, {}] and {} [{}, {}]", first.name, first.rows,
                                      first.columns, array.name, array.rows, array.columns),
                   .expected = "one array for all",
                   .hint = "choose heads of one kind, for instance --heads enc.L0,enc.L1"});
    }
    values.insert(values.end(), array.values.begin(), array.values.end());
  }
  const std::vector<int64_t> shape = {std::ssize(arrays), arrays.empty() ? 0 : arrays[0].rows,
                                      arrays.empty() ? 0 : arrays[0].columns};
  write_npy(common.out, values, shape);
  log_info(common, fmt::format("{} has float32 [{}]", common.out, fmt::join(shape, ", ")));
}

void attend(const AttendOptions& options, const CommonOptions& common) {
  check_options(options.input);
  Session session(options.input);
  std::vector<Input> inputs = read_inputs(options.input, session, {});
  session.measure_means(inputs);
  if (common.out_is_array() && inputs.size() != 1) {
    usage_error("-o FILE.npy takes one text; its maps are [heads, tokens, tokens]");
  }
  const std::vector<HeadIndex> heads = options.heads.empty()
                                           ? default_heads(session.model(), common)
                                           : session.model().find_heads(options.heads);
  const bool reads_decoder = asks_decoder(session.model(), heads);
  const HeadArrayKind what = head_array_kind(options.what);
  JsonList list;
  std::string text;
  Progress progress(std::ssize(inputs), "texts", common.quiet);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Input& input = inputs[i];
    if (reads_decoder) prepare_decoder(session, common.seed, i, input);
    const std::vector<HeadArray> arrays = session.record(input, heads, what);
    if (common.out_is_array()) write_array(arrays, common);
    if (common.json) {
      list.add(as_json(session, input, arrays, what, common.out_is_array()));
    } else if (!common.out_is_array()) {
      text += arrays_text(session, input, arrays, options) + "\n";
    }
    progress.advance(1);
  }
  progress.clear();
  if (common.json) {
    write_output(common, list.document({{"what", options.what}}, "results", Json::object()));
  } else if (!common.out_is_array()) {
    write_output(common, text);
  }
}

}  // namespace

void add_attend(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<AttendOptions>();
  CLI::App& command = add_command(
      app, "attend", "What chosen heads attend to in a text, and what they carry",
      "Heads are named L3.H1, L3 (a whole layer) or all; in encoder-decoders enc.L3, dec.L3, "
      "cross.L3.\n"
      "-o FILE.npy gets an array [heads, tokens, …] of one text. A decoder that is given nothing\n"
      "to read reads what the model itself would write.\n\n"
      "Example:\n"
      "  headwise attend ./minilm --text \"The cat sat on the mat.\" --heads L2.H3,L4",
      common, [options, &common] { attend(*options, common); });
  add_inputs(command, options->input);
  Options declare(command);
  declare.add("--heads", options->heads, "LIST",
              "Which heads; default: all, or one layer if people read it");
  declare.add("--what", options->what, "W",
              "maps, q, k, v, z (the mix of values, after gates) or contribution (to the "
              "residual stream); default: maps",
              is_one_of(head_array_kind_names()));
  declare.color(options->color);
}

}  // namespace headwise::program
