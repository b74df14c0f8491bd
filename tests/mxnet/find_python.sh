# SPDX-License-Identifier: Apache-2.0
# Sets `python` to one that has MXNet 1.9.1; sourced with `build` set. MXNET_PYTHON names it; without that
# variable the first test makes an environment in the build folder (PyPI). Where that fails, the test is left
# out (77) and says why.
python=${MXNET_PYTHON:-$build/mxnet-env/bin/python}
mxnet_version() { "$python" -c 'import mxnet; print(mxnet.__version__)' 2>/dev/null; }
if [ -z "${MXNET_PYTHON:-}" ] && ! mxnet_version >/dev/null; then
  rm -rf "$build/mxnet-env"
  python3 -m venv "$build/mxnet-env"
  if ! "$build/mxnet-env/bin/pip" install -q mxnet==1.9.1 numpy==1.23.5; then
    echo "left out: MXNET_PYTHON is not set, and mxnet 1.9.1 cannot be installed from PyPI"
    exit 77
  fi
fi
version=$(mxnet_version || true)
[ "$version" = 1.9.1 ] || { echo "MXNet is '$version', 1.9.1 is wanted: $python" >&2; exit 1; }
