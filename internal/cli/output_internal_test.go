package cli

import (
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
