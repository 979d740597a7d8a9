// Wrong: text is below model.
#include "headwise/io/b.h"
#include "model/b.h"
