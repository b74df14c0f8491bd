#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What continuous integration runs: the quick tests, as the README says.
set -euo pipefail
cd "$(dirname "$0")/.."
exec ./test.sh "$@"
