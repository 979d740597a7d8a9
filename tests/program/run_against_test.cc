// headwise run --against and --gate HEADS=mean: what changes, beside runs of their own.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "golden/folder.h"
#include "io/io_testing.h"
#include "program/golden_inputs.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::vector<std::string> kTexts = {"--ids", "5 9 3 7 2 11 8", "--ids", "8 4 6 13"};

std::vector<std::string> with_texts(const std::string& command, const std::string& model,
                                    std::vector<std::string> more) {
  std::vector<std::string> arguments = {command, golden_model_path(model)};
  arguments.insert(arguments.end(), kTexts.begin(), kTexts.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(RunAgainst, BeforeAndAfterAreThoseOfRunsAlone) {
  const struct {
    const char *model, *task, *field;
  } kCases[] = {{"gpt2", "nll", "token_nll"},
                {"gpt2", "logits", "logits"},
                {"bert", "hidden", "hidden"},
                {"sentence_mean", "embed", "embedding"},
                {"bert_sequence", "classify", "scores"},
                {"bert_token", "classify", "scores"},
                {"bert_question", "hidden", "hidden"},
                {"gpt2", "generate", "output_ids"}};
  for (const auto& one : kCases) {
    const std::vector<std::string> task = {"--json", "--task", one.task};
    const std::vector<std::string> gate = {"--gate", "L0.H1=0", "--gate", "L0.H0=0.5"};
    const json before = run_json(with_texts("run", one.model, task));
    const json after = run_json(with_texts("run", one.model, task), gate);
    std::vector<std::string> against = gate;
    against.insert(against.end(), {"--against", "original"});
    const json both = run_json(with_texts("run", one.model, task), against);
    EXPECT_EQ(both["against"], "original");
    ASSERT_EQ(both["results"].size(), 2);
    for (size_t i = 0; i < 2; ++i) {
      const json& result = both["results"][i];
      EXPECT_EQ(result["ids"], before["results"][i]["ids"]);
      for (const auto& [side, alone] : {std::pair("before", &before), std::pair("after", &after)}) {
        std::vector<float> got, expected;
        flatten(result[side][one.field], got);
        flatten((*alone)["results"][i][one.field], expected);
        expect_near(std::string(one.task) + " " + side, got, expected);
      }
      EXPECT_TRUE(result["change"].is_object());
    }
    EXPECT_TRUE(both["change"].is_object()) << one.task;
  }
}

TEST(RunAgainst, ChangesAreDifferences) {
  const json nll = run_json(with_texts(
      "run", "gpt2", {"--json", "--task", "nll", "--gate", "L0=0", "--against", "original"}));
  const json& first = nll["results"][0];
  EXPECT_NEAR(first["change"]["nll"].get<double>(),
              first["after"]["nll"].get<double>() - first["before"]["nll"].get<double>(), 1e-6);
  EXPECT_NEAR(nll["change"]["nll"].get<double>(),
              nll["after"]["nll"].get<double>() - nll["before"]["nll"].get<double>(), 1e-9);
  EXPECT_NE(nll["change"]["nll"], 0);

  const json text = run_json(with_texts(
      "run", "gpt2", {"--json", "--task", "generate", "--gate", "L0=0", "--against", "original"}));
  double sum = 0;
  for (const json& candidate : text["results"][0]["change"]["next"]) {
    EXPECT_NEAR(candidate["change"].get<double>(),
                candidate["after"].get<double>() - candidate["before"].get<double>(), 1e-6);
    sum += candidate["before"].get<double>();
  }
  EXPECT_GT(sum, 0);
  EXPECT_LE(sum, 1 + 1e-5);

  const json hidden = run_json(with_texts(
      "run", "bert", {"--json", "--task", "hidden", "--gate", "L2=0", "--against", "original"}));
  const json& result = hidden["results"][0];
  std::vector<float> a, b;
  flatten(result["before"]["hidden"], a);
  flatten(result["after"]["hidden"], b);
  double squares = 0, own = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    squares += (double{b[i]} - a[i]) * (double{b[i]} - a[i]);
    own += double{a[i]} * a[i];
    largest = std::max(largest, std::abs(double{b[i]} - a[i]));
  }
  EXPECT_NEAR(result["change"]["relative_norm"].get<double>(), std::sqrt(squares / own), 1e-6);
  EXPECT_NEAR(result["change"]["largest"].get<double>(), largest, 1e-6);
}

TEST(RunAgainst, FillsHaveTheCandidatesOfBoth) {
  const std::vector<std::string> run = {"run",    golden_model_path("bert"),
                                        "--json", "--task",
                                        "fill",   "--mask",
                                        "6",      "--top",
                                        "3",      "--ids",
                                        "5 6 7",  "--ids",
                                        "6 8 6"};
  const json before = run_json(run), after = run_json(run, {"--gate", "L0=0"});
  const json both = run_json(run, {"--gate", "L0=0", "--against", "original"});
  int masks = 0;
  for (size_t i = 0; i < 2; ++i) {
    const json& fills = both["results"][i]["change"]["fill"];
    ASSERT_EQ(fills.size(), before["results"][i]["fill"].size());
    for (size_t m = 0; m < fills.size(); ++m, ++masks) {
      EXPECT_EQ(fills[m]["position"], before["results"][i]["fill"][m]["position"]);
      for (const auto& [side, alone] : {std::pair("before", &before), std::pair("after", &after)}) {
        for (const json& expected : (*alone)["results"][i]["fill"][m]["candidates"]) {
          bool found = false;
          for (const json& candidate : fills[m]["candidates"]) {
            if (candidate["id"] != expected["id"]) continue;
            EXPECT_NEAR(candidate[side], expected["probability"], 1e-5);
            found = true;
          }
          EXPECT_TRUE(found) << side << " " << expected;
        }
      }
    }
  }
  EXPECT_EQ(masks, 3);
}

TEST(RunAgainst, AnotherModelHasTheSameTokens) {
  const json same = run_json(with_texts(
      "run", "bert", {"--json", "--task", "hidden", "--against", golden_model_path("bert")}));
  EXPECT_EQ(same["change"]["relative_norm"], 0);
  const json pruned =
      run_json(with_texts("run", "bert_pruned",
                          {"--json", "--task", "hidden", "--against", golden_model_path("bert")}));
  EXPECT_GT(pruned["change"]["relative_norm"].get<double>(), 0);
  const ProgramResult other = run_program(
      with_texts("run", "bert", {"--task", "hidden", "--against", golden_model_path("gpt2")}));
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.errors, HasSubstr("do not have the same tokens"));
}

/// gpt2 with a tokenizer and so many more rows of its vocabulary. They get the largest logits.
void write_padded_gpt2(const TemporaryFolder& folder, const std::string& name, int64_t more) {
  const std::filesystem::path from = golden_model("gpt2"), to = folder.path() / name;
  json config = json::parse(contents_of(from / "config.json"));
  const int64_t vocabulary = config["vocab_size"];
  config["vocab_size"] = vocabulary + more;
  folder.write(name + "/config.json", config.dump());
  std::filesystem::copy(golden_folder() / "text/tokenizers/gpt2/tokenizer.json", to);
  const TensorFiles files = TensorFiles::open(from / "model.safetensors");
  std::vector<TensorToWrite> tensors;
  std::vector<float> rows;
  for (const TensorInfo& info : files.tensors()) {
    TensorToWrite& tensor = tensors.emplace_back(files.copy_of(info));
    if (info.shape.empty() || info.shape[0] != vocabulary) continue;
    ASSERT_TRUE(rows.empty()) << "one tensor has the vocabulary";
    rows.resize(info.size());
    files.read(info, rows);
    for (int64_t i = 0; i < more * info.shape[1]; ++i) rows.push_back(3 * rows[i]);
    tensor = {.name = info.name,
              .shape = {vocabulary + more, info.shape[1]},
              .bytes = std::as_bytes(std::span(rows))};
  }
  write_tensors(to / "model.safetensors", tensors, files.metadata());
}

TEST(RunAgainst, NextTokensAreThoseThatBothModelsHave) {
  const TemporaryFolder folder;
  write_padded_gpt2(folder, "plain", 0);
  write_padded_gpt2(folder, "padded", 14);
  const std::string plain = folder.path() / "plain", padded = folder.path() / "padded";
  for (const auto& [model, against] : {std::pair(plain, padded), std::pair(padded, plain)}) {
    const json both =
        run_json({"run", model, "--against", against, "--json", "--task", "generate",
                  "--max-tokens", "2", "--ids", "5 9 3 7 2 11 8", "--ids", "8 4 6 13"});
    for (const json& result : both["results"]) {
      EXPECT_FALSE(result["change"]["next"].empty());
      for (const json& candidate : result["change"]["next"]) {
        EXPECT_LT(candidate["id"].get<int>(), 66);
        for (const char* side : {"before", "after"}) {
          EXPECT_GE(candidate[side].get<double>(), 0);
          EXPECT_LE(candidate[side].get<double>(), 1);
        }
      }
    }
  }
}

TEST(RunAgainst, AnotherModelIsForTheSameTask) {
  const auto refused = [](const std::string& model, const std::string& against) {
    const ProgramResult result = run_program(
        with_texts("run", model, {"--task", "classify", "--against", golden_model_path(against)}));
    EXPECT_EQ(result.code, 1) << result.out;
    return result.errors;
  };
  for (const auto& [model, against] :
       {std::pair("llama_sequence", "llama_token"), std::pair("llama_token", "llama_sequence")}) {
    EXPECT_THAT(refused(model, against), HasSubstr("not for the same task"));
  }
  EXPECT_THAT(refused("bert_sequence", "bert_multi_label"),
              AllOf(HasSubstr("one label each"), HasSubstr("several labels each")));
  const json hidden = run_json(
      with_texts("run", "llama_sequence",
                 {"--json", "--task", "hidden", "--against", golden_model_path("llama_token")}));
  EXPECT_TRUE(hidden["change"]["relative_norm"].is_number());
}

TEST(RunAgainst, SeveralLabelsChangeTogether) {
  const auto compared = [](const char* gate) {
    return run_json(
        with_texts("run", "bert_multi_label", {"--json", "--gate", gate, "--against", "original"}));
  };
  bool only_labels = false, only_best = false;
  for (const char* gate : {"L0=0", "L0.H0=0", "L0.H1=0", "L0.H2=0", "L0.H3=0"}) {
    const json both = compared(gate);
    int changed = 0;
    for (const json& result : both["results"]) {
      const json &before = result["before"], &after = result["after"];
      const bool other = before["labels"] != after["labels"];
      EXPECT_EQ(result["change"]["label_changed"], other) << gate;
      only_labels |= other && before["label"] == after["label"];
      only_best |= !other && before["label"] != after["label"];
      changed += other;
    }
    EXPECT_EQ(both["change"]["changed"], changed) << gate;
  }
  EXPECT_TRUE(only_labels && only_best) << "the gates no longer show the difference";
}

TEST(RunAgainst, RegressionHasNoLabelThatChanges) {
  const json both = run_json(
      with_texts("run", "bert_regression", {"--json", "--gate", "L0=0", "--against", "original"}));
  double largest = 0;
  for (const json& result : both["results"]) {
    EXPECT_FALSE(result["change"].contains("label_changed"));
    const double change = result["change"]["scores"]["LABEL_0"];
    EXPECT_NEAR(change,
                result["after"]["scores"]["LABEL_0"].get<double>() -
                    result["before"]["scores"]["LABEL_0"].get<double>(),
                1e-5);
    largest = std::max(largest, std::abs(change));
  }
  EXPECT_GT(largest, 0.1);
  EXPECT_FALSE(both["change"].contains("changed"));
  EXPECT_NEAR(both["change"]["largest"].get<double>(), largest, 1e-5);
}

TEST(RunAgainst, ShowsPeopleATable) {
  const auto shown = [](const std::string& model, const std::string& task) {
    const ProgramResult result = run_program(
        with_texts("run", model, {"--task", task, "--gate", "L0=0", "--against", "original"}));
    EXPECT_EQ(result.code, 0) << result.errors;
    return result.out;
  };
  const auto table = AllOf(HasSubstr("before"), HasSubstr("after"), HasSubstr("change"));
  EXPECT_THAT(shown("gpt2", "nll"), AllOf(table, HasSubstr("perplexity")));
  EXPECT_THAT(shown("gpt2", "generate"), AllOf(table, HasSubstr("next token")));
  EXPECT_THAT(shown("gpt2", "logits"), table);
  EXPECT_THAT(shown("bert_sequence", "classify"), table);
  EXPECT_THAT(shown("sentence_mean", "embed"), HasSubstr("cosine"));
  EXPECT_THAT(shown("bert", "hidden"), HasSubstr("relative norm"));
}

TEST(RunAgainst, SaysWhatIsWrong) {
  const auto refused = [](std::vector<std::string> more) {
    const ProgramResult result = run_program(with_texts("run", "gpt2", std::move(more)));
    EXPECT_EQ(result.code, 2);
    return result.errors;
  };
  EXPECT_THAT(refused({"--against", "original"}), HasSubstr("give --gate"));
  EXPECT_THAT(refused({"--against", "original", "--gate", "L0=0", "-o", "a.npy"}),
              HasSubstr("one model"));
}

TEST(MeanAblation, IsTheOneOfObserve) {
  const json evidence = run_json(
      with_texts("observe", "gpt2", {"--json", "--measure", "ablation_mean,ablation_zero"}));
  for (const char* head : {"L0.H1", "L1.H0"}) {
    const json run = run_json(with_texts("run", "gpt2",
                                         {"--json", "--task", "nll", "--gate",
                                          std::string(head) + "=mean", "--against", "original"}));
    for (const json& measured : evidence["heads"]) {
      if (measured["head"] != head) continue;
      EXPECT_NEAR(run["change"]["nll"].get<double>(), measured["ablation_mean"]["value"], 1e-5);
      EXPECT_GT(std::abs(run["change"]["nll"].get<double>() -
                         measured["ablation_zero"]["value"].get<double>()),
                1e-6);
    }
  }
}

TEST(MeanAblation, PutsTheMeanAtEveryRow) {
  const std::vector<std::string> z = {"--json", "--what", "z", "--heads", "L1.H1"};
  const json plain = run_json(with_texts("attend", "bert", z));
  const json ablated = run_json(with_texts("attend", "bert", z), {"--gate", "L1.H1=mean"});
  std::vector<double> mean;
  double rows = 0;
  for (const json& result : plain["results"]) {
    for (const json& row : result["z"]["L1.H1"]) {
      mean.resize(row.size());
      for (size_t c = 0; c < row.size(); ++c) mean[c] += row[c].get<double>();
      ++rows;
    }
  }
  for (const json& result : ablated["results"]) {
    for (const json& row : result["z"]["L1.H1"]) {
      for (size_t c = 0; c < row.size(); ++c) EXPECT_NEAR(row[c], mean[c] / rows, 1e-5);
    }
  }
  const json observed = run_json(with_texts(
      "observe", "bert", {"--json", "--measure", "constancy,entropy", "--gate", "L1.H1=mean"}));
  for (const json& head : observed["heads"]) {
    if (head["head"] == "L1.H1") {
      EXPECT_NEAR(head["constancy"], 1, 1e-5);
    }
  }
}

TEST(MeanAblation, TheLastGateCounts) {
  const std::vector<std::string> run = {"--json", "--task", "hidden"};
  EXPECT_EQ(run_json(with_texts("run", "bert", run), {"--gate", "L0=mean", "--gate", "L0=0.5"}),
            run_json(with_texts("run", "bert", run), {"--gate", "L0=0.5"}));
  EXPECT_EQ(run_json(with_texts("run", "bert", run), {"--gate", "L0=0", "--gate", "L0.H1=mean"}),
            run_json(with_texts("run", "bert", run),
                     {"--gate", "L0.H1=mean", "--gate", "L0.H0=0", "--gate", "L0.H2,L0.H3=0"}));
}

TEST(MeanAblation, SaysWhereItCannotBe) {
  const auto errors = [](const std::vector<std::string>& arguments) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.code, 1) << result.out;
    return result.errors;
  };
  EXPECT_THAT(errors(with_texts("observe", "gpt2", {"--gate", "L0.H1=mean"})),
              HasSubstr("--measure attention,linguistic,similarity"));
  EXPECT_THAT(
      errors(with_texts("compare", "gpt2", {golden_model_path("gpt2"), "--gate", "L0.H1=mean"})),
      HasSubstr("compare"));
  EXPECT_THAT(errors(with_texts("run", "marian", {"--gate", "cross.L0.H0=mean"})),
              HasSubstr("given nothing to read"));
  EXPECT_THAT(errors(with_texts("observe", "marian", {"--gate", "enc.L0.H0=mean"})),
              HasSubstr("--reference"));
  EXPECT_THAT(errors(with_texts("run", "gpt2", {"--gate", "L0.H1=median"})), HasSubstr("or mean"));
}

}  // namespace
}  // namespace headwise
