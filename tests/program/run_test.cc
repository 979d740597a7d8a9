// headwise run: every task on golden models against transformers, and what it says to bad input.
#include <gmock/gmock.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "io/io_testing.h"
#include "program/golden_inputs.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RunGolden : public testing::TestWithParam<const char*> {};

std::vector<float> all(const json& results, const char* field) {
  std::vector<float> numbers;
  for (const json& result : results["results"]) flatten(result[field], numbers);
  return numbers;
}

TEST_P(RunGolden, LogitsAreThoseOfTransformers) {
  const GoldenInputs golden(GetParam());
  const json told = run_json(golden.arguments("run"), {"--task", "logits"});
  EXPECT_EQ(told["task"], "logits");
  expect_near("logits", all(told, "logits"), golden.floats("logits"));
  const auto ids = golden.sequences("ids", "lengths");
  ASSERT_EQ(told["results"].size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(told["results"][i]["ids"], json(ids[i]));
    EXPECT_EQ(told["results"][i]["tokens"].size(), ids[i].size());
  }
}

TEST_P(RunGolden, HiddenStatesAreThoseOfTransformers) {
  const GoldenInputs golden(GetParam());
  const bool two = golden.has("dec.final");
  expect_near("hidden", all(run_json(golden.arguments("run"), {"--task", "hidden"}), "hidden"),
              golden.floats(two ? "dec.final" : "final"));
  if (!two) return;
  expect_near("of the encoder",
              all(run_json(golden.arguments("run", false), {"--task", "hidden"}), "hidden"),
              golden.floats("enc.final"));
}

class RunGated : public RunGolden {};

TEST_P(RunGated, GatesAreThoseOfTransformers) {
  const GoldenInputs golden(GetParam());
  const json layers = run_json({"inspect", golden_model_path(GetParam()), "--json"})["layers"];
  std::vector<std::string> more = {"--task", "logits"};
  for (const json& layer : layers) {
    const std::string name = layer["name"];
    ASSERT_TRUE(golden.has("gates." + name)) << name;
    const std::vector<float> gates = golden.floats("gates." + name);
    for (size_t h = 0; h < gates.size(); ++h) {
      more.emplace_back("--gate");
      more.push_back(name + ".H" + layer["head_names"][h].dump() + "=" + json(gates[h]).dump());
    }
  }
  expect_near("gated.logits", all(run_json(golden.arguments("run"), more), "logits"),
              golden.floats("gated.logits"));
}

std::string name_of(const testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(All, RunGolden,
                         testing::Values("bert", "roberta", "gpt2", "gpt_neox", "llama_pruned",
                                         "marian", "t5", "bert_sequence", "bert_token"),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, RunGated,
                         testing::Values("bert", "roberta", "gpt2", "gpt_neox", "marian", "t5"),
                         name_of);

double nll_of(std::span<const float> logits, int64_t token) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  return std::log(sum) - logits[token];
}

TEST(Run, NllIsTheMeanOverPredictedTokens) {
  const GoldenInputs golden("gpt2");
  const json told = run_json(golden.arguments("run"), {"--task", "nll"});
  const std::vector<float> logits = golden.floats("logits");
  const size_t V = 66;
  double total = 0;
  int64_t scored = 0, row = 0, text = 0;
  for (const auto& ids : golden.sequences("ids", "lengths")) {
    double sum = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      sum += nll_of(std::span(logits).subspan((row + i) * V, V), ids[i + 1]);
    }
    const json& result = told["results"][text++];
    const auto count = static_cast<int64_t>(ids.size()) - 1;
    EXPECT_EQ(result["scored"], count);
    if (count > 0) {
      EXPECT_NEAR(result["nll"], sum / count, 1e-4);
    }
    row += static_cast<int64_t>(ids.size());
    total += sum;
    scored += count;
  }
  EXPECT_NEAR(told["nll"], total / scored, 1e-4);
  EXPECT_NEAR(told["perplexity"], std::exp(total / scored), 1e-3 * std::exp(total / scored));
}

TEST(Run, NllOfAReferenceTakesItsStartTokenOrPutsIt) {
  const GoldenInputs golden("marian");
  const json told = run_json(golden.arguments("run"), {"--task", "nll"});
  const std::vector<float> logits = golden.floats("logits");
  const size_t V = 61;
  const auto sources = golden.sequences("ids", "lengths");
  const auto targets = golden.sequences("decoder_ids", "decoder_lengths");
  size_t row = 0;
  for (size_t text = 0; text < targets.size(); ++text) {
    double sum = 0;
    for (size_t i = 0; i + 1 < targets[text].size(); ++i) {
      sum += nll_of(std::span(logits).subspan((row + i) * V, V), targets[text][i + 1]);
    }
    row += targets[text].size();
    if (targets[text].size() < 2) continue;
    EXPECT_NEAR(told["results"][text]["nll"], sum / (targets[text].size() - 1), 1e-4);
    const std::vector<int64_t> bare(targets[text].begin() + 1, targets[text].end());
    const json again = run_json({"run", golden_model_path("marian"), "--json", "--task", "nll",
                                 "--ids", GoldenInputs::joined(sources[text]), "--decoder-ids",
                                 GoldenInputs::joined(bare)});
    EXPECT_NEAR(again["nll"], sum / (targets[text].size() - 1), 1e-4);
  }
}

TEST(Run, AnEmptySourceIsTheSameAloneAndAmongOthers) {
  const std::vector<std::string> empty = {"--ids", "", "--decoder-ids", "60 7"};
  const std::vector<std::string> run = {"run", golden_model_path("marian"), "--json", "--task",
                                        "logits"};
  const json alone = run_json(run, empty);
  std::vector<std::string> more = empty;
  more.insert(more.end(), {"--ids", "5 9", "--decoder-ids", "60 7"});
  EXPECT_EQ(run_json(run, more)["results"][0], alone["results"][0]);
  const json maps = run_json({"attend", golden_model_path("marian"), "--json"}, empty);
  EXPECT_EQ(maps["results"][0]["maps"]["cross.L0.H0"], json::parse("[[], []]"));
}

TEST(Run, GeneratesTheTokensOfTransformers) {
  for (const char* name : {"gpt2", "llama", "marian", "t5"}) {
    const GoldenInputs golden(name);
    for (int i = 0; golden.has("generate." + std::to_string(i) + ".ids"); ++i) {
      const std::string prefix = "generate." + std::to_string(i) + ".";
      const std::vector<float> options = golden.floats(prefix + "options");
      if (options[2] != 0) continue;  // early stopping is the folder's to say
      const json told = run_json(
          golden.arguments("run", false),
          {"--beams", std::to_string(std::lround(options[0])), "--length-penalty",
           std::to_string(options[1]), "--max-tokens", std::to_string(std::lround(options[3]))});
      EXPECT_EQ(told["task"], std::string(name) == "marian" ? "translate" : "generate");
      const auto expected = golden.sequences(prefix + "ids", prefix + "lengths");
      for (size_t b = 0; b < expected.size(); ++b) {
        EXPECT_EQ(told["results"][b]["output_ids"], json(expected[b])) << name << " " << prefix;
      }
    }
  }
}

TEST(Run, DrawingNeedsTheSameSeedForTheSameTokens) {
  const std::vector<std::string> arguments = {
      "run", golden_model_path("gpt2"), "--json", "--ids", "5 9", "--ids",
      "5 9", "--temperature",           "2"};
  const json one = run_json(arguments, {"--seed", "1"});
  EXPECT_EQ(one, run_json(arguments, {"--seed", "1"}));
  EXPECT_NE(one, run_json(arguments, {"--seed", "2"}));
  EXPECT_NE(one["results"][0]["output_ids"], one["results"][1]["output_ids"]);
}

/// A folder with a golden model whose generation_config.json asks for drawing.
TEST(Run, BeamsReplaceTheDrawingOfTheFolder) {
  const TemporaryFolder folder;
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy(golden_model_path("gpt2") + "/" + file, folder.path() / file);
  }
  folder.write("generation_config.json", R"({"do_sample": true, "temperature": 5.0})");
  const std::vector<std::string> arguments = {"run",   folder.path().string(), "--json", "--ids",
                                              "5 9 3", "--max-tokens",         "20"};
  const json greedy = run_json(arguments, {"--temperature", "0"});
  EXPECT_NE(run_json(arguments), greedy);
  EXPECT_EQ(run_json(arguments, {"--beams", "1"}), greedy);
}

TEST(Run, EmbedsAsTheFolderDescribes) {
  const GoldenInputs golden("sentence_mean");
  const json told = run_json(golden.arguments("run"));
  EXPECT_EQ(told["task"], "embed");
  expect_near("embedding", all(told, "embedding"), golden.floats("embedding"));
}

TEST(Run, ClassifiesByWhatTheConfigSays) {
  const GoldenInputs single("bert_sequence");
  const json told = run_json(single.arguments("run"));
  EXPECT_EQ(told["task"], "classify");
  const size_t labels = told["labels"].size();
  const std::vector<float> logits = single.floats("logits");
  for (size_t b = 0; b < told["results"].size(); ++b) {
    const json& result = told["results"][b];
    const auto row = std::span(logits).subspan(b * labels, labels);
    size_t best = 0;
    for (size_t i = 0; i < labels; ++i) {
      if (row[i] > row[best]) best = i;
      EXPECT_NEAR(result["scores"][told["labels"][i].get<std::string>()],
                  std::exp(-nll_of(row, static_cast<int64_t>(i))), 1e-4);
    }
    EXPECT_EQ(result["label"], told["labels"][best]);
  }
  const GoldenInputs several("bert_multi_label");
  const json each = run_json(several.arguments("run"));
  const std::vector<float> of_each = several.floats("logits");
  EXPECT_NEAR(each["results"][0]["scores"][each["labels"][0].get<std::string>()],
              1 / (1 + std::exp(-of_each[0])), 1e-5);
  const GoldenInputs number("bert_regression");
  const json value = run_json(number.arguments("run"));
  EXPECT_NEAR(value["results"][0]["scores"][value["labels"][0].get<std::string>()],
              number.floats("logits")[0], 1e-4);
}

TEST(Run, AnswersWithTheBestSpan) {
  const GoldenInputs golden("bert_question");
  const json told = run_json(golden.arguments("run"));
  EXPECT_EQ(told["task"], "answer");
  const std::vector<float> start = golden.floats("start_logits"), end = golden.floats("end_logits");
  size_t row = 0;
  for (size_t b = 0; b < told["results"].size(); ++b) {
    const size_t n = told["results"][b]["ids"].size();
    std::pair<size_t, size_t> best;
    float most = -INFINITY;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i; j < std::min(n, i + 15); ++j) {
        if (start[row + i] + end[row + j] <= most) continue;
        most = start[row + i] + end[row + j];
        best = {i, j};
      }
    }
    EXPECT_EQ(told["results"][b]["first_token"], best.first);
    EXPECT_EQ(told["results"][b]["last_token"], best.second);
    row += n;
  }
}

TEST(Run, WritesArraysForNumpy) {
  const std::string file = testing::TempDir() + "headwise_run.npy";
  const GoldenInputs golden("gpt2");
  const json told = run_json(golden.arguments("run"), {"--task", "hidden", "-o", file});
  EXPECT_FALSE(told["results"][0].contains("hidden"));
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::vector<float> expected = golden.floats("final");
  const size_t size = expected.size() * sizeof(float);
  ASSERT_GT(bytes.size(), size);
  EXPECT_THAT(bytes.substr(0, 128),
              HasSubstr("'shape': (" + std::to_string(expected.size() / 32) + ", 32)"));
  std::vector<float> values(expected.size());
  std::memcpy(values.data(), bytes.data() + bytes.size() - size, size);
  expect_near("npy", values, expected);
}

/// A folder with a golden model and a vocabulary of words.
class RunText : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "headwise_run_text_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fill_folder("bert");
  }

  void fill_folder(const std::string& model) const {
    std::filesystem::create_directories(folder_);
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::filesystem::copy(golden_model_path(model) + "/" + file, folder_ + "/" + file,
                            std::filesystem::copy_options::overwrite_existing);
    }
    std::ofstream(folder_ + "/vocab.txt")
        << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\non\nmat\n.\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(RunText, TextsLinesAndIdsAreTheSame) {
  const json text =
      run_json({"run", folder_, "--json", "--task", "hidden", "--text", "The cat sat."});
  EXPECT_EQ(text["results"][0]["ids"], json::parse("[2, 5, 6, 7, 10, 3]"));
  EXPECT_EQ(text["results"][0]["tokens"],
            json::parse(R"(["[CLS]", "the", "cat", "sat", ".", "[SEP]"])"));
  const json line = run_json({"run", folder_, "--json", "--task", "hidden", "--input", "-"}, {},
                             "\xEF\xBB\xBFThe cat sat.\r\n");
  const json ids =
      run_json({"run", folder_, "--json", "--task", "hidden", "--ids", "2 5 6 7 10 3"});
  EXPECT_EQ(text, line);
  EXPECT_EQ(text, ids);
}

TEST_F(RunText, LinesMayBeGzip) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "lines.gz").string();
  const gzFile packed = gzopen(file.c_str(), "wb");
  gzputs(packed, "The cat sat.\n");
  ASSERT_EQ(gzclose(packed), Z_OK);
  const std::vector<std::string> run = {"run", folder_, "--json", "--task", "hidden"};
  EXPECT_EQ(run_json(run, {"--input", file}), run_json(run, {"--text", "The cat sat."}));
}

TEST_F(RunText, LabelsAreNoTexts) {
  const TemporaryFolder folder;
  const std::string labelled = folder.write("a.tsv", "the cat\t0\non the mat\t1\n").string();
  const auto observe = [&](const std::string& file) {
    return run_program(
        {"observe", folder_, "--measure", "attention", "--no-probes", "--input", file});
  };
  const ProgramResult refused = observe(labelled);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.errors,
              AllOf(HasSubstr("a.tsv"), HasSubstr("text<TAB>label"), HasSubstr("cut -f1")));
  EXPECT_EQ(observe(folder.write("b.txt", "the cat\t0\non the mat\n").string()).code, 0);
}

TEST_F(RunText, RefusesOrReplacesWhatIsNoUtf8) {
  const std::vector<std::string> run = {"run", folder_, "--json", "--task", "hidden"};
  const std::string lines = "the cat\nthe \xE9t\xE9\n";
  std::vector<std::string> file = run;
  file.insert(file.end(), {"--input", "-"});
  const ProgramResult refused = run_program(file, lines);
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(json::parse(refused.out)["error"]["where"], "standard input, line 2, byte 5");
  EXPECT_THAT(refused.errors, HasSubstr("--replace-invalid"));
  file.emplace_back("--replace-invalid");
  const ProgramResult replaced = run_program(file, lines);
  EXPECT_EQ(replaced.code, 0);
  EXPECT_THAT(replaced.errors, HasSubstr("2 places"));
  EXPECT_EQ(json::parse(replaced.out),
            run_json(run, {"--text", "the cat", "--text", "the \uFFFDt\uFFFD"}));
  std::vector<std::string> text = run;
  text.insert(text.end(), {"--text", "a", "--text", "b\xFF"});
  EXPECT_EQ(json::parse(run_program(text).out)["error"]["where"], "--text, the 2., byte 2");
  std::vector<std::string> pair = run;
  pair.insert(pair.end(), {"--text", "a", "--pair", "\xFF"});
  EXPECT_EQ(json::parse(run_program(pair).out)["error"]["where"], "--pair, byte 1");
}

TEST_F(RunText, FillsMasksAndPairs) {
  const json told = run_json({"run", folder_, "--json", "--text", "the [MASK] sat", "--top", "3"});
  EXPECT_EQ(told["task"], "fill");
  const json& fill = told["results"][0]["fill"];
  ASSERT_EQ(fill.size(), 1);
  EXPECT_EQ(fill[0]["position"], 2);
  ASSERT_EQ(fill[0]["candidates"].size(), 3);
  EXPECT_GE(fill[0]["candidates"][0]["probability"], fill[0]["candidates"][1]["probability"]);
  const json pair = run_json(
      {"run", folder_, "--json", "--task", "hidden", "--text", "the cat", "--pair", "the mat"});
  EXPECT_EQ(pair["results"][0]["ids"], json::parse("[2, 5, 6, 3, 5, 9, 3]"));
  EXPECT_EQ(pair,
            run_json({"run", folder_, "--json", "--task", "hidden", "--pairs", "--input", "-"}, {},
                     "the cat\tthe mat\n"));
}

TEST_F(RunText, AnswersOutOfTheContext) {
  fill_folder("bert_question");
  const std::string context = "On the mat, the cat sat.";
  const json told =
      run_json({"run", folder_, "--json", "--text", "The cat sat on?", "--context", context});
  const json& result = told["results"][0];
  const size_t start = result["start"], end = result["end"];
  EXPECT_EQ(result["answer"], context.substr(start, end - start));
  EXPECT_GT(end, start);
  EXPECT_GE(result["first_token"], 7);  // after [CLS] the cat sat on ? [SEP]
  EXPECT_EQ(told, run_json({"run", folder_, "--json", "--input", "-"}, {},
                           "The cat sat on?\t" + context + "\n"));
  const ProgramResult alone = run_program({"run", folder_, "--text", "The cat sat on?"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.errors, HasSubstr("--context"));
}

TEST_F(RunText, SaysWhichLineIsTooLong) {
  std::string lines = "the cat\n";
  for (int i = 0; i < 30; ++i) lines += "cat ";
  const std::vector<std::string> arguments = {"run",    folder_,   "--json", "--task",
                                              "hidden", "--input", "-"};
  const ProgramResult result = run_program(arguments, lines);
  EXPECT_EQ(result.code, 1);
  const json error = json::parse(result.out)["error"];
  EXPECT_THAT(error["where"], HasSubstr("line 2"));
  EXPECT_EQ(error["got"], "32 tokens");
  EXPECT_EQ(error["expected"], "at most 19");
  EXPECT_EQ(run_json(arguments, {"--truncate"}, lines)["results"][1]["ids"].size(), 19);
}

TEST_F(RunText, TextsOfTheDecoderAreCutToo) {
  fill_folder("marian");
  std::string cats;
  for (int i = 0; i < 40; ++i) cats += "cat ";
  const std::vector<std::string> arguments = {
      "run", folder_, "--json", "--task", "nll", "--text", "the cat", "--decoder-text", cats};
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.code, 1);
  const json error = json::parse(result.out)["error"];
  EXPECT_EQ(error["where"], "--decoder-text");
  EXPECT_EQ(error["got"], "43 tokens");  // with the start token
  const json ids = run_json(arguments, {"--truncate"})["results"][0]["decoder_ids"];
  EXPECT_EQ(ids.size(), 32);
  EXPECT_EQ(ids[0], 60);
  EXPECT_EQ(ids[31], 3);  // [SEP]
}

TEST_F(RunText, LoadsWeightsThatAreNotFiniteIfTheyAreMeant) {
  std::fstream file(folder_ + "/model.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-4, std::ios::end).write("\x00\x00\xC0\x7F", 4);
  file.close();
  const ProgramResult refused = run_program({"run", folder_, "--task", "hidden", "--ids", "5"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.errors, HasSubstr("--allow-nonfinite"));
  run_json({"run", folder_, "--json", "--task", "hidden", "--ids", "5", "--allow-nonfinite"});
}

TEST_F(RunText, ShowsPeopleWhatTheyAskedFor) {
  const ProgramResult result = run_program({"run", folder_, "--text", "the [MASK] sat"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("the [MASK] sat"));
  EXPECT_THAT(result.out, HasSubstr(" %"));
  EXPECT_EQ(result.errors, "");
}

TEST(Run, CanBeInterruptedWhileItWaitsForInput) {
  EXPECT_EQ(interrupt_program(
                {"run", golden_model_path("bert"), "--task", "hidden", "--input", "-"}, "a"),
            130);
}

TEST_F(RunText, EscapesWhatATerminalWouldObey) {
  std::ofstream(folder_ + "/vocab.txt")
      << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n\x1b[31mred\na\u009bb\n\tc\n";
  const ProgramResult result =
      run_program({"run", folder_, "--task", "hidden", "--ids", "5 6 7", "--text", "x\x1b[2J"});
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(result.out, AllOf(HasSubstr("\\x1b[31mred"), HasSubstr("a\\x9bb"), HasSubstr("\\tc"),
                                HasSubstr("x\\x1b[2J")));
  const ProgramResult map = run_program({"attend", folder_, "--ids", "5 6 7"});
  for (const std::string& out : {result.out, map.out}) {
    EXPECT_EQ(out.find_first_of("\x1b\t"), std::string::npos);
    EXPECT_EQ(out.find("\u009b"), std::string::npos);
  }
}

struct Wrong {
  std::vector<std::string> arguments;
  int code;
  const char* message;
};

TEST(Run, SaysWhatIsWrong) {
  const std::string bert = golden_model_path("bert"), gpt2 = golden_model_path("gpt2");
  const std::string marian = golden_model_path("marian");
  std::string ones;
  for (int i = 0; i < 100; ++i) ones += "1 ";
  for (const Wrong& wrong : {
           Wrong{{bert}, 2, "no input"},
           Wrong{{bert, "--ids", "5", "--task", "sing"}, 2, "sing"},
           Wrong{{bert, "--ids", "5", "--gate", "L0.H1"}, 2, "HEADS=VALUE"},
           Wrong{{gpt2, "--ids", "5", "--beams", "2", "--top-k", "3"}, 2, "--beams"},
           Wrong{{gpt2, "--ids", "5", "--beams", "2", "--length-penalty", "nan"},
                 2,
                 "nan is no number"},
           Wrong{{gpt2, "--ids", "5", "--temperature", "inf"}, 2, "inf is no number"},
           Wrong{{gpt2, "--ids", "5", "--max-tokens", "-1"}, 2, "-1 is below 0"},
           Wrong{{gpt2, "--ids", "5", "--seed", "-1"}, 2, "-1 is below 0"},
           Wrong{{gpt2, "--ids", "5", "--task", "embed", "--beams", "2"},
                 2,
                 "--beams is not for embed"},
           Wrong{{bert, "--ids", "5", "--task", "embed", "--mask", "6"},
                 2,
                 "--mask is not for embed"},
           Wrong{{bert, "--ids", "5", "--task", "hidden", "--pairs"}, 2, "--pairs"},
           Wrong{{marian, "--ids", "5", "--decoder-ids", "6"}, 2, "not for translate"},
           Wrong{{gpt2, "--ids", "5", "-o", "text.npy"}, 2, "-o FILE.npy is for numbers"},
           Wrong{{bert, "--ids", "5", "--task", "nll"}, 1, "the model cannot do this task"},
           Wrong{{bert, "--text", "hello"}, 1, "the model has no tokenizer"},
           Wrong{{bert, "--ids", "5 six"}, 1, "these are no token ids"},
           Wrong{{bert, "--ids", "5 70", "--task", "hidden"}, 1, "token 1"},
           Wrong{{bert, "--ids", "-1", "--task", "hidden"}, 1, "not in the vocabulary"},
           Wrong{{bert, "--ids", "5", "--task", "hidden", "--gate", "L0.H1=1.5"},
                 1,
                 "--gate L0.H1=1.5"},
           Wrong{{bert, "--ids", "5", "--task", "hidden", "--gate", "L0.H9=0"}, 1, "no such head"},
           Wrong{{bert, "--ids", "5", "--task", "hidden", "--gate", "L9=0"}, 1, "L0 to L2"},
           Wrong{{bert, "--ids", "5", "--mask", "6"}, 1, "there is no mask to fill"},
           Wrong{{bert, "--ids", "5", "--task", "hidden", "--gate", "L0H1=0"},
                 1,
                 "heads are written L3.H1"},
           Wrong{{bert, "--ids", "5", "--task", "hidden", "--gate", "0.1=0"},
                 1,
                 "did you mean L0.H1?"},
           Wrong{{marian, "--ids", "5", "--gate", "enc.l0h1=0"}, 1, "did you mean enc.L0.H1?"},
           Wrong{{bert, "--text", ""}, 1, "the text is empty"},
           Wrong{{bert, "--input", "no-such-file"}, 1, "No such file"},
           Wrong{{gpt2, "--ids", "5", "--max-tokens", "100"}, 1, "at most 24 new ones"},
           Wrong{{gpt2, "--ids", ""}, 1, "an empty prompt"},
           Wrong{{gpt2, "--ids", "5", "--decoder-ids", "5"}, 1, "no encoder and decoder"},
           Wrong{{marian, "--ids", "5", "--task", "nll"}, 1, "there is no text to score"},
           Wrong{{marian, "--ids", "5", "--task", "logits"}, 1, "nothing to read"},
           Wrong{{marian, "--ids", "5", "--ids", "6", "--task", "hidden", "--decoder-ids", "7",
                  "--decoder-ids", ""},
                 1,
                 "--decoder-ids, the 2."},
           Wrong{{bert, "--task", "hidden", "--ids", ones}, 1, "ids are taken as they are"},
           Wrong{{marian, "--ids", "5", "--task", "nll", "--decoder-ids", ones}, 1, "101 tokens"},
           Wrong{{marian, "--ids", "5", "--gate", "L0.H0=0"},
                 1,
                 "enc.L0.H0, dec.L0.H0 or cross.L0.H0"},
       }) {
    std::vector<std::string> arguments = {"run", "--json"};
    arguments.insert(arguments.end(), wrong.arguments.begin(), wrong.arguments.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.code, wrong.code) << wrong.message << "\n" << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(wrong.message));
    EXPECT_TRUE(json::parse(result.out).contains("error")) << wrong.message;
  }
}

}  // namespace
}  // namespace headwise
