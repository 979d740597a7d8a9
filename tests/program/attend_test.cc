// headwise attend: maps against transformers, the laws of the other parts, and the terminal.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "io/io_testing.h"
#include "program/golden_inputs.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class AttendGolden : public testing::TestWithParam<const char*> {};

TEST_P(AttendGolden, MapsAreThoseOfTransformers) {
  const GoldenInputs golden(GetParam());
  const json told = run_json(golden.arguments("attend"));
  const json layers = run_json({"inspect", golden_model_path(GetParam()), "--json"})["layers"];
  for (const json& layer : layers) {
    const std::string name = layer["name"];
    std::vector<float> numbers;
    for (const json& result : told["results"]) {
      for (const json& head : layer["head_names"]) {
        flatten(result["maps"][name + ".H" + head.dump()], numbers);
      }
    }
    expect_near(name, numbers, golden.floats(name + ".map"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttendGolden,
                         testing::Values("bert", "gpt2_pruned", "llama", "marian", "t5"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Attend, CrossMapsCarryTheTokensOfTheSource) {
  const json told = run_json({"attend", golden_model_path("marian"), "--json", "--ids", "5 9 3",
                              "--decoder-ids", "60 7", "--heads", "cross.L1.H0"});
  const json& result = told["results"][0];
  EXPECT_EQ(result["source_tokens"], json::parse(R"(["5", "9", "3"])"));
  EXPECT_EQ(result["decoder_tokens"], json::parse(R"(["60", "7"])"));
  ASSERT_EQ(result["maps"].size(), 1);
  EXPECT_EQ(result["maps"]["cross.L1.H0"].size(), 2);
  EXPECT_EQ(result["maps"]["cross.L1.H0"][0].size(), 3);
}

TEST(Attend, WithoutDecoderTextItReadsWhatTheModelWrites) {
  const json written = run_json(
      {"run", golden_model_path("marian"), "--json", "--ids", "5 9 3", "--max-tokens", "31"});
  const json told = run_json(
      {"attend", golden_model_path("marian"), "--json", "--ids", "5 9 3", "--heads", "cross.L0"});
  json expected = written["results"][0]["output_ids"];
  expected.insert(expected.begin(), 60);
  if (expected.back() == 3) expected.erase(expected.size() - 1);
  EXPECT_EQ(told["results"][0]["decoder_ids"], expected);
}

TEST(Attend, DrawsDecoderTextsByTheSeed) {
  const TemporaryFolder folder;
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy(golden_model_path("marian") + "/" + file, folder.path() / file);
  }
  folder.write("generation_config.json", R"({"do_sample": true, "temperature": 5.0})");
  const std::vector<std::string> arguments = {
      "attend",  folder.path().string(), "--json", "--ids", "5 9 3", "--ids", "5 9 3", "--heads",
      "cross.L0"};
  const json one = run_json(arguments, {"--seed", "1"});
  EXPECT_EQ(one, run_json(arguments, {"--seed", "1"}));
  EXPECT_NE(one, run_json(arguments, {"--seed", "2"}));
  EXPECT_NE(one["results"][0]["decoder_ids"], one["results"][1]["decoder_ids"]);
}

json part(const std::string& what, const std::vector<std::string>& more = {}) {
  return run_json({"attend", golden_model_path("llama"), "--json", "--ids", "5 9 3 7", "--heads",
                   "L1", "--what", what},
                  more)["results"][0][what];
}

TEST(Attend, ZIsTheMixOfValuesByTheMap) {
  const json maps = part("maps"), values = part("v"), mixes = part("z");
  ASSERT_GE(maps.size(), 2);
  for (const auto& [head, map] : maps.items()) {
    for (size_t i = 0; i < 4; ++i) {
      for (size_t d = 0; d < mixes[head][i].size(); ++d) {
        double sum = 0;
        for (size_t j = 0; j < 4; ++j) {
          sum += map[i][j].get<double>() * values[head][j][d].get<double>();
        }
        EXPECT_NEAR(mixes[head][i][d], sum, 1e-4) << head;
      }
    }
  }
}

TEST(Attend, AGateScalesAContribution) {
  const json whole = part("contribution"), half = part("contribution", {"--gate", "L1.H0=0.5"});
  ASSERT_EQ(whole["L1.H0"][0].size(), 32);
  float largest = 0;
  for (size_t c = 0; c < 32; ++c) {
    const float value = whole["L1.H0"][3][c];
    largest = std::max(largest, std::abs(value));
    EXPECT_NEAR(half["L1.H0"][3][c], value / 2, 1e-5);
    EXPECT_EQ(half["L1.H1"][3][c], whole["L1.H1"][3][c]);
  }
  EXPECT_GT(largest, 0);
}

TEST(Attend, QueriesAndKeysGiveTheMap) {
  const json arguments_maps = part("maps"), q = part("q"), k = part("k");
  const json& map = arguments_maps["L1.H0"];
  const json &query = q["L1.H0"][3], &keys = k["L1.H0"];
  std::vector<double> scores;
  double sum = 0;
  for (size_t j = 0; j < 4; ++j) {
    double score = 0;
    for (size_t d = 0; d < query.size(); ++d) {
      score += query[d].get<double>() * keys[j][d].get<double>();
    }
    scores.push_back(std::exp(score / std::sqrt(query.size())));
    sum += scores.back();
  }
  for (size_t j = 0; j < 4; ++j) EXPECT_NEAR(map[3][j], scores[j] / sum, 1e-4);
}

TEST(Attend, WritesAnArrayOfOneText) {
  const std::string file = testing::TempDir() + "headwise_attend.npy";
  const ProgramResult result = run_program(
      {"attend", golden_model_path("bert"), "--ids", "5 9 3", "--heads", "L0,L1.H2", "-o", file});
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_EQ(result.out, "");
  std::ifstream in(file, std::ios::binary);
  std::string header(128, ' ');
  in.read(header.data(), 128);
  EXPECT_THAT(header, HasSubstr("'shape': (5, 3, 3)"));
  EXPECT_EQ(
      run_program({"attend", golden_model_path("bert"), "--ids", "5", "--ids", "6", "-o", file})
          .code,
      2);
  const ProgramResult mixed =
      run_program({"attend", golden_model_path("marian"), "--ids", "5 9 3", "--decoder-ids", "60 7",
                   "--heads", "enc.L0,cross.L0", "-o", file});
  EXPECT_EQ(mixed.code, 1);
  EXPECT_THAT(mixed.errors, HasSubstr("not all the same shape"));
}

TEST(Attend, IsReadableWithoutColour) {
  const std::vector<std::string> arguments = {"attend", golden_model_path("gpt2"), "--ids",
                                              "5 9 3"};
  const ProgramResult plain = run_program(arguments);
  EXPECT_EQ(plain.code, 0);
  EXPECT_THAT(plain.out, HasSubstr("L0.H0"));
  EXPECT_THAT(plain.out, HasSubstr(" 99"));  // the first token sees only itself
  EXPECT_THAT(plain.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(plain.out, Not(HasSubstr("L1.H0")));
  EXPECT_THAT(plain.errors, HasSubstr("--heads"));
  std::vector<std::string> colored = arguments;
  colored.insert(colored.end(), {"--color", "always", "--quiet"});
  const ProgramResult bright = run_program(colored);
  EXPECT_THAT(bright.out, HasSubstr("\x1b[48;"));
  EXPECT_EQ(bright.errors, "");
}

TEST(Attend, CutsWideMapsAndSaysSo) {
  setenv("COLUMNS", "40", 1);
  const ProgramResult result =
      run_program({"attend", golden_model_path("gpt2"), "--ids",
                   "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "--heads", "L0.H0"});
  unsetenv("COLUMNS");
  EXPECT_THAT(result.out, HasSubstr("of 16 tokens"));
}

TEST(Attend, SaysWhichHeadsThereAre) {
  const ProgramResult result = run_program(
      {"attend", golden_model_path("gpt2_pruned"), "--ids", "5", "--heads", "L7.H1", "--json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(json::parse(result.out)["error"]["expected"], HasSubstr("L0 to L2"));
}

}  // namespace
}  // namespace headwise
