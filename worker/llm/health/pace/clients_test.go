package pace_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/health/pace"
)

// BenchmarkClients loads the same server, a process of its own, with our client and with vLLM's own benchmark client,
// each a process of its own as well. The load "start" is one frame, and shows what a client costs by itself; "paced" has
// a hundred frames a second and stream, "flood" as many as the server can write, each flushed.
//
//   - frames/s: all frames over the time from the first request until the client has made its numbers
//   - ttft-*-us: when the client saw the first frame, less when the server wrote it, by the one monotonic clock of the
//     kernel: what the client has added to a TTFT, however late the server was
//   - frame-*-us: the same of every frame
//   - cpu-s, rss-MB: of the client's whole process, by the kernel
func BenchmarkClients(b *testing.B) {
	for _, l := range []struct {
		name string
		job  job
	}{
		{"start", job{Streams: 1, Frames: 1}},
		{"paced", job{Streams: 64, Frames: 100, First: 500 * time.Millisecond, Every: 10 * time.Millisecond}},
		{"flood", job{Streams: 64, Frames: 1500}},
	} {
		for _, c := range []struct {
			name string
			run  func(b *testing.B, j job) (loaded, *os.ProcessState)
		}{{"cpbench", ours}, {"vllm", theirs}} {
			b.Run(fmt.Sprintf("load=%s/client=%s", l.name, c.name), func(b *testing.B) {
				for range b.N {
					report(b, l.job, c.run)
				}
			})
		}
	}
}

func report(b *testing.B, j job, run func(*testing.B, job) (loaded, *os.ProcessState)) {
	b.Helper()
	server := self(b, "server", j)
	input, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		input.Close() // which ends it
		_ = server.Wait()
	}()
	url, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	j.URL = strings.TrimSpace(url)
	out, state := run(b, j)
	if len(out.Texts) != j.Streams {
		b.Fatalf("%d of %d answers: %q", len(out.Texts), j.Streams, out.Errors)
	}
	var firsts, late []float64 // microseconds
	for i, text := range out.Texts {
		stamps := pace.Texts(text)
		if len(stamps) != j.Frames || len(out.Gaps[i]) < j.Frames-1 {
			b.Fatalf("stream %d: %d of %d frames, %d gaps: %q", i, len(stamps), j.Frames, len(out.Gaps[i]), out.Errors)
		}
		at := out.Starts[i] + out.TTFTs[i]
		for k, one := range stamps {
			if k > 0 {
				at += out.Gaps[i][k-1]
			}
			late = append(late, (at-float64(one.Written)/1e9)*1e6)
		}
		firsts = append(firsts, late[len(late)-j.Frames])
	}
	first, all := account.NewStat(firsts), account.NewStat(late)
	b.ReportMetric(*first.P50, "ttft-p50-us")
	b.ReportMetric(*first.Max, "ttft-max-us")
	if all.P99 != nil {
		b.ReportMetric(*all.P50, "frame-p50-us")
		b.ReportMetric(*all.P99, "frame-p99-us")
	}
	b.ReportMetric(float64(j.Streams*j.Frames)/out.Seconds, "frames/s")
	b.ReportMetric((state.UserTime() + state.SystemTime()).Seconds(), "cpu-s")
	b.ReportMetric(float64(state.SysUsage().(*syscall.Rusage).Maxrss)/1e3, "rss-MB")
}

// self is this program in another role.
func self(b *testing.B, role string, j job) *exec.Cmd {
	b.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, jobVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd
}

func ours(b *testing.B, j job) (out loaded, state *os.ProcessState) {
	b.Helper()
	cmd := self(b, "client", j)
	text, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		b.Fatal(err)
	}
	return out, cmd.ProcessState
}

// vllmClient is what the command `vllm bench serve` calls. The command itself looks for its version under a name that
// the package for CPUs has not, and its prompts are read by pandas, which a server does not need and so is not there.
const vllmClient = `import argparse, json
from vllm.benchmarks.datasets import CustomDataset
from vllm.benchmarks.serve import add_cli_args, main

def load_data(self):
    with open(self.dataset_path) as lines:
        self.data = [json.loads(line) for line in lines]

CustomDataset.load_data = load_data
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
`

func theirs(b *testing.B, j job) (out loaded, state *os.ProcessState) {
	b.Helper()
	cache, err := os.UserCacheDir()
	root := filepath.Join(cache, "cpbench", "llm")
	python := filepath.Join(root, "vllm", "bin", "python")
	if err == nil {
		_, err = os.Stat(python)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "vLLM's client is left out (`make llm-server` installs it): %v\n", err) // b.Skip says it with -v alone
		b.SkipNow()
	}
	dir := b.TempDir()
	var prompts bytes.Buffer
	for i := range j.Streams {
		line, err := json.Marshal(map[string]any{"prompt": prompt(i), "output_tokens": 1})
		if err != nil {
			b.Fatal(err)
		}
		prompts.Write(append(line, '\n'))
	}
	data := filepath.Join(dir, "prompts.jsonl")
	if err := os.WriteFile(data, prompts.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), python, "-c", vllmClient, "--backend", "openai-chat", "--endpoint", "/v1/chat/completions",
		"--base-url", j.URL, "--model", "pace", "--skip-tokenizer-init", "--dataset-name", "custom", "--dataset-path", data,
		"--disable-shuffle", "--num-prompts", fmt.Sprint(j.Streams), "--max-concurrency", fmt.Sprint(j.Streams),
		"--ready-check-timeout-sec", "0", "--disable-tqdm", "--save-result", "--save-detailed", "--result-dir", dir, "--result-filename", "out.json")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PYTHONDONTWRITEBYTECODE=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	home := filepath.Join(root, "state")
	cmd.Env = append(cmd.Env, "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "HF_HOME="+home, "VLLM_CACHE_ROOT="+home, "VLLM_CONFIG_ROOT="+home)
	if said, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("vLLM's client: %v: %s", err, said[max(0, len(said)-2000):])
	}
	text, err := os.ReadFile(filepath.Join(dir, "out.json"))
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		b.Fatal(err)
	}
	return out, cmd.ProcessState
}
