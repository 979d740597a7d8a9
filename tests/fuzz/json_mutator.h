// Changes the values of a JSON document, which bytes at random rarely leave one. A target includes
// this file once.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#ifdef HEADWISE_FUZZER
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace headwise::fuzz {

using MutatedJson = nlohmann::ordered_json;

/// All values in a document, itself among them.
inline void collect(MutatedJson& value, std::vector<MutatedJson*>& all) {
  all.push_back(&value);
  if (!value.is_structured()) return;
  for (MutatedJson& part : value) collect(part, all);
}

inline MutatedJson random_value(std::minstd_rand& draw) {
  static const MutatedJson values[] = {nullptr,
                                       true,
                                       false,
                                       0,
                                       1,
                                       -1,
                                       2,
                                       3,
                                       1e308,
                                       0.5,
                                       INT64_MAX,
                                       INT64_MIN,
                                       4294967296.,
                                       "",
                                       "a",
                                       {},
                                       "L0",
                                       "L0.H0",
                                       "L1.H1",
                                       MutatedJson::array(),
                                       MutatedJson::object()};
  return values[draw() % std::size(values)];
}

inline void mutate_one(MutatedJson& document, std::minstd_rand& draw) {
  std::vector<MutatedJson*> all;
  collect(document, all);
  MutatedJson& value = *all[draw() % all.size()];
  const MutatedJson other = *all[draw() % all.size()];
  switch (draw() % 6) {
    case 0:
      value = random_value(draw);
      return;
    case 1:
      value = other;
      return;
    case 2:
      if (value.is_number_integer()) value = value.get<int64_t>() / 2 + (draw() % 2 == 0 ? 1 : -1);
      if (value.is_number_float()) value = -2 * value.get<double>();
      if (value.is_string())
        value = value.get<std::string>() + static_cast<char>('0' + draw() % 70);
      return;
    default:
      break;
  }
  if (!value.is_structured() || value.empty()) return;
  const auto at = std::next(value.begin(), static_cast<std::ptrdiff_t>(draw() % value.size()));
  switch (draw() % 3) {
    case 0:
      value.erase(at);
      return;
    case 1:
      if (value.is_array()) value.push_back(other);
      if (value.is_object()) value[at.key() + "a"] = other;
      return;
    default:
      *at = random_value(draw);
  }
}

}  // namespace headwise::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace headwise::fuzz;
  std::minstd_rand draw(seed);
  if (draw() % 4 != 0) {
    auto document = MutatedJson::parse(data, data + size, nullptr, false);
    if (!document.is_discarded()) {
      for (unsigned i = draw() % 3 + 1; i > 0; --i) mutate_one(document, draw);
      const std::string text = document.dump(-1, ' ', false, MutatedJson::error_handler_t::ignore);
      if (text.size() <= most) {
        std::memcpy(data, text.data(), text.size());
        return text.size();
      }
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}
#endif
