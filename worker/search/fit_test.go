package search

import (
	"math"
	"testing"
)

func TestFit(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	tests := []struct {
		name    string
		samples []sample
		shapes  [][]int
		at      float64 // value at n = 10
		solve   float64 // n of y = 1000
	}{
		{"parabola", []sample{{1, 113}, {2, 132}, {4, 188}, {8, 372}}, memoryShapes, 500, 15.733844},
		{"line", []sample{{1, 110}, {2, 120}, {3, 130}}, memoryShapes, 200, 90},
		{"two samples give a line", []sample{{2, 120}, {4, 140}}, memoryShapes, 200, 90},
		{"two samples that rise too fast for a line", []sample{{2, 104}, {4, 404}}, memoryShapes, 2504, 6.311},
		{"proportional", []sample{{2, 200}, {4, 400}}, memoryShapes, 1000, 10},
		{"falling", []sample{{1, 300}, {2, 300}, {4, 100}}, memoryShapes, 136.3636, inf},
		{"constant", []sample{{1, 300}, {2, 300}, {4, 300}}, memoryShapes, 300, inf},
		{"concave is a line at most", []sample{{1, 100}, {2, 150}, {4, 200}}, memoryShapes, 414.159, 26.974},
		{"the same size twice", []sample{{4, 300}, {4, 300}}, memoryShapes, 300, inf},
		{"one sample", []sample{{4, 300}}, memoryShapes, 300, inf},
		{"full already", []sample{{1, 2000}, {2, 3000}}, memoryShapes, 11000, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := fit(tt.samples, tt.shapes)
			if f.a < 0 || f.b < 0 || f.c < 0 {
				t.Errorf("curve %+v has a negative coefficient", f)
			}
			if got := f.at(10); math.Abs(got-tt.at) > 0.001*tt.at {
				t.Errorf("at 10: %v, want %v", got, tt.at)
			}
			if got := f.solve(1000); got != tt.solve && !(math.Abs(got-tt.solve) < 0.001*tt.solve) {
				t.Errorf("reaches 1000 at %v, want %v", got, tt.solve)
			}
		})
	}
}
