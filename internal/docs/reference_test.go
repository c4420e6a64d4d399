package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/reference/config.md and docs/reference/cli.md")

const (
	flagsBegin = "<!-- Generated from the program: go test ./internal/docs -run Reference -update -->\n"
	flagsEnd   = "<!-- End of the generated part. -->\n"
)

// TestReferenceHasEveryFlag checks that config.md has every flag of run, and cli.md those of the
// other commands, as help describes them.
func TestReferenceHasEveryFlag(t *testing.T) {
	for name, want := range map[string]string{"docs/reference/config.md": runFlags(t), "docs/reference/cli.md": commandFlags(t)} {
		before, rest, begun := strings.Cut(pages(t)[name], flagsBegin)
		have, after, ended := strings.Cut(rest, flagsEnd)
		if !begun || !ended {
			t.Fatalf("%s lacks the lines around its tables of flags", name)
		}
		if *update {
			if err := os.WriteFile(filepath.Join(root, name), []byte(before+flagsBegin+want+flagsEnd+after), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if have != want {
			t.Errorf("the flags of %s are not those of the program: go test ./internal/docs -run Reference -update", name)
		}
	}
}

var (
	groupOf  = regexp.MustCompile(`^[A-Z].*$`)
	flagLine = regexp.MustCompile(`^  (--\S+(?: .*)?)$`)
)

// runFlags returns a table for each group of flags of run.
func runFlags(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	head, group := "", ""
	seen := 0
	for line := range strings.SplitSeq(shardway(t, "run", "--help"), "\n") {
		switch {
		case groupOf.MatchString(line):
			group = line
		case flagLine.MatchString(line):
			head = strings.TrimSpace(line)
		case head != "":
			if group != "" {
				fmt.Fprintf(&out, "\n## %s\n\n| flag | meaning (default) |\n|---|---|\n", group)
				group = ""
			}
			fmt.Fprintf(&out, "| `%s` | %s |\n", cell(head), cell(strings.TrimSpace(line)))
			head = ""
			seen++
		}
	}
	if seen < 70 {
		t.Fatalf("run --help tells of %d flags", seen)
	}
	return out.String() + "\n"
}

// commandFlags returns the table of flags of the other commands.
func commandFlags(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	fmt.Fprint(&out, "\n## Flags of commands\n\n| command | flag | meaning |\n|---|---|---|\n")
	var names []string
	for name := range commands(t) {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name == "run" || name == "check" {
			continue // check has those of run
		}
		for _, f := range defined(t, name) {
			fmt.Fprintf(&out, "| `%s` | `%s` | %s |\n", name, cell(f[0]), cell(f[1]))
		}
	}
	return out.String() + "\n"
}

// common are the flags that every command takes that speaks to a node, which the page
// tells of once.
func common() []string {
	return []string{"--admin", "--json", "--tls-ca", "--tls-cert", "--tls-key", "--token-file", "--help", "--version"}
}

// ofKong is how help shows a flag of such a command: its name with a value, then its
// text, which may go on below, further to the right.
var ofKong = regexp.MustCompile(`^ {2,6}(?:-\w, )?(--\S+)(?: +(.*))?$`)

// defined returns the flags of a command that are its own, each with its text.
func defined(t *testing.T, command string) (flags [][2]string) {
	t.Helper()
	for line := range strings.SplitSeq(shardway(t, command, "--help"), "\n") {
		if m := ofKong.FindStringSubmatch(line); m != nil {
			flags = append(flags, [2]string{m[1], m[2]})
		} else if n := len(flags); n > 0 && strings.HasPrefix(line, "          ") {
			flags[n-1][1] += " " + strings.TrimSpace(line)
		}
	}
	return slices.DeleteFunc(flags, func(f [2]string) bool {
		name, _, _ := strings.Cut(f[0], "=")
		return slices.Contains(common(), name)
	})
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
