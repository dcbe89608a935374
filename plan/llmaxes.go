package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// llmAxes are the axes that every sweep of `kind: llm` has, in their order.
var llmAxes = []string{"label", "cache", "data", "ctx", "concurrency"}

// axisValues are the values of one of llmAxes in the workload.
func (w *LLM) axisValues(name string) Values {
	switch name {
	case "label":
		return w.Label
	case "cache":
		return w.Cache
	case "data":
		return w.Data
	case "ctx":
		return w.Ctx
	case "concurrency":
		return w.Concurrency
	}
	return nil
}

// ownAxes are the axes that stand in the workload.
func (s *Spec) ownAxes() []AxisValues {
	var axes []AxisValues
	for _, name := range llmAxes {
		if v := s.Workload.axisValues(name); len(v) > 0 {
			axes = append(axes, AxisValues{name, v})
		}
	}
	return axes
}

// PromptFiles are the files from which the prompts of a sweep of `kind: llm` come, for a spec in dir: the corpus where a
// point has `data: legal`, and files of the user's own. Of another kind there are none.
func (s *Spec) PromptFiles(dir string) []string {
	w := &s.Workload
	if w.Kind != "llm" {
		return nil
	}
	var files []string
	for _, a := range s.allAxes() {
		if a.Name != "data" {
			continue
		}
		for _, v := range a.Values {
			switch {
			case v == "legal":
				files = append(files, w.DataFiles.Opinions, w.DataFiles.Filings)
			case strings.HasSuffix(v, ".jsonl"):
				files = append(files, v)
			}
		}
	}
	for i, name := range files {
		files[i] = inDir(inDir(dir, w.DataDir), name)
	}
	return files
}

// allAxes lists the axes of the spec wherever they stand.
func (s *Spec) allAxes() []AxisValues {
	axes := slices.Clone([]AxisValues(s.Matrix))
	for _, group := range s.Zip {
		axes = append(axes, group...)
	}
	return append(axes, s.ownAxes()...)
}

// checkLLMAxes finds what is wrong with the axes that every sweep of `kind: llm` has.
func (s *Spec) checkLLMAxes(ps *problems, at map[string]string) {
	if path, ok := at["port"]; ok {
		ps.at(path, "choose another name", "%q is a name of cpbench's own with `kind: llm`", "port")
	}
	for _, name := range llmAxes {
		needed := name != "concurrency" || s.Workload.Mixed == nil
		if needed && at[name] == "" && !ps.bad["workload."+name] { // what is bad is told already
			ps.at("workload", "write for example `"+llmExample[name]+"`, or make it an axis of the matrix", "workload.%s is missing", name)
		}
	}
	for _, a := range s.allAxes() {
		for i, v := range a.Values {
			checkLLMValue(ps, indexed(at[a.Name], i), a.Name, v)
		}
	}
	for i, inc := range s.Include {
		for _, p := range inc {
			checkLLMValue(ps, indexed("include", i)+"."+p.Name, p.Name, p.Value)
		}
	}
}

var llmExample = map[string]string{
	"label": "label: A", "cache": "cache: cold", "data": "data: synth", "ctx": "ctx: [0, 8000]", "concurrency": "concurrency: [1, 4]",
}

// checkLLMValue refuses a value that one of llmAxes cannot have. Other axes have any.
func checkLLMValue(ps *problems, path, name, v string) {
	n, err := strconv.Atoi(v)
	whole := err == nil && wholeNumber.MatchString(v)
	switch {
	case name == "label" && strings.TrimSpace(v) == "":
		ps.at(path, "write `label: A`", "label: a variant needs a name")
	case name == "cache" && v != "cold" && v != "warm":
		ps.at(path, didYouMean(v, []string{"cold", "warm"}), "cache: unknown value %q", v)
	case name == "data" && v != "synth" && v != "legal" && !strings.HasSuffix(v, ".jsonl"):
		ps.at(path, "write synth, legal or a file that ends in .jsonl", "data: unknown source of prompts %q", v)
	case name == "ctx" && (!whole || n < 0):
		ps.at(path, "write tokens, for example 32000; 0 is the instruction alone", "ctx: %q is no number of tokens", v)
	case name == "concurrency" && v == CaseMixed:
		ps.at(path, "write `mixed: {short_ctx: 8000}`, which adds the case", "concurrency: %q is no number of streams", v)
	case name == "concurrency" && (!whole || n < 1 || n > 1<<16):
		ps.at(path, "write at least 1", "concurrency: %q is no number of streams", v)
	}
}

// advised is a mistake at a point with a hint of its own.
type advised struct {
	error
	hint string
}

// together says why the values of a point cannot stand together.
func (w *LLM) together(g Group) *evalError {
	file := strings.HasSuffix(g.Data, ".jsonl")
	switch {
	case file && g.Ctx > 0:
		return &evalError{"workload.ctx", &advised{
			fmt.Errorf("is %d, but the prompts of %q are sent as they are, which is ctx 0", g.Ctx, g.Data),
			"write `ctx: 0`; beside other data, exclude: [{where: \"data == '" + g.Data + "' && ctx > 0\"}]",
		}}
	case file && g.Mixed != nil:
		return &evalError{"workload.mixed", &advised{
			fmt.Errorf("needs prompts of %d tokens, but those of %q are sent as they are", g.Mixed.ShortCtx, g.Data),
			"leave mixed out, or give this data a sweep of its own",
		}}
	}
	longest := g.Ctx
	if g.Mixed != nil {
		longest = max(longest, g.Mixed.ShortCtx)
	}
	if w.MaxModelLen > 0 && longest+w.MaxTokens > w.MaxModelLen {
		return &evalError{"workload.max_model_len", &advised{
			fmt.Errorf("is %d, but %d tokens of prompt and %d of output do not fit into it", w.MaxModelLen, longest, w.MaxTokens),
			"lower ctx or max_tokens, or raise max_model_len if the server takes more",
		}}
	}
	return nil
}

// caseAxis is the axis that has a word instead of a value in the case points, and the word. Both are empty in a sweep
// without case points.
func (s *Spec) caseAxis() (axis, word string) {
	switch w := &s.Workload; {
	case w.MaxFit != nil:
		return w.MaxFit.Axis, CaseMaxFit
	case w.Mixed != nil:
		return "concurrency", CaseMixed
	}
	return "", ""
}

// mixedStreams are the streams of the mixed case, which are its concurrency in expressions.
const mixedStreams = 3

// HasCases reports whether the sweep has case points.
func (s *Spec) HasCases() bool { axis, _ := s.caseAxis(); return axis != "" }

// sameVariant is the warning of a plan in which two labels stand for one server and one model.
func sameVariant(axes []Axis, points []expanded) []string {
	at := slices.IndexFunc(axes, func(a Axis) bool { return a.Name == "label" })
	label := map[[2]string]string{}
	for _, pt := range points {
		if pt.server == "" || at < 0 {
			return nil // of another kind
		}
		variant := [2]string{pt.server, pt.model}
		if first, ok := label[variant]; ok && first != pt.Values[at] {
			return []string{fmt.Sprintf("the labels %q and %q name the same server and model: this compares a variant with itself", first, pt.Values[at])}
		}
		label[variant] = pt.Values[at]
	}
	return nil
}
