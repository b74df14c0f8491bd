// SPDX-License-Identifier: Apache-2.0
// What nearly every test includes, compiled once for all of them: half of the time that a test
// takes to compile goes here. Tests include what they use all the same; the preset `tidy` compiles
// each without this file.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/support/catch.h"
