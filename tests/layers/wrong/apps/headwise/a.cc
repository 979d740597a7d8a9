// As it should be.
#include "headwise/study/b.h"
