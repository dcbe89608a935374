package compare_test

import (
	"fmt"
	"strings"
	"testing"

	"cpbench/collect/compare"
)

// BenchmarkNew compares 1,000 rows of 8 executions each, their results read anew every time.
func BenchmarkNew(b *testing.B) {
	var tokens []string
	for n := 1; n <= 1000; n++ {
		tokens = append(tokens, fmt.Sprint(n))
	}
	run := steps(0.1).fill(b, newRun(b, strings.Replace(model, "tokens: [64, 128]", "tokens: ["+strings.Join(tokens, ", ")+"]", 1)))
	for b.Loop() {
		if r := compared(b, one(run), nil, compare.Options{By: "cp"}); len(r.Rows) != 1000 {
			b.Fatal(len(r.Rows))
		}
	}
}
