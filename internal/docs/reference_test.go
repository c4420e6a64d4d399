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

var update = flag.Bool("update", false, "write the tables of docs/reference.md anew")

const (
	flagsBegin = "<!-- What follows is made of the program: go test ./internal/docs -run Reference -update -->\n"
	flagsEnd   = "<!-- Up to here. -->\n"
)

// docs/reference.md has every flag of every command, as help tells them.
func TestReferenceHasEveryFlag(t *testing.T) {
	file := filepath.Join(root, "docs/reference.md")
	page := pages(t)["docs/reference.md"]
	before, rest, begun := strings.Cut(page, flagsBegin)
	have, after, ended := strings.Cut(rest, flagsEnd)
	if !begun || !ended {
		t.Fatal("docs/reference.md lacks the lines around its tables of flags")
	}
	want := flagTables(t)
	if *update {
		if err := os.WriteFile(file, []byte(before+flagsBegin+want+flagsEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Error("the flags of docs/reference.md are not those of the program: go test ./internal/docs -run Reference -update")
	}
}

var (
	groupOf  = regexp.MustCompile(`^[A-Z].*$`)
	flagLine = regexp.MustCompile(`^  (--\S+(?: .*)?)$`)
)

// flagTables makes a table of each group of flags of run, and one of the other commands'.
func flagTables(t *testing.T) string {
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
				fmt.Fprintf(&out, "\n### %s\n\n| flag | |\n|---|---|\n", group)
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
	fmt.Fprint(&out, "\n### Of the other commands\n\n| command | flag | |\n|---|---|---|\n")
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
