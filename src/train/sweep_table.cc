// The table of a sweep for programs, for people, and for documents.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "headwise/core/grouped.h"
#include "headwise/io/json_text.h"
#include "headwise/train/sweep.h"

namespace headwise {
namespace {

using nlohmann::ordered_json;

ordered_json as_json(const Spread& spread) {
  return {{"mean", spread.mean},
          {"half_interval", spread.half ? ordered_json(*spread.half) : ordered_json()},
          {"n", spread.n}};
}

std::string shown(const Spread& spread, int digits) {
  std::string text = fmt::format("{:.{}f}", spread.mean, digits);
  if (spread.half) text += fmt::format(" ± {:.{}f}", *spread.half, digits);
  return text;
}

/// Titles, then cells; columns that no row has are left out.
std::vector<std::vector<std::string>> cells_of(const SweepTable& table) {
  const auto any = [&](auto member) {
    return std::ranges::any_of(table.rows, [&](const SweepRow& row) { return !!(row.*member); });
  };
  const bool perplexity = any(&SweepRow::perplexity), bleu = any(&SweepRow::bleu),
             accuracy = any(&SweepRow::accuracy);
  std::vector<std::vector<std::string>> cells(1);
  for (const SweepValue& value : table.rows.front().values) cells[0].push_back(value.field);
  cells[0].insert(cells[0].end(), {"head width", "parameters", "seeds"});
  if (perplexity) cells[0].push_back("perplexity");
  if (bleu) cells[0].push_back("BLEU");
  if (accuracy) cells[0].push_back("accuracy %");
  cells[0].insert(cells[0].end(), {"training tokens/s", "inference tokens/s", "qk_rank"});
  for (const SweepRow& row : table.rows) {
    std::vector<std::string> line;
    for (const SweepValue& value : row.values) line.push_back(value.value);
    line.push_back(row.head_dim);
    line.push_back(grouped(row.parameters));
    line.push_back(fmt::format("{}", row.qk_rank.n));
    if (perplexity) line.push_back(row.perplexity ? shown(*row.perplexity, 2) : "");
    if (bleu) line.push_back(row.bleu ? shown(*row.bleu, 2) : "");
    if (accuracy) {
      Spread percent = row.accuracy.value_or(Spread{});
      percent.mean *= 100;
      if (percent.half) *percent.half *= 100;
      line.push_back(row.accuracy ? shown(percent, 2) : "");
    }
    line.push_back(grouped(std::llround(row.training_tokens_per_second.mean)));
    line.push_back(grouped(std::llround(row.inference_tokens_per_second.mean)));
    line.push_back(fmt::format("{:.2f}", row.qk_rank.mean));
    cells.push_back(std::move(line));
  }
  return cells;
}

/// Columns that a terminal shows, of UTF-8 without wide characters.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string to_json(const SweepTable& table) {
  ordered_json rows = ordered_json::array();
  for (const SweepRow& row : table.rows) {
    ordered_json one;
    one["settings"] = ordered_json::object();
    for (const SweepValue& value : row.values) {
      one["settings"][value.field] = ordered_json::parse(value.value);
    }
    one["head_dim"] = row.head_dim;
    one["parameters"] = row.parameters;
    if (row.perplexity) one["perplexity"] = as_json(*row.perplexity);
    if (row.bleu) one["bleu"] = as_json(*row.bleu);
    if (row.accuracy) one["accuracy"] = as_json(*row.accuracy);
    one["training_tokens_per_second"] = as_json(row.training_tokens_per_second);
    one["inference_tokens_per_second"] = as_json(row.inference_tokens_per_second);
    one["qk_rank"] = as_json(row.qk_rank);
    rows.push_back(std::move(one));
  }
  return json_text({{"rows", rows}}, 2);
}

std::string to_text(const SweepTable& table) {
  if (table.rows.empty()) return "";
  const auto cells = cells_of(table);
  std::vector<size_t> widths(cells.front().size());
  for (const auto& line : cells) {
    for (size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], width_of(line[c]));
  }
  std::string text;
  for (const auto& line : cells) {
    for (size_t c = 0; c < line.size(); ++c) {
      text += std::string(widths[c] - width_of(line[c]) + (c > 0 ? 2 : 0), ' ') + line[c];
    }
    text += '\n';
  }
  return text;
}

std::string to_markdown(const SweepTable& table) {
  if (table.rows.empty()) return "";
  std::string text;
  const auto cells = cells_of(table);
  for (size_t row = 0; row < cells.size(); ++row) {
    text += fmt::format("| {} |\n", fmt::join(cells[row], " | "));
    if (row > 0) continue;
    for (size_t c = 0; c < cells[0].size(); ++c) text += "|---";
    text += "|\n";
  }
  return text;
}

}  // namespace headwise
