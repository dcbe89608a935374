package account_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// ruleCount is how many rules of the accounting there are.
const ruleCount = 34

// What a test says of the rules that it holds: in its comment, or at the beginning of the name of a case.
var (
	cited = regexp.MustCompile(`(?m)^\s*//.*\b[Rr]ules? (\d+(?:(?:,| and|, and) \d+)*)`)
	cases = regexp.MustCompile(`\{"(\d+(?:, \d+)*) `)
	digit = regexp.MustCompile(`\d+`)
)

// TestEveryRuleIsTested: every rule of the accounting has a test that names its number, wherever the rule is at home.
func TestEveryRuleIsTested(t *testing.T) {
	t.Parallel()
	tested := map[string][]string{}
	for _, root := range []string{"../../llm", "../../../plan", "../../../collect", "../../../cmd/cpbench"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found := cited.FindAllSubmatch(text, -1)
			if base := filepath.Base(path); base == "judge_test.go" || base == "group_test.go" {
				found = append(found, cases.FindAllSubmatch(text, -1)...)
			}
			for _, f := range found {
				for _, n := range digit.FindAllString(string(f[1]), -1) {
					tested[n] = append(tested[n], path)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n <= ruleCount; n++ {
		if name := strconv.Itoa(n); len(tested[name]) == 0 {
			t.Errorf("no test names rule %d", n)
		}
	}
}
