package sheet

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"cpbench/collect/compare"
	"cpbench/collect/compare/cell"
	"cpbench/collect/page"
	"cpbench/plan/catalogue"
)

// oneSide is the cell of one side: mean, deviation and n.
func oneSide(s *cell.Stat, h *compare.Half, metric string) string {
	n := strconv.Itoa(h.Units)
	if s == nil {
		return page.None
	}
	if s.N != h.Units {
		n = fmt.Sprintf("%d of %d", s.N, h.Units)
	}
	m, known := catalogue.MetricByName(metric)
	switch {
	case metric == cell.MaxFit && s.Max == nil:
		return fmt.Sprintf(">= %.0f (n=%s)", s.Min, n)
	case metric == cell.MaxFit:
		return fmt.Sprintf("%.0f to below %.0f (n=%s)", s.Min, *s.Max, n)
	case known && m.Unit == "bytes" && s.Min != *s.Max:
		return fmt.Sprintf("%s to %s (n=%s)", page.Scaled(metric, s.Min), page.Scaled(metric, *s.Max), n)
	case known && m.Unit == "bytes":
		return fmt.Sprintf("%s (n=%s)", page.Scaled(metric, *s.Max), n)
	case s.SD == nil:
		return fmt.Sprintf("%s (n=%s)", page.Scaled(metric, s.Mean), n)
	}
	return fmt.Sprintf("%s (n=%s)", page.PlusMinus(unscaled(metric, s.Mean), unscaled(metric, *s.SD)), n)
}

// unscaled divides a difference of a metric by the scale of its column.
func unscaled(metric string, v float64) float64 {
	if m, ok := catalogue.MetricByName(metric); ok {
		return v / m.Scale
	}
	return v
}

// percent writes a ratio with its change: 0.912 (-8.8 %).
func percent(ratio float64) string {
	return fmt.Sprintf("%s (%s)", page.Significant(ratio, 4), change(ratio))
}

// change writes how far a ratio is from 1, with its sign.
func change(ratio float64) string {
	text := page.Significant(100*(ratio-1), 2) + " %"
	switch {
	case math.Abs(ratio-1) < 1e-6:
		return "0 %" // what is left is that of floating point
	case ratio > 1:
		return "+" + text
	case ratio < 1:
		return "−" + strings.TrimPrefix(text, "-")
	}
	return text
}

// signed writes a difference in the unit of the column.
func signed(metric string, v float64) string {
	text := page.Significant(unscaled(metric, v), 3)
	switch {
	case v > 0:
		return "+" + text
	case v < 0:
		return "−" + strings.TrimPrefix(text, "-")
	}
	return text
}

func ratio(c *cell.Cell, metric string) string {
	switch {
	case c.Estimate == nil:
		return page.None
	case c.Ratio:
		return percent(*c.Estimate)
	}
	return signed(metric, *c.Estimate)
}

func interval(c *cell.Cell, metric string) string {
	if c.Lo == nil && c.Hi == nil || c.Method == cell.ByRange && *c.Lo == *c.Hi {
		return page.None
	}
	write := func(v *float64) string {
		switch {
		case v == nil:
			return "?"
		case c.Ratio:
			return page.Significant(*v, 4)
		}
		return signed(metric, *v)
	}
	return write(c.Lo) + " to " + write(c.Hi)
}

func verdict(c *cell.Cell) string {
	if c.Why != "" {
		return fmt.Sprintf("%s (%s)", c.Verdict, c.Why)
	}
	return string(c.Verdict)
}

// sees is the smallest visible difference, and what would show 2 %.
func sees(c *cell.Cell, metric string) string {
	switch {
	case c.Visible == nil:
		return page.None
	case !c.Ratio:
		return page.Significant(unscaled(metric, *c.Visible), 2)
	}
	text := page.Significant(100**c.Visible, 2) + " %"
	if *c.Visible < 1e-4 {
		text = "<0.01 %"
	}
	switch {
	case c.More == nil:
		text += " (+ >1000)"
	case *c.More > 0:
		text += fmt.Sprintf(" (+%d)", *c.More)
	}
	return text
}

// method is how the difference was made, with the units that have no partner.
func method(c *cell.Cell) string {
	switch {
	case c.Estimate == nil:
		return page.None
	case c.Unpaired > 0:
		return fmt.Sprintf("%s, %d without a partner", c.Method, c.Unpaired)
	}
	return c.Method
}

func probability(p *float64) string {
	switch {
	case p == nil:
		return page.None
	case *p < 0.0001:
		return "<0.0001"
	}
	return page.Significant(*p, 2)
}
