// Strict JSON: what is refused and how it is named, and typed fields.
#include "headwise/io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "io/io_testing.h"

namespace headwise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

ErrorDetail refused(const std::string& text) {
  return error_of([&] { parse_json(text, "c.json"); });
}

TEST(Json, ReadsWhatNlohmannReads) {
  const std::string text =
      R"({"a":[1,-2,3.5,true,null,"ü\n"],"b":{"c":{}},"big":18446744073709551615})";
  EXPECT_EQ(parse_json(text, "c.json"), nlohmann::json::parse(text));
  EXPECT_EQ(parse_json(" 7 ", "c.json"), 7);
  const std::string deep = std::string(64, '[') + std::string(64, ']');
  EXPECT_EQ(parse_json(deep, "c.json"), nlohmann::json::parse(deep));
}

TEST(Json, RefusesWhatIsNotJsonWithLineAndByte) {
  EXPECT_THAT(refused("").where, "c.json, byte 1");
  const auto error = refused("{\"a\": 1,\n \"b\" 2}");
  EXPECT_EQ(error.what, "json: not valid");
  EXPECT_EQ(error.where, "c.json, byte 15");
  EXPECT_THAT(error.got,
              AllOf(StartsWith("line 2, column 6: "), HasSubstr("expected ':'; near \"2\"")));
  EXPECT_LT(refused("\"" + std::string(1000000, 'x')).got.size(), 300u);
  EXPECT_LT(refused(std::string(1000000, '9')).got.size(), 300u);
  for (const char* text : {"{} x", "[1,]", "{'a':1}", "nul", "NaN", "[1]//c", "\"\t\"", "01", "{",
                           "\"\xff\"", "\"\xed\xa0\x80\"", "\"\\ud800\"", "1e999", "\"a"}) {
    EXPECT_EQ(refused(text).what, "json: not valid") << text;
  }
}

TEST(Json, RefusesBytesBehindANul) {
  using namespace std::string_literals;
  for (const std::string& text :
       {"{}\0"s, "{\"a\": 1}\0GARBAGE"s, "\0{}"s, "[1,\0 2]"s, "\"a\0\""s}) {
    const auto error = refused(text);
    EXPECT_EQ(error.what, "json: not valid");
    EXPECT_THAT(error.got, StartsWith("a NUL"));
  }
  EXPECT_EQ(refused("{}\0GARBAGE"s).where, "c.json, byte 3");
  EXPECT_EQ(parse_json("\"a\\u0000b\"", "c.json"), "a\0b"s);
}

TEST(Json, RefusesRepeatedKeysWithTheirPlace) {
  const auto error = refused(R"({"model":{"x":[0,{"a":1,"b":{},"a":2}]}})");
  EXPECT_EQ(error.what, "json: a key is there twice");
  EXPECT_EQ(error.where, "c.json: model.x[1]");
  EXPECT_EQ(error.got, "\"a\"");
  EXPECT_EQ(refused(R"({"a":1,"a":1})").where, "c.json");
  EXPECT_EQ(refused(R"({"a":1,"\u0061":1})").what, "json: a key is there twice");
}

TEST(Json, RefusesDeepNesting) {
  const auto error = refused(std::string(65, '['));
  EXPECT_EQ(error.what, "json: nested too deeply");
  EXPECT_EQ(error.got, "more than 64 levels");
  EXPECT_EQ(refused([] {
              std::string deep;
              for (int i = 0; i < 1000000; ++i) deep += "{\"a\":";
              return deep;
            }())
                .what,
            "json: nested too deeply");
}

TEST(Json, ReadsManyKeysInTimeThatGrowsWithThem) {
  const auto seconds = [](int keys) {
    std::string text = "{";
    for (int i = 0; i < keys; ++i) text += "\"token " + std::to_string(i) + "\":1,";
    text += "\"last\":1}";
    const std::clock_t begin = std::clock();
    EXPECT_EQ(parse_json(text, "c.json").size(), keys + 1u);
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  seconds(1000);
  EXPECT_LT(seconds(320000), 32 * 10 * std::max(seconds(10000), 1e-4));  // quadratic is 1024 times
}

class Fields : public testing::Test {
 protected:
  template <class Call>
  ErrorDetail refused(const Call& call) {
    return error_of([&] { call(object_); });
  }
  const nlohmann::json json_ = nlohmann::json::parse(
      R"({"n":12,"x":0.5,"yes":true,"s":"text","none":null,"minus":-1,"large":9223372036854775808,
          "o":{"list":[1,2],"mixed":["a",1],"texts":["a","b"],"deep":[{"k":1},{"k":"v"}]}})");
  const JsonObject object_ = JsonObject(json_, "c.json");
};

TEST_F(Fields, HaveTheirTypes) {
  EXPECT_EQ(object_.integer("n"), 12);
  EXPECT_EQ(object_.integer("minus", -5, 5), -1);
  EXPECT_EQ(object_.number("n"), 12.0);
  EXPECT_EQ(object_.number("x"), 0.5);
  EXPECT_TRUE(object_.boolean("yes"));
  EXPECT_EQ(object_.text("s"), "text");
  EXPECT_THAT(object_.object("o").integers("list"), ElementsAre(1, 2));
  EXPECT_THAT(object_.object("o").texts("texts"), ElementsAre("a", "b"));
  EXPECT_EQ(object_.object("o").objects("deep")[1].text("k"), "v");
  EXPECT_THAT(object_.object("o").names(), ElementsAre("deep", "list", "mixed", "texts"));
}

TEST_F(Fields, MayBeMissingOrNullWhereTheyAreOptional) {
  EXPECT_FALSE(object_.has("none"));
  EXPECT_FALSE(object_.has("missing"));
  EXPECT_TRUE(object_.has("n"));
  EXPECT_EQ(object_.optional_integer("none"), std::nullopt);
  EXPECT_EQ(object_.optional_integer("n"), 12);
  EXPECT_EQ(object_.optional_number("missing"), std::nullopt);
  EXPECT_EQ(object_.optional_boolean("yes"), true);
  EXPECT_EQ(object_.optional_text("s"), "text");
  EXPECT_FALSE(object_.optional_object("none").has_value());
  EXPECT_THROW(object_.optional_text("n"), Error);
}

TEST_F(Fields, AreRefusedByTheirPath) {
  const auto range = refused([](const JsonObject& o) { o.integer("n", 1, 8); });
  EXPECT_EQ(range.where, "c.json: n");
  EXPECT_EQ(range.got, "12");
  EXPECT_EQ(range.expected, "a whole number from 1 to 8");
  EXPECT_EQ(refused([](const JsonObject& o) { o.integer("minus"); }).expected,
            "a whole number, at least 0");
  EXPECT_EQ(refused([](const JsonObject& o) { o.integer("x"); }).got, "0.5");
  EXPECT_EQ(refused([](const JsonObject& o) { o.integer("large"); }).got, "9223372036854775808");
  EXPECT_EQ(refused([](const JsonObject& o) { o.integer("missing"); }).got, "nothing");
  EXPECT_EQ(refused([](const JsonObject& o) { o.text("none"); }).got, "null");
  EXPECT_EQ(refused([](const JsonObject& o) { o.number("s"); }).got, "\"text\"");
  EXPECT_EQ(refused([](const JsonObject& o) { o.boolean("n"); }).expected, "true or false");
  EXPECT_EQ(refused([](const JsonObject& o) { o.object("n"); }).what, "json: not an object");
  EXPECT_EQ(refused([](const JsonObject& o) { o.texts("o"); }).got, "an object of 4");
  EXPECT_EQ(refused([](const JsonObject& o) { o.object("o").integers("mixed"); }).where,
            "c.json: o.mixed[0]");
  EXPECT_EQ(refused([](const JsonObject& o) { o.object("o").texts("mixed"); }).where,
            "c.json: o.mixed");
  EXPECT_EQ(
      refused([](const JsonObject& o) { o.object("o").objects("deep")[1].integer("k"); }).where,
      "c.json: o.deep[1].k");
}

TEST(Quote, EscapesCutsAndNeverFails) {
  EXPECT_EQ(quote("a\"\x1b\n"), "\"a\\\"\\u001b\\n\"");
  EXPECT_EQ(quote("\xff"), "\"\xef\xbf\xbd\"");
  EXPECT_EQ(quote(std::string(200, 'x')), "\"" + std::string(100, 'x') + "\"…");
}

TEST(ReadJson, NamesTheFile) {
  const TemporaryFolder folder;
  const auto file = folder.write("config.json", "{\"a\":}");
  EXPECT_EQ(error_of([&] { read_json(file); }).where, file.string() + ", byte 6");
}

}  // namespace
}  // namespace headwise
