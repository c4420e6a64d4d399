package diagnosis_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"shardway/diagnosis"
)

// docs/operate/troubleshoot.md has every code, no other, and of each a sentence that a state of
// the table comes to, with its severity.
func TestThePageHasTheFindings(t *testing.T) {
	page, err := os.ReadFile("../docs/operate/troubleshoot.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, state := range table() {
		for _, f := range diagnosis.Findings(state.in) {
			said[string(f.Code)+" "+f.Severity.String()+" "+f.Text] = true
		}
	}
	for _, x := range doctorTable() {
		first, second := checkups(x.change)
		for _, f := range diagnosis.Compare(first, second, x.here) {
			said[string(f.Code)+" "+f.Severity.String()+" "+f.Text] = true
		}
	}
	left := slices.Concat(diagnosis.Codes(), diagnosis.DoctorCodes())
	for _, m := range regexp.MustCompile("(?m)^\\| \\[`([a-z-]+)`\\]\\([^)]+\\) \\| ([a-z]+) \\| ([^|]+) \\|$").FindAllStringSubmatch(string(page), -1) {
		code := diagnosis.Code(m[1])
		if !slices.Contains(left, code) {
			t.Errorf("docs/operate/troubleshoot.md has %q, which is no code, or is there twice", code)
		}
		left = slices.DeleteFunc(left, func(c diagnosis.Code) bool { return c == code })
		if !said[m[1]+" "+m[2]+" "+m[3]] {
			t.Errorf("docs/operate/troubleshoot.md says of %s, %s: %q, which no state comes to", m[1], m[2], m[3])
		}
	}
	if len(left) > 0 {
		t.Errorf("docs/operate/troubleshoot.md lacks %q", left)
	}
}
