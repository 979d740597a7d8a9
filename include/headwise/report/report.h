// One page that shows what a study, a training or a sweep found: in one file, without network.
//
// docs/report.md says what is on it. The page itself is web/, embedded in the library.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "headwise/model/model.h"
#include "headwise/observe/corpus.h"

namespace headwise {

/// What the page shows of a folder, as one JSON object: evidence, verdict, plan, summary, samples,
/// training, whichever are there; numbers have five digits. Evidence without a verdict is judged.
/// Throws Error for a folder with none of them, and for files that cannot be read.
std::string report_data(const std::filesystem::path& folder);

/// The same of the texts of a study by their names ("evidence", "verdict", "plan", "samples",
/// "summary"), as the program made them.
std::string report_data(const std::map<std::string, std::string>& texts);

/// The page as one HTML document. `data` is JSON, from report_data or "null"; whatever strings are
/// in it stay text. `live`: the page talks to the server that it came from.
std::string report_page(std::string_view data, bool live = false);

/// Attention weights from 0 to 1 as the page reads them: a byte for each, 255 times the weight, in
/// base64.
std::string encode_weights(std::span<const float> weights);

/// What all heads attend to in a few texts of the corpus, as JSON: samples.json of a study.
std::string sample_maps(const Model& model, const ObservedCorpus& corpus);

}  // namespace headwise
