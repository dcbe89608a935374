package provenance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// container tells in which image the programs run: that of the sweep, else the one in which the worker itself runs.
func (p *Record) container() {
	c := p.task.Plan.Spec.Container
	if c.Runtime != "none" {
		p.set("container", c.Runtime+" "+c.Image, "")
		if path, file := c.ImageFile(p.task.Plan.Dir); file {
			p.set("container_digest", sample(path), "the image could not be read")
		} else if _, digest, ok := strings.Cut(c.Image, "@sha256:"); ok {
			p.set("container_digest", "sha256:"+digest, "")
		} else {
			p.why["container_digest"] = "the image is named by a tag, which may move: name its digest"
		}
		return
	}
	for _, name := range []string{"APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"} {
		if image := p.env[name]; image != "" {
			p.set("container", image, "")
			return
		}
	}
	for path, kind := range map[string]string{".dockerenv": "docker", "run/.containerenv": "podman"} {
		if _, err := os.Stat(filepath.Join(p.task.Root, path)); err == nil {
			p.why["container"] = "inside " + kind + ", which does not tell the image: workload.declare"
			return
		}
	}
	p.set("container", "none", "")
}

// sample is a digest of a file of many GB, which to read in each task would burden the file system: of its size, its
// first and its last MiB, where images and archives (such as .npz) have checksums or dates of what they hold. Empty: it
// cannot be read.
func sample(path string) string {
	const part = 1 << 20
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d\n", info.Size())
	for _, at := range []int64{0, max(0, info.Size()-part)} {
		if _, err := io.Copy(h, io.NewSectionReader(f, at, part)); err != nil {
			return ""
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)) + " of its size and ends"
}
