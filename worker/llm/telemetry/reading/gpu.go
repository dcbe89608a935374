package reading

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// firstLine is what a command said, for an error.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line = strings.ToValidUTF8(line, "\uFFFD"); line == "" {
		return "it said nothing"
	}
	return fmt.Sprintf("%.200s", line)
}

// failure is why a command failed; empty if it did not.
func (p part) failure() string {
	switch {
	case p.status == nil:
		return "it was cut off"
	case *p.status != 0:
		return fmt.Sprintf("status %d: %s", *p.status, firstLine(p.body))
	}
	return ""
}

// gpus reads the table of nvidia-smi.
func (a *answer) gpus(p part, want choice) {
	if why := p.failure(); why != "" {
		a.fail("nvidia-smi: %s", why)
		return
	}
	rows := []GPU{}
	for line := range strings.Lines(p.body) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		g, doubts, err := parseGPU(line)
		if err != nil {
			a.fail("nvidia-smi: %v", err)
			return
		}
		for _, d := range doubts {
			a.fail("GPU %s: %s", g.UUID, d)
		}
		rows = append(rows, g)
	}
	for _, id := range want.uuids {
		if !slices.ContainsFunc(rows, func(g GPU) bool { return g.UUID == id }) {
			a.fail("nvidia-smi says nothing of GPU %s", id)
		}
	}
	a.GPUs = rows
}

// parseGPU reads a line of nvidia-smi's table, whose columns are gpuFields. doubts are values that ought to be there.
func parseGPU(line string) (g GPU, doubts []string, err error) {
	values := strings.SplitN(strings.TrimSpace(line), ",", len(gpuFields))
	if len(values) != len(gpuFields) {
		return GPU{}, nil, fmt.Errorf("%d values instead of %d: %.200q", len(values), len(gpuFields), line)
	}
	const mebi, mega, cent = 1 << 20, 1e6, 1e-2
	g.UUID, g.Name = strings.TrimSpace(values[0]), strings.TrimSpace(values[len(values)-1])
	if g.UUID == "" || strings.ContainsAny(g.UUID, "[] ") {
		return GPU{}, nil, fmt.Errorf("no UUID in %.200q", line)
	}
	for i, field := range []struct {
		into **float64
		unit float64
	}{
		{&g.Power, 1},
		{&g.Temperature, 1},
		{&g.Utilization, cent},
		{&g.MemoryUtilization, cent},
		{&g.MemoryUsed, mebi},
		{&g.MemoryTotal, mebi},
		{&g.SMClock, mega},
	} {
		v, doubt := quantity(strings.TrimSpace(values[i+1]), field.unit)
		if *field.into = v; doubt != "" {
			doubts = append(doubts, gpuFields[i+1]+": "+doubt)
		}
	}
	return g, doubts, nil
}

// lacking are the words with which nvidia-smi says that a GPU has no such thing; the memory of a GB10 is such a thing.
var lacking = []string{"N/A", "[N/A]", "[Not Supported]", "Not Supported"}

// quantity is a value in base units; nil with a doubt if it ought to be there and is not, as "[GPU is lost]".
func quantity(text string, unit float64) (v *float64, doubt string) {
	if slices.Contains(lacking, text) {
		return nil, ""
	}
	n, err := strconv.ParseFloat(text, 64)
	if n *= unit; err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return nil, fmt.Sprintf("%.60q is no quantity", text)
	}
	return &n, ""
}

// match finds the GPU of every prefix. A prefix without a GPU, or with several, is an error, and then nothing is matched.
func match(prefixes, uuids []string) (found []string, errs []string) {
	for _, prefix := range prefixes {
		var hits []string
		for _, id := range uuids {
			if strings.HasPrefix(id, prefix) {
				hits = append(hits, id)
			}
		}
		switch {
		case len(hits) == 0:
			errs = append(errs, fmt.Sprintf("no GPU has a UUID that begins with %q; there are %s", prefix, strings.Join(uuids, ", ")))
		case len(hits) > 1:
			errs = append(errs, fmt.Sprintf("%d GPUs have a UUID that begins with %q: %s", len(hits), prefix, strings.Join(hits, ", ")))
		case !slices.Contains(found, hits[0]):
			found = append(found, hits[0])
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return found, nil
}

// listed reads the answer to listScript.
func listed(text string) (uuids []string, err error) {
	list, _ := parts(text)
	for _, p := range list {
		if p.word != "gpulist" {
			continue
		}
		if why := p.failure(); why != "" {
			return nil, fmt.Errorf("nvidia-smi: %s", why)
		}
		for line := range strings.Lines(p.body) {
			uuids = append(uuids, strings.TrimSpace(line))
		}
		return uuids, nil
	}
	return nil, fmt.Errorf("the host gave no answer that can be read: %.80q", text)
}
