package prompt

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// measured is one file of the folder: what was found for one prompt.
type measured struct {
	Bytes  int    `json:"bytes"` // of the document
	Tokens int    `json:"tokens"`
	SHA256 string `json:"prompt_sha256"`
	Probes int    `json:"probes"` // what it took
}

// file is the place of a prompt in the folder: a hash of everything that its size depends on.
func (z *Sizer) file(p *Prompt, k Key) string {
	data, err := json.Marshal(struct {
		Identity, Source, Builder, Corpus, Instruction string
		Key                                            Key
		Target                                         int
	}{z.Identity, p.Source, p.Builder, p.Corpus, p.Instruction.SHA256, k, p.Target})
	if err != nil {
		panic(fmt.Sprintf("plain strings and numbers: %v", err))
	}
	return filepath.Join(z.Dir, digest(data)+".json")
}

// load is what was found before. A file that is missing or broken costs its counts again, and nothing else.
func (z *Sizer) load(p *Prompt, k Key) (m measured, ok bool) {
	if z.Dir == "" {
		return m, false
	}
	data, err := os.ReadFile(z.file(p, k))
	if err != nil || json.Unmarshal(data, &m) != nil || m.Bytes < 0 || m.Tokens <= 0 {
		return m, false
	}
	return m, true
}

// save keeps what was found for p.
func (z *Sizer) save(p *Prompt, k Key, bytes int) error {
	if z.Dir == "" {
		return nil
	}
	data, err := json.Marshal(measured{Bytes: bytes, Tokens: *p.Tokens, SHA256: p.SHA256, Probes: p.Probes})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(z.Dir, 0o777); err != nil {
		return err
	}
	// Without WithTempDir renameio may take TMPDIR, which is the node's own disk.
	return renameio.WriteFile(z.file(p, k), append(data, '\n'), 0o666, renameio.WithTempDir(z.Dir))
}
