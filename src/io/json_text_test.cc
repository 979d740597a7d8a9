// JSON text: digits of numbers, what is not UTF-8, documents with a long list.
#include "headwise/io/json_text.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace headwise {
namespace {

using Json = nlohmann::ordered_json;

TEST(JsonText, IsOneLineOrIndented) {
  const Json json = {{"b", 1}, {"a", {1, 2}}};
  EXPECT_EQ(json_text(json), "{\"b\":1,\"a\":[1,2]}\n");
  EXPECT_EQ(json_text(json, 1), "{\n \"b\": 1,\n \"a\": [\n  1,\n  2\n ]\n}\n");
}

TEST(JsonText, IsLaidOutAsNlohmannJsonDoes) {
  const Json json = Json::parse(
      R"({"a":[],"b":{},"c":[1,[2,[]],{"d":null}],"e":{"f":true,"g":"\u0001\"x"},"h":-3,"i":18446744073709551615})");
  for (const int indent : {-1, 0, 2}) EXPECT_EQ(json_text(json, indent), json.dump(indent) + "\n");
}

TEST(JsonText, ReplacesWhatJsonCannotSay) {
  EXPECT_EQ(json_text({{"text", "a\xFF\n"}}), "{\"text\":\"a\xEF\xBF\xBD\\n\"}\n");
  EXPECT_EQ(json_text(json_number(std::numeric_limits<float>::infinity())), "null\n");
  EXPECT_EQ(json_text(json_number(std::nan(""))), "null\n");
}

TEST(JsonText, NumbersHaveTheDigitsTheyNeed) {
  EXPECT_EQ(json_text(json_number(0.1f)), "0.1\n");
  EXPECT_EQ(json_text(json_number(0.1)), "0.1\n");
  EXPECT_EQ(json_text(json_number(double{0.1f})), "0.10000000149011612\n");
  EXPECT_EQ(json_text(json_number(3.f)), "3\n");
  EXPECT_EQ(json_text(json_number(-2.0)), "-2\n");
  EXPECT_EQ(json_text(json_number(1e-7f)), "1e-07\n");
  EXPECT_EQ(json_text(json_number(-0.f)), "-0.0\n");
  // nlohmann-json would write 3.2049762999999998.
  EXPECT_EQ(json_text(json_number(3.2049763f)), "3.2049763\n");
  EXPECT_EQ(json_text({{"whole", 2.0}, {"small", 1e-5}, {"large", 1e20}}),
            "{\"whole\":2.0,\"small\":1e-05,\"large\":1e+20}\n");
}

TEST(JsonText, FloatsAreReadBackAsTheyWere) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    float number = 0;
    std::memcpy(&number, &bits, sizeof number);
    if (!std::isfinite(number)) continue;
    const std::string text = json_text(json_number(number));
    EXPECT_EQ(std::strtof(text.c_str(), nullptr), number) << text;
    // The digits of a float, and not those of a double: 9 at the most, a sign, a point, zeros or an
    // exponent.
    if (std::abs(number) < 1e6 && std::abs(number) > 1e-4) {
      EXPECT_LE(text.size(), 16) << text;
    }
  }
}

TEST(JsonText, RowsAreArraysOfArrays) {
  const std::vector<float> values = {1, 0.5f, 0, 2};
  EXPECT_EQ(json_text(json_rows({values.data(), {2, 2}})), "[[1,0.5],[0,2]]\n");
  EXPECT_EQ(json_text(json_rows({values.data(), {0, 2}})), "[]\n");
  EXPECT_EQ(json_text(json_numbers(values)), "[1,0.5,0,2]\n");
}

TEST(JsonList, IsTheDocumentWithAllItems) {
  JsonList list;
  EXPECT_EQ(list.document(Json::object(), "all", Json::object()), "{\"all\":[]}\n");
  list.add({{"id", 1}});
  list.add("x\"y");
  const std::string text = list.document({{"task", "t"}}, "all", {{"mean", 0.5}, {"n", 2}});
  EXPECT_EQ(text, "{\"task\":\"t\",\"all\":[{\"id\":1},\"x\\\"y\"],\"mean\":0.5,\"n\":2}\n");
  EXPECT_EQ(Json::parse(text)["all"].size(), 2);
}

}  // namespace
}  // namespace headwise
