package prompt

import (
	"errors"
	"fmt"
)

// userPrompts is the builder of prompts that are sent as they stand in a user's file.
const userPrompts = "user-prompts/1"

// userLine is a line of a user's file; other fields are the user's own.
type userLine struct {
	Prompt   string    `json:"prompt"`
	Messages []Message `json:"messages"`
}

// openUser opens a file of prompts and reads all of it: a bad line is told now, not in the middle of a run.
func openUser(name, path string) (*Source, error) {
	l, err := openLines(path)
	if err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	for i := range l.starts {
		if _, err := l.messages(i); err != nil {
			return nil, errors.Join(fmt.Errorf("prompts: %w", err), l.file.Close())
		}
	}
	return &Source{
		Name: name, Builder: userPrompts, Corpus: l.sha256,
		// Streams of a group have neighbouring prompts, so that no two are equal while there are enough.
		prompt: func(k Key) ([]Message, error) {
			first := newDraw(Key{Seed: k.Seed, Case: k.Case, Repeat: k.Repeat}, userPrompts).below(len(l.starts))
			return l.messages((first + k.Stream) % len(l.starts))
		},
		close: l.file.Close,
	}, nil
}

// messages are the messages of a line.
func (l *lines) messages(i int) ([]Message, error) {
	var u userLine
	if err := l.decode(i, &u); err != nil {
		return nil, err
	}
	if (u.Prompt == "") == (len(u.Messages) == 0) {
		return nil, fmt.Errorf("%s:%d: a line has either a prompt or messages", l.path, l.number[i])
	}
	if u.Prompt != "" {
		return []Message{{Role: "user", Content: u.Prompt}}, nil
	}
	for _, m := range u.Messages {
		if m.Role == "" || m.Content == "" {
			return nil, fmt.Errorf("%s:%d: every message has a role and a content that is a text", l.path, l.number[i])
		}
	}
	return u.Messages, nil
}
