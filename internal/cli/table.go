package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"shardway/internal/logsafe"
)

// table writes rows in columns. An empty cell becomes a dash, so that columns
// can be told apart by awk too.
type table struct {
	tw  *tabwriter.Writer
	err error
}

// newTable begins a table with a line of headings; none: there is no such line.
func newTable(w io.Writer, headings ...string) *table {
	t := &table{tw: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(headings) > 0 {
		t.line(headings)
	}
	return t
}

// row adds a row; the cells are written as fmt.Sprint does.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = strings.Map(printable, fmt.Sprint(c))
		if texts[i] == "" {
			texts[i] = "-"
		}
	}
	t.line(texts)
}

func (t *table) line(texts []string) {
	if _, err := io.WriteString(t.tw, strings.Join(texts, "\t")+"\n"); err != nil && t.err == nil {
		t.err = err
	}
}

// printable keeps what a node says from moving the cursor of the terminal, or turning the order
// of what it shows.
func printable(r rune) rune {
	if logsafe.ControlsTerminal(r) {
		return '?'
	}
	return r
}

// flush writes the table.
func (t *table) flush() error {
	if t.err != nil {
		return t.err
	}
	return t.tw.Flush()
}
