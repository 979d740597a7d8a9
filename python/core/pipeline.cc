// The pipeline: observe, judge, plan, prune, study. Results are objects that go to JSON and back.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
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

/// Texts and files as data for measuring heads.
ObserveData data_of(const Model& model, const std::vector<std::string>& texts,
                    const std::map<std::string, Path>& files, const std::string& loss,
                    uint64_t seed, bool truncate) {
  ObserveData data;
  if (!texts.empty()) {
    data = text_data(model, texts, {.truncate = truncate, .loss = loss_of(loss), .seed = seed});
  }
  for (const auto& [kind, file] : files) {
    if (kind == "treebank") {
      data.treebank = read_conllu(file);
    } else if (kind == "coreference") {
      data.coreference = read_gap(file);
    } else if (kind == "data") {
      const LossTask task = loss.empty() ? default_task(model.config()) : loss_task(loss);
      if (model.tokenizer() == nullptr) throw Error({.what = "data need a model with a tokenizer"});
      data.evaluation = read_evaluation(task, {file}, *model.tokenizer(), model.config());
    }
    data.files[kind] = identity_of_files({file}, 0);
  }
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
    const LossTask task = loss.empty() ? default_task(model.config()) : loss_task(loss);
    if (model.tokenizer() == nullptr) throw Error({.what = "recovery needs a tokenizer"});
    Recovery recovery{
        .set = read_evaluation(task, {*recover_file}, *model.tokenizer(), model.config()),
        .rounds = rounds};
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

PythonStudy study_texts(const Model& model, const std::vector<std::string>& texts,
                        std::optional<double> keep, std::optional<double> passes,
                        std::optional<double> seconds, bool thorough, bool resume, bool probes,
                        const std::string& order, uint64_t seed, const Path& out,
                        Progress progress) {
  const nb::gil_scoped_release released;
  StudyOptions options{.passes = passes,
                       .seconds = seconds,
                       .thorough = thorough,
                       .resume = resume,
                       .keep = keep,
                       .probes = probes,
                       .seed = seed};
  if (!order.empty()) options.order = head_order(order);
  options.progress = [&](const StudyProgress& p) {
    progress(std::string(p.stage), p.done, p.total);
  };
  Study found = study(model, {.texts = texts}, options, out);
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
      [](const Model& model, const std::vector<std::string>& texts, std::optional<double> keep,
         std::optional<double> passes, std::optional<double> seconds, bool thorough, bool resume,
         bool probes, const std::string& order, uint64_t seed, const Path& out,
         nb::object progress) {
        return study_texts(model, texts, keep, passes, seconds, thorough, resume, probes, order,
                           seed, out, Progress(std::move(progress)));
      },
      "model"_a, "texts"_a, nb::kw_only(), "keep"_a.none(), "passes"_a.none(), "seconds"_a.none(),
      "thorough"_a, "resume"_a, "probes"_a, "order"_a, "seed"_a, "out"_a, "progress"_a.none());
  module.def("page", &page_of, "texts"_a, "The page of reports from the JSON of a study's files.");
  module.def(
      "read_lines", [](const Path& file) { return read_lines(file); }, "file"_a,
      "The lines of a text file, which may be gzip.");
}

}  // namespace headwise::python
