package trail

import (
	"strings"
	"testing"

	"cpbench/plan"

	"github.com/google/go-cmp/cmp"
)

func TestAssignments(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{Axes: []plan.Axis{
		{Name: "cp", Values: []string{"1", "4"}}, {Name: "args", Values: []string{"a", "a,b=1", "a,b=1,c"}}, {Name: "tokens", Values: []string{"16"}},
	}}
	for text, want := range map[string]map[int]string{
		"3f2a":                        nil,
		"cp=4":                        {0: "4"},
		"cp=4,tokens=max-fit":         {0: "4", 2: "max-fit"},
		" cp = 4 , tokens=16":         {0: "4", 2: "16"},
		"args=a,b=1,cp=1":             {0: "1", 1: "a,b=1"},
		"cp=1,args=a,b=1,c,tokens=16": {0: "1", 1: "a,b=1,c", 2: "16"},
	} {
		got, err := assignments(p, text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"gpus=4":         `unknown axis "gpus"`,
		"cp=4,gpus=1":    `unknown axis "gpus"`,
		"cp=4,cp=1":      "gives cp twice",
		"cp=2":           `cp has no value "2"`,
		"cp=1,args=a,z":  `unknown axis "z"`,
		"cp=1,args=a,b":  `args has no value "a,b"`,
		"cp=1, tokens":   `axis "tokens" has no value in "cp=1, tokens"`,
		"=,":             `unknown axis ""`,
		"tokens=max-fit": "",
	} {
		_, err := assignments(p, text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
