// Strict JSON, see headwise/io/json.h.
#pragma once

#include "headwise/io/json.h"
