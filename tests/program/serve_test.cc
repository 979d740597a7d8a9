// headwise serve: what it says about texts is what run and attend say, and what jobs measure is
// what observe and plan measure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "program/golden_inputs.h"
#include "program/served_model.h"
#include "text/base64.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// A byte per weight, as the page gets it.
json rounded(const json& map) {
  json rows = json::array();
  for (const json& row : map) {
    json bytes = json::array();
    for (const json& weight : row) bytes.push_back(std::lround(255 * weight.get<float>()));
    rows.push_back(bytes);
  }
  return rows;
}

json unpacked(const json& map) {
  const std::string bytes = text::decode_base64(map["data"].get<std::string>(), "a map");
  const size_t rows = map["rows"], columns = map["columns"];
  EXPECT_EQ(bytes.size(), rows * columns);
  json all = json::array();
  for (size_t row = 0; row < rows; ++row) {
    json weights = json::array();
    for (size_t column = 0; column < columns; ++column) {
      weights.push_back(static_cast<unsigned char>(bytes[row * columns + column]));
    }
    all.push_back(weights);
  }
  return all;
}

struct Kind {
  const char* model;
  const char* task;
  const char* head;  // that is closed
};

class ServeKinds : public testing::TestWithParam<Kind> {
 protected:
  static json run(const ServedModel& served, const std::string& text, const std::string& gate,
                  std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", served.model(), "--json", "--text", text};
    if (!gate.empty()) arguments.insert(arguments.end(), {"--gate", gate});
    return run_json(arguments, more);
  }

  /// What `headwise run` says, in the page's form.
  static json expected(const ServedModel& served, const std::string& text, const std::string& gate,
                       const std::string& task) {
    if (task == "fill") {
      return {{"fill",
               run(served, text, gate, {"--task", "fill", "--top", "10"})["results"][0]["fill"]}};
    }
    if (task == "translate") {
      return {{"output", run(served, text, gate, {"--task", "translate"})["results"][0]["output"]}};
    }
    if (task == "classify") {
      const json told = run(served, text, gate, {"--task", "classify"});
      return told["results"][0]["scores"];
    }
    if (task == "embed") {
      return run(served, text, gate, {"--task", "embed"})["results"][0]["embedding"];
    }
    return run(served, text, gate,
               {"--task", "generate", "--max-tokens", "19", "--beams", "1", "--temperature",
                "0"})["results"][0]["output"];
  }

  static void expect_output(const json& got, const ServedModel& served, const std::string& text,
                            const std::string& gate, const std::string& task) {
    const json wanted = expected(served, text, gate, task);
    if (task == "fill") {
      EXPECT_EQ(got, wanted);
    } else if (task == "translate") {  // without the end, which is a word of this vocabulary
      EXPECT_THAT(wanted["output"].get<std::string>(),
                  testing::StartsWith(got["output"].get<std::string>()));
      EXPECT_NE(got["output"], "");
    } else if (task == "classify" && wanted.is_object()) {
      ASSERT_EQ(got["scores"].size(), wanted.size());
      for (const json& score : got["scores"]) {
        EXPECT_EQ(score["score"], wanted[score["label"].get<std::string>()]);
      }
    } else if (task == "classify") {  // of each token
      ASSERT_EQ(got["tokens"].size(), wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ(got["tokens"][i]["score"], *std::ranges::max_element(wanted[i]));
      }
    } else if (task == "embed") {
      const json whole = expected(served, text, "", task);
      double product = 0, a = 0, b = 0;
      for (size_t i = 0; i < whole.size(); ++i) {
        product += whole[i].get<double>() * wanted[i].get<double>();
        a += whole[i].get<double>() * whole[i].get<double>();
        b += wanted[i].get<double>() * wanted[i].get<double>();
      }
      EXPECT_NEAR(got["similarity"], product / std::sqrt(a * b), 1e-6);
      EXPECT_NEAR(got["norm"], std::sqrt(b), 1e-5 * std::sqrt(b));
    } else {
      EXPECT_EQ(got["candidates"].size(), 10);
      EXPECT_THAT(got["continuation"].get<std::string>(),
                  testing::StartsWith(wanted.get<std::string>()));
    }
  }
};

TEST_P(ServeKinds, SaysWhatRunAndAttendSay) {
  const auto [name, task, head] = GetParam();
  const ServedModel served(name);
  const json model = served.get("/api/model").json();
  EXPECT_EQ(model["task"], task);
  EXPECT_EQ(model["instance"], served.told()["instance"]);
  EXPECT_EQ(model["model"]["name"], name);
  const json layers = run_json({"inspect", served.model(), "--json"})["layers"];
  ASSERT_EQ(model["attentions"].size(), layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    EXPECT_EQ(model["attentions"][i]["name"], layers[i]["name"]);
    EXPECT_EQ(model["attentions"][i]["heads"], layers[i]["heads"]);
  }

  const std::string text = std::string(task) == "fill" ? "w5 [MASK] w9" : "w5 w6 w9";
  const std::string gate = std::string(head) + "=0";
  for (const bool gated : {false, true}) {
    json request = {{"text", text}};
    if (gated) request["gates"] = {{head, 0}};
    const HttpAnswer answer = served.post("/api/look", request);
    ASSERT_EQ(answer.status, 200) << answer.body;
    const json look = answer.json();
    EXPECT_FALSE(look.contains("truncated"));

    std::vector<std::string> attend = {"attend", served.model(), "--json", "--text", text};
    if (gated) attend.insert(attend.end(), {"--gate", gate});
    const json attended = run_json(attend)["results"][0];
    EXPECT_EQ(look["tokens"], attended["tokens"]);
    if (std::string(task) == "translate") {
      EXPECT_EQ(look["target_tokens"], attended["decoder_tokens"]);
    }
    ASSERT_EQ(look["maps"].size(), attended["maps"].size());
    for (const auto& [each, map] : attended["maps"].items()) {
      EXPECT_EQ(unpacked(look["maps"][each]), rounded(map)) << each;
    }
    expect_output(look["original"], served, text, "", task);
    if (gated) {
      expect_output(look["gated"], served, text, gate, task);
      if (std::string(task) != "translate") {
        EXPECT_NE(look["gated"], look["original"]);
      }
    } else {
      EXPECT_TRUE(look["gated"].is_null());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ServeKinds,
    testing::Values(Kind{"bert", "fill", "L0.H1"}, Kind{"gpt2", "next", "L1.H2"},
                    Kind{"gpt2_pruned", "next", "L0.H0"}, Kind{"llama", "next", "L0.H0"},
                    Kind{"bert_sequence", "classify", "L0.H1"},
                    Kind{"bert_token", "classify", "L0.H0"},
                    Kind{"marian", "translate", "enc.L0.H1"},
                    Kind{"t5", "translate", "cross.L0.H0"}, Kind{"sentence_mean", "embed", "L0.H1"},
                    Kind{"bert_question", "embed", "L0.H0"}),
    [](const auto& info) { return std::string(info.param.model); });

TEST(Serve, NextTokensAreTheLargestOfTheLastLogits) {
  const ServedModel served("gpt2");
  const json told =
      served.post("/api/look", {{"text", "w5 w6 w9"}, {"gates", {{"L1", 0.5}}}}).json()["gated"];
  const json rows = run_json({"run", served.model(), "--json", "--text", "w5 w6 w9", "--task",
                              "logits", "--gate", "L1=0.5"})["results"][0]["logits"];
  double sum = 0, largest = -INFINITY;
  for (const json& logit : rows.back()) {
    sum += std::exp(logit.get<double>());
    largest = std::max(largest, logit.get<double>());
  }
  EXPECT_NEAR(told["candidates"][0]["probability"], std::exp(largest) / sum, 1e-5);
  for (const json& candidate : told["candidates"]) {
    EXPECT_NEAR(candidate["probability"],
                std::exp(rows.back()[candidate["id"].get<size_t>()].get<double>()) / sum, 1e-5);
  }
}

TEST(Serve, WithoutAMaskItSaysWhatToWrite) {
  const ServedModel served("bert");
  const json look = served.post("/api/look", {{"text", "w5 w6"}}).json();
  EXPECT_TRUE(look["original"]["fill"].empty());
  EXPECT_THAT(look["note"].get<std::string>(), HasSubstr("[MASK]"));
  EXPECT_EQ(look["maps"]["L0.H0"]["rows"], 4);
}

TEST(Serve, CutsLongTextsAndSaysSo) {
  const ServedModel served("bert");
  const int64_t most = served.get("/api/model").json()["limits"]["tokens"];
  std::string text;
  for (int i = 0; i < 40; ++i) text += "w5 ";
  const json look = served.post("/api/look", {{"text", text}}).json();
  EXPECT_EQ(look["truncated"], true);
  EXPECT_EQ(look["tokens"].size(), most);
}

/// What a job has come to when it has ended.
json ended(const ServedModel& served, const std::string& id) {
  while (true) {
    json job = served.get("/api/jobs/" + id).json();
    if (job["state"] != "queued" && job["state"] != "running") return job;
    usleep(10'000);
  }
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < 12; ++k) text += "w" + std::to_string(5 + (i * 7 + k * k * 3) % 50) + " ";
    text += "\n";
  }
  return text;
}

std::string start(const ServedModel& served, const json& request) {
  const HttpAnswer answer = served.post("/api/jobs", request);
  EXPECT_EQ(answer.status, 202) << answer.body;
  return answer.json()["id"];
}

class ServeJobs : public testing::TestWithParam<const char*> {};

TEST_P(ServeJobs, AblationsAreThoseOfObserve) {
  const ServedModel served(GetParam());
  const TemporaryFolder folder;
  const std::string file = folder.write("lines.txt", lines(5)).string();
  const json observed = run_json({"observe", served.model(), "--json", "--input", file, "--measure",
                                  "importance", "--no-probes"});
  const json job = ended(served, start(served, {{"kind", "ablate"}, {"text", lines(5)}}));
  ASSERT_EQ(job["state"], "done") << job;
  EXPECT_TRUE(job["error"].is_null());
  EXPECT_EQ(job["result"]["loss"]["task"], observed["loss"]["task"]);
  EXPECT_EQ(job["result"]["loss"]["value"], observed["loss"]["value"]);
  ASSERT_EQ(job["result"]["heads"].size(), observed["heads"].size());
  for (size_t h = 0; h < observed["heads"].size(); ++h) {
    const json &got = job["result"]["heads"][h], &wanted = observed["heads"][h]["ablation_zero"];
    EXPECT_EQ(got["head"], observed["heads"][h]["head"]);
    for (const char* field : {"value", "low", "high"}) EXPECT_EQ(got[field], wanted[field]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ServeJobs,
                         testing::Values("bert", "llama", "marian", "bert_sequence"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Serve, PlansInEveryOrder) {
  const ServedModel served("bert");
  const size_t heads = ended(served, start(served, {{"kind", "ablate"}}))["result"]["heads"].size();
  for (const char* order : {"ablation", "gradient", "random"}) {
    const json job = ended(
        served,
        start(served, {{"kind", "plan"}, {"keep", 0.5}, {"order", order}, {"text", lines(5)}}));
    ASSERT_EQ(job["state"], "done") << job;
    EXPECT_EQ(job["result"]["order"], order);
    EXPECT_EQ(job["result"]["keep"].size(), heads / 2);
    EXPECT_EQ(job["result"]["drop"].size(), heads / 2);
    EXPECT_TRUE(job["result"]["expected"].contains("loss"));
  }
}

TEST(Serve, JobsThatCannotBeSayWhy) {
  const ServedModel served("bert");
  const json job = ended(served, start(served, {{"kind", "ablate"}, {"text", " \n \n"}}));
  EXPECT_EQ(job["state"], "failed");
  EXPECT_EQ(job["error"]["where"], "text");
  EXPECT_TRUE(job["result"].is_null());
  EXPECT_EQ(served.get("/api/jobs/0123").status, 404);
  EXPECT_EQ(served.ask("DELETE", "/api/jobs/0123").status, 404);
}

TEST(Serve, JobsAreCancelledAndTooManyRefused) {
  const ServedModel served("bert");
  const json request = {{"kind", "ablate"}, {"text", lines(500)}};
  std::vector<std::string> ids;
  HttpAnswer answer;
  for (int i = 0; i < 50; ++i) {
    answer = served.post("/api/jobs", request);
    if (answer.status != 202) break;
    ids.push_back(answer.json()["id"]);
  }
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.headers, HasSubstr("Retry-After: "));
  EXPECT_THAT(answer.error()["what"].get<std::string>(), HasSubstr("too many jobs"));
  // Who looks need not wait for jobs to end.
  EXPECT_EQ(served.post("/api/look", {{"text", "w5"}}).status, 200);
  EXPECT_EQ(served.get("/api/jobs/" + ids.back()).json()["state"], "queued");
  for (const std::string& id : ids) {
    EXPECT_EQ(served.ask("DELETE", "/api/jobs/" + id).status, 200);
  }
  for (const std::string& id : ids) ended(served, id);
  EXPECT_EQ(ended(served, ids.back())["state"], "cancelled");
  EXPECT_EQ(ended(served, start(served, {{"kind", "ablate"}, {"text", "w5 w6 w7"}}))["state"],
            "done");
}

TEST(Serve, ARunningJobIsCancelled) {
  const ServedModel served("bert");
  const std::string id = start(served, {{"kind", "plan"}, {"text", lines(500)}});
  while (served.get("/api/jobs/" + id).json()["state"] == "queued") usleep(1000);
  EXPECT_EQ(served.ask("DELETE", "/api/jobs/" + id).status, 200);
  EXPECT_EQ(ended(served, id)["state"], "cancelled");
}

TEST(Serve, StopsWhenToldToWhileAJobRuns) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServedModel served("bert");
    start(served, {{"kind", "ablate"}, {"text", lines(500)}});
    const Client half_open(served.port());
    EXPECT_EQ(served.program().stop(signal), 0);
    EXPECT_THROW(Client{served.port()}, std::runtime_error);
  }
}

TEST(Serve, TheStudyIsInThePage) {
  const TemporaryFolder study;
  study.write("summary.json", R"({"model": "a</script><b> & \u2028"})");
  const ServedModel served("bert", {study.path().string()});
  const HttpAnswer page = served.get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.headers, HasSubstr("Content-Type: text/html"));
  EXPECT_THAT(page.body, HasSubstr(R"(id="headwise-live" type="application/json">true</script>)"));
  const std::string begin = R"(<script id="headwise-data" type="application/json">)";
  const size_t at = page.body.find(begin) + begin.size();
  const json data = json::parse(page.body.substr(at, page.body.find("</script>", at) - at));
  EXPECT_EQ(data["summary"]["model"], "a</script><b> & \u2028");
}

TEST(Serve, RefusesWhatItCannotServe) {
  const ProgramResult no_words = run_program({"serve", golden_model_path("bert"), "--port", "0"});
  EXPECT_EQ(no_words.code, 1);
  EXPECT_THAT(no_words.errors, HasSubstr("no tokenizer"));
  const TemporaryFolder empty;
  const ProgramResult no_study =
      run_program({"serve", golden_model_path("bert"), empty.path().string(), "--port", "0"});
  EXPECT_EQ(no_study.code, 1);
  EXPECT_THAT(no_study.errors, HasSubstr("has no study"));
  const ServedModel served("bert");
  const ProgramResult taken =
      run_program({"serve", served.model(), "--port", std::to_string(served.port())});
  EXPECT_EQ(taken.code, 1);
  EXPECT_THAT(taken.errors, HasSubstr("--port 0"));
  EXPECT_EQ(run_program({"serve", served.model(), "--port", "65536"}).code, 2);
}

}  // namespace
}  // namespace headwise
