package cli

import (
	"strings"
	"testing"
)

// A person sees one line that changes, without what is left of a longer one before it; a
// file gets a line for each change.
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
