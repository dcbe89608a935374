package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// The shells ask cpbench itself for the words that may follow, through the library's hidden flag.
var completions = map[string]string{
	"bash": `_cpbench() {
  local words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  local IFS=$'\n'
  COMPREPLY=($(compgen -o default -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _cpbench cpbench
`,
	"zsh": `#compdef cpbench
_cpbench() {
  local -a choices
  choices=("${(@f)$("${words[@]:0:$((CURRENT-1))}" --generate-bash-completion 2>/dev/null)}")
  compadd -a choices || true
  _files
}
compdef _cpbench cpbench
`,
}

func completionCommand(s *streams) *cli.Command {
	return &cli.Command{
		Name:  "completion",
		Usage: "print the completion script of a shell: bash, zsh or fish",
		UsageText: `source <(cpbench completion bash)
cpbench completion zsh > "${fpath[1]}/_cpbench"
cpbench completion fish > ~/.config/fish/completions/cpbench.fish`,
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			shell, err := oneArgument(c, "SHELL")
			if err != nil {
				return &usageError{err.Error(), "choose from bash, zsh, fish"}
			}
			text, ok := completions[shell]
			if shell == "fish" {
				if text, err = newApp(&streams{out: io.Discard, err: io.Discard, voice: voice{io.Discard}}).ToFishCompletion(); err != nil {
					return err
				}
				ok = true
			}
			if !ok {
				return &usageError{fmt.Sprintf("no completion for %q", shell), "choose from bash, zsh, fish"}
			}
			_, err = io.WriteString(s.out, strings.TrimLeft(text, "\n"))
			return err
		},
	}
}
