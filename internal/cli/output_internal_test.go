package cli

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// On a terminal, progress is one line that is overwritten completely. A file gets one line for each
// change.
func TestProgressChangesInPlaceForAPerson(t *testing.T) {
	for inPlace, want := range map[bool]string{true: "\r10 left\r9 left \r8 left\n", false: "10 left\n9 left\n8 left\n"} {
		var b strings.Builder
		p := progress{w: &b, inPlace: inPlace}
		for _, text := range []string{"10 left", "9 left", "9 left", "8 left"} {
			if err := p.show(text); err != nil {
				t.Fatal(err)
			}
		}
		p.end()
		if b.String() != want {
			t.Errorf("in place: %v: wrote %q, want %q", inPlace, b.String(), want)
		}
	}
}

// A progress bar is shown on a terminal only, and never exceeds its width.
func TestBarGrowsForAPerson(t *testing.T) {
	var person, file strings.Builder
	for w, inPlace := range map[*strings.Builder]bool{&person: true, &file: false} {
		p := progress{w: w, inPlace: inPlace}
		for _, done := range []int{0, 5, 10, 12} {
			if err := p.part(done, 10, "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	full, half := strings.Repeat("#", barWidth), strings.Repeat("#", barWidth/2)
	want := "\r[" + strings.Repeat("-", barWidth) + "] x\r[" + half + strings.Repeat("-", barWidth/2) + "] x\r[" + full + "] x"
	if person.String() != want || file.String() != "x\n" {
		t.Errorf("a person sees %q, want %q; a file has %q", person.String(), want, file.String())
	}
}

// JSON requires escapes only for the first 32 characters. U+009B starts a control sequence of a terminal, and U+202E
// reverses the direction of text.
func TestJSONContainsNoTerminalControls(t *testing.T) {
	const text = "\x1b[2J \u009b2J \u202egone \x7f naïve 日本"
	for name, write := range map[string]func(io.Writer, any) error{"indented": writeJSON, "line": writeJSONLine} {
		var b strings.Builder
		if err := write(&b, []string{text}); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\u009b\u202e\x7f") || !strings.Contains(b.String(), "naïve 日本") || !strings.HasSuffix(b.String(), "]\n") {
			t.Errorf("%s: %q", name, b.String())
		}
		var got []string
		if err := json.Unmarshal([]byte(b.String()), &got); err != nil || len(got) != 1 || got[0] != text {
			t.Errorf("%s: read as %q, %v", name, got, err)
		}
	}
}
