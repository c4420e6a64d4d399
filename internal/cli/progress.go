package cli

import (
	"io"
	"strings"
)

// progress shows a text that changes: in place to a person, else a line for each.
type progress struct {
	w       io.Writer
	inPlace bool
	last    string
}

// show shows text unless it is there already.
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

// barWidth is how wide a bar is, in columns.
const barWidth = 24

// part shows text with a bar before it for a person, of which done of all is full. What
// was to be done may have grown.
func (p *progress) part(done, all int, text string) error {
	if p.inPlace && all > 0 {
		full := min(max(done, 0), all) * barWidth / all
		text = "[" + strings.Repeat("#", full) + strings.Repeat("-", barWidth-full) + "] " + text
	}
	return p.show(text)
}

// end leaves the last text where it is. An error was told before, or will be.
func (p *progress) end() {
	if p.inPlace && p.last != "" {
		_, _ = io.WriteString(p.w, "\n")
	}
}
