// The first is as it should be. Wrong: programs see installed headers only.
#include "headwise/study/b.h"
#include "io/file.h"
