#!/bin/sh
# Installs what the tests use besides Python packages, where it is missing: with apt-get, as root. `system.sh sudo` asks
# sudo where it is not root: `make system` does so, `make test` does not, for tests change a machine only as its root.
missing=""
want() { # a package, and the programs of which one is enough
  package="$1"
  shift
  for program; do
    if command -v "$program" >/dev/null; then return; fi
  done
  missing="$missing $package"
}
want chromium chromium chromium-browser google-chrome
want firefox-esr firefox-esr firefox
want git git
want openssl openssl
want nodejs node
want npm npm
want bubblewrap bwrap
want socat socat
want ripgrep rg
if [ -z "$missing" ]; then
  exit 0
fi
become="env"
if [ "$(id -u)" != 0 ]; then
  become="$1"
fi
if [ -z "$become" ] || ! command -v "$become" >/dev/null || ! command -v apt-get >/dev/null; then
  echo "not installed:$missing (make system installs it where there is apt-get; elsewhere your package manager does)"
  exit 1
fi
"$become" apt-get update -qq || exit
# A package that there is not, such as firefox-esr on Ubuntu, would keep apt-get from installing the others.
there=""
unknown=""
for package in $missing; do
  if apt-cache show "$package" >/dev/null 2>&1; then
    there="$there $package"
  else
    unknown="$unknown $package"
  fi
done
if [ -n "$unknown" ]; then
  echo "not installed:$unknown (apt-get has no such package here; the tests that need it are skipped)"
fi
if [ -n "$there" ]; then
  "$become" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y $there
fi
