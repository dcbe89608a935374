package collect

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// conceal hides what looks like a secret in a condition, which is printed where it differs. In its place stands a part of
// its hash, so that a difference still is one.
func conceal(path, value string) string {
	if inEnv.MatchString(path) && secretVariable.MatchString(path[strings.LastIndexByte(path, '.')+1:]) {
		return concealed(value)
	}
	value = secretArgument.ReplaceAllStringFunc(value, func(text string) string {
		m := secretArgument.FindStringSubmatch(text)
		return m[1] + concealed(m[2])
	})
	return secretText.ReplaceAllStringFunc(value, concealed)
}

func concealed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "(hidden, " + hex.EncodeToString(sum[:3]) + ")"
}

var (
	inEnv          = regexp.MustCompile(`(^|\.)env\.`)
	secretVariable = regexp.MustCompile(`(?i)KEY|TOKEN$|TOKEN_|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE`)
	// An option or a variable with its value, in an argument of its own or behind a sign.
	secretArgument = regexp.MustCompile(`(?i)((?:api[-_]?key|token|secret|passwo?r?d|credentials?|authorization)(?:","|=|: ?))([^",\s]+)`)
	secretText     = regexp.MustCompile(`\b(?:sk-|hf_|ghp_|xox[bp]-)[A-Za-z0-9_-]{8,}`)
)
