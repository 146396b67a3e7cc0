# Shared by every script: the project root, and a virtual environment that matches the pinned requirements.
# Source it, then call `use_environment`. Nothing happens when the environment is already up to date.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
VENV="$ROOT/.venv"
STAMP="$VENV/.penstock-stamp"
BIRTHPLACE="$VENV/.penstock-root"
PYTHON_FLOOR_MINOR=11

say() { printf '==> %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# What the environment was built from. A change of any of these rebuilds it.
fingerprint() {
  cat "$ROOT/pyproject.toml" "$ROOT"/requirements/*.txt "${BASH_SOURCE[0]}" | cksum
}

choose_python() {
  local python="${PENSTOCK_PYTHON:-python3}"
  command -v "$python" >/dev/null || fail "'$python' was not found. Install Python 3.$PYTHON_FLOOR_MINOR or newer, or set PENSTOCK_PYTHON to one."
  "$python" -c "import sys; sys.exit(sys.version_info < (3, $PYTHON_FLOOR_MINOR))" ||
    fail "Penstock needs Python 3.$PYTHON_FLOOR_MINOR or newer, and '$python' is $("$python" --version 2>&1). Set PENSTOCK_PYTHON to a newer one."
  printf '%s' "$python"
}

# The commands in an environment carry its place in their first line, so one that was copied or moved is built anew.
environment_is_sound() {
  [[ "$(cat "$BIRTHPLACE" 2>/dev/null)" == "$ROOT" ]] && "$VENV/bin/python" -c '' 2>/dev/null
}

# uv comes from the package index like everything else, with the version and hashes that are pinned for it.
install_uv() {
  local pin="$VENV/uv-pin.txt"
  awk '/^uv==/ { inside = 1 } inside { print } inside && !/\\$/ { exit }' "$ROOT/requirements/dev.txt" >"$pin"
  grep -qxF "$(awk '{ print $1; exit }' "$pin")" <("$VENV/bin/python" -m pip list --format freeze 2>/dev/null) ||
    "$VENV/bin/python" -m pip install -qq --no-deps --require-hashes -r "$pin"
}

build_environment() {
  local python wanted="$1"
  if ! environment_is_sound; then
    python="$(choose_python)"
    say "creating .venv with $("$python" --version)"
    "$python" -m venv --clear "$VENV"
    printf '%s\n' "$ROOT" >"$BIRTHPLACE"
  fi
  say "installing the pinned requirements"
  install_uv
  export VIRTUAL_ENV="$VENV"
  "$VENV/bin/uv" pip sync -q --require-hashes "$ROOT/requirements/dev.txt"
  "$VENV/bin/uv" pip install -q --no-deps --no-build-isolation -e "$ROOT"
  printf '%s\n' "$wanted" >"$STAMP"
}

ensure_environment() {
  local wanted
  wanted="$(fingerprint)"
  environment_is_sound && [[ "$(cat "$STAMP" 2>/dev/null)" == "$wanted" ]] && return
  build_environment "$wanted"
}

use_environment() {
  cd "$ROOT"
  if command -v flock >/dev/null; then
    # Two scripts started together must not build the same environment twice.
    exec 9>"$ROOT/.environment.lock"
    flock 9
    ensure_environment
    exec 9>&-
  else
    ensure_environment
  fi
  export VIRTUAL_ENV="$VENV" PATH="$VENV/bin:$PATH"
  # Where compiled modules are not kept, every process of a test compiles a thousand of them again.
  unset PYTHONDONTWRITEBYTECODE
}
