// headwise inspect: counts of folders whose sizes are known, for scripts and for people.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/folder.h"
#include "headwise/text/tokenizer_kind.h"
#include "program/golden_inputs.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Inspect, TellsWhatAFolderHolds) {
  const ProgramResult result = run_program({"inspect", golden_model_path("gpt2"), "--json"});
  ASSERT_EQ(result.code, 0) << result.errors;
  const json told = json::parse(result.out);
  EXPECT_EQ(told["architecture"], "GPT2LMHeadModel");
  EXPECT_EQ(told["dtype"], "float32");
  EXPECT_EQ(told["hidden_size"], 32);
  EXPECT_EQ(told["vocab_size"], 66);
  EXPECT_TRUE(told["tokenizer"].is_null());
  ASSERT_EQ(told["layers"].size(), 3);
  const json& layer = told["layers"][1];
  EXPECT_EQ(layer["name"], "L1");
  EXPECT_EQ(layer["heads"], 4);
  EXPECT_EQ(layer["kv_heads"], 4);
  EXPECT_EQ(layer["head_dim"], 8);
  EXPECT_EQ(layer["value_dim"], 8);
  // Queries, keys, values and outputs of 4 heads of width 8, with biases.
  EXPECT_EQ(layer["parameters"], 4 * 32 * 32 + 4 * 32);
  EXPECT_EQ(layer["head_parameters"], 3 * 8 * (32 + 1) + 8 * 32);
  EXPECT_EQ(told["attention_parameters"], 3 * layer["parameters"].get<int>());
}

TEST(Inspect, TakesCommonOptionsBeforeTheCommand) {
  EXPECT_EQ(run_json({"--json", "--quiet", "inspect", golden_model_path("bert")}),
            run_json({"inspect", golden_model_path("bert"), "--json"}));
}

TEST(Inspect, ComparesHeadsWithOneWideHead) {
  const ProgramResult result =
      run_program({"inspect", golden_model_path("gpt2"), "--json", "--tokens", "10"});
  const json told = json::parse(result.out)["comparison"];
  for (const char* side : {"heads", "one_head"}) {
    EXPECT_EQ(told[side]["parameters_without_output"], 3 * (32 * 32 + 32)) << side;
    EXPECT_EQ(told[side]["parameters"], 4 * (32 * 32 + 32)) << side;
    EXPECT_EQ(told[side]["multiply_adds"], 10 * 4 * 32 * 32 + 2 * 10 * 10 * 32) << side;
  }
  EXPECT_EQ(told["heads"]["distributions"], 40);
  EXPECT_EQ(told["one_head"]["distributions"], 10);
}

TEST(Inspect, CountsTheParametersOfTransformers) {
  // sum(p.numel() for p in model.parameters()): copies of tied weights and buffers are none.
  for (const auto& [name, parameters] :
       {std::pair("gpt2", 24091), std::pair("roberta", 17712),
        std::pair("roberta_with_copies", 3078), std::pair("t5_with_copies", 5888),
        std::pair("llama_tied", 2352)}) {
    const ProgramResult result = run_program({"inspect", golden_model_path(name), "--json"});
    EXPECT_EQ(json::parse(result.out)["parameters"], parameters) << name;
  }
}

TEST(Inspect, PruningChangesAttentionOnly) {
  const ProgramResult whole = run_program({"inspect", golden_model_path("marian"), "--json"});
  ASSERT_EQ(whole.code, 0) << whole.errors;
  const json told = json::parse(whole.out);
  const ProgramResult cut = run_program({"inspect", golden_model_path("marian_pruned"), "--json"});
  const json pruned = json::parse(cut.out);
  EXPECT_EQ(told["layers"].back()["name"], "cross.L1");
  EXPECT_EQ(told["parameters"].get<int>() - told["attention_parameters"].get<int>(),
            pruned["parameters"].get<int>() - pruned["attention_parameters"].get<int>());
  EXPECT_EQ(pruned["layers"][1]["heads"], 0);
  EXPECT_EQ(pruned["layers"][0]["head_names"], json::parse("[0, 2]"));
}

TEST(Inspect, GroupedHeadsShareKeysAndValues) {
  const json told =
      json::parse(run_program({"inspect", golden_model_path("llama"), "--json"}).out)["layers"][0];
  const int width = 32, head_dim = told["head_dim"];
  ASSERT_LT(told["kv_heads"].get<int>(), told["heads"].get<int>());
  EXPECT_EQ(told["head_parameters"].get<int>() * told["heads"].get<int>() +
                told["kv_head_parameters"].get<int>() * told["kv_heads"].get<int>(),
            told["parameters"].get<int>());
  EXPECT_EQ(told["kv_head_parameters"], 2 * head_dim * width);
}

TEST(Inspect, FoldsEqualLayersForPeople) {
  const ProgramResult result = run_program({"inspect", golden_model_path("gpt2")});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("GPT2LMHeadModel: causal language model"));
  EXPECT_THAT(result.out, HasSubstr("L0 to L2"));
  EXPECT_THAT(result.out, HasSubstr("attention distributions"));
  EXPECT_EQ(result.errors, "");
}

TEST(Inspect, TellsTheTokenizerOfAFolder) {
  const std::string text = (golden_folder() / "text/tokenizers/").string();
  for (const auto& [folder, kind] :
       {std::pair("bert-uncased", "WordPiece"), std::pair("gpt2", "byte-level BPE"),
        std::pair("llama2", "BPE"), std::pair("t5", "Unigram"),
        std::pair("bert-vocab", "WordPiece"), std::pair("gpt2-files", "byte-level BPE"),
        std::pair("t5-sentencepiece", "Unigram"), std::pair("marian", "SentencePiece")}) {
    EXPECT_EQ(tokenizer_kind(text + folder), kind) << folder;
  }
  EXPECT_EQ(tokenizer_kind(golden_model_path("gpt2")), std::nullopt);
}

TEST(Inspect, SaysWhatIsMissing) {
  const ProgramResult result = run_program({"inspect", "no/such/folder", "--json"});
  EXPECT_EQ(result.code, 1);
  const json error = json::parse(result.out)["error"];
  EXPECT_THAT(error["where"], HasSubstr("no/such/folder"));
  for (const char* field : {"what", "where", "got", "expected", "hint"}) {
    EXPECT_TRUE(error[field].is_string()) << field;
  }
  EXPECT_THAT(result.errors, HasSubstr("no/such/folder"));
}

TEST(Program, MisuseIsTwoAlsoInJson) {
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"inspect", "--json"},
        {"inspect", golden_model_path("gpt2"), "--json", "--threads", "0"},
        {"inspect", golden_model_path("gpt2"), "--json", "--no-such-option"}}) {
    const ProgramResult result = run_program(wrong);
    EXPECT_EQ(result.code, 2) << wrong.back();
    EXPECT_TRUE(json::parse(result.out)["error"]["what"].is_string()) << wrong.back();
    EXPECT_THAT(result.errors, HasSubstr("headwise inspect --help"));
  }
}

TEST(Program, SuggestsTheCommandThatWasMeant) {
  const ProgramResult result = run_program({"--threads", "1", "jugde", "evidence.json"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.errors, HasSubstr("got: jugde"));
  EXPECT_THAT(result.errors, HasSubstr("did you mean judge?"));
  const ProgramResult option = run_program({"plan", "verdict.json", "--kep", "0.5"});
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.errors, HasSubstr("did you mean --keep?"));
  EXPECT_THAT(run_program({"frobnicate"}).errors, testing::Not(HasSubstr("did you mean")));
}

TEST(Program, HelpOfACommandHasAnExample) {
  for (const char* command : {"inspect", "run", "attend", "train", "sweep"}) {
    const ProgramResult result = run_program({command, "--help"});
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, HasSubstr(std::string("Example:\n  headwise ") + command));
    for (const char* option : {"--json", "--threads", "--seed", "--quiet", "--out"}) {
      EXPECT_THAT(result.out, HasSubstr(option));
    }
  }
}

}  // namespace
}  // namespace headwise
