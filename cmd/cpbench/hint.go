package main

import (
	"fmt"
	"slices"
	"strings"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"

	"github.com/urfave/cli/v2"
)

// hintFlag is the flag that takes the hints of the searches from an earlier run.
func hintFlag(into *string) cli.Flag {
	return &cli.StringFlag{Name: "hint", Usage: "let the searches of max_fit begin at the sizes that those of `RUN` found", Destination: into}
}

// hintRun is an earlier run whose searches give hints to those of a new plan.
type hintRun struct {
	name  string
	gpus  []string // models on which its searches ran; empty: unknown, or none
	none  bool     // they ran without a GPU
	whole bool     // every one of them tells its GPU, or that it had none
	key   string   // measurement key of its searches
	found []plan.Found
}

// takeHints gives a plan the hints of a run, if there is one.
func takeHints(dir string, spec *plan.Spec, opt *plan.Options) (*hintRun, error) {
	if dir == "" {
		return nil, nil
	}
	if spec.Workload.MaxFit == nil {
		return nil, &usageError{"--hint is for searches, and the sweep has no workload.max_fit", "leave out --hint"}
	}
	h, err := hintsOf(dir)
	if err != nil {
		return nil, err
	}
	opt.Found = h.found
	return h, nil
}

// hintsOf reads what the searches of a run have found. It fails where they found nothing, because then the flag would
// do nothing.
func hintsOf(dir string) (*hintRun, error) {
	run, err := folder.Open(dir)
	if err != nil {
		return nil, err
	}
	set, err := collect.Load([]*folder.Run{run})
	if err != nil {
		return nil, err
	}
	h := &hintRun{name: run.Name(), key: run.Plan.Key}
	for i := range set.Pairs {
		p := &set.Pairs[i]
		if p.Result == nil || p.Result.Search == nil || p.Result.Search.Fits == nil {
			continue
		}
		size := *p.Result.Search.Fits
		setting, err := run.Plan.At(p.Point, size)
		if err != nil {
			return nil, fmt.Errorf("run %s, point %s: %w", h.name, p.Point.ID, err)
		}
		h.found = append(h.found, plan.Found{Params: run.Plan.Params(p.Point), Ranks: setting.Ranks, Size: size})
	}
	if len(h.found) == 0 {
		return nil, &hinted{fmt.Errorf("run %s has no search that found a size that fits", h.name), "leave out --hint"}
	}
	models, lack := set.Facts("gpu")
	h.whole = lack == 0
	h.gpus = slices.DeleteFunc(models, func(m string) bool { return m == catalogue.NotApplicable })
	h.none = len(models) > 0 && len(h.gpus) == 0
	return h, nil
}

// say tells which searches begin at a size of that run, and what speaks against it: a hint of another GPU costs trials.
func (h *hintRun) say(v voice, src *source) {
	if src.sum.Hinted == 0 {
		v.warnf("no search of this sweep is like one of run %s: there are no hints", h.name)
		return
	}
	scaled := ""
	if src.sum.Scaled > 0 {
		scaled = fmt.Sprintf(", %d of them scaled from another number of ranks", src.sum.Scaled)
	}
	v.sayf("hints for %d of %s come from run %s (%s)%s", src.sum.Hinted, countText(src.sum.Cases, "search"), h.name, h.device(), scaled)
	if doubt := h.doubt(src.plan); doubt != "" {
		v.warnf("the hints of run %s %s: a wrong hint costs trials, but no answer rests on it", h.name, doubt)
	}
	if h.key != src.plan.Key {
		v.warnf("run %s measured something else: its workload, set-up, environment or files differ", h.name)
	}
}

// device names the GPUs of the run, for people.
func (h *hintRun) device() string {
	switch {
	case h.none && h.whole:
		return "no GPU"
	case len(h.gpus) == 0:
		return "GPU unknown"
	case !h.whole:
		return strings.Join(h.gpus, ", ") + ", and results that do not tell"
	}
	return strings.Join(h.gpus, ", ")
}

// doubt is what is not certain about the GPU of the hints; empty where it is the one that the plan asks for, or where
// the plan asks for none.
func (h *hintRun) doubt(p *plan.Plan) string {
	for i := range p.Arrays {
		shape := p.Arrays[i].Shape
		switch {
		case shape.GPUsPerNode == 0:
			continue
		case h.none && h.whole:
			return "come from a machine without a GPU"
		case len(h.gpus) == 0 || !h.whole:
			return "come from a GPU that is not known"
		case len(h.gpus) > 1:
			return "come from different GPUs (" + strings.Join(h.gpus, ", ") + ")"
		case shape.GPUType == "":
			return fmt.Sprintf("come from %s, and the sweep does not say (resources.gpu_type) which GPUs it asks for", h.gpus[0])
		case !strings.Contains(strings.ToLower(h.gpus[0]), strings.ToLower(shape.GPUType)):
			return fmt.Sprintf("come from %s, but the sweep asks for %s", h.gpus[0], shape.GPUType)
		}
	}
	return ""
}
