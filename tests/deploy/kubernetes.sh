#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The manifests of `troupe gen kubernetes`: kubernetes.sh SOURCE BUILD. On first use makes a Python
# environment in the build folder with Kubernetes' schemas (kubernetes-validate, PyPI); exit 77 and a
# line where they cannot be had.
set -euo pipefail
source=$1 build=$2
python=$build/kube-env/bin/python
if ! "$python" -c 'import kubernetes_validate' 2>/dev/null; then
  rm -rf "$build/kube-env"
  python3 -m venv "$build/kube-env"
  "$build/kube-env/bin/pip" install -q kubernetes-validate || {
    echo "skipped: kubernetes-validate, which has Kubernetes' schemas, cannot be installed from PyPI"
    exit 77
  }
fi
exec "$python" "$source/tests/deploy/kubernetes_test.py" "$build/bin/troupe"
