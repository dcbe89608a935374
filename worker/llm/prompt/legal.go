package prompt

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// publicCorpus is the builder of legal prompts. A change of what it makes is a new version.
const publicCorpus = "public-corpus/1"

// legalRecord is a line of a corpus file. Which of the fields holds the text depends on how the file was made.
type legalRecord struct {
	Text      string `json:"text"`
	PlainText string `json:"plain_text"`
	Content   string `json:"content"`
	Body      string `json:"body"`

	CaseName string `json:"case_name"`
	Caption  string `json:"caption"`
	Title    string `json:"title"`
}

func (r *legalRecord) text() string {
	for _, t := range []string{r.Text, r.PlainText, r.Content, r.Body} {
		if t = strings.TrimSpace(t); t != "" {
			return t
		}
	}
	return ""
}

// openLegal opens the two files of the corpus; both are needed.
func openLegal(files Files) (*Source, error) {
	opinions, err := openLines(filepath.Join(files.Dir, cmp.Or(files.Opinions, "opinions_cl.jsonl")))
	if err != nil {
		return nil, fmt.Errorf("the corpus of court opinions: %w", err)
	}
	filings, err := openLines(filepath.Join(files.Dir, cmp.Or(files.Filings, "filings_recap.jsonl")))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the corpus of court filings: %w", err), opinions.file.Close())
	}
	return &Source{
		Name: Legal, Builder: publicCorpus, Corpus: digest([]byte(opinions.sha256 + filings.sha256)),
		document: func(k Key) *document {
			d := newDraw(k, publicCorpus)
			c := corpus{
				{"OPINION", opinions, newWalk(d, len(opinions.starts))},
				{"FILING", filings, newWalk(d, len(filings.starts))},
			}
			return &document{next: c.next}
		},
		close: func() error { return errors.Join(opinions.file.Close(), filings.file.Close()) },
	}, nil
}

// corpus takes records from its files in turn. No record is used twice in a text.
type corpus [2]struct {
	kind  string
	lines *lines
	walk  walk
}

// next is the next record that has a text; empty when all have been used.
func (c *corpus) next() (string, error) {
	for range c {
		c[0], c[1] = c[1], c[0]
		from := &c[1]
		for i, ok := from.walk.next(); ok; i, ok = from.walk.next() {
			var r legalRecord
			if err := from.lines.decode(i, &r); err != nil {
				return "", err
			}
			if text := r.text(); text != "" {
				return fmt.Sprintf("[%s] %s\n\n%s\n\n", from.kind, cmp.Or(r.CaseName, r.Caption, r.Title, "untitled"), text), nil
			}
		}
	}
	return "", nil
}
