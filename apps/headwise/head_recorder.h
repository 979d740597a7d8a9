// What a pass over one text shows of chosen heads: maps, queries, keys, values, what they carry.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "headwise/model/model.h"
#include "inputs.h"

namespace headwise::program {

/// What was asked of one head: [rows, columns].
struct HeadArray {
  const AttentionSite* site = nullptr;
  std::string name{};
  std::vector<float> values{};
  int64_t rows = 0, columns = 0;

  View<const float, 2> view() const { return {values.data(), {rows, columns}}; }
};

/// Keeps one thing of chosen heads during a pass over one text: "maps", "q", "k", "v", "z" or
/// "contribution". Every layer is a place to be interrupted at.
class HeadRecorder : public ForwardObserver {
 public:
  HeadRecorder(const Model& model, const std::vector<HeadIndex>& heads, std::string what);

  void on_resid_post(Side side, int64_t layer, View<const float, 2> rows) override;
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2> lse) override;

  std::vector<HeadArray> arrays;  // in the order of the heads given

 private:
  std::string what_;
  std::map<std::string, std::vector<std::pair<int64_t, size_t>>> wanted_;  // by the site's name
};

/// Whether one of the heads is in a decoder.
bool asks_decoder(const Model& model, const std::vector<HeadIndex>& heads);

/// One pass over the input, and through the decoder if that is asked for and has something to read.
std::vector<HeadArray> record_heads(const Session& session, const Input& input,
                                    const std::vector<HeadIndex>& heads, const std::string& what);

}  // namespace headwise::program
