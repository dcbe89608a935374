package local

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseHeader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, lines string
		want        Header
	}{
		{"none", "", Header{}},
		{
			"long", "#SBATCH --array=0-1%1 --job-name=\"a b\"\n#SBATCH --output=\"it's %A\" # say where\n#SBATCH --open-mode=append\n",
			Header{Name: "a b", Indices: []int{0, 1}, Throttle: 1, Output: "it's %A", AppendMode: true},
		},
		{"short", "#SBATCH -a 2 -J x\n#SBATCH -oy\n", Header{Name: "x", Indices: []int{2}, Output: "y"}},
		{"apart", "#SBATCH --array 1,3 --output out --open-mode truncate\n", Header{Indices: []int{1, 3}, Output: "out"}},
		{"last one wins", "#SBATCH --output=a --array=1\n#SBATCH -o b --array=2\n#SBATCH --open-mode=a\n#SBATCH --open-mode=t\n", Header{Indices: []int{2}, Output: "b"}},
		{"others count for nothing", "#SBATCH --partition=\"-a 7\" -p gpu --gres=gpu:8 --array-like=3\n", Header{}},
		{"blanks and comments before it", "\n  \n # note\n##SBATCH -o no\n #SBATCH -o no\n#sbatch -o no\n#SBATCH\t-o yes\n", Header{Output: "yes"}},
		{"glued", "#SBATCH--output=glued\n", Header{Output: "glued"}},
		{"after the first command", "true\n#SBATCH -o no\n", Header{}},
		{"empty array", "#SBATCH --array=1-2\n#SBATCH --array=\n", Header{}},
		{"no line end", "#SBATCH -o out", Header{Output: "out"}},
	} {
		got, err := ParseHeader([]byte("#!/bin/bash\n" + test.lines))
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
	for lines, want := range map[string]string{
		"#SBATCH -o \"x\n":         "line 2: unmatched \"",
		"\n#SBATCH --array=4-0\n":  "line 3: --array=4-0: invalid job array specification",
		"#SBATCH --output\n":       "line 2: option --output requires an argument",
		"#SBATCH --open-mode=no\n": `line 2: --open-mode: "no" is neither append nor truncate`,
	} {
		if got, err := ParseHeader([]byte("#!/bin/bash\n" + lines)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %s", lines, got, err, want)
		}
	}
}

func TestParseArraySpec(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		spec     string
		want     []int
		throttle int
	}{
		{"0", []int{0}, 0},
		{"0-3", []int{0, 1, 2, 3}, 0},
		{"5-9:2,11%1", []int{5, 7, 9, 11}, 1},
		{"3,1,3,2-4", []int{1, 2, 3, 4}, 0},
		{"1-3:9", []int{1}, 0},
		{"1-3,", []int{1, 2, 3}, 0},
		{"0,,1", []int{0, 1}, 0},
		{"[0-1]%2", []int{0, 1}, 2},
		{"[0-1%2]", []int{0, 1}, 2},
		{" 0-1", []int{0, 1}, 0},
		{"1-2%0", []int{1, 2}, 0},
		{"1-2%a", []int{1, 2}, 0},
		{"", nil, 0},
	} {
		got, throttle, err := parseArraySpec(test.spec)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" || throttle != test.throttle {
			t.Errorf("parseArraySpec(%q): throttle %d, %v (-want +got):\n%s", test.spec, throttle, err, diff)
		}
	}
	for _, spec := range []string{"4-0", "0-4:0", "-1", "x", "1-", "1-2-3", "1:2", "1.5", "1-2:", "99999999999", "0-4000001", "0-4000000,0-4000000"} {
		if got, _, err := parseArraySpec(spec); !errors.Is(err, ErrArraySpec) {
			t.Errorf("parseArraySpec(%q) = %d indices, %v; want ErrArraySpec", spec, len(got), err)
		}
	}
}

// The names are what Slurm 22.05.8 made of the patterns, but for %j, which is a number there.
func TestOutputPath(t *testing.T) {
	t.Parallel()
	array := Header{Indices: []int{7}, Name: "job name"}
	for _, test := range []struct {
		header  Header
		pattern string
		want    string
	}{
		{array, "d/%A_%a.out", "d/12_7.out"},
		{array, "%%A %%%a %%%%a", "%A %7 %%a"},
		{array, "%4a %3A %2A %0a %12a", "0007 012 12 7 0000000007"},
		{array, "%x %10x", "job name job name"},
		{array, "%j", "12_7"},
		{array, "$HOME ~ %q 5% %", "$HOME ~ %q 5% %"},
		{array, `d/back\slash %a`, "d/backslash %a"},
		{array, `d/a\\b %a\`, `d/a\b %a`},
		{array, "", "slurm-12_7.out"},
		{Header{}, "", "slurm-12.out"},
		{Header{}, "%A %a %j %x", "12 4294967294 12 (null)"},
	} {
		test.header.Output = test.pattern
		a := &Array{ID: "12", Header: test.header}
		if got := test.header.outputPath("12", a.jobID(7), 7); got != test.want {
			t.Errorf("%q expands to %q, want %q", test.pattern, got, test.want)
		}
	}
}
