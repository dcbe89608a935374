package catalogue

import (
	"strings"
	"testing"
)

func TestFacts(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	var group Group
	groups := map[Group]bool{}
	for _, f := range Facts() {
		family := strings.HasSuffix(f.Name, " *")
		switch {
		case seen[f.Name]:
			t.Errorf("%s stands twice", f.Name)
		case f.Help == "" || f.When == "" || f.Group == "":
			t.Errorf("%s lacks help, condition or group", f.Name)
		case family && (f.Needed || f.Brief):
			t.Errorf("%s: a family cannot be needed, nor stand in every result", f.Name)
		case f.Group != group && groups[f.Group]:
			t.Errorf("%s stands apart from its group", f.Name)
		}
		seen[f.Name], groups[f.Group], group = true, true, f.Group
	}
	for name, want := range map[string]string{
		"driver": "driver", "setting seed": "setting seed", "setting my own thing": "setting *", "env NCCL_DEBUG": "env *", "version jax": "version *", "nonsense": "", "settings": "",
	} {
		if f, ok := FactByName(name); f.Name != want || ok != (want != "") {
			t.Errorf("%s is found as %q, %v", name, f.Name, ok)
		}
	}
}
