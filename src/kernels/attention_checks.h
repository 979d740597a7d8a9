// Checks shared by the entry points of attention.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <type_traits>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/core/view.h"

namespace headwise {

template <class T, int R>
void check_view(const char* name, const View<T, R>& view,
                const std::type_identity_t<std::array<int64_t, R>>& expected, bool optional) {
  if (optional && view.data() == nullptr) return;
  const bool there = view.data() != nullptr || view.empty();
  if (there && view.shape() == expected) return;
  throw Error({.what = fmt::format("attention: the shape of {} does not fit", name),
               .got = there ? to_string(view.shape()) : "no data",
               .expected = to_string(expected)});
}

}  // namespace headwise
