package reading

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cpbench/worker/llm/telemetry/sshtest"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"
)

// smi is an nvidia-smi of a machine with two GPUs that share its memory, as they answer: no memory of their own.
const smi = `#!/bin/sh
only=
if [ "$1" = -i ]; then only=$2; shift 2; fi
echo "$only|$*" >>"$0.asked"
for id in GPU-aa11 GPU-bb22; do
  case ",$only," in
  ,, | *,$id,*)
    case $1 in
    --query-gpu=uuid) echo "$id" ;;
    *) echo "$id, 41.52, 43, 96, 0, [N/A], [N/A], 2405, NVIDIA GB10" ;;
    esac ;;
  esac
done
`

// host runs scripts on this machine, with programs of the test's own before those of the machine.
type host struct {
	*testing.T
	bin  string
	path string // behind it
}

func newHost(t *testing.T) *host {
	t.Helper()
	return &host{t, filepath.Join(t.TempDir(), "it's here"), "/usr/bin:/bin"}
}

// program writes a program.
func (h *host) program(name, text string) string {
	h.Helper()
	if err := os.MkdirAll(h.bin, 0o755); err != nil {
		h.Fatal(err)
	}
	path := filepath.Join(h.bin, name)
	sshtest.Program(h, path, text)
	return path
}

// bare is a PATH with what the script needs, and nothing else that the machine may have.
func (h *host) bare() string {
	h.Helper()
	dir := h.TempDir()
	for _, name := range []string{"cat", "getconf", "grep", "ls", "readlink"} {
		path, err := exec.LookPath(name)
		if err != nil {
			h.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			h.Fatal(err)
		}
	}
	return dir
}

func (h *host) run(script string) string {
	h.Helper()
	cmd := exec.CommandContext(h.Context(), "/bin/sh", "-s")
	cmd.Dir, cmd.Env, cmd.Stdin = h.TempDir(), []string{"PATH=" + h.bin + ":" + h.path}, strings.NewReader(script)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		h.Fatalf("%v: %s\n%s", err, &errs, script)
	}
	return out.String()
}

func mustScript(t *testing.T, h Host, gpus choice) string {
	t.Helper()
	text, err := script(h, gpus)
	if err != nil {
		t.Fatal(err)
	}
	for _, variant := range []syntax.LangVariant{syntax.LangPOSIX, syntax.LangBash} {
		if _, err := syntax.NewParser(syntax.Variant(variant)).Parse(strings.NewReader(text), ""); err != nil {
			t.Fatalf("%v: %v\n%s", variant, err, text)
		}
	}
	return text
}

// The script reads this machine: what it says is taken apart again.
func TestScriptReads(t *testing.T) {
	t.Parallel()
	m := newHost(t)
	m.program("nvidia-smi", smi)
	h := Host{NICs: []string{"lo", "no such"}}
	a := parse(m.run(mustScript(t, h, choice{all: true})), h, choice{all: true})
	if d := cmp.Diff([]string{`there is no network interface "no such"`}, a.errors); d != "" {
		t.Error(d)
	}
	if a.Memory["MemTotal"] < 1<<20 || a.Boot == "" || len(a.Load) != 3 || len(a.NICs) != 1 || a.Processes == nil {
		t.Errorf("%+v", a.Reading)
	}
	if _, ok := a.NICs[0].Kernel["rx_bytes"]; !ok {
		t.Errorf("%+v", a.NICs)
	}
	gpu := GPU{Name: "NVIDIA GB10", Power: f(41.52), Temperature: f(43), Utilization: f(0.96), MemoryUtilization: f(0), SMClock: f(2405e6)}
	both := []GPU{gpu, gpu}
	both[0].UUID, both[1].UUID = "GPU-aa11", "GPU-bb22"
	if d := cmp.Diff(both, a.GPUs); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	one := choice{uuids: []string{"GPU-bb22"}}
	a = parse(m.run(mustScript(t, Host{}, one)), Host{}, one)
	if d := cmp.Diff(both[1:], a.GPUs); d != "" || len(a.errors) > 0 {
		t.Errorf("%v (-want +got):\n%s", a.errors, d)
	}
	asked, err := os.ReadFile(filepath.Join(m.bin, "nvidia-smi.asked"))
	if err != nil || !strings.Contains(string(asked), "GPU-bb22|--query-gpu=uuid,power.draw,") || strings.Contains(string(asked), "-pm") {
		t.Errorf("%v: %s", err, asked)
	}
	uuids, err := listed(m.run(listScript()))
	if d := cmp.Diff([]string{"GPU-aa11", "GPU-bb22"}, uuids); d != "" || err != nil {
		t.Error(err, d)
	}
}

// Without nvidia-smi there are no GPUs, unless some were asked for.
func TestScriptWithoutGPUs(t *testing.T) {
	t.Parallel()
	m := newHost(t)
	m.path = m.bare()
	a := parse(m.run(mustScript(t, Host{}, choice{all: true})), Host{}, choice{all: true})
	if a.GPUs == nil || len(a.GPUs) != 0 || len(a.errors) > 0 {
		t.Errorf("%v %v", a.GPUs, a.errors)
	}
	if _, err := listed(m.run(listScript())); err == nil || !strings.Contains(err.Error(), "nvidia-smi: status 127") {
		t.Error(err)
	}
}

// Processes are found by their whole name and by the whole name of what they execute, and by nothing else.
func TestScriptProcesses(t *testing.T) {
	t.Parallel()
	m := newHost(t)
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	const long = "it's (a) $HOME `name` of more than 15 bytes" // of which comm keeps the first 15
	path := m.program(long, string(sleep))
	start := func() (pid int, end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, path, "300")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd.Process.Pid, func() { cancel(); _ = cmd.Wait() }
	}
	look := func(names ...string) []Process {
		h := Host{Processes: names}
		a := parse(m.run(mustScript(t, h, choice{all: true})), h, choice{all: true})
		if len(a.errors) > 0 {
			t.Error(a.errors)
		}
		return a.Processes
	}
	pid, end := start()
	for _, names := range [][]string{{long}, {long[:15]}, {"other", long[:15], long}} {
		got := look(names...)
		if len(got) != 1 || got[0].PID != pid || got[0].Executable != path || got[0].Name != long[:15] || got[0].RSS == 0 || got[0].Start == 0 {
			t.Errorf("%q: %+v", names, got)
		}
	}
	for _, name := range []string{long[:14], long[1:], "*", "its*", strings.ToUpper(long)} {
		if got := look(name); len(got) != 0 {
			t.Errorf("%q finds %+v", name, got)
		}
	}
	before := look(long)
	end()
	if got := look(long); len(got) != 0 {
		t.Errorf("after its end: %+v", got)
	}
	_, end = start()
	defer end()
	if after := look(long); len(after) != 1 || before[0].PID == after[0].PID && before[0].Start == after[0].Start {
		t.Errorf("a restart does not show: %+v, %+v", before, after)
	}
}

// Nothing that a spec names is understood by the shell, whatever it is.
func TestScriptQuotes(t *testing.T) {
	t.Parallel()
	m := newHost(t)
	m.program("nvidia-smi", smi)
	trap := filepath.Join(t.TempDir(), "trapped")
	for _, text := range []string{"$(touch " + trap + ")", "`touch " + trap + "`", "'; touch " + trap + "; '", "x) touch " + trap + " ;;\n", "\n" + mark + "end", "-v", "é"} {
		h := Host{NICs: []string{text}, Processes: []string{text}}
		program, err := script(h, choice{uuids: []string{text}})
		if err != nil {
			continue // what cannot be quoted is refused
		}
		a := parse(m.run(program), h, choice{uuids: []string{text}})
		if _, err := os.Stat(trap); err == nil {
			t.Fatalf("%q was run", text)
		}
		if len(a.Processes) > 0 || !slices.Contains(a.errors, "nvidia-smi says nothing of GPU "+text) {
			t.Errorf("%q: %+v %q", text, a.Processes, a.errors)
		}
	}
}

// A script that was cut off on its way does nothing at all.
func TestScriptCut(t *testing.T) {
	t.Parallel()
	m := newHost(t)
	text := mustScript(t, Host{NICs: []string{"lo"}}, choice{all: true})
	for _, n := range []int{len(scriptHead), len(text) / 2, len(text) - 3} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-s")
		cmd.Env, cmd.Stdin = []string{"PATH=" + m.bin + ":/usr/bin:/bin"}, strings.NewReader(text[:n])
		if out, _ := cmd.Output(); len(out) > 0 {
			t.Errorf("%d bytes of %d print %q", n, len(text), out)
		}
	}
}
