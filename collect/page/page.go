// Package page is how texts, tables and numbers are written on the pages of collect: Grid, Inline, Cell and Code for
// Markdown in which no value is markup by accident, Scaled and Significant for numbers. Use it in whatever writes a
// page for people.
package page

import (
	"bytes"
	"strings"
)

// Column is a column of a Grid.
type Column struct {
	Title string
	Right bool // numbers stand on the right
}

// Grid writes a Markdown table whose columns are aligned, so that the source is a table to the eye as well. The cells
// are texts; what would be markup in them is escaped.
func Grid(b *bytes.Buffer, columns []Column, rows [][]string) {
	grid := make([][]string, len(rows))
	width := make([]int, len(columns))
	for i, c := range columns {
		width[i] = len([]rune(Cell(c.Title)))
	}
	for j, row := range rows {
		for i := range columns {
			text := Cell(row[i])
			grid[j] = append(grid[j], text)
			width[i] = max(width[i], len([]rune(text)))
		}
	}
	for i, c := range columns {
		b.WriteString("| " + Pad(Cell(c.Title), width[i], c.Right) + " ")
	}
	b.WriteString("|\n")
	for i, c := range columns {
		dashes := strings.Repeat("-", max(width[i]+1, 3))
		if c.Right {
			b.WriteString("|" + dashes + ":")
		} else {
			b.WriteString("|" + dashes + "-")
		}
	}
	b.WriteString("|\n")
	for _, line := range grid {
		for i, text := range line {
			b.WriteString("| " + Pad(text, width[i], columns[i].Right) + " ")
		}
		b.WriteString("|\n")
	}
}

// Pad fills a text with blanks up to a number of characters, on its left if it stands on the right.
func Pad(text string, width int, right bool) string {
	blanks := strings.Repeat(" ", max(width-len([]rune(text)), 0))
	if right {
		return blanks + text
	}
	return text + blanks
}

// What would be markup in running text, and in a cell of a table. Made once: a replacer is dear to make.
var (
	inlineMarkup = strings.NewReplacer("\\", "\\\\", "<", "&lt;", "*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[")
	cellMarkup   = strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", "*", "\\*", "`", "\\`")
)

// Inline makes one line of running text out of s in which nothing is markup by accident.
func Inline(s string) string {
	return inlineMarkup.Replace(strings.Join(strings.Fields(s), " "))
}

// Cell makes a table cell out of s: no bar, no line break and no markup, so that a value can never break its row.
// Footnote marks are ours and stay.
func Cell(s string) string {
	return cellMarkup.Replace(strings.Join(strings.Fields(s), " "))
}

// Code makes a code span out of s, with more backticks around it than it has within.
func Code(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}
