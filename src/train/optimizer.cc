// Freezing, clipping and the step of AdamW.
#include "train/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "headwise/core/error.h"
#include "headwise/kernels/adamw.h"
#include "headwise/kernels/sum_of_squares.h"

namespace headwise {
namespace {

/// "enc.L0" of "enc.L0.attention.weights", "head" of "output.weight".
std::string place_of(const Parameter& parameter) {
  const std::string& name = parameter.name;
  size_t end = name.find('.');
  for (const char* stack : {"enc.", "dec.", "cross."}) {
    if (name.starts_with(stack)) end = name.find('.', end + 1);
  }
  const std::string place = name.substr(0, end);
  return place == "output" ? "head" : place;
}

}  // namespace

void freeze(TrainableModel& model, std::span<const std::string> places) {
  std::set<std::string> known;
  for (const Parameter& parameter : model.parameters()) known.insert(place_of(parameter));
  for (const std::string& place : places) {
    if (known.contains(place)) continue;
    throw Error({.what = "there is no such place in the model to be frozen",
                 .where = "freeze",
                 .got = fmt::format("\"{}\"", place),
                 .expected = fmt::format("one of {}", fmt::join(known, ", "))});
  }
  bool any = false;
  for (Parameter& parameter : model.parameters()) {
    if (std::ranges::find(places, place_of(parameter)) != places.end())
      parameter.requires_grad = false;
    any = any || parameter.requires_grad;
  }
  if (any) return;
  throw Error({.what = "everything is frozen, and nothing is left to train",
               .where = "freeze",
               .expected = "fewer places"});
}

Optimizer::Optimizer(TrainableModel& model, const OptimizerSettings& settings)
    : model_(model), settings_(settings) {
  model.clear_gradients();
  for (const Parameter& parameter : model.parameters()) {
    const int64_t size = parameter.requires_grad ? std::ssize(parameter.values) : 0;
    moments_.push_back({.m = Buffer::zeros(size), .v = Buffer::zeros(size)});
  }
}

double Optimizer::gradient_norm() const {
  double squares = 0;
  for (const Parameter& parameter : model_.parameters()) {
    if (parameter.requires_grad) squares += sum_of_squares(parameter.gradient);
  }
  return std::sqrt(squares);
}

void Optimizer::step(int64_t step, double factor, double gradient_norm) {
  // As torch.nn.utils.clip_grad_norm_ has it.
  const double clipped =
      settings_.clip > 0 ? std::min(1., settings_.clip / (gradient_norm + 1e-6)) : 1.;
  const auto parameters = model_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = parameters[i];
    if (!parameter.requires_grad) continue;
    adamw(parameter.values, parameter.gradient, moments_[i].m.span(), moments_[i].v.span(),
          {.rate = parameter.rate.value_or(settings_.rate) * factor,
           .beta1 = settings_.beta1,
           .beta2 = settings_.beta2,
           .epsilon = settings_.epsilon,
           .decay = parameter.decays ? settings_.decay : 0,
           .step = step,
           .gradient_scale = static_cast<float>(clipped)});
    parameter.grad_is_zero = true;
  }
}

}  // namespace headwise
