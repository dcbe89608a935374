#!/bin/bash
# Stops what up.sh started in DIR, by pid. usage: down.sh DIR [--rm]
set -uo pipefail
[ -d "${1:?usage: down.sh DIR [--rm]}" ] || exit 0
DIR=$(cd "$1" && pwd) || exit 1
export SLURM_CONF=$DIR/etc/slurm.conf
exec 9>"$DIR/lock"; flock -w 120 9 # an up.sh whose caller died is still at work: let it finish

# A pid counts as ours only while its environment names this cluster's
# slurm.conf: a stale pid file never hits a stranger. A zombie (a pid 1 that
# reaps late) counts as gone: its environment reads empty.
ours() { tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | grep -qxF "SLURM_CONF=$SLURM_CONF"; }
pids() { local n; for n in "$@"; do cat "$DIR/run/$n.pid" 2>/dev/null; done; }
stop() { # signal names...: signal to all, up to 10 s for all to end, then KILL
  local sig=$1 p left n; shift
  for p in $(pids "$@"); do ours "$p" && kill -"$sig" "$p"; done
  for _ in $(seq 200); do
    left=
    for p in $(pids "$@"); do ours "$p" && left=1; done
    [ -n "$left" ] || break
    sleep 0.05
  done
  for n in "$@"; do
    for p in $(pids "$n"); do ours "$p" && { echo "down.sh: $n ($p) ignored $sig; killing" >&2; kill -KILL "$p"; }; done
    rm -f "$DIR/run/$n.pid"
  done
}
nodes=(); for f in "$DIR"/run/node.*.pid; do [ -e "$f" ] && nodes+=("$(basename "$f" .pid)"); done
if [ -e "$DIR/run/nodens" ]; then
  # Killing a node's namespace ends its slurmd and all of its jobs.
  stop TERM slurmctld
  [ ${#nodes[@]} = 0 ] || stop KILL "${nodes[@]}"
else
  # End the jobs first: their slurmstepd processes outlive slurmd.
  c=$(pids slurmctld)
  if [ -n "$c" ] && ours "$c"; then
    timeout 10 scancel --state=PENDING --user=root 2>/dev/null
    timeout 10 scancel --signal=KILL --full --user=root 2>/dev/null
    timeout 10 scancel --user=root 2>/dev/null
    for _ in $(seq 100); do [ -z "$(timeout 5 squeue -h -t R,CG,S,CF 2>/dev/null | head -1)" ] && break; sleep 0.1; done
  fi
  stop TERM slurmctld ${nodes[@]+"${nodes[@]}"}
  for p in /proc/[0-9]*; do
    [ "$(cat "$p/comm" 2>/dev/null)" = slurmstepd ] && ours "${p#/proc/}" && kill -KILL "${p#/proc/}"
  done
fi
stop TERM slurmdbd
stop TERM mariadbd munged
if [ -s "$DIR/id" ]; then
  for _ in $(seq 40); do
    [ -d "/sys/fs/cgroup/freezer/$(cat "$DIR/id")" ] || break
    find "/sys/fs/cgroup/freezer/$(cat "$DIR/id")" -depth -type d -exec rmdir {} + 2>/dev/null && break
    sleep 0.05
  done
fi
[ "${2:-}" != --rm ] || rm -rf "$DIR"
exit 0
