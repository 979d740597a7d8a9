// headwise export: what it tells scripts and people, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/io_testing.h"
#include "program/golden_inputs.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Export, TellsWhatTheGraphTakesAndGives) {
  const TemporaryFolder temporary;
  const std::string file = temporary.path() / "bert.onnx";
  const json told = run_json({"export", golden_model_path("bert"), "--onnx", file, "--json"});
  EXPECT_EQ(told["file"], file);
  EXPECT_EQ(told["inputs"], json::parse(R"(["input_ids", "attention_mask", "token_type_ids"])"));
  EXPECT_EQ(told["outputs"], json::parse(R"(["logits"])"));
  EXPECT_EQ(told["graphs"].size(), 1);
  EXPECT_GT(told["proof"]["weights"], 10);
  EXPECT_GT(told["proof"]["numbers"], 1000);
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(Export, TellsBothGraphsOfAnEncoderDecoder) {
  const TemporaryFolder temporary;
  const std::string file = temporary.path() / "t5.onnx";
  const json told = run_json({"export", golden_model_path("t5"), "--onnx", file, "--json"});
  ASSERT_EQ(told["graphs"].size(), 2);
  EXPECT_EQ(told["file"], (temporary.path() / "t5_encoder.onnx").string());
  EXPECT_EQ(told["graphs"][1]["file"], (temporary.path() / "t5_decoder.onnx").string());
}

TEST(Export, SplitsWhenAsked) {
  const TemporaryFolder temporary;
  const std::string file = temporary.path() / "m.onnx";
  const ProgramResult result =
      run_program({"export", golden_model_path("gpt2"), "--onnx", file, "--external-data"});
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("read again"));
  EXPECT_TRUE(std::filesystem::exists(file + ".data"));
}

/// Where sentence-transformers looks for it.
TEST(Export, MakesTheFolderOfItsFile) {
  const TemporaryFolder temporary;
  const std::string file = temporary.path() / "small/onnx/model.onnx";
  const ProgramResult result = run_program({"export", golden_model_path("bert"), "--onnx", file});
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(Export, RefusesWhatItCannotDo) {
  const TemporaryFolder temporary;
  const std::string file = temporary.write("m.onnx", "mine");
  const ProgramResult there =
      run_program({"export", golden_model_path("bert"), "--onnx", file, "--json"});
  EXPECT_EQ(there.code, 1);
  EXPECT_EQ(json::parse(there.out)["error"]["what"], "the file is there already");
  EXPECT_EQ(run_program({"export", golden_model_path("bert")}).code, 2);
  const ProgramResult nowhere =
      run_program({"export", temporary.path() / "none", "--onnx", temporary.path() / "n.onnx"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_EQ(temporary.names(), std::set<std::string>{"m.onnx"});
}

}  // namespace
}  // namespace headwise
