package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"shardway/internal/problem"
	"shardway/proxy/route"
)

// docs/reference/errors.md has every code with the status that it is answered with, and no other.
func TestErrorsOfThePageAreThoseOfTheProgram(t *testing.T) {
	code, err := os.ReadFile(filepath.Join(root, "internal/problem/code.go"))
	if err != nil {
		t.Fatal(err)
	}
	program := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t[A-Z]\w+ +Code = "([a-z-]+)"`).FindAllStringSubmatch(string(code), -1) {
		program[m[1]] = true
	}
	if len(program) < 25 {
		t.Fatalf("code.go has %d codes", len(program))
	}
	page := pages(t)["docs/reference/errors.md"]
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (\\d{3}) \\|").FindAllStringSubmatch(page, -1) {
		if !program[m[1]] {
			t.Errorf("docs/reference/errors.md has %q, which is no code, or is there twice", m[1])
			continue
		}
		delete(program, m[1])
		if status := strconv.Itoa(problem.Code(m[1]).Status()); status != m[2] {
			t.Errorf("%s is answered with %s, docs/reference/errors.md says %s", m[1], status, m[2])
		}
	}
	for c := range program {
		t.Errorf("docs/reference/errors.md lacks %q", c)
	}
}

func TestReasonsOfThePageAreThoseOfTheProgram(t *testing.T) {
	page := pages(t)["docs/reference/errors.md"]
	seen := 0
	for r := route.Reason(1); !strings.HasPrefix(r.String(), "Reason("); r++ {
		seen++
		if !strings.Contains(page, "`"+r.String()+"`") {
			t.Errorf("docs/reference/errors.md lacks the reason %q", r)
		}
	}
	if seen < 9 {
		t.Errorf("only %d reasons were looked up", seen)
	}
}
