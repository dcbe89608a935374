package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/result"
)

// todo lists the pairs of the task that need an attempt: without a result, with one that is not done, or with an
// outcome that is to be run again and is older than this attempt; and the others of their warm groups.
func (w *worker) todo() ([]plan.Pair, error) {
	var todo []plan.Pair
	for _, pair := range w.task.Pairs {
		last, err := Last(w.cfg.Run, pair)
		if err != nil {
			return nil, err
		}
		again := last != nil && last.Attempt < w.cfg.Attempt && Again(last.Outcome, w.cfg.Again)
		if last == nil || !last.Outcome.Done() || again {
			todo = append(todo, pair)
		}
	}
	return w.cfg.Run.Plan.Together(w.task.Pairs, todo), nil
}

// Again reports whether a done outcome is among those to run again: by name, or as "failed".
func Again(o catalogue.Outcome, again []string) bool {
	return slices.Contains(again, string(o)) || slices.Contains(again, "failed") && o.Failed()
}

// Last reads the result that counts for a pair: the newest ok one, else the newest. A file that cannot be read
// counts as none. The result is nil when there is none.
func Last(run *folder.Run, pair plan.Pair) (*result.Result, error) {
	shard := filepath.Join(run.ResultsDir(), pair.ID[:2])
	entries, err := os.ReadDir(shard)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var best *result.Result
	for _, e := range entries {
		point, repeat, _, _, ok := result.ParseName(e.Name())
		if !ok || point != pair.ID || repeat != pair.Repeat || filepath.Ext(e.Name()) != ".json" {
			continue
		}
		r, err := result.Read(filepath.Join(shard, e.Name()))
		if err != nil || r.Plan != run.Plan.Digest {
			continue
		}
		switch {
		case best == nil, r.Outcome.Fits() && !best.Outcome.Fits():
			best = r
		case r.Outcome.Fits() == best.Outcome.Fits() && r.Newer(best):
			best = r
		}
	}
	return best, nil
}
