package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"cpbench/plan/expr"
)

// Options are what a plan depends on beside its spec.
type Options struct {
	Source       string // absolute path of the spec
	Version      string // of cpbench
	Files        []File // frozen files of the workload, hashed by the caller
	Where        string // expression that selects points; empty selects all
	MaxArraySize int    // the site's limit where the spec leaves it at auto; 0: no limit
	// Found are the sizes that earlier searches found, as hints for those of this plan.
	Found []Found
	// Extends names a run whose executions are not planned again, and Have tells which those are.
	Extends string
	Have    func(point string, repeat int) bool
}

// Summary tells what a plan holds, for people.
type Summary struct {
	Grouping
	Points, Cases, Pairs, Had int
	Hinted, Scaled            int // searches with a hint out of Options.Found; those of them from another number of ranks
	Warnings                  []string
}

// New makes the plan of a spec: a pure function of the spec and the options. Mistakes that show only at a point are
// reported like those of Load.
func New(s *Spec, opt Options) (*Plan, Summary, error) {
	ps := &problems{file: s.file, pos: s.pos}
	axes := axesOf(s)
	eval := compile(s, axes, ps)
	where, err := selector(opt.Where, axes, eval)
	if err != nil {
		return nil, Summary{}, err
	}
	if err := ps.err(); err != nil {
		return nil, Summary{}, err
	}
	points := expand(s, eval, where, ps)
	sum := Summary{}
	eval.hints(s, points, opt.Found, &sum, ps)
	tasks := pack(s, axes, points, ps)
	if err := ps.err(); err != nil {
		return nil, Summary{}, err
	}
	for _, pt := range points {
		if pt.Case != "" {
			sum.Cases++
		} else {
			sum.Points++
		}
	}
	tasks = dropHad(tasks, opt.Have, &sum)
	if len(tasks) == 0 {
		return nil, sum, nothingLeft(sum, opt)
	}
	limit := int(s.Site.MaxArraySize)
	if limit == 0 {
		limit = opt.MaxArraySize
	}
	p := &Plan{
		Schema: Schema, Name: s.Name, Version: opt.Version, Source: opt.Source, Dir: filepath.Dir(opt.Source),
		Spec: s, Axes: axes, Files: opt.Files, Select: Select{Where: opt.Where, Extends: opt.Extends},
	}
	p.Arrays, sum.Grouping = group(s, tasks, limit)
	if n := len(p.Arrays); n > 1 && s.Workload.Server.URL != "" {
		return nil, sum, s.Mistake("workload.server.url", fmt.Sprintf("tasks that share a server need one array, and these make %d", n),
			"write order: as-written, which needs fewer tasks, or split the sweep")
	}
	for _, a := range p.Arrays {
		for _, t := range a.Tasks {
			sum.Pairs += len(t.Pairs)
		}
	}
	p.Digest = p.digest()
	p.Key, p.CaseKey = p.keys(eval)
	sum.Warnings = append(s.doubts(tasks), sameVariant(axes, points)...)
	return p, sum, nil
}

// dropHad takes out the executions that an extended run has.
func dropHad(tasks []work, have func(string, int) bool, sum *Summary) []work {
	if have == nil {
		return tasks
	}
	for i := range tasks {
		tasks[i].pairs = slices.DeleteFunc(tasks[i].pairs, func(p Pair) bool {
			had := have(p.ID, p.Repeat)
			if had {
				sum.Had++
			}
			return had
		})
	}
	return slices.DeleteFunc(tasks, func(w work) bool { return len(w.pairs) == 0 })
}

func nothingLeft(sum Summary, opt Options) error {
	switch {
	case sum.Had > 0:
		return fmt.Errorf("run %s has every point of this sweep already: there is nothing to plan", opt.Extends)
	case opt.Where != "":
		return fmt.Errorf("no point of the sweep satisfies %q", opt.Where)
	}
	return fmt.Errorf("the sweep has no points: every one is excluded, or there are no axes")
}

func selector(where string, axes []Axis, eval *evaluator) (func(map[string]any) (bool, error), error) {
	if where == "" {
		return nil, nil
	}
	kinds := map[string]expr.Kind{}
	for _, a := range axes {
		kinds[a.Name] = a.Kind
	}
	for _, d := range eval.derive {
		kinds[d.name] = d.Kind
	}
	p, err := expr.Compile(where, kinds)
	if err != nil {
		return nil, fmt.Errorf("where %q: %w", where, err)
	}
	if p.Kind != expr.Bool {
		return nil, fmt.Errorf("where %q gives a %s, but true or false is needed", where, p.Kind)
	}
	return p.EvalBool, nil
}

// digest covers everything that decides what is measured and where. It leaves out name, slurm, columns, retry, the
// limit of the queue and the hint of a search, which may be changed without making the results another thing.
func (p *Plan) digest() string {
	s := *p.Spec
	s.Name, s.Slurm, s.Columns, s.Retry, s.Site.MaxQueued = "", Slurm{}, nil, Retry{}, 0
	s.Workload.MaxFit = s.Workload.MaxFit.withoutHint()
	return hash(struct {
		Spec   Spec
		Files  []File
		Select Select
	}{s, p.Files, p.Select})
}

// Intact reports whether the header still is what it was when it was sealed.
func (p *Plan) Intact() bool { return p.Digest == p.digest() && p.Sum == p.sum() }

// Seal sets the sum of a header that is complete.
func (p *Plan) Seal() { p.Sum = p.sum() }

func (p *Plan) sum() string {
	head := struct {
		Schema                                           int
		Name, Digest, Key, CaseKey, Version, Source, Dir string
		Spec                                             *Spec
		Axes                                             []Axis
		Files                                            []File
		Select                                           Select
		Arrays                                           []Array
	}{p.Schema, p.Name, p.Digest, p.Key, p.CaseKey, p.Version, p.Source, p.Dir, p.Spec, p.Axes, p.Files, p.Select, p.Arrays}
	return hash(head)
}

// keys are the measurement keys: of ordinary points, and of case points, whose search belongs to them. They cover
// what the worker does at a point but not the lists of the axes, so that runs of a sweep that grew can be merged.
func (p *Plan) keys(e *evaluator) (key, caseKey string) {
	w := p.Spec.Workload
	w.Workdir, w.Heartbeat = "", 0 // how soon a hang is noticed changes no number
	search := w.MaxFit.withoutHint()
	mixed := w.Mixed
	w.MaxFit, w.LLM = nil, w.measured()
	used := map[string]bool{}
	use := func(names []string) {
		for _, n := range names {
			used[n] = true
		}
	}
	use(e.ranks.Names)
	use(e.topology.names())
	use(e.artifact.names())
	for _, x := range e.point {
		use(x.Names)
	}
	for _, t := range e.command {
		use(t.names())
	}
	for _, t := range e.env {
		use(t.names())
	}
	for _, t := range e.llm.templates() {
		use(t.names())
	}
	var derive ExprMap // those that the workload depends on, found from the last to the first
	for _, d := range slices.Backward(e.derive) {
		if used[d.name] {
			derive = append(derive, NamedExpr{d.name, d.Source})
			use(d.Names)
		}
	}
	base := []any{w, p.Spec.Setup, p.Spec.Env, p.Spec.Container, p.Files, derive}
	if mixed != nil {
		return hash(base), hash(append(base, mixed))
	}
	return hash(base), hash(append(base, search))
}

func hash(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// doubts are the warnings of a plan.
func (s *Spec) doubts(tasks []work) []string {
	var out []string
	_, own := s.pos["workload.timeout"] // the defaults are no reason to warn
	_, ownSearch := s.pos["workload.max_fit.time"]
	timeout := int64(time.Duration(s.Workload.Timeout).Seconds())
	var shortest, longest int64
	most := 0
	for _, t := range tasks {
		if shortest == 0 || t.seconds < shortest {
			shortest = t.seconds
		}
		longest = max(longest, t.seconds)
		most = max(most, len(t.pairs))
	}
	if own && timeout > shortest {
		out = append(out, fmt.Sprintf("workload.timeout (%v) is longer than resources.time (%v): the task would end first",
			time.Duration(s.Workload.Timeout), time.Duration(shortest)*time.Second))
	}
	if f := s.Workload.MaxFit; f != nil && ownSearch && int64(time.Duration(f.Time).Seconds()) > longest {
		out = append(out, fmt.Sprintf("workload.max_fit.time (%v) is longer than resources.time (%v): a long search would be cut off",
			time.Duration(f.Time), time.Duration(longest)*time.Second))
	}
	if s.Slurm.SignalBefore > 0 && int64(time.Duration(s.Slurm.SignalBefore).Seconds()) >= shortest {
		out = append(out, fmt.Sprintf("slurm.signal_before (%v) is not below resources.time (%v): the worker would be told to finish at once",
			time.Duration(s.Slurm.SignalBefore), time.Duration(shortest)*time.Second))
	}
	if doubt := s.containerDoubt(); doubt != "" {
		out = append(out, doubt)
	}
	if doubt := s.servingDoubt(most, longest); doubt != "" {
		out = append(out, doubt)
	}
	if s.Workload.Kind != "llm" && s.Workload.Iterations < 6 {
		out = append(out, fmt.Sprintf("workload.iterations is %d: an interval within the process needs 6", s.Workload.Iterations))
	}
	return out
}
