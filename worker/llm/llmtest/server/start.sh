#!/bin/bash
# Runs the server that install.sh has installed, on loopback, until it gets SIGTERM.
# usage: start.sh DIR PORT [flags of vLLM]
# DIR (made if missing) takes server.log. Prints "ready http://127.0.0.1:PORT" when the server answers; before that it may
# take a minute. The process is the server itself: its exit status is the script's, and SIGTERM ends it and what it started.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: start.sh DIR PORT [flags of vLLM]" >&2; exit 2; }
ROOT=${XDG_CACHE_HOME:-$HOME/.cache}/cpbench/llm
DIR=$1 PORT=$2
shift 2
[ -s "$ROOT/model/config.json" ] || { echo "start.sh: nothing in $ROOT: run install.sh" >&2; exit 1; }
mkdir -p "$DIR"
DIR=$(cd "$DIR" && pwd)

# Another server on the port would be taken for this one.
"$ROOT/vllm/bin/python" -c 'import socket, sys; socket.create_server(("127.0.0.1", int(sys.argv[1])))' "$PORT" 2>/dev/null || {
  echo "start.sh: port $PORT of 127.0.0.1 cannot be listened on" >&2; exit 1; }

unset PYTHONDONTWRITEBYTECODE
# Nothing is looked up or reported outside, and nothing listens or is written elsewhere.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_HOST_IP=127.0.0.1
export HF_HOME=$ROOT/state VLLM_CACHE_ROOT=$ROOT/state VLLM_CONFIG_ROOT=$ROOT/state
# One thread, free to move: the model is too small to share out, and pinned threads of two servers would fight.
export OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind

# The announcement must not outlive the server: $$ is its pid after the exec.
"$ROOT/vllm/bin/python" - $$ "http://127.0.0.1:$PORT" <<'PY' &
import os, sys, time, urllib.error, urllib.request
pid, url = int(sys.argv[1]), sys.argv[2]
while os.getppid() == pid:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url + "/health", timeout=5):
            print("ready", url, flush=True)
            break
    except (urllib.error.URLError, OSError):
        time.sleep(0.3)
PY
# A module instead of the command `vllm`, which looks up its version under a name that vllm-cpu has not.
exec "$ROOT/vllm/bin/python" -m vllm.entrypoints.openai.api_server --model "$ROOT/model" --served-model-name tiny \
  --host 127.0.0.1 --port "$PORT" --max-model-len 4096 --kv-cache-memory-bytes 256M --enforce-eager \
  --enable-prompt-tokens-details --reasoning-parser qwen3 "$@" >"$DIR/server.log" 2>&1
