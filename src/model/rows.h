// Rows of a pass.
#pragma once

#include <cstdint>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"

namespace headwise {

/// Rows of a pass, in memory that the next pass uses again.
class Rows {
 public:
  View<float, 2> shaped(int64_t rows, int64_t columns) {
    return view_ = {buffer_.at_least(rows * columns), {rows, columns}};
  }
  View<float, 2> like(View<const float, 2> other) {
    return shaped(other.extent(0), other.extent(1));
  }
  View<float, 2> view() const { return view_; }

 private:
  Buffer buffer_;
  View<float, 2> view_;
};

}  // namespace headwise
