#!/bin/bash
# Installs what the tests need beside Go on Debian 12, as root: a Slurm for the private test cluster,
# shellcheck, and an sshd that tests start on the loopback interface. Quick when all is there.
# usage: install.sh [accounting | torch]
set -euo pipefail
pkgs=(slurm-wlm slurm-client munge iproute2 util-linux shellcheck openssh-server openssh-client)
case ${1:-} in
'') ;;
torch) pkgs+=(python3-torch) ;;
accounting) pkgs+=(slurmdbd slurm-wlm-mysql-plugin mariadb-server mariadb-client) ;;
*) echo "usage: install.sh [accounting | torch]" >&2; exit 2 ;;
esac
# PyTorch is large, so only `install.sh torch` and `make torch-latest` bring it.
installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
if [ "${1:-}" != torch ] && ! installed python3-torch; then
  echo "install.sh: no python3-torch: the suites on PyTorch will be left out; make torch-test brings it"
fi
if [ ! -x "${XDG_CACHE_HOME:-$HOME/.cache}/cpbench/torch/bin/torchrun" ]; then
  echo "install.sh: no current PyTorch: the suites on torchrun will be left out; make torch-latest-test brings it"
fi
missing=()
for p in "${pkgs[@]}"; do
  installed "$p" || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "install.sh: not root on Debian, so these stay missing: ${missing[*]}; the suites that need them will be left out"
  exit 0
fi
echo "install.sh: installing ${missing[*]}"
# No daemon of the packages' own may start: the tests start private ones.
made=
if [ ! -e /usr/sbin/policy-rc.d ]; then
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
  made=1
fi
trap '[ -z "$made" ] || rm -f /usr/sbin/policy-rc.d' EXIT
export DEBIAN_FRONTEND=noninteractive
# The lock's time-out covers another apt at work on the same machine.
apt=(apt-get -q -o DPkg::Lock::Timeout=600)
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null
