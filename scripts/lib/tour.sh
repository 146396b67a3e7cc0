# The tour of the demo: checks, a dry run through an approval and a retry, a picture, and the comparison of two versions.
# Sourced by scripts/demo --tour; stops with an error if anything behaves otherwise than it should.

# Commands are shown as a reader would type them, so they run in a folder where the paths are short.
FOLDER="$(mktemp -d)"
trap 'rm -rf "$FOLDER"' EXIT
ln -s "$ROOT/examples" "$FOLDER/examples"
cd "$FOLDER"
REFUND=examples/refund-with-approval.yaml

heading() {
  if [[ -t 1 ]]; then
    printf '\n\033[1m%s\033[0m\n' "$*"
  else
    printf '\n%s\n' "$*"
  fi
}

typed() {
  local word
  printf '$'
  for word in "$@"; do
    if [[ "$word" =~ ^[A-Za-z0-9_./:=-]+$ ]]; then printf ' %s' "$word"; else printf " '%s'" "$word"; fi
  done
  printf '\n'
}

# Shows a command, runs it, and insists on its exit code: 0 for success, 1 for a negative result.
show() {
  local expected="$1" code=0
  shift
  typed "$@"
  "$@" || code=$?
  ((code == expected)) || fail "'$1 $2' should have ended with $expected and ended with $code; the demo stops here."
}

heading "1. Every example is checked."
show 0 penstock validate --strict examples

heading "2. A mistake is found before anything runs."
sed 's/default: pay/default: pya/' "$REFUND" >mistake.yaml
show 1 penstock validate mistake.yaml

heading "3. A refund of 180 waits for a person."
show 1 penstock workflow simulate "$REFUND" --case 'large amounts wait for a support lead'

heading "4. It is approved; the first payment times out, the second succeeds."
show 0 penstock workflow simulate "$REFUND" --case 'an approved refund is paid, also when the first try times out'

heading "5. When a later booking fails, the earlier ones are undone."
show 1 penstock workflow simulate examples/saga-booking.yaml --case 'without a hotel the flight is cancelled again'

heading "6. The refund as a picture: Mermaid here, SVG with -o refund.svg."
show 0 penstock workflow draw "$REFUND" -o refund.mmd
sed '/classDef/,$d' refund.mmd

heading "7. A new version is compared with the old one."
sed 's/version: 1.4.0/version: 1.5.0/; s/exclusiveMinimum: 0/exclusiveMinimum: 0, maximum: 500/' "$REFUND" >next.yaml
show 1 penstock workflow diff "$REFUND" next.yaml

heading "Go on with examples/README.md and docs/guides/writing-workflows.md."
