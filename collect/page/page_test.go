package page

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"cpbench/plan/catalogue"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPlusMinus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		mean, sd float64
		want     string
	}{
		{749.1, 123.4, "749 ± 123"},
		{8.793, 6.2, "8.8 ± 6.2"},
		{350.72, 0.71, "350.72 ± 0.71"},
		{1594, 913, "1594 ± 913"},
		{0.0123, 1.9, "0.0 ± 1.9"},
		{99.9125, 0.0000014, "99.9125 ± 0.0000014"}, // six digits are enough of a mean
		{40, 0, "40.00 ± 0"},
		{0, 0, "0 ± 0"},
	} {
		if got := PlusMinus(tt.mean, tt.sd); got != tt.want {
			t.Errorf("PlusMinus(%v, %v) = %q, want %q", tt.mean, tt.sd, got, tt.want)
		}
	}
}

func TestSignificant(t *testing.T) {
	t.Parallel()
	tests := []struct {
		v      float64
		digits int
		want   string
	}{
		{0, 3, "0"},
		{7.6, 3, "7.60"},
		{24.7, 3, "24.7"},
		{77.34, 3, "77.3"},
		{1310.4, 3, "1310"},
		{1310.4, 4, "1310"},
		{842.123, 4, "842.1"},
		{0.0074219, 3, "0.00742"},
		{0.00099996, 3, "0.00100"},
		{9.9996, 4, "10.00"},
		{99.96, 3, "100"},
		{0.9999, 3, "1.00"},
		{-0.5, 2, "-0.50"},
		{123456.7, 3, "123457"},
	}
	for _, tt := range tests {
		if got := Significant(tt.v, tt.digits); got != tt.want {
			t.Errorf("Significant(%v, %d) = %q, want %q", tt.v, tt.digits, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(1e-9, 1e12).Draw(t, "v")
		text := Significant(v, 4)
		var back float64
		if _, err := fmt.Sscan(text, &back); err != nil || back < v*0.9994 || back > v*1.0006 {
			t.Fatalf("%v printed as %s", v, text)
		}
		if strings.ContainsAny(text, "eE") {
			t.Fatalf("%v printed as %s", v, text)
		}
	})
}

func TestCellProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := Cell(rapid.String().Draw(t, "s") + rapid.SampledFrom([]string{"", "|", "\n", "\\|", "\\"}).Draw(t, "end"))
		if strings.ContainsAny(text, "\n\r") {
			t.Fatalf("line break in %q", text)
		}
		open := strings.NewReplacer(`\\`, "", `\|`, "").Replace(text)
		if strings.Contains(open, "|") || strings.HasSuffix(open, `\`) {
			t.Fatalf("cell %q breaks its row", text)
		}
	})
}

func TestGrid(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	Grid(&b, []Column{{Title: "a|b"}, {Title: "n", Right: true}}, [][]string{{"x\ny", "1"}, {"*plain*", "—"}})
	const want = "| a\\|b      | n |\n|-----------|---:|\n| x y       | 1 |\n| \\*plain\\* | — |\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ got, want string }{
		{Inline("a_b *c*\n<d> [e] `f`"), "a\\_b \\*c\\* &lt;d> \\[e] \\`f\\`"},
		{Code("a `b` c"), "`` a `b` c ``"},
		{Code("plain"), "`plain`"},
		{Count(1, "row"), "1 row"},
		{Count(0, "row"), "0 rows"},
		{Scaled(catalogue.StepSeconds, 0.0123456), "12.35"},
		{Scaled(catalogue.PeakAllocatedBytes, 1.5*(1<<30)), "1.50"},
		{Scaled("a_figure_of_the_program", 12.34567), "12.35"},
		{Pad("ä", 3, true) + "|" + Pad("ä", 3, false) + "|", "  ä|ä  |"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}
