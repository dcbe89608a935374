package doctor

import (
	"strings"
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	seen := began.Add(10 * time.Second)
	for name, test := range map[string]struct {
		at   time.Time
		want Grade
		text string
	}{
		"within":       {began.Add(5 * time.Second), Good, "10s"},
		"a little off": {seen.Add(time.Second), Good, ""},
		"ahead":        {seen.Add(30 * time.Second), Warn, "at least 30s"},
		"behind":       {began.Add(-time.Minute), Warn, "at least 1m0s"},
	} {
		d := &Doctor{}
		d.judgeClock(&report{Host: "n1", Time: test.at}, began, seen)
		if f := d.found[0]; f.Grade != test.want || !strings.Contains(f.Text, test.text) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
