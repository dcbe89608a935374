package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cpbench/slurm/slurmtest"
)

// TestPyxis runs programs in job steps of a real Slurm. Its srun knows no pyxis, so that one in front of it takes the
// options of the container out and keeps them.
func TestPyxis(t *testing.T) {
	t.Parallel()
	s := newSite(t, slurmtest.Shared(t))
	srun := "#!/bin/bash\nargs=()\nfor a in \"$@\"; do case $a in --container-*|--no-container-*) printf '%s\\n' \"$a\" >>\"${0%/*}/given\";; *) args+=(\"$a\");; esac; done\nexec " + s.cluster.Bin + "/srun \"${args[@]}\"\n"
	slurmtest.Executable(t, filepath.Join(s.bin, "srun"), srun)
	given := filepath.Join(s.bin, "given")
	s.spec("image.sqsh", "")
	const head = "version: 1\nname: pyxis\nmatrix: {cp: [2]}\nresources: {cpus_per_task: 2, time: 2m}\nenv: {NCCL_ALGO: 'Ring,Tree'}\ncontainer: {runtime: pyxis, image: image.sqsh, mounts: ['/usr:/opt/usr:ro']}\n"
	s.spec("command.yaml", head+`workload: {kind: command, command: [bash, -c, 'echo "$NCCL_ALGO $SLURM_STEP_ID"'], warmup: 0, iterations: 1}`+"\n")
	s.spec("model.yaml", head+"workload: {kind: model, mode: inference, launcher: srun, command: ['{cpbench}', reference], ranks: cp, topology: 1d, point: {tokens: '64'}, warmup: 1, iterations: 5}\n")
	for _, name := range []string{"command", "model"} {
		job := s.must("cpbench plan " + name + ".yaml | sbatch --parsable")
		s.ended(job, time.Minute)
		rows := s.raw()
		if row := rows[len(rows)-1]; row["outcome"] != "ok" {
			t.Errorf("%s: %v", name, row)
		}
		if name == "command" { // step 0 was the look at the variables
			if out := s.must("cat cpbench-runs/*/logs/*/*run-1.log"); !strings.HasSuffix(out, "Ring,Tree 1") {
				t.Errorf("the command printed %q", out)
			}
		}
		text, err := os.ReadFile(given)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"--container-image=" + s.dir + "/image.sqsh\n", "--no-container-mount-home\n", ",/usr:/opt/usr:ro\n", "NCCL_ALGO", "--container-workdir=" + s.dir} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: srun was not given %q but\n%s", name, want, text)
			}
		}
		_, names, _ := strings.Cut(string(text), "--container-env=")
		names, _, _ = strings.Cut(names, "\n")
		for _, want := range []string{"CPBENCH_CONNECT", "CPBENCH_TOKEN", "MASTER_ADDR", "MASTER_PORT", "NCCL_ALGO", "PYTHONPATH"} {
			if name == "model" && !slices.Contains(strings.Split(names, ","), want) {
				t.Errorf("the image may set %s, as the worker has to; --container-env=%s", want, names)
			}
		}
		s.must("rm -r cpbench-runs " + "'" + given + "'")
	}
}
