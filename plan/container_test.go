package plan

import (
	"strings"
	"testing"
)

func TestImageFile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		runtime, image, path string // no path: the name of an image in a registry
	}{
		{"apptainer", "model.sif", "/spec dir/model.sif"},
		{"apptainer", "../images/sandbox", "/images/sandbox"},
		{"apptainer", "/images/m.sif", "/images/m.sif"},
		{"apptainer", "docker://nvcr.io/nvidia/pytorch:25.01-py3", ""},
		{"pyxis", "model.sqsh", "/spec dir/model.sqsh"},
		{"pyxis", "./rootfs", "/spec dir/rootfs"},
		{"pyxis", "/images/m.sqsh", "/images/m.sqsh"},
		{"pyxis", "nvcr.io#nvidia/pytorch:25.01-py3", ""},
		{"pyxis", "ubuntu:24.04", ""},
		{"none", "", ""},
	} {
		path, file := Container{Runtime: test.runtime, Image: test.image}.ImageFile("/spec dir")
		if path != test.path || file != (test.path != "") {
			t.Errorf("%s %q: %q, %v", test.runtime, test.image, path, file)
		}
	}
}

// TestContainerKey is that runs in different containers are never merged.
func TestContainerKey(t *testing.T) {
	t.Parallel()
	keys := map[string]string{}
	for _, box := range []string{"", "container: {runtime: apptainer, image: a.sif}", "container: {runtime: apptainer, image: b.sif}", "container: {runtime: apptainer, image: a.sif, mounts: [/data]}", "container: {runtime: pyxis, image: a.sif}"} {
		s, err := Load("s.yaml", []byte("version: 1\nname: s\nmatrix: {n: [1]}\nworkload: {kind: command, command: [x]}\n"+box+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := New(s, Options{Source: "/s.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := keys[p.Key]; taken {
			t.Errorf("%q and %q have one measurement key", box, other)
		}
		keys[p.Key] = box
	}
}

func TestMistake(t *testing.T) {
	t.Parallel()
	s, err := Load("s.yaml", []byte("version: 1\nname: s\nmatrix: {n: [1]}\nresources: {time: 1h}\nworkload: {kind: command, command: [x]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"resources.time": "s.yaml:4:19: resources.time: too long", "resources.mem": "s.yaml:4:12: resources.mem: too long", "slurm.account": "s.yaml: slurm.account: too long",
	} {
		if got := s.Mistake(path, "too long", "").Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestByLikeness(t *testing.T) {
	t.Parallel()
	names := []string{"debug", "gpu-long", "gpu"}
	if got := strings.Join(ByLikeness("gpuu", names), " "); got != "gpu gpu-long debug" {
		t.Errorf("sorted as %s", got)
	}
	if got := strings.Join(names, " "); got != "debug gpu-long gpu" {
		t.Errorf("the choices were changed to %s", got)
	}
}
