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
	t := &table{tw: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(headings) > 0 {
		t.line(headings)
	}
	return t
}

// row adds a row. Cells are formatted with fmt.Sprint.
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

// printable replaces characters with which the text of a node could move the cursor of the terminal or
// change the direction of text. It is a mapping for strings.Map.
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
