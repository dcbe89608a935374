package plan

import (
	"fmt"
	"math"
)

// request evaluates what a point asks of the scheduler.
func (e *evaluator) request(st *Setting, s *Spec, values map[string]any) *evalError {
	if bad := e.shape(st, s, values); bad != nil || e.time == nil {
		return bad
	}
	v, err := e.time.Eval(values)
	if err == nil {
		st.Seconds, err = seconds(v)
	}
	if err != nil {
		return &evalError{"resources.time", err}
	}
	return nil
}

// shape evaluates what a point asks of its nodes.
func (e *evaluator) shape(st *Setting, s *Spec, values map[string]any) *evalError {
	st.Resources = Shape{GPUType: e.gpuType.fill(values), Mem: e.mem.fill(values), Exclusive: s.Resources.Exclusive}
	for _, r := range []struct {
		path  string
		into  *int
		least int64
		eval  func(map[string]any) (int64, error)
	}{
		{"resources.nodes", &st.Resources.Nodes, 1, e.nodes.EvalInt},
		{"resources.gpus_per_node", &st.Resources.GPUsPerNode, 0, e.gpus.EvalInt},
		{"resources.cpus_per_task", &st.Resources.CPUsPerTask, 1, e.cpus.EvalInt},
	} {
		n, err := r.eval(values)
		if err == nil && (n < r.least || n > 1_000_000) {
			err = fmt.Errorf("gives %d, but at least %d is needed", n, r.least)
		}
		if err != nil {
			return &evalError{r.path, err}
		}
		*r.into = int(n)
	}
	switch {
	case s.Workload.Launcher == "fork" && st.Resources.Nodes > 1:
		return &evalError{"resources.nodes", fmt.Errorf("gives %d, but `launcher: fork` starts all ranks on one node; use torchrun or srun", st.Resources.Nodes)}
	case s.Workload.Kind != "llm" && st.Ranks%st.Resources.Nodes != 0:
		return &evalError{"workload.ranks", fmt.Errorf("gives %d, which %d nodes cannot share equally", st.Ranks, st.Resources.Nodes)}
	case s.Site.GPUsPerNode > 0 && st.Resources.GPUsPerNode > s.Site.GPUsPerNode:
		return &evalError{"resources.gpus_per_node", fmt.Errorf("gives %d, but a node of the site has %d", st.Resources.GPUsPerNode, s.Site.GPUsPerNode)}
	}
	return nil
}

func seconds(v any) (int64, error) {
	text, ok := v.(string)
	if !ok {
		text = format(v) + "s"
	}
	d, err := ParseDuration(text)
	return int64(math.Ceil(d.Seconds())), err
}
