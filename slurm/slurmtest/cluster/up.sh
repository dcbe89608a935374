#!/bin/bash
# Starts a private Slurm cluster on loopback, as root. usage: up.sh DIR
# All state, logs, sockets and pid files live in DIR (made if missing). Does
# nothing when the cluster is up; starts what is missing otherwise. Prints the
# line "export SLURM_CONF=...": clients need no more than that.
# shellcheck disable=SC2034 # fill reads the variables by name
# Knobs (environment): NODES CPUS MEM GPUS ACCT(0|1) ENFORCE MAXARRAY MAXJOBS
#   SCHED BASEPORT KILLWAIT SLURMDTIMEOUT MINJOBAGE CREDEXPIRE NODENS(0|1)
#   PROCTRACK EXTRA(lines added to slurm.conf)
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DIR=${1:?usage: up.sh DIR}
mkdir -p "$DIR"; DIR=$(cd "$DIR" && pwd)
exec 9>"$DIR/lock"; flock 9 # one up.sh at a time; the daemons are started with 9 closed
NODES=${NODES:-4} CPUS=${CPUS:-8} MEM=${MEM:-16000} GPUS=${GPUS:-8} ACCT=${ACCT:-1}
ENFORCE=${ENFORCE:-} MAXARRAY=${MAXARRAY:-1001} MAXJOBS=${MAXJOBS:-20000}
SCHED=${SCHED:-batch_sched_delay=0,sched_min_interval=50000,sched_interval=5,bf_interval=2,default_queue_depth=1000}
KILLWAIT=${KILLWAIT:-5} SLURMDTIMEOUT=${SLURMDTIMEOUT:-10} MINJOBAGE=${MINJOBAGE:-300}
CREDEXPIRE=${CREDEXPIRE:-10} MSGTIMEOUT=${MSGTIMEOUT:-20} NODENS=${NODENS:-1} PROCTRACK=${PROCTRACK:-}
CLUSTER=${CLUSTER:-cpbench} EXTRA=${EXTRA:-}
HOST=$(hostname -s)
PATH=$PATH:/usr/sbin:/sbin

case $(getent ahostsv4 "$HOST" | awk 'NR==1{print $1}') in
127.*) ;;
*) echo "up.sh: host name $HOST does not resolve to loopback; refusing" >&2; exit 1 ;;
esac
for p in slurmctld slurmd sbatch munged unshare ss; do
  command -v "$p" >/dev/null || { echo "up.sh: $p is not installed" >&2; exit 1; }
done

export SLURM_CONF=$DIR/etc/slurm.conf
# the pid in a file counts only while that process's environment names this cluster
alive() { [ -s "$1" ] && tr '\0' '\n' 2>/dev/null <"/proc/$(cat "$1")/environ" | grep -qxF "SLURM_CONF=$SLURM_CONF"; }
ready() { [ "$(sinfo -h -p gpu -t idle,mix,alloc -o %D | awk '{n+=$1} END {print n+0}')" = "$NODES" ]; }
if alive "$DIR/run/slurmctld.pid" && ready 2>/dev/null; then
  echo "export SLURM_CONF=$SLURM_CONF"; exit 0
fi

umask 022
chmod 755 "$DIR"
mkdir -p "$DIR"/{etc,run,log,state,spool,dev,cg/freezer}

# One block of ports per cluster, kept in DIR so that a restart uses the same.
if [ -s "$DIR/port" ]; then BASEPORT=$(cat "$DIR/port"); else
  BASEPORT=${BASEPORT:-}
  for _ in $(seq 50); do
    [ -z "$BASEPORT" ] || break
    b=$((17000 + (RANDOM % 60) * 200))
    [ -n "$(ss -Htln "sport >= :$b and sport < :$((b + 200))")" ] || BASEPORT=$b
  done
  [ -n "$BASEPORT" ] || { echo "up.sh: no free ports" >&2; exit 1; }
  echo "$BASEPORT" >"$DIR/port"
fi
[ -s "$DIR/id" ] || echo "slurm-$BASEPORT-$$" >"$DIR/id"
CTLD_PORT=$BASEPORT DBD_PORT=$((BASEPORT + 1)) SQL_PORT=$((BASEPORT + 2))
SLURMD_PORTS=$((BASEPORT + 10))-$((BASEPORT + 9 + NODES))
SRUN_PORTS=$((BASEPORT + 100))-$((BASEPORT + 199))

# NODENS=1: each node in UTS, mount and pid namespaces of its own: a job sees its
# node's name as host name and can resolve it, and one kill takes a whole node
# down. NODENS=0 (or no unshare allowed): the nodes differ in their ports only.
# All nodes have the address 127.0.0.1: with one each (127.0.1.K) srun hangs, as
# slurmd answers to the source address that the kernel chose, 127.0.0.1.
if [ "$NODENS" = 1 ] && unshare --uts --mount --pid --fork --kill-child --mount-proc true 2>/dev/null; then
  : >"$DIR/run/nodens"
  NODEADDR="NodeAddr=127.0.0.1 Port=$SLURMD_PORTS"
else
  rm -f "$DIR/run/nodens"
  NODEADDR="NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$SLURMD_PORTS"
fi
{ cat /etc/hosts; for ((i = 1; i <= NODES; i++)); do echo "127.0.0.1 n$i"; done; } >"$DIR/etc/hosts"

# The freezer of cgroup v1 ends all of a job's processes with the job, as on a real
# cluster; without it (cgroup v2 alone) those that left the process tree live on.
if [ -z "$PROCTRACK" ]; then
  PROCTRACK=proctrack/linuxproc
  if [ -e "$DIR/run/nodens" ] && mkdir -p "/sys/fs/cgroup/freezer/$(cat "$DIR/id")" 2>/dev/null &&
    [ -e "/sys/fs/cgroup/freezer/$(cat "$DIR/id")/cgroup.procs" ]; then
    PROCTRACK=proctrack/cgroup
  fi
fi
if [ "$PROCTRACK" = proctrack/cgroup ]; then
  printf 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=%s\nCgroupAutomount=no\nConstrainCores=no\nConstrainDevices=no\nConstrainRAMSpace=no\nConstrainSwapSpace=no\n' \
    "$DIR/cg" >"$DIR/etc/cgroup.conf"
else
  rm -f "$DIR/etc/cgroup.conf"
fi

# stand-ins for GPUs: nodes like /dev/null; a regular file works too, with an error line in slurmd's log
for ((i = 0; i < GPUS; i++)); do
  [ -e "$DIR/dev/gpu$i" ] || mknod "$DIR/dev/gpu$i" c 1 3 2>/dev/null || : >"$DIR/dev/gpu$i"
done

ACCOUNTING='AccountingStorageType=accounting_storage/none'
if [ "$ACCT" = 1 ]; then
  ACCOUNTING="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$DBD_PORT
AccountingStoragePass=$DIR/run/munge.sock
AccountingStoreFlags=job_comment,job_env,job_script
AccountingStorageTRES=gres/gpu${ENFORCE:+
AccountingStorageEnforce=$ENFORCE}"
fi
GRES=
[ "$GPUS" -eq 0 ] || GRES=Gres=gpu:h100:$GPUS
fill() {
  local t; t=$(cat "$1")
  t=${t//@ACCOUNTING@/$ACCOUNTING}
  for v in DIR HOST CLUSTER CTLD_PORT DBD_PORT SQL_PORT SRUN_PORTS NODES CPUS MEM GRES SCHED MAXARRAY MAXJOBS MINJOBAGE KILLWAIT SLURMDTIMEOUT MSGTIMEOUT CREDEXPIRE NODEADDR PROCTRACK; do
    t=${t//@$v@/${!v}}
  done
  t=${t//@GPULAST@/$((GPUS - 1))}
  printf '%s\n' "$t"
}
{ fill "$HERE/slurm.conf.in"; [ -z "$EXTRA" ] || printf '%s\n' "$EXTRA"; } >"$DIR/etc/slurm.conf"
if [ -n "$GRES" ]; then fill "$HERE/gres.conf.in"; else echo AutoDetect=off; fi >"$DIR/etc/gres.conf"
(umask 077; fill "$HERE/slurmdbd.conf.in" >"$DIR/etc/slurmdbd.conf")
cd "$DIR/log" # a core file of a daemon lands here

wait_for() { # what seconds command...
  local what=$1 n=$(($2 * 20)); shift 2
  while ! "$@" >/dev/null 2>&1; do
    n=$((n - 1)); [ $n -gt 0 ] || { echo "up.sh: $what did not come up; logs in $DIR/log" >&2; exit 1; }
    sleep 0.05
  done
}
start() { # name command... : in the background, its pid in run/NAME.pid
  local name=$1; shift
  alive "$DIR/run/$name.pid" && return 0
  setsid nohup "$@" >>"$DIR/log/$name.out" 2>&1 </dev/null 9>&- &
  echo $! >"$DIR/run/$name.pid"
}

# munge: a key and a socket of our own
[ -s "$DIR/etc/munge.key" ] || (umask 077; head -c 1024 /dev/urandom >"$DIR/etc/munge.key")
start munged munged -F --key-file="$DIR/etc/munge.key" --socket="$DIR/run/munge.sock" \
  --pid-file="$DIR/run/munged.own" --log-file="$DIR/log/munged.log" --seed-file="$DIR/run/munged.seed" --num-threads=4
wait_for munged 10 munge -n --socket="$DIR/run/munge.sock"

if [ "$ACCT" = 1 ]; then
  sql() { mariadb --no-defaults -uroot --socket="$DIR/run/mysql.sock" "$@"; }
  if [ ! -d "$DIR/mysql/mysql" ]; then
    mariadb-install-db --no-defaults --datadir="$DIR/mysql" --user=root --skip-test-db \
      --auth-root-authentication-method=normal >"$DIR/log/mariadb-install.log" 2>&1
  fi
  start mariadbd mariadbd --no-defaults --user=root --datadir="$DIR/mysql" --socket="$DIR/run/mysql.sock" \
    --bind-address=127.0.0.1 --port="$SQL_PORT" --pid-file="$DIR/run/mariadbd.own" \
    --innodb-buffer-pool-size=128M --innodb-log-file-size=32M --innodb-flush-log-at-trx-commit=0 \
    --innodb-lock-wait-timeout=900 --skip-log-bin --skip-name-resolve
  wait_for mariadbd 30 sql -e 'select 1'
  sql -e "create database if not exists slurm_acct; create user if not exists slurm@'127.0.0.1' identified by 'slurm'; grant all on slurm_acct.* to slurm@'127.0.0.1';"
  start slurmdbd slurmdbd -D
  wait_for slurmdbd 30 sacctmgr -n show cluster
  # the cluster must be in the database before slurmctld starts
  sacctmgr -n -P show cluster format=cluster | grep -qx "$CLUSTER" || sacctmgr -Q -i add cluster "$CLUSTER" >>"$DIR/log/sacctmgr.out"
fi

start slurmctld slurmctld -D
wait_for slurmctld 30 sh -c 'scontrol ping | grep -q "is UP"'
for ((i = 1; i <= NODES; i++)); do "$HERE/node.sh" "$DIR" start n$i 9>&-; done
wait_for slurmd 30 ready
echo "export SLURM_CONF=$SLURM_CONF"
