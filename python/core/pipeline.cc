// The pipeline: observe, judge, plan, prune, study. Results are objects that go to JSON and back.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "core.h"
#include "headwise/headwise.h"

namespace nb = nanobind;
using namespace nanobind::literals;

namespace headwise::python {
namespace {

/// Paths come as text: Python's types of paths have no names in stubs.
using Path = std::string;

/// Calls back into Python a few times a second, for progress and for Ctrl-C.
class Progress {
 public:
  explicit Progress(nb::object call) : call_(std::move(call)) {}

  void operator()(const std::string& what, int64_t done, int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (what == last_ && done < total && now - called_ < std::chrono::milliseconds(100)) return;
    last_ = what;
    called_ = now;
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!call_.is_none()) call_(what, done, total);
  }

 private:
  nb::object call_;
  std::string last_{};
  std::chrono::steady_clock::time_point called_{};
};

std::optional<LossTask> loss_of(const std::string& name) {
  return name.empty() ? std::nullopt : std::optional(loss_task(name));
}

/// The loss over a file of examples. If none is named, a classifier's file with a tab in every line
/// is one of labels.
LossTask task_of(const Model& model, const Path& file, const std::string& loss) {
  if (!loss.empty()) return loss_task(loss);
  if (model.config().task != Task::classify) return default_task(model.config());
  const std::vector<std::string> lines = read_lines(file);
  const bool labels = std::ranges::all_of(
      lines, [](const std::string& line) { return line.empty() || line.find('\t') != line.npos; });
  return labels ? LossTask::classify : default_task(model.config());
}

EvaluationSet read_examples(const Model& model, const Path& file, const std::string& loss) {
  if (model.tokenizer() == nullptr) {
    throw Error({.what = "a file of examples needs a model with a tokenizer", .where = file});
  }
  return read_evaluation(task_of(model, file, loss), {file}, *model.tokenizer(), model.config());
}

std::vector<CoreferenceItem> read_coreference(const Path& file) {
  const bool entities = file.ends_with(".conllu") || file.ends_with(".conllu.gz");
  return entities ? read_entities(file) : read_gap(file);
}

/// What heads attend to, and how much they matter, can be seen in the texts of a treebank.
void use_treebank_texts(const Model& model, const Path& file, std::optional<LossTask> loss,
                        ObserveData& data) {
  if (model.tokenizer() == nullptr) return;
  data.corpus.name = file;
  for (const TreeSentence& tree : data.treebank) {
    data.corpus.texts.push_back(observed_text(model, *model.tokenizer(), tree.text, tree.id));
  }
  data.evaluation = evaluation_of(model, data.corpus, loss);
}

/// Texts and files as data for measuring heads.
ObserveData data_of(const Model& model, const std::vector<std::string>& texts,
                    const std::map<std::string, Path>& files, const std::string& loss,
                    uint64_t seed, bool truncate) {
  ObserveData data;
  if (!texts.empty()) {
    data = text_data(model, texts, {.truncate = truncate, .loss = loss_of(loss), .seed = seed});
  }
  const auto read = [&](const char* kind, auto&& reader) {
    const auto file = files.find(kind);
    if (file == files.end()) return;
    const size_t items = reader(file->second);
    data.files[kind] = identity_of_files({file->second}, static_cast<int64_t>(items));
  };
  read("treebank", [&](const Path& file) {
    data.treebank = read_conllu(file);
    if (texts.empty()) use_treebank_texts(model, file, loss_of(loss), data);
    return data.treebank.size();
  });
  read("coreference", [&](const Path& file) {
    data.coreference = read_coreference(file);
    return data.coreference.size();
  });
  read("data", [&](const Path& file) {
    data.evaluation = read_examples(model, file, loss);
    return static_cast<size_t>(data.evaluation->size());
  });
  return data;
}

Evidence observe_texts(const Model& model, const std::vector<std::string>& texts,
                       const std::map<std::string, Path>& files,
                       const std::vector<std::string>& measures, const std::string& loss,
                       bool probes, uint64_t seed, bool truncate, Progress progress) {
  const nb::gil_scoped_release released;
  ObserveOptions options{.measures = MeasureSelection(std::span(measures)),
                         .probes = probes,
                         .seed = seed,
                         .progress = std::ref(progress)};
  return observe(model, data_of(model, texts, files, loss, seed, truncate), options);
}

Plan make_plan(const Model& model, const Verdict& verdict, std::optional<double> keep,
               std::optional<int64_t> heads, std::optional<double> speedup, const std::string& drop,
               const std::string& order, int64_t at_least, bool uniform,
               const std::vector<std::string>& keep_roles, uint64_t seed, Progress progress) {
  const nb::gil_scoped_release released;
  PlanOptions options{.keep = keep,
                      .heads = heads,
                      .speedup = speedup,
                      .drop = drop,
                      .at_least = at_least,
                      .uniform = uniform,
                      .keep_roles = keep_roles,
                      .seed = seed};
  if (!order.empty()) options.order = head_order(order);
  return plan(model, verdict, options,
              {.progress = [&](std::string_view step, int64_t done, int64_t total) {
                progress(std::string(step), done, total);
              }});
}

PrunedModel prune_model(const Model& model, const Plan& plan, const std::string& form,
                        const std::string& compensate, const std::vector<std::string>& texts,
                        const std::optional<Path>& recover_file, int64_t epochs, int64_t rounds,
                        const std::string& loss, uint64_t seed, Progress progress) {
  const nb::gil_scoped_release released;
  PruneOptions options{
      .form = prune_form(form), .compensate = compensation(compensate), .seed = seed};
  options.progress = [&](std::string_view step, int64_t done, int64_t total) {
    progress(std::string(step), done, total);
  };
  if (!texts.empty()) {
    const ObserveData data = text_data(model, texts, {.truncate = true, .seed = seed});
    for (const ObservedText& text : data.corpus.texts) {
      options.source.add(text.ids, text.types);
      if (!text.decoder_ids.empty()) options.target.add(text.decoder_ids);
    }
  }
  if (recover_file) {
    Recovery recovery{.set = read_examples(model, *recover_file, loss), .rounds = rounds};
    recovery.training.epochs = epochs;
    recovery.training.seed = seed;
    options.recover = std::move(recovery);
  }
  return prune(model, plan, std::move(options));
}

/// A study, and the texts of its files.
struct PythonStudy {
  Study study;
  std::string summary;
};

std::vector<std::string> built_in_texts() {
  std::istringstream text{std::string(sample_text())};
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// The input of a study: texts alone, or with files. Beside a labelled file alone, attention is
/// measured on the built-in text.
StudyInput study_input(const Model& model, std::vector<std::string> texts,
                       const std::map<std::string, Path>& files, const std::string& loss,
                       uint64_t seed) {
  if (files.empty() && loss.empty()) return {.texts = std::move(texts)};
  if (texts.empty() && !files.contains("treebank")) texts = built_in_texts();
  return {.data = data_of(model, texts, files, loss, seed, true)};
}

PythonStudy study_texts(const Model& model, std::vector<std::string> texts,
                        const std::map<std::string, Path>& files, const std::string& loss,
                        StudyOptions options, const std::string& order, const Path& out,
                        Progress progress) {
  const nb::gil_scoped_release released;
  if (!order.empty()) options.order = head_order(order);
  options.progress = [&](const StudyProgress& p) {
    progress(std::string(p.stage), p.done, p.total);
  };
  StudyInput input = study_input(model, std::move(texts), files, loss, options.seed);
  Study found = study(model, std::move(input), options, out);
  std::string summary = to_json(found, options);
  return {std::move(found), std::move(summary)};
}

std::string page_of(const std::map<std::string, std::string>& texts) {
  return report_page(report_data(texts));
}

}  // namespace

void bind_pipeline(nb::module_& module) {
  nb::class_<Evidence>(module, "Evidence")
      .def("to_json", [](const Evidence& e) { return to_json(e); })
      .def("to_csv", [](const Evidence& e) { return to_csv(e); })
      .def_static(
          "from_json",
          [](std::string_view text, const std::string& where) {
            return evidence_from_json(text, where);
          },
          "text"_a, "where"_a);
  nb::class_<Verdict>(module, "Verdict")
      .def("to_json", [](const Verdict& v) { return to_json(v); })
      .def("explain", &explain, "head"_a)
      .def_static(
          "from_json",
          [](std::string_view text, const std::string& where) {
            return verdict_from_json(text, where);
          },
          "text"_a, "where"_a);
  nb::class_<Plan>(module, "Plan")
      .def_ro("drop", &Plan::drop)
      .def("to_json", [](const Plan& p) { return to_json(p); })
      .def_static(
          "from_json",
          [](std::string_view text, const std::string& where) {
            return plan_from_json(text, where);
          },
          "text"_a, "where"_a);
  nb::class_<PythonStudy>(module, "Study")
      .def_prop_ro("evidence", [](const PythonStudy& s) { return s.study.evidence; })
      .def_prop_ro("verdict", [](const PythonStudy& s) { return s.study.verdict; })
      .def_prop_ro("plan", [](const PythonStudy& s) { return s.study.plan; })
      .def_ro("summary", &PythonStudy::summary)
      .def_prop_ro("has_pruned", [](const PythonStudy& s) { return s.study.pruned.has_value(); })
      .def_prop_ro(
          "pruned", [](PythonStudy& s) -> PrunedModel& { return *s.study.pruned; },
          nb::rv_policy::reference_internal);
  module.def(
      "observe",
      [](const Model& model, const std::vector<std::string>& texts,
         const std::map<std::string, Path>& files, const std::vector<std::string>& measures,
         const std::string& loss, bool probes, uint64_t seed, bool truncate, nb::object progress) {
        return observe_texts(model, texts, files, measures, loss, probes, seed, truncate,
                             Progress(std::move(progress)));
      },
      "model"_a, "texts"_a, "files"_a, "measures"_a, "loss"_a, "probes"_a, "seed"_a, "truncate"_a,
      "progress"_a.none());
  module.def(
      "judge",
      [](const Evidence& evidence, const std::map<std::string, double>& thresholds,
         std::optional<double> tolerance) {
        return judge(evidence, {.thresholds = thresholds, .tolerance = tolerance});
      },
      "evidence"_a, "thresholds"_a, "tolerance"_a.none());
  module.def(
      "plan",
      [](const Model& model, const Verdict& verdict, std::optional<double> keep,
         std::optional<int64_t> heads, std::optional<double> speedup, const std::string& drop,
         const std::string& order, int64_t at_least, bool uniform,
         const std::vector<std::string>& keep_roles, uint64_t seed, nb::object progress) {
        return make_plan(model, verdict, keep, heads, speedup, drop, order, at_least, uniform,
                         keep_roles, seed, Progress(std::move(progress)));
      },
      "model"_a, "verdict"_a, nb::kw_only(), "keep"_a.none(), "heads"_a.none(), "speedup"_a.none(),
      "drop"_a, "order"_a, "at_least"_a, "uniform"_a, "keep_roles"_a, "seed"_a,
      "progress"_a.none());
  module.def(
      "prune",
      [](const Model& model, const Plan& plan, const std::string& form,
         const std::string& compensate, const std::vector<std::string>& texts,
         const std::optional<Path>& recover, int64_t epochs, int64_t rounds,
         const std::string& loss, uint64_t seed, nb::object progress) {
        return prune_model(model, plan, form, compensate, texts, recover, epochs, rounds, loss,
                           seed, Progress(std::move(progress)));
      },
      "model"_a, "plan"_a, nb::kw_only(), "form"_a, "compensate"_a, "texts"_a, "recover"_a.none(),
      "epochs"_a, "rounds"_a, "loss"_a, "seed"_a, "progress"_a.none());
  module.def(
      "study",
      [](const Model& model, std::vector<std::string> texts,
         const std::map<std::string, Path>& files, const std::string& loss,
         std::optional<double> keep, std::optional<double> passes, std::optional<double> seconds,
         bool thorough, bool resume, bool probes, const std::string& form, const std::string& order,
         uint64_t seed, const Path& out, nb::object progress) {
        StudyOptions options{.passes = passes,
                             .seconds = seconds,
                             .thorough = thorough,
                             .resume = resume,
                             .keep = keep,
                             .form = prune_form(form),
                             .probes = probes,
                             .seed = seed};
        return study_texts(model, std::move(texts), files, loss, std::move(options), order, out,
                           Progress(std::move(progress)));
      },
      "model"_a, "texts"_a, nb::kw_only(), "files"_a, "loss"_a, "keep"_a.none(), "passes"_a.none(),
      "seconds"_a.none(), "thorough"_a, "resume"_a, "probes"_a, "form"_a, "order"_a, "seed"_a,
      "out"_a, "progress"_a.none());
  module.def("page", &page_of, "texts"_a, "The page of reports from the JSON of a study's files.");
  module.def(
      "read_lines", [](const Path& file) { return read_lines(file); }, "file"_a,
      "The lines of a text file, which may be gzip.");
}

}  // namespace headwise::python
