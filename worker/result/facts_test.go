package result

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/plan/catalogue"

	"github.com/google/go-cmp/cmp"
)

func TestFacts(t *testing.T) {
	t.Parallel()
	at := func(point string) *Result { return &Result{Point: point, Repeat: 1, Attempt: 1} }
	tests := []struct {
		name   string
		add    []map[string]string // of the results aa, bb, cc
		change []bool
		own    int // results with own values
	}{
		{"all the same", []map[string]string{{"a": "1", "b": "2"}, {"a": "1", "b": "2"}}, []bool{true, false}, 0},
		{"another value", []map[string]string{{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "1", "b": "2"}}, []bool{true, true, false}, 1},
		{"one more", []map[string]string{{"a": "1"}, {"a": "1", "c": "3"}}, []bool{true, true}, 1},
		{"one less", []map[string]string{{"a": "1", "b": "2"}, {"a": "1"}}, []bool{true, true}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := NewFacts()
			for i, all := range tt.add {
				r := at([]string{"aa", "bb", "cc"}[i])
				if got := f.Add(r, all); got != tt.change[i] {
					t.Errorf("result %d changes the file: %v", i, got)
				}
				if f.Add(r, all) {
					t.Errorf("result %d, added again, changes the file", i)
				}
			}
			path := filepath.Join(t.TempDir(), `it's a "log"`, "provenance.json")
			if err := WriteFacts(path, f); err != nil {
				t.Fatal(err)
			}
			read, err := ReadFacts(path)
			if err != nil {
				t.Fatal(err)
			}
			for i, all := range tt.add {
				if diff := cmp.Diff(all, read.Of(at([]string{"aa", "bb", "cc"}[i]))); diff != "" {
					t.Errorf("result %d (-told +read):\n%s", i, diff)
				}
			}
			if len(read.Results) != tt.own {
				t.Errorf("own values: %v", read.Results)
			}
		})
	}
}

// What a result told first and then tells anew replaces what it told.
func TestFactsAnew(t *testing.T) {
	t.Parallel()
	f, r := NewFacts(), &Result{Point: "bb", Repeat: 1, Attempt: 1}
	f.Add(&Result{Point: "aa", Repeat: 1, Attempt: 1}, map[string]string{"a": "1"})
	f.Add(r, map[string]string{"a": "2"})
	if !f.Add(r, map[string]string{"a": "1"}) || f.Of(r)["a"] != "1" {
		t.Errorf("%+v", f)
	}
}

func TestFactsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "provenance.json")
	if err := os.WriteFile(path, []byte(`{"schema":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFacts(path); !errors.Is(err, ErrNewer) {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"sch`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFacts(path); err == nil {
		t.Error("a file that was cut is read")
	}
}

// An empty list of what is missing is told from none, which an older worker leaves; and no key is ever cut.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, list := range [][]Missing{nil, {}} {
		r := full()
		r.Missing = list
		text, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(text)
		if err != nil || (again.Missing == nil) != (list == nil) {
			t.Errorf("%v became %v, %v", list, again.Missing, err)
		}
	}
	r := full()
	for _, f := range catalogue.Facts() {
		r.Missing = append(r.Missing, Missing{[]string{f.Name}, strings.Repeat("why ", 100)})
	}
	if err := Write(t.TempDir(), r); err != nil {
		t.Fatal(err)
	}
	if len(r.Missing) != len(catalogue.Facts())+1 || len(r.Missing[9].Reason) > maxFact || !hasCode(r, catalogue.CutShort) {
		t.Errorf("%d of %d are left, %q; %v", len(r.Missing), len(catalogue.Facts())+1, r.Missing[9].Reason, r.Warnings)
	}
}
