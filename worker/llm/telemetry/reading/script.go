package reading

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A sample of a host is one run of a POSIX shell that reads its script from its input: what a login shell makes of a long
// argument is not our concern then. The script only reads. It marks its parts by lines of its own, and has read itself
// whole before it begins, so that a script that was cut off on its way does nothing.

// mark begins the lines that separate the parts of an answer.
const mark = "@@cpbench "

const scriptHead = `{
LC_ALL=C; export LC_ALL
PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin
m() { printf '\n@@cpbench %s\n' "$*"; }
e() { m "status $?"; }
m begin
`

const scriptHost = `m page; getconf PAGESIZE
m boot; cat /proc/sys/kernel/random/boot_id
m load; cat /proc/loadavg
m meminfo; cat /proc/meminfo; e
p() { m "process $1 $2"; cat "/proc/$1/stat" 2>/dev/null; }
n() {
  if [ ! -d "/sys/class/net/$1/statistics" ]; then m "nonic $1"; return; fi
  m "nic $1"
  for f in "/sys/class/net/$1/statistics"/*; do
    read -r v <"$f" && printf '%s %s\n' "${f##*/}" "$v"
  done
  if command -v ethtool >/dev/null 2>&1; then m "ethtool $1"; ethtool -S "$1" 2>&1; e; fi
}
`

const scriptTail = `m end
}
`

// gpuFields are what nvidia-smi is asked for; every version knows them. The name comes last, as it may hold a comma.
var gpuFields = []string{
	"uuid", "power.draw", "temperature.gpu", "utilization.gpu", "utilization.memory", "memory.used", "memory.total", "clocks.sm", "name",
}

// listScript asks for the UUIDs of all GPUs.
func listScript() string {
	return scriptHead + "m gpulist; nvidia-smi --query-gpu=uuid --format=csv,noheader 2>&1; e\n" + scriptTail
}

// choice says which GPUs a script reads.
type choice struct {
	all   bool     // those that are there, if any
	uuids []string // these
}

// script reads a host once.
func script(h Host, gpus choice) (string, error) {
	var b strings.Builder
	b.WriteString(scriptHead + scriptHost)
	query := "--query-gpu=" + strings.Join(gpuFields, ",") + " --format=csv,noheader,nounits 2>&1; e"
	switch {
	case gpus.all:
		b.WriteString("if command -v nvidia-smi >/dev/null 2>&1; then m gpu; nvidia-smi " + query + "; else m nogpu; fi\n")
	case len(gpus.uuids) > 0:
		ids, err := syntax.Quote(strings.Join(gpus.uuids, ","), syntax.LangPOSIX)
		if err != nil {
			return "", err
		}
		b.WriteString("m gpu; nvidia-smi -i " + ids + " " + query + "\n")
	}
	if err := writeProcesses(&b, h.Processes); err != nil {
		return "", err
	}
	for _, nic := range h.NICs {
		word, err := syntax.Quote(nic, syntax.LangPOSIX)
		if err != nil {
			return "", err
		}
		b.WriteString("n " + word + "\n")
	}
	return b.String() + scriptTail, nil
}

// writeProcesses looks for processes: by their names in one grep, by what they execute in one ls, since a program for
// each process would take seconds on a busy host.
func writeProcesses(b *strings.Builder, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var words []string
	for _, name := range names {
		word, err := syntax.Quote(name, syntax.LangPOSIX)
		if err != nil {
			return err
		}
		words = append(words, word)
	}
	b.WriteString("grep -lxF -e " + strings.Join(words, " -e ") + ` /proc/[0-9]*/comm 2>/dev/null | while IFS= read -r f; do
  f=${f#/proc/}; f=${f%/comm}; p "$f" "$(readlink "/proc/$f/exe" 2>/dev/null)"
done
ls -l /proc/[0-9]*/exe 2>/dev/null | while IFS= read -r l; do
  x=${l##* -> }; b=${x%' (deleted)'}
  case ${b##*/} in
  ` + strings.Join(words, "|") + `) l=${l#*/proc/}; p "${l%%/*}" "$x" ;;
  esac
done
`)
	return nil
}
