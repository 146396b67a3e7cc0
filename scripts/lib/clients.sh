# Shared by scripts that run clients which others wrote: `.clients` with one environment of Python for each file of
# requirements/clients. Source it after environment.sh. Nothing happens for those that are there already.

CLIENTS_FOLDER="$ROOT/.clients"
CLIENTS_PINS="$ROOT/requirements/clients"

ensure_client() {
  local pins="$1" name folder wanted
  name="$(basename "$pins" .txt)"
  folder="$CLIENTS_FOLDER/$name"
  wanted="$(cat "$pins" "${BASH_SOURCE[0]}" | cksum)"
  [[ "$(cat "$folder/.penstock-stamp" 2>/dev/null)" == "$wanted" ]] && return
  say "installing $name into .clients"
  uv venv -q --clear --python "$VENV/bin/python" "$folder"
  VIRTUAL_ENV="$folder" uv pip sync -q --require-hashes "$pins"
  printf '%s\n' "$wanted" >"$folder/.penstock-stamp"
}

use_clients() {
  local pins
  for pins in "$CLIENTS_PINS"/*.txt; do
    ensure_client "$pins"
  done
}
