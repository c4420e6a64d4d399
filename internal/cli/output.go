package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"shardway/internal/logsafe"
)

// table writes rows in aligned columns. An empty cell is printed as a dash, so that awk can split the
// columns.
type table struct {
	tw  *tabwriter.Writer
	err error
}

// newTable returns a table with a line of headings, if there are any.
func newTable(w io.Writer, headings ...string) *table {
	table := &table{tw: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(headings) > 0 {
		table.line(headings)
	}
	return table
}

// row adds a row. Cells are formatted with fmt.Sprint.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = strings.Map(printable, fmt.Sprint(cell))
		if texts[i] == "" {
			texts[i] = "-"
		}
	}
	t.line(texts)
}

// line adds a line with one cell for each text, and stores the first error for flush.
func (t *table) line(texts []string) {
	if _, err := io.WriteString(t.tw, strings.Join(texts, "\t")+"\n"); err != nil && t.err == nil {
		t.err = err
	}
}

// printable replaces control characters, so that text from a node cannot move the cursor or reverse the
// text direction. It is a mapping for strings.Map.
func printable(r rune) rune {
	if logsafe.ControlsTerminal(r) {
		return '?'
	}
	return r
}

// flush writes the table and returns the first error.
func (t *table) flush() error {
	if t.err != nil {
		return t.err
	}
	return t.tw.Flush()
}

// progress prints a text that changes. On a terminal it overwrites the previous text; otherwise it
// prints one line per change.
type progress struct {
	w        io.Writer
	inPlace  bool
	lastText string
}

// show prints text unless it equals the previous text.
func (p *progress) show(text string) error {
	if text == p.lastText {
		return nil
	}
	line := text + "\n"
	if p.inPlace {
		line = "\r" + text + strings.Repeat(" ", max(len(p.lastText)-len(text), 0))
	}
	p.lastText = text
	_, err := io.WriteString(p.w, line)
	return err
}

// barWidth is the width of a progress bar in columns.
const barWidth = 24

// part prints text, on a terminal with a progress bar for done of all. all may increase.
func (p *progress) part(done, all int, text string) error {
	if p.inPlace && all > 0 {
		filled := min(max(done, 0), all) * barWidth / all
		text = "[" + strings.Repeat("#", filled) + strings.Repeat("-", barWidth-filled) + "] " + text
	}
	return p.show(text)
}

// end moves the cursor below the last text. It ignores errors: later output reports them.
func (p *progress) end() {
	if p.inPlace && p.lastText != "" {
		_, _ = io.WriteString(p.w, "\n")
	}
}
