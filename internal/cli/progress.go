package cli

import (
	"io"
	"strings"
)

// progress prints a text that changes. On a terminal it overwrites the previous text; otherwise it
// prints one line per change.
type progress struct {
	w       io.Writer
	inPlace bool
	last    string
}

// show prints text unless it equals the previous text.
func (p *progress) show(text string) error {
	if text == p.last {
		return nil
	}
	line := text + "\n"
	if p.inPlace {
		line = "\r" + text + strings.Repeat(" ", max(len(p.last)-len(text), 0))
	}
	p.last = text
	_, err := io.WriteString(p.w, line)
	return err
}

// barWidth is the width of a progress bar in columns.
const barWidth = 24

// part prints text, on a terminal with a progress bar for done of all. all may increase.
func (p *progress) part(done, all int, text string) error {
	if p.inPlace && all > 0 {
		full := min(max(done, 0), all) * barWidth / all
		text = "[" + strings.Repeat("#", full) + strings.Repeat("-", barWidth-full) + "] " + text
	}
	return p.show(text)
}

// end moves the cursor below the last text. It ignores errors: later output reports them.
func (p *progress) end() {
	if p.inPlace && p.last != "" {
		_, _ = io.WriteString(p.w, "\n")
	}
}
