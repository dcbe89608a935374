package plan

import (
	"path/filepath"
	"slices"
	"strings"
)

// ImageFile returns the path of the container's image, for a spec in dir, and whether it is a file at all and not a
// name in a registry.
func (c Container) ImageFile(dir string) (path string, file bool) {
	switch {
	case c.Image == "", strings.Contains(c.Image, "://"), strings.Contains(c.Image, "#"):
		return "", false
	case c.Runtime == "pyxis" && !strings.HasSuffix(c.Image, ".sqsh") && !slices.Contains([]byte("/."), c.Image[0]):
		return "", false // pyxis takes a name without a mark for one of Docker Hub
	case filepath.IsAbs(c.Image):
		return filepath.Clean(c.Image), true
	}
	return filepath.Join(dir, c.Image), true
}

// checkContainer finds what is wrong with the container.
func (s *Spec) checkContainer(ps *problems) {
	c, used := s.Container, s.Container.Runtime != "none"
	for path, given := range map[string]bool{
		"container.image": c.Image != "", "container.mounts": len(c.Mounts) > 0, "container.env_passthrough": len(c.EnvPassthrough) > 0,
	} {
		if given && !used {
			ps.at(path, "write `runtime: apptainer` or `runtime: pyxis`", "%s has no effect with `runtime: none`", path)
		}
	}
	if used && c.Image == "" {
		ps.at("container", "write `image: model.sif` or `image: model.sqsh`", "container.image is missing")
	}
	if used && s.Workload.Kind == "model" && s.Workload.Launcher == "fork" && c.Runtime == "pyxis" {
		ps.at("container.runtime", "write `launcher: srun` or `launcher: torchrun`; with `runtime: apptainer` fork works as well",
			"container.runtime: pyxis starts containers by srun, and `launcher: fork` starts no job step")
	}
	checkText(ps, "container.image", c.Image)
	for i, m := range c.Mounts {
		checkMount(ps, indexed("container.mounts", i), m)
	}
	for i, name := range c.EnvPassthrough {
		if !envName.MatchString(name) {
			ps.at(indexed("container.env_passthrough", i), "use letters, digits and underscore", "container.env_passthrough: %q is no name of a variable", name)
		}
	}
}

// checkMount refuses what a runtime would read as something else: both separate mounts by commas, and parts by colons.
func checkMount(ps *problems, path, mount string) {
	checkText(ps, path, mount)
	const form = "write SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro"
	parts := strings.Split(mount, ":")
	switch {
	case strings.Contains(mount, ","):
		ps.at(path, "write each mount as an item of its own; a folder with a comma in its name cannot be mounted", "container.mounts: a comma stands in %q", mount)
	case len(parts) > 3 || slices.Contains(parts, ""), len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw":
		ps.at(path, form, "container.mounts: %q is no mount", mount)
	case len(parts) > 1 && !filepath.IsAbs(parts[1]):
		ps.at(path, form+", the target as an absolute path", "container.mounts: the target %q is relative", parts[1])
	case len(parts) == 1 && !filepath.IsAbs(mount):
		ps.at(path, "write "+mount+":/TARGET", "container.mounts: a relative source needs a target")
	}
}

// containerDoubt is the warning of a plan for an image that is no file.
func (s *Spec) containerDoubt() string {
	if _, file := s.Container.ImageFile("/"); s.Container.Runtime == "none" || file {
		return ""
	}
	convert := "enroot import -o model.sqsh docker://IMAGE"
	if s.Container.Runtime == "apptainer" {
		convert = "apptainer build model.sif " + s.Container.Image
	}
	return "every task pulls the image " + s.Container.Image + " from its registry, and what it measures may change: convert it once, with " + convert
}
