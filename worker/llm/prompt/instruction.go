package prompt

import "strings"

// Instruction is a fixed text of ours, known by name, version and hash. A text that changes gets a new version.
type Instruction struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	SHA256  string `json:"sha256"`
	text    string
}

// The instructions. They ask for long answers, so that the output budget is what ends them.
var (
	alone = instruction("memorandum", 1, `You are the law clerk of an appellate court. Without any file at hand, write a long memorandum for a new judge on how a court weighs conflicting testimony. Treat in turn: the standard of review, the credibility of witnesses, contemporaneous documents, expert opinions, missing evidence, and the wording of findings. Give for each an example of your own with invented names. Number your sections. Do not cite real cases. Go on until every topic has been treated in detail.`)

	record = instruction("record-review", 1, `You are the law clerk of an appellate court. The record of a matter follows; it may break off. Write a long bench memorandum on it. Treat in turn: the parties and their claims, the course of the proceedings by date, the testimony and the documents that contradict one another, the questions that remain open, and how each should be decided on this record. Refer to the passages on which you rely. Rely on nothing outside the record. Go on until every topic has been treated in detail.`)
)

func instruction(name string, version int, text string) Instruction {
	return Instruction{Name: name, Version: version, SHA256: digest([]byte(text)), text: text}
}

// frame is a chat prompt around a document, which may be empty. One user message, because some templates refuse a
// system message. The file number comes first: prompts of different keys differ within the first block of a prefix
// cache, so that a cache without salts has nothing to find.
func frame(in Instruction, k Key, document string) []Message {
	var b strings.Builder
	b.Grow(len(in.text) + len(document) + 80)
	b.WriteString("File ")
	b.WriteString(newDraw(k, "file").hex())
	b.WriteString("\n\n")
	b.WriteString(in.text)
	if in.Name == record.Name {
		b.WriteString("\n\nRECORD\n\n")
		b.WriteString(document)
	}
	return []Message{{Role: "user", Content: b.String()}}
}
