package table

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cpbench/plan"
	"cpbench/plan/catalogue"
)

// Notes that differ in one number are one note of rows of sizes, and stay apart for searches.
func TestNotesThatAreAlike(t *testing.T) {
	t.Parallel()
	type row struct {
		kind, text, hint string
	}
	for _, tt := range []struct {
		name string
		rows []row
		want []string
	}{
		{"equal", []row{{"", "not settled", ""}, {"", "not settled", ""}}, []string{"not settled"}},
		{"one number", []row{{"", "it is +18.4 % of 2", ""}, {"", "it is -3 % of 2", ""}, {"", "it is +5.5 % of 2", ""}}, []string{"it is -3 to +18.4 % of 2"}},
		{"again", []row{{"", "1 %", ""}, {"", "3 %", ""}, {"", "1 %", ""}}, []string{"1 to 3 %"}},
		{"two numbers", []row{{"", "1 of 2", ""}, {"", "2 of 3", ""}}, []string{"1 of 2", "2 of 3"}},
		{"another number than before", []row{{"", "1 of 2", ""}, {"", "2 of 2", ""}, {"", "1 of 3", ""}}, []string{"1 to 2 of 2", "1 of 3"}},
		{"other words", []row{{"", "1 of 2", ""}, {"", "1 or 2", ""}}, []string{"1 of 2", "1 or 2"}},
		{"another hint", []row{{"", "1", "a"}, {"", "2", "b"}}, []string{"1", "2"}},
		{"searches", []row{{plan.CaseMaxFit, "352 failed", ""}, {plan.CaseMaxFit, "720 failed", ""}, {plan.CaseMaxFit, "352 failed", ""}}, []string{"352 failed", "720 failed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			table := &Table{}
			for _, r := range tt.rows {
				row := &Row{Case: r.kind}
				if table.addNote(row, Note{Code: catalogue.Drift, Text: r.text, Hint: r.hint}); len(row.Notes) != 1 {
					t.Errorf("%q: notes %v", r.text, row.Notes)
				}
			}
			var got []string
			for _, n := range table.Notes {
				got = append(got, n.Text)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
