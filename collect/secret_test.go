package collect

import (
	"strings"
	"testing"
)

// TestConceal: conditions are printed where they differ, and secrets are not.
func TestConceal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ path, value, secret string }{
		{"env.HF_TOKEN", `"open-sesame"`, "sesame"},
		{"workload.server.env.SERVICE_API_KEY", `"open-sesame"`, "sesame"},
		{"workload.command", `["serve","--api-key","open-sesame","--port","8000"]`, "sesame"},
		{"workload.command", `["serve","--token=open-sesame"]`, "sesame"},
		{"setup", `["export DB_PASSWORD=open-sesame"]`, "sesame"},
		{"workload.command", `["curl","hf_opensesame1234"]`, "sesame"},
	} {
		got := conceal(tt.path, tt.value)
		if strings.Contains(got, tt.secret) || !strings.Contains(got, "hidden") {
			t.Errorf("%s tells %s", tt.path, got)
		}
		if other := conceal(tt.path, strings.Replace(tt.value, tt.secret, "another", 1)); other == got {
			t.Errorf("%s: two secrets look the same", tt.path)
		}
	}
	for _, tt := range []struct{ path, value string }{
		{"workload.max_tokens", "64"},
		{"env.NCCL_ALGO", `"Ring"`},
		{"env.TOKENIZERS_PARALLELISM", `"false"`},
		{"workload.command", `["serve","--max-tokens","64","--tokens=8"]`},
		{"workload.point.tokens", `"tokens"`},
	} {
		if got := conceal(tt.path, tt.value); got != tt.value {
			t.Errorf("%s: %s became %s", tt.path, tt.value, got)
		}
	}
}
