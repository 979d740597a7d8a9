// Wrong: kernels and io are beside each other.
#pragma once

#include <headwise/io/b.h>
