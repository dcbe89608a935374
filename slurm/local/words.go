package local

import (
	"fmt"
	"strings"
)

// words splits what stands behind #SBATCH the way sbatch does (tried on 22.05.8; TestRealSbatchUnquotes holds the two
// together). It is not the shell's way:
//
//   - A backslash takes the next character as it is, outside quotes and inside both kinds: 'a\b' is ab, "a\nb" is anb,
//     'a\'b' is a'b. Only a blank outside quotes splits the words even so.
//   - Quotes of either kind keep blanks and # together, may stand anywhere in a word, and the other kind is plain text
//     inside: 'it'"'"'s' and "it's" are both it's.
//   - A # outside quotes starts a comment, also in the middle of a word: nvcr.io#image is cut there.
//   - Nothing is expanded: no variable, no tilde, no command.
//
// To write a value: double quotes around it, a backslash before each " and \, and no more.
func words(text string) ([]string, error) {
	var all []string
	var word strings.Builder
	started, escaped := false, false
	var quote rune
	end := func() {
		if started {
			all = append(all, word.String())
		}
		word.Reset()
		started, escaped = false, false
	}
	for _, r := range text {
		switch {
		case quote == 0 && blank(r):
			end()
			continue
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case quote == 0 && r == '#':
			end()
			return all, nil
		default:
			word.WriteRune(r)
		}
		started = true
	}
	if quote != 0 {
		return nil, fmt.Errorf("unmatched %c in %q", quote, text)
	}
	end()
	return all, nil
}

// blank is isspace of the C locale.
func blank(r rune) bool {
	return r == ' ' || '\t' <= r && r <= '\r'
}
