package page

import (
	"math"
	"strconv"
	"strings"

	"cpbench/plan/catalogue"
)

// None stands in a cell without a value. It is never 0.
const None = "—"

// Significant prints v with so many significant digits and without an exponent; the digits of a larger whole part
// stay. 0.0074219 with 3 digits is 0.00742, 1310.4 is 1310.
func Significant(v float64, digits int) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	decimals := digits - 1 - int(math.Floor(math.Log10(math.Abs(v))))
	text := strconv.FormatFloat(v, 'f', max(decimals, 0), 64)
	if rounded, err := strconv.ParseFloat(text, 64); err == nil && decimals > 0 && math.Abs(rounded) >= math.Pow10(digits-decimals) {
		return strconv.FormatFloat(v, 'f', decimals-1, 64) // 9.9996 became 10.000
	}
	return text
}

// Scaled prints a metric, given in its base unit, in the unit of its column.
func Scaled(metric string, v float64) string {
	m, ok := catalogue.MetricByName(metric)
	if !ok {
		return Significant(v, 4)
	}
	if m.Unit == "bytes" {
		return Significant(v/m.Scale, 3)
	}
	return Significant(v/m.Scale, 4)
}

// PlusMinus prints a mean and the standard deviation behind it. The deviation has two digits and the mean ends where it
// does: further digits of the mean are noise.
func PlusMinus(mean, sd float64) string {
	if sd == 0 {
		return Significant(mean, 4) + " ± 0"
	}
	deviation := Significant(sd, 2)
	text := Significant(mean, 6) // of values that hardly differ
	if cut := strconv.FormatFloat(mean, 'f', decimals(deviation), 64); len(cut) < len(text) {
		text = cut
	}
	return text + " ± " + deviation
}

// decimals is the number of digits behind the point of a number.
func decimals(number string) int {
	_, behind, _ := strings.Cut(number, ".")
	return len(behind)
}

// Count writes a number of things: 1 row, 2 rows.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
