#!/bin/sh
# Installs what the tests use besides Python packages, where it is missing: with apt-get, as root. `system.sh sudo` asks
# sudo where it is not root: `make system` does so, `make test` does not, for tests change a machine only as its root.
missing=""
for pair in chromium:chromium firefox-esr:firefox-esr git:git openssl:openssl node:nodejs npm:npm; do
  command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done
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
"$become" apt-get update -qq && "$become" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y $missing
