// Constructed models against plain evaluation, and that against functions written by hand.
#include "headwise/construct/construct.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "headwise/core/random.h"
#include "headwise/io/json.h"
#include "headwise/text/tokenizer.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;
using Answer = std::function<Words(const Words&)>;

Words letters(std::string_view text) {
  Words words;
  for (const char c : text) words.emplace_back(1, c);
  return words;
}

// The programs once more, in C++.

Words histogram(const Words& text) {
  Words counts;
  for (const std::string& token : text) {
    counts.push_back(std::to_string(std::ranges::count(text, token)));
  }
  return counts;
}

Words reversed(const Words& text) { return {text.rbegin(), text.rend()}; }

Words sorted(Words text) {
  std::ranges::sort(text);
  return text;
}

Words most_frequent(const Words& text) {
  Words tokens;
  for (const std::string& token : text) {
    if (std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(token);
  }
  std::ranges::stable_sort(tokens, std::ranges::greater(), [&](const std::string& token) {
    return std::ranges::count(text, token);
  });
  tokens.resize(text.size(), "-");
  return tokens;
}

Words dyck1(const Words& text) {
  Words answers;
  int open = 0;
  bool failed = false;
  for (const std::string& bracket : text) {
    open += bracket == "(" ? 1 : -1;
    failed = failed || open < 0;
    answers.emplace_back(failed ? "F" : open == 0 ? "T" : "P");
  }
  return answers;
}

const std::map<std::string, Answer>& answers() {
  static const std::map<std::string, Answer> all = {{"histogram", histogram},
                                                    {"reverse", reversed},
                                                    {"sort", sorted},
                                                    {"most-frequent", most_frequent},
                                                    {"dyck-1", dyck1}};
  return all;
}

class Constructed : public testing::TestWithParam<std::string> {};

TEST_P(Constructed, ProgramsGiveWhatFunctionsGive) {
  const Program program = Program::load(GetParam());
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    Words text(1 + random.below(static_cast<uint32_t>(program.length())));
    const auto tokens = static_cast<uint32_t>(program.alphabet().size());
    for (std::string& token : text) token = program.alphabet()[random.below(tokens)];
    EXPECT_EQ(program.run(text), answers().at(GetParam())(text)) << testing::PrintToString(text);
  }
}

TEST_P(Constructed, ModelsGiveItForEveryShortText) {
  const TemporaryFolder folder;
  const Program program = Program::load(
      GetParam(),
      {.length = 5, .alphabet = GetParam() == "dyck-1" ? Words() : Words{"x", "a", "b", "c"}});
  for (const int64_t most : {0, 1}) {
    const Construction made = construct(program, {.max_heads = most, .check_texts = 2000},
                                        folder.path() / std::to_string(most));
    EXPECT_TRUE(made.check.all);
    EXPECT_EQ(made.check.texts, GetParam() == "dyck-1" ? 62 : 1364);
    EXPECT_EQ(made.check.refused, 0);
    EXPECT_EQ(made.check.different, 0);
    EXPECT_TRUE(most == 0 || made.most_heads() <= most);
  }
}

TEST_P(Constructed, ModelsGiveItForLongTexts) {
  const TemporaryFolder folder;
  const Construction made = construct(Program::load(GetParam()), {.check_texts = 300, .seed = 7},
                                      folder.path() / "model");
  EXPECT_FALSE(made.check.all);
  EXPECT_EQ(made.check.texts, 300);
  EXPECT_EQ(made.check.different, 0);
}

INSTANTIATE_TEST_SUITE_P(Programs, Constructed,
                         testing::Values("histogram", "reverse", "sort", "most-frequent", "dyck-1"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

constexpr std::string_view kHead = "alphabet: a b c\nlength: 6\n";

Construction check(const std::string& lines) {
  const TemporaryFolder folder;
  const Program program = Program::parse(std::string(kHead) + lines, "test");
  return construct(program, {.check_texts = 1100}, folder.path() / "model");
}

TEST(Construct, CompilesEveryPrimitive) {
  const char* const programs[] = {
      "return tokens",
      "return indices * 2 - 1",
      "return \"x\"",
      "return \"x\" if tokens == \"a\" and not indices < 2 or indices == 5 else tokens",
      "return min(indices, 3) + max(-indices, -2) / 2",
      "return mean(select(true), indices)",
      "return mean(select(indices, indices, <), 1 if tokens == \"b\" else -0.5)",
      // None is selected at first.
      "return aggregate(select(indices, indices - 1, ==), tokens)",
      "return aggregate(select(indices, indices - 1, ==), tokens, \"-\")",
      "return aggregate(select(indices, indices - 1, ==), tokens, \"b\")",
      "return aggregate(select(tokens, \"a\", ==), 1)",
      "return aggregate(select(1, indices > 2, ==), \"late\", \"early\")",
      "return selector_width(not select(tokens, tokens, ==) and select(indices, indices, >=))",
      "return selector_width(select(tokens, \"c\", !=) and select(indices, 4, <=) and "
      "not select(tokens, tokens, >))",
      "return selector_width(select(selector_width(select(tokens, tokens, ==)), 2, >=))",
      "w = selector_width(select(true))\nreturn mean(select(indices, w - 2, <), w)",
      "h = selector_width(select(tokens, tokens, ==))\nm = mean(select(true), h)\nreturn m > 2",
      "a = selector_width(select(tokens, \"a\", ==))\nb = selector_width(select(tokens, \"b\", ==))"
      "\nreturn \"a\" if a > b else (\"b\" if b > a else \"none\")",
      "up = select(indices, indices, <=)\na = mean(up, tokens == \"a\")\n"
      "b = mean(up, tokens == \"b\")\nreturn a - b",
      "a = mean(select(true), tokens == \"a\")\nreturn 1 if a * 3 == 2 or a + a == 2 / 3 else 0",
  };
  for (const char* const program : programs) {
    const Construction made = check(program);
    EXPECT_EQ(made.check.texts, 1092) << program;
    EXPECT_EQ(made.check.different, 0) << program;
  }
}

/// Parts that are used twice are evaluated once.
TEST(Construct, CompilesSharedParts) {
  std::string lines = "x0 = indices\n";
  for (int i = 1; i <= 40; ++i) lines += fmt::format("x{0} = min(x{1}, x{1} + 1)\n", i, i - 1);
  const Construction made = check(lines + "return x40");
  EXPECT_EQ(made.layers.size(), 1u);
  EXPECT_EQ(made.check.different, 0);
}

TEST(Construct, LeavesOutTextsWithoutAnAnswer) {
  const Construction made = check("return aggregate(select(true), tokens)");
  EXPECT_EQ(made.check.texts, 3 * 6);  // of one letter alone
  EXPECT_EQ(made.check.refused, 1092 - 3 * 6);
}

/// Weights of a head for all pairs of rows, and the residual stream in the end.
class HookRecorder : public ForwardObserver {
 public:
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2>) override {
    std::vector<int64_t> rows(z.extent(0));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
    maps[site.name] = layer.maps(attention, rows);
  }
  void on_resid_post(Side, int64_t, View<const float, 2> rows) override {
    last.clear();
    for (int64_t row = 0; row < rows.extent(0); ++row) {
      last.emplace_back(&rows(row, 0), &rows(row, 0) + rows.extent(1));
    }
  }

  std::map<std::string, AttentionMaps> maps{};
  std::vector<std::vector<float>> last{};
};

/// A key that is not selected has the smallest weight that the kernel's exponential function gives,
/// 2^-126: in float32 it is lost in a sum with the weight of a key that is.
TEST(Construct, GivesKeysThatAreNotSelectedNoWeight) {
  const TemporaryFolder folder;
  construct(Program::load("reverse"), {}, folder.path() / "model");
  const Model model = load((folder.path() / "model").string());
  TokenBatch batch;
  batch.add(model.tokenizer()->encode("abcab").ids);
  HookRecorder recorder;
  (void)model.forward(batch, {.observer = &recorder});
  const AttentionMaps& maps = recorder.maps.at("L1");
  for (int64_t row = 0; row < 6; ++row) {
    const int64_t opposite = row == 0 ? 0 : 6 - row;
    for (int64_t key = 0; key < 6; ++key) {
      const float weight = maps.row(row, 0)[key];
      if (key == opposite) {
        EXPECT_EQ(weight, 1);
      } else {
        EXPECT_LE(weight, 0x1p-126f) << row << ' ' << key;
      }
    }
  }
  for (int64_t key = 0; key < 6; ++key) {  // all of them, [BOS] for the width
    EXPECT_NEAR(recorder.maps.at("L0").row(3, 0)[key], 1. / 6, 1e-7);
  }
}

/// Steps saturate: a one-hot vector of the residual stream is one to rounding.
TEST(Construct, KeepsOneHotVectorsInTheResidualStream) {
  const TemporaryFolder folder;
  construct(Program::load("most-frequent"), {}, folder.path() / "model");
  const Model model = load((folder.path() / "model").string());
  const nlohmann::json program = read_json(folder.path() / "model/program.json");
  TokenBatch batch;
  batch.add(model.tokenizer()->encode("hgabbacabbahhfec").ids);
  HookRecorder recorder;
  (void)model.forward(batch, {.observer = &recorder});
  int64_t vectors = 0;
  for (const nlohmann::json& sequence : program["residual_stream"]) {
    if (sequence["form"] != "one-hot") continue;
    const auto first = sequence["first"].get<size_t>(), count = sequence["columns"].get<size_t>();
    for (size_t row = 1; row < recorder.last.size(); ++row) {
      int ones = 0;
      for (size_t c = first; c < first + count; ++c) {
        const float value = recorder.last[row][c];
        // A step reaches y = 4 · 16 at most, and its units are rounded to 2^-18 there.
        EXPECT_LE(std::min(std::abs(value), std::abs(value - 1)), 8 * 0x1p-18f) << sequence;
        ones += value > 0.5f ? 1 : 0;
      }
      EXPECT_EQ(ones, 1) << sequence;
      ++vectors;
    }
  }
  EXPECT_EQ(vectors % 16, 0);
  EXPECT_GT(vectors, 16 * 5);
}

TEST(Construct, WritesAFolderThatSaysWhatHeadsCompute) {
  const TemporaryFolder folder;
  const Construction made = construct(Program::load("reverse"), {}, folder.path() / "model");
  const nlohmann::json program = read_json(folder.path() / "model/program.json");
  EXPECT_EQ(program["name"], "reverse");
  EXPECT_EQ(program["heads"]["L0.H0"], "count = selector_width(select(true))");
  EXPECT_EQ(program["heads"]["L1.H0"],
            "aggregate(select(indices, (count - indices) - 1, ==), tokens)");
  const Model model = load((folder.path() / "model").string());
  EXPECT_EQ(model.config().model_type, "normless");
  EXPECT_EQ(model.config().labels, made.labels);
  EXPECT_THAT(model.tokenizer()->encode("abh").ids, ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(model.tokenizer()->encode("a b h").ids, ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(model.tokenizer()->encode("abz").ids, ElementsAre(0, 1, 2, 9));  // [UNK]
  EXPECT_THROW(construct(Program::load("sort"), {}, folder.path() / "model"), Error);
}

TEST(Construct, TakesTokensOfSeveralLetters) {
  const TemporaryFolder folder;
  construct(Program::load("sort", {.length = 4, .alphabet = {"pear", "fig", "(", "kiwi"}}), {},
            folder.path() / "model");
  const Model model = load((folder.path() / "model").string());
  EXPECT_THAT(model.tokenizer()->encode("fig kiwi pear").ids, ElementsAre(0, 2, 4, 1));
}

/// Four heads that do not depend on each other.
TEST(Construct, NeedsMoreLayersWithFewerHeads) {
  const Program program =
      Program::parse(std::string(kHead) +
                         "a = aggregate(select(indices, indices - 1, ==), tokens, \"-\")\n"
                         "b = aggregate(select(indices, indices - 2, ==), tokens, \"-\")\n"
                         "c = aggregate(select(indices, indices - 3, ==), tokens, \"-\")\n"
                         "d = aggregate(select(indices, indices - 4, ==), tokens, \"-\")\n"
                         "return 1 if a == b and b == c and c == d else 0",
                     "test");
  const std::map<int64_t, size_t> layers = {{1, 4}, {2, 2}, {3, 2}, {4, 1}, {0, 1}};
  for (const auto& [heads, expected] : layers) {
    const TemporaryFolder folder;
    const Construction made = construct(program, {.max_heads = heads}, folder.path() / "model");
    EXPECT_EQ(made.layers.size(), expected) << heads;
    EXPECT_EQ(made.heads(), 4);
    EXPECT_EQ(made.check.different, 0);
  }
}

TEST(Construct, RefusesProgramsThatAreTooLarge) {
  const auto refused = [](const std::string& lines) {
    return error_of([&] {
      (void)plan_construction(Program::parse("alphabet: a b\nlength: 1000\n" + lines, "test"));
    });
  };
  EXPECT_THAT(refused("return mean(select(true), indices)").what, HasSubstr("too many values"));
  EXPECT_THAT(refused("return indices * selector_width(select(true))").what,
              HasSubstr("too many combinations"));
  EXPECT_THAT(refused("return selector_width(select(true))").what, HasSubstr("too near"));
  EXPECT_THAT(refused("return 1 / indices").what, HasSubstr("division by 0"));
  EXPECT_THAT(refused("return tokens + 1").what, HasSubstr("does not take this"));
  EXPECT_THAT(refused("return mean(select(true), tokens)").what, HasSubstr("averages numbers"));
  EXPECT_THAT(refused("return 1 if tokens == \"a\" else \"1\"").what, HasSubstr("look the same"));
}

TEST(Programs, RefuseWhatIsNotUnderstood) {
  struct Case {
    const char* lines;
    const char* says;
  };
  const Case cases[] = {
      {"", "nothing is returned"},
      {"return", "was not expected here"},
      {"return tokns", "did you mean tokens?"},
      {"return selecter_width(select(true))", "did you mean selector_width?"},
      {"return select(true)", "takes a sequence"},
      {"return selector_width(tokens)", "takes a selector"},
      {"return selector_width(select(true) or select(true))", "cannot be joined by or"},
      {"return selector_width(not (select(true) and select(1, 1, ==)  and select(1, 1, ==)))",
       "only one select can be negated"},
      {"tokens = 1\nreturn 1", "has a meaning already"},
      {"x = 1\nx = 2\nreturn x", "is given twice"},
      {"return (1", "is not closed"},
      {"return \"a", "is not closed"},
      {"return 1 % 2", "a character is not understood"},
      {"return 1.2.3", "a number is not understood"},
      {"return 1\nreturn 2", "behind return"},
      {"return select(tokens, tokens, +)", "==, !=, <, <=, > or >="},
      {"return aggregate(select(true), tokens, tokens)", "is not a constant"},
      {"length: 0\nreturn 1", "1 to 1000"},
      {"alphabet: a a\nreturn 1", "named twice"},
      {"alphabet: [BOS]\nreturn 1", "special"},
      {"return \"\xff\"", "not UTF-8"},
  };
  for (const auto& [lines, says] : cases) {
    const ErrorDetail error =
        error_of([&] { (void)Program::parse(std::string(kHead) + lines, "my.rasp"); });
    EXPECT_THAT(error.what + error.expected + error.hint, HasSubstr(says)) << lines;
    EXPECT_THAT(error.where, HasSubstr("my.rasp")) << lines;
  }
  EXPECT_EQ(error_of([] { (void)Program::parse("alphabet: a\n\nreturn x", "f"); }).where, "f:3");
  std::string deep = "return ";
  for (int i = 0; i < 10'000; ++i) deep += '(';
  EXPECT_THROW((void)Program::parse(std::string(kHead) + deep, "f"), Error);
  std::string many = "x0 = indices\n";
  for (int i = 1; i <= 1000; ++i) many += fmt::format("x{} = x{} + {}\n", i, i - 1, i);
  EXPECT_THAT(error_of([&] { (void)Program::parse(std::string(kHead) + many, "f"); }).what,
              HasSubstr("too many sequences"));
  EXPECT_THAT(error_of([] { (void)Program::load("sort", {.alphabet = {"a b"}}); }).what,
              HasSubstr("a space"));
}

TEST(Programs, RefuseTextsThatAreNotTheirs) {
  const Program program = Program::load("reverse");
  EXPECT_EQ(program.run(letters("abc")), letters("cba"));
  EXPECT_TRUE(program.run({}).empty());
  EXPECT_THAT(error_of([&] { (void)program.run(letters("abz")); }).got, "\"z\"");
  EXPECT_THROW((void)program.run(Words(17, "a")), Error);
  EXPECT_THAT(error_of([] { (void)Program::load("revers"); }).hint, "did you mean reverse?");
}

TEST(Programs, AreReadFromAFile) {
  const TemporaryFolder folder;
  const Program program = Program::load(
      folder.write("my.rasp", "alphabet: x y\nlength: 3\nreturn (indices +  # over\n 1)").string());
  EXPECT_EQ(program.name(), "my");
  EXPECT_EQ(program.run({std::vector<std::string>{"x", "y"}}), letters("12"));
}

}  // namespace
}  // namespace headwise
