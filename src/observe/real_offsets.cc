// Distances of real text, and the weights that give probes the same ones.
#include "observe/real_offsets.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <tuple>

namespace headwise {
namespace {

constexpr int64_t kFewest = 4;  // items that stand for a distance
constexpr double kUnit = 1e-4;  // of the table

// Made by tests/parity/real_offsets.py.
constexpr RealOffsets kTable[] = {
    {"acl:relcl/to_head",
     3111,
     {780, 250, 395, 525, 812, 1764, 2274, 3111, 88, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"advcl/to_head",
     1057,
     {1639, 480, 574, 718, 870, 1028, 981, 1057, 142, 16, 94, 176, 249, 249, 244, 265, 236, 983}},
    {"advmod/to_head",
     4635,
     {40, 22, 45, 60, 88, 152, 281, 369, 1291, 4635, 1288, 778, 397, 177, 96, 66, 42, 171}},
    {"amod/to_head",
     7607,
     {2, 1, 3, 5, 4, 9, 26, 66, 134, 7607, 1462, 397, 159, 58, 25, 19, 10, 11}},
    {"aux/to_head", 4955, {2, 0, 0, 0, 9, 8, 6, 15, 3, 4955, 3782, 823, 240, 74, 29, 11, 8, 35}},
    {"case/to_head",
     3570,
     {0, 1, 1, 9, 7, 13, 11, 40, 348, 3570, 3545, 1546, 547, 208, 78, 38, 14, 23}},
    {"cc/to_head",
     4435,
     {1, 0, 0, 0, 0, 0, 0, 0, 3, 4435, 2031, 1403, 888, 437, 195, 160, 120, 327}},
    {"conj/to_head",
     2656,
     {2658, 510, 532, 701, 779, 943, 1204, 2656, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"det/to_head", 5898, {0, 0, 0, 0, 0, 0, 0, 0, 0, 5898, 2810, 772, 293, 126, 48, 20, 15, 18}},
    {"iobj/to_head", 8444, {0, 0, 15, 15, 31, 77, 508, 909, 8444, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"mark/to_head",
     5022,
     {0, 0, 0, 1, 0, 0, 0, 0, 0, 5022, 1682, 1209, 824, 505, 244, 143, 65, 305}},
    {"nmod/to_head",
     3491,
     {300, 173, 204, 384, 704, 1481, 3134, 3491, 17, 35, 25, 16, 9, 13, 0, 6, 1, 7}},
    {"nmod:poss/to_head",
     5984,
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 5984, 2622, 824, 344, 114, 62, 27, 16, 5}},
    {"nsubj/to_head",
     3596,
     {4, 2, 3, 6, 17, 46, 102, 111, 79, 3596, 2743, 1648, 669, 338, 176, 117, 70, 274}},
    {"nummod/to_head",
     6017,
     {0, 0, 0, 0, 0, 0, 0, 583, 1049, 6017, 1470, 609, 123, 78, 52, 19, 0, 0}},
    {"obj/to_head",
     3626,
     {29, 26, 40, 111, 258, 587, 1727, 3626, 3242, 4, 108, 120, 47, 43, 9, 5, 6, 10}},
    {"obl/to_head",
     2127,
     {713, 304, 446, 702, 1100, 1631, 2127, 1723, 170, 37, 122, 187, 164, 127, 94, 94, 39, 218}},
    {"acl:relcl/to_dependent",
     3134,
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 89, 3134, 2290, 1771, 807, 514, 383, 252, 760}},
    {"advcl/to_dependent",
     1109,
     {919, 231, 259, 237, 256, 256, 182, 96, 17, 149, 1109, 1029, 1068, 906, 735, 584, 446, 1522}},
    {"advmod/to_dependent",
     5291,
     {133, 33, 48, 68, 118, 291, 691, 1127, 5118, 1474, 318, 242, 122, 73, 47, 39, 18, 37}},
    {"amod/to_dependent",
     8316,
     {5, 9, 10, 13, 36, 104, 292, 984, 8295, 146, 65, 22, 6, 3, 3, 3, 1, 2}},
    {"aux/to_dependent",
     5155,
     {34, 6, 10, 27, 72, 238, 765, 3652, 5155, 3, 16, 3, 6, 10, 0, 0, 0, 2}},
    {"case/to_dependent",
     3617,
     {23, 14, 36, 78, 206, 535, 1520, 3545, 3610, 352, 39, 10, 13, 8, 9, 1, 1, 0}},
    {"cc/to_dependent",
     4436,
     {327, 120, 160, 195, 437, 887, 1404, 2031, 4434, 3, 0, 0, 0, 0, 0, 0, 0, 1}},
    {"conj/to_dependent",
     3164,
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 3162, 1429, 848, 771, 632, 507, 474, 2156}},
    {"det/to_dependent",
     5899,
     {18, 15, 20, 48, 126, 293, 772, 2810, 5899, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"iobj/to_dependent", 8444, {0, 0, 0, 0, 0, 0, 0, 0, 0, 8444, 909, 508, 77, 31, 15, 15, 0, 0}},
    {"mark/to_dependent",
     5126,
     {297, 66, 140, 238, 474, 807, 1155, 1696, 5126, 0, 0, 0, 0, 0, 1, 0, 0, 0}},
    {"nmod/to_dependent",
     3721,
     {6, 2, 5, 0, 11, 8, 12, 23, 37, 19, 3718, 3340, 1515, 654, 295, 121, 112, 124}},
    {"nmod:poss/to_dependent",
     5994,
     {5, 14, 27, 62, 114, 345, 812, 2626, 5994, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"nsubj/to_dependent",
     3596,
     {274, 70, 117, 176, 338, 669, 1648, 2743, 3596, 79, 111, 102, 46, 17, 6, 3, 2, 4}},
    {"nummod/to_dependent",
     6032,
     {0, 0, 13, 52, 71, 123, 604, 1468, 6032, 1052, 584, 0, 0, 0, 0, 0, 0, 0}},
    {"obj/to_dependent",
     3626,
     {10, 6, 5, 9, 43, 47, 120, 108, 4, 3242, 3626, 1727, 587, 258, 111, 40, 26, 29}},
    {"obl/to_dependent",
     2402,
     {164, 27, 80, 89, 117, 162, 192, 133, 42, 192, 1944, 2383, 1746, 1062, 642, 346, 227, 450}}};

}  // namespace

const RealOffsets* real_offsets(std::string_view question) {
  const auto* const row = std::ranges::find(kTable, question, &RealOffsets::question);
  return row == std::end(kTable) ? nullptr : row;
}

std::vector<int64_t> offset_weights(const RealOffsets& real, std::span<const int64_t> offsets) {
  constexpr int64_t kFarthest = RealOffsets::kFarthest;
  std::map<int64_t, std::vector<size_t>> items;  // at each offset
  for (size_t i = 0; i < offsets.size(); ++i) {
    items[std::clamp(offsets[i], -kFarthest, kFarthest)].push_back(i);
  }
  std::vector<double> weights(offsets.size());
  for (int64_t wanted = -kFarthest; wanted <= kFarthest; ++wanted) {
    if (wanted == 0) continue;
    const double share = kUnit * real.share[wanted + kFarthest - (wanted > 0 ? 1 : 0)];
    std::vector<std::tuple<int64_t, int64_t>> near;  // distance from what is wanted, offset
    for (const auto& [offset, list] : items) {
      if ((offset < 0) == (wanted < 0)) near.emplace_back(std::abs(offset - wanted), offset);
    }
    std::ranges::sort(near);
    std::vector<size_t> chosen;
    for (const auto& [distance, offset] : near) {
      if (std::ssize(chosen) >= kFewest) break;
      chosen.insert(chosen.end(), items.at(offset).begin(), items.at(offset).end());
    }
    for (const size_t i : chosen) weights[i] += share / static_cast<double>(chosen.size());
  }
  std::vector<int64_t> result;
  for (const double weight : weights) {
    result.push_back(std::llround(weight * static_cast<double>(kWeightOne)));
  }
  return result;
}

}  // namespace headwise
