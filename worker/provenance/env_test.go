package provenance

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// No secret of the environment, of the sweep or of a program reaches a file.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const s = "s3cr3t-value"
	tk := task(t, "resources:", "env: {NCCL_SECRET: "+s+", UCX_URL: \"https://me:"+s+"@host/x\"}\nresources:")
	tk.Job = "1"
	tk.Environ = []string{
		"NCCL_API_KEY=" + s, "SLURM_JWT=" + s, "CUDA_TOKEN=" + s, "TORCH_PASSWORD=" + s, "HSA_X=key=" + s, "XLA_FLAGS=--x=1 --auth_token=" + s,
		"UCX_HEADER=Authorization: Bearer " + s,
		"NCCL_TOKENS=" + s, "UCX_TLS=http://user:" + s + "@proxy:1/ rc", "OMP_X={\"password\": \"" + s + "\"}", "HF_TOKEN=" + s, "NCCL_DEBUG=WARN",
	}
	r, facts := settle(t, tk, map[string]string{
		"setting NCCL_TOKEN": s, "setting api_key": s, "setting url": "ftp://x:" + s + "@h", "setting hub": "hf_" + strings.Repeat("a", 20), "setting tokens": "4096",
	})
	text, err := os.ReadFile(tk.File)
	if err != nil {
		t.Fatal(err)
	}
	line, err := result.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{s, "hf_aaa"} {
		if strings.Contains(string(text), secret) || strings.Contains(string(line), secret) {
			t.Errorf("a secret was told:\n%s\n%s", text, line)
		}
	}
	for key, want := range map[string]string{
		"env NCCL_API_KEY": Hidden, "env NCCL_DEBUG": "WARN", "setting tokens": "4096", "env UCX_TLS": "http://" + Hidden + "@proxy:1/ rc",
		"env XLA_FLAGS": "--x=1 --auth_token=" + Hidden, "env HF_TOKEN": "",
	} {
		if facts[key] != want {
			t.Errorf("%s = %q, want %q", key, facts[key], want)
		}
	}
}

func TestRedactArguments(t *testing.T) {
	t.Parallel()
	tests := []struct{ args, want string }{
		{"run --tokens 4096 --max-tokens 5", "run --tokens 4096 --max-tokens 5"},
		{"run --api-key abc", "run --api-key (hidden)"},
		{"run --api-key=abc tokens=4096 password=x", "run --api-key=(hidden) tokens=4096 password=(hidden)"},
		{"git https://me:pw@host/x?a=1", "git https://(hidden)@host/x?a=1"},
		{"curl -H X-Auth:abc -H Authorization:Bearer", "curl -H X-Auth:(hidden) -H Authorization:(hidden)"},
		{"x glpat-abcdefghijklmn", "x (hidden)"},
	}
	for _, tt := range tests {
		if got := commandLine(strings.Fields(tt.args)); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.args, got, tt.want)
		}
	}
}

// What the first result tells stands once; of the others only what differs.
func TestFile(t *testing.T) {
	t.Parallel()
	tk := task(t)
	p := Gather(tk)
	wants := map[int]string{}
	var results []*result.Result
	for i, pair := range tk.Task.Pairs {
		r := &result.Result{Point: pair.ID, Repeat: pair.Repeat, Attempt: 1, Outcome: "ok", Provenance: p.New(pair)}
		if i == 0 {
			r.Provenance["setting compile"] = "no"
		}
		wants[i] = r.Provenance["command_line"]
		if err := p.Settle(r); err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	f, err := result.ReadFacts(tk.File)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if all := f.Of(r); all["command_line"] != wants[i] || (all["setting compile"] == "no") != (i == 0) {
			t.Errorf("result %d: %q, %q", i, all["command_line"], all["setting compile"])
		}
	}
	for _, own := range f.Results {
		if len(own) > 4 {
			t.Errorf("what is common stands again: %v", own)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(tk.File), "*")); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestCPUList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"0-3,8": 5, "7": 1, "": 0, "x": 0, "0-99999999": 0} {
		if got := len(cpuList(text)); got != want {
			t.Errorf("%q: %d CPUs, want %d", text, got, want)
		}
	}
}

func TestContainer(t *testing.T) {
	t.Parallel()
	plain := task(t)
	sif := task(t, "resources:", "container: {runtime: apptainer, image: \"it's.sif\"}\nresources:")
	write(t, sif.Plan.Dir, map[string]string{"it's.sif": strings.Repeat("x", 3<<20)})
	gone := task(t, "resources:", "container: {runtime: apptainer, image: gone.sif}\nresources:")
	tag := task(t, "resources:", "container: {runtime: apptainer, image: \"docker://a/b:1\"}\nresources:")
	digest := task(t, "resources:", "container: {runtime: apptainer, image: \"docker://a/b@sha256:00ff\"}\nresources:")
	image := task(t)
	image.Environ = []string{"APPTAINER_CONTAINER=/images/it's.sif"}
	docker := task(t)
	write(t, docker.Root, map[string]string{".dockerenv": ""})
	for _, tt := range []struct {
		task           Task
		key, want, why string
	}{
		{plain, "container", "none", ""},
		{plain, "container_digest", "not applicable", ""},
		{image, "container", "/images/it's.sif", ""},
		{docker, "container", "", "inside docker, which does not tell the image: workload.declare"},
		{sif, "container", "apptainer it's.sif", ""},
		{sif, "container_digest", "sha256:", ""},
		{gone, "container_digest", "", "the image could not be read"},
		{tag, "container_digest", "", "the image is named by a tag, which may move: name its digest"},
		{digest, "container_digest", "sha256:00ff", ""},
	} {
		r, facts := settle(t, tt.task, nil)
		if !strings.HasPrefix(facts[tt.key], tt.want) || (facts[tt.key] == "") != (tt.want == "") || why(r, tt.key) != tt.why {
			t.Errorf("%s %q, want %q; missing because %q, want %q", tt.key, facts[tt.key], tt.want, why(r, tt.key), tt.why)
		}
	}
}

// Two images of one size that differ in their first or last part have different digests.
func TestSample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seen := map[string]bool{}
	for _, text := range []string{"", "a", strings.Repeat("x", 5<<20), strings.Repeat("x", 5<<20-1) + "y", "y" + strings.Repeat("x", 5<<20-1)} {
		path := filepath.Join(dir, "im age")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := sample(path); got == "" || seen[got] {
			t.Errorf("%d bytes: %q", len(text), got)
		} else {
			seen[got] = true
		}
	}
	if sample(dir) != "" || sample(filepath.Join(dir, "none")) != "" {
		t.Error("what is no file has a digest")
	}
}

func TestDescribed(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][2]string{
		"v1.2.0": {"v1.2.0", "no"}, "v1.2.0-3-g7262e50": {"7262e50", "no"}, "7262e50-dirty": {"7262e50", "yes"}, "devel": {"", ""}, "": {"", ""},
	} {
		if revision, modified := described(version); revision != want[0] || modified != want[1] {
			t.Errorf("%q: %q, %q, want %v", version, revision, modified, want)
		}
	}
}

// A result of 8 GPUs under Slurm keeps within its 4 KB with room for the text of a failure, because most of its
// provenance stands in the task's file.
func TestFits(t *testing.T) {
	t.Parallel()
	tk := task(t, "{time: 5m}", "{time: 5m, gpus_per_node: \"8\"}")
	tk.Job, tk.Partition, tk.Nodes, tk.Version = "1234567_1000", "gpu-long", "gpu[0001-0002]", "v1.2.0-31-g7262e50-dirty"
	for i := range 30 {
		tk.Environ = append(tk.Environ, "NCCL_SETTING_"+strings.Repeat("X", i)+"=some value")
	}
	told := map[string]string{
		"gpu": "NVIDIA H200", "device": "NVIDIA H200", "telemetry": "nvml", "driver": "580.105.08", "torch": "2.15.0+cu132", "cuda": "13.2", "nccl": "2.29.7",
		"gpu_uuid": strings.Repeat("GPU-12345678-1234-1234-1234-123456789abc + ", 8), "gpu_pci": strings.Repeat("00000000:1b:00.0 + ", 8),
		"sm_clock_observed": "1410 to 1980 MHz", "setting model": "some model 1.0 at 0123456789abcdef", "hosts": "gpu0001 gpu0002",
	}
	for _, f := range catalogue.Facts() {
		if f.Group != catalogue.Host && told[f.Name] == "" && !strings.HasSuffix(f.Name, "*") {
			told[f.Name] = "some value"
		}
	}
	r, facts := settle(t, tk, told)
	for _, m := range catalogue.StepMetrics() {
		r.Set(m.Name, 0.0018375380004727049)
	}
	seconds := make([][]float64, 10)
	for i := range seconds {
		seconds[i] = []float64{0.0018375380004727049}
	}
	steps, _ := result.Summarize(seconds, 20)
	r.Steps = &steps
	line, err := result.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for k, v := range facts {
		size += len(k) + len(v) + len(`"":"",`)
	}
	t.Logf("the result has %d bytes, its provenance %d", len(line), size)
	if len(line) > result.MaxBytes-1024 {
		t.Errorf("a result of %d bytes", len(line))
	}
	if size < result.MaxBytes/2 {
		t.Errorf("%d bytes of provenance could stand in the result", size)
	}
}

// Data of the point are hashed once, relative to the folder of the programs; of what is large only parts are, and what is no file has a reason.
func TestData(t *testing.T) {
	t.Parallel()
	tk := task(t, `batch: "4"`, `data: "'in put.npz'"`)
	path := filepath.Join(tk.Plan.Dir, "in put.npz")
	tests := []struct {
		name      string
		make      func() error
		hash, why string
	}{
		{"none", func() error { return nil }, "", "the data could not be read"},
		{"a file", func() error { return os.WriteFile(path, []byte("abc"), 0o600) }, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", ""},
		{"a large one", func() error { return os.Truncate(path, maxData+1) }, "sha256:c4a179e7f4b7a479faf095cc7fd564e5237a97c9b533274e0f9778b385811921 of its size and ends", ""},
		{"a folder", func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "", "the data are not one file"},
	}
	for _, tt := range tests { // one after the other: it is the same file
		if err := tt.make(); err != nil {
			t.Fatal(err)
		}
		r, facts := settle(t, tk, nil)
		if facts["data"] != "file in put.npz" || facts["data_sha256"] != tt.hash || why(r, "data_sha256") != tt.why {
			t.Errorf("%s: %q, %q, missing because %q", tt.name, facts["data"], facts["data_sha256"], why(r, "data_sha256"))
		}
	}
}
