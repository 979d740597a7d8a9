// The specification of gemm as obvious loops with sums in double; for tests only.
#pragma once

#include "headwise/kernels/gemm.h"

namespace headwise {

double activate_ref(Activation activation, double x);

void gemm_ref(View<const float, 2> a, View<const float, 2> b, View<float, 2> c,
              const Epilogue& epilogue = {});

}  // namespace headwise
