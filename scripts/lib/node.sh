# Shared by scripts and tests that need programs for Node.js: `.node` with what requirements/node pins, and a Node.js that
# is new enough. Source it after environment.sh, then call `use_node`. Nothing happens when all of it is there already.

NODE_FOLDER="$ROOT/.node"
NODE_PINS="$ROOT/requirements/node"
NODE_STAMP="$NODE_FOLDER/.penstock-stamp"
NODE_MAJOR_MIN=22

node_fingerprint() {
  cat "$NODE_PINS/package.json" "$NODE_PINS/package-lock.json" "${BASH_SOURCE[0]}" | cksum
}

ensure_node() {
  local wanted
  wanted="$(node_fingerprint)"
  [[ "$(cat "$NODE_STAMP" 2>/dev/null)" == "$wanted" ]] && return
  command -v npm >/dev/null || fail "'npm' was not found. Install Node.js with npm; the version that is needed comes with it from the package index."
  say "installing programs for Node.js into .node"
  mkdir -p "$NODE_FOLDER"
  cp "$NODE_PINS/package.json" "$NODE_PINS/package-lock.json" "$NODE_FOLDER/"
  rm -rf "$NODE_FOLDER/node_modules"
  # As the lock says. Not `npm ci`, which refuses a lock made where the index lacks a package for some other system.
  npm install --prefix "$NODE_FOLDER" --ignore-scripts --no-save --no-audit --no-fund --loglevel=error >&2
  printf '%s\n' "$wanted" >"$NODE_STAMP"
}

# The pinned one where there is one for this machine, else the one at hand.
choose_node() {
  local candidate
  for candidate in "$NODE_FOLDER"/node_modules/node-*/bin/node "$(command -v node || true)"; do
    [[ -n "$candidate" ]] || continue
    "$candidate" -e "process.exit(Number(process.versions.node.split('.')[0]) < $NODE_MAJOR_MIN ? 1 : 0)" 2>/dev/null || continue
    printf '%s' "$candidate"
    return
  done
  fail "Node.js $NODE_MAJOR_MIN or newer is needed, and there is none for this kind of machine in requirements/node: install one."
}

# Sets NODE (a command) and NODE_MODULES (a folder).
use_node() {
  if command -v flock >/dev/null; then
    exec 8>"$ROOT/.environment.lock"
    flock 8
    ensure_node
    exec 8>&-
  else
    ensure_node
  fi
  NODE="$(choose_node)"
  NODE_MODULES="$NODE_FOLDER/node_modules"
  export NODE NODE_MODULES
}
