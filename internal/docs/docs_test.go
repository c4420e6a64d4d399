// Package docs_test checks that README and docs/ agree with the program. It looks up the
// commands, flags, make targets, test patterns, variables and links that the pages name.
package docs_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shardway/internal/cli"
)

const root = "../.."

// pages returns the text of every page, by its path below the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, glob := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			out[rel] = string(b)
		}
	}
	if len(out) < 4 {
		t.Fatalf("only %d pages found", len(out))
	}
	return out
}

// shardway runs one command in this process and returns all it prints.
func shardway(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cli.Run(context.WithoutCancel(t.Context()), args, nil, &out, &out)
	return out.String()
}

var flagName = regexp.MustCompile(`--[a-z][a-z0-9-]*[a-z0-9]`)

// commands returns the flags of each command and of its subcommands, as their help lists them.
func commands(t *testing.T) map[string][]string {
	t.Helper()
	names := regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) `).FindAllStringSubmatch(shardway(t, "--help"), -1)
	if len(names) < 10 {
		t.Fatalf("help lists %d commands:\n%s", len(names), shardway(t, "--help"))
	}
	out := map[string][]string{}
	for _, n := range names {
		help := shardway(t, n[1], "--help")
		out[n[1]] = append(flagName.FindAllString(help, -1), "--help")
		for _, sub := range regexp.MustCompile(`(?m)^  `+n[1]+` ([a-z][a-z-]*) `).FindAllStringSubmatch(help, -1) {
			out[n[1]] = append(out[n[1]], flagName.FindAllString(shardway(t, n[1], sub[1], "--help"), -1)...)
		}
	}
	return out
}

// foreign are flags of other programs that pages name.
func foreign() []string {
	return []string{"--cacert", "--from-file", "--replicas", "--force", "--now", "--no-block", "--http", "--dir", "--user", "--migrations", "--automigrate", "--no-browser", "--ip", "--port", "--workers", "--threads", "--keep-alive", "--bind", "--max-requests"}
}

func TestFlagsOfThePagesExist(t *testing.T) {
	known := append(foreign(), flagName.FindAllString(shardway(t, "demo-app", "--help"), -1)...) // the list of commands does not contain it
	for _, flags := range commands(t) {
		known = append(known, flags...)
	}
	seen := 0
	for page, text := range pages(t) {
		for _, f := range flagName.FindAllString(text, -1) {
			seen++
			if !slices.Contains(known, f) {
				t.Errorf("%s names %s, which no command has", page, f)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d flags were looked up", seen)
	}
}

// A command line stands in an indented block, or between backquotes.
var commandLine = regexp.MustCompile("(?m)^ {4,}(?:\\$ )?(?:\\./)?shardway ([^#\n]*(?:\\\\\n[^#\n]*)*)|`shardway ([^`]+)`")

func TestCommandsOfThePagesExist(t *testing.T) {
	known, seen := commands(t), 0
	for page, text := range pages(t) {
		for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
			line := m[1] + m[2]
			words := strings.Fields(line)
			if len(words) == 0 || strings.HasPrefix(words[0], "-") {
				continue
			}
			seen++
			flags, ok := known[words[0]]
			if !ok {
				t.Errorf("%s: there is no command in %q", page, "shardway "+line)
				continue
			}
			for _, f := range flagName.FindAllString(line, -1) {
				if !slices.Contains(flags, f) {
					t.Errorf("%s: %q: %s has no flag %s", page, "shardway "+line, words[0], f)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d command lines were found", seen)
	}
}

func TestMakeTargetsOfThePagesExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(b), -1) {
		targets = append(targets, m[1])
	}
	seen := 0
	for page, text := range pages(t) {
		for _, m := range regexp.MustCompile("(?m)(?:^ {4,}|`)make ([a-z0-9-]+)").FindAllStringSubmatch(text, -1) {
			seen++
			if !slices.Contains(targets, m[1]) {
				t.Errorf("%s: there is no make target %q", page, m[1])
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d targets were looked up", seen)
	}
}

// goTest finds -run and the packages on one line, in whatever order; a line of a
// table writes "e2e -run" for short.
var (
	goTest  = regexp.MustCompile("(?m)(?:go test|e2e -run)[^`\n#]*")
	pattern = regexp.MustCompile(`-run '?\^?([\w|\\]+)\$?'?`)
	inTree  = regexp.MustCompile(`\./[\w/.]+`)
)

func TestTestPatternsOfThePagesMatch(t *testing.T) {
	seen := 0
	for page, text := range pages(t) {
		for _, line := range goTest.FindAllString(text, -1) {
			p := pattern.FindStringSubmatch(line)
			packages := inTree.FindAllString(line, -1)
			if strings.HasPrefix(line, "e2e ") {
				packages = []string{"./e2e"}
			}
			for _, pkg := range packages {
				if _, err := os.Stat(filepath.Join(root, strings.TrimSuffix(pkg, "/..."))); err != nil {
					t.Errorf("%s: %q: no package %s", page, line, pkg)
				}
			}
			if p == nil {
				continue
			}
			seen++
			tests := testsOf(t, packages)
			for alternative := range strings.SplitSeq(strings.ReplaceAll(p[1], `\`, ""), "|") {
				match := func(name string) bool { return strings.Contains(name, alternative) }
				if !slices.ContainsFunc(tests, match) {
					t.Errorf("%s: %q: no test of %v matches %q", page, line, packages, alternative)
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d patterns were looked up", seen)
	}
}

// testsOf returns the tests, fuzz targets and benchmarks of packages.
func testsOf(t *testing.T, packages []string) []string {
	t.Helper()
	var names []string
	for _, pkg := range packages {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`).FindAllSubmatch(b, -1) {
				names = append(names, string(m[1]))
			}
		}
	}
	return names
}

// Variables, and flags of test binaries, are looked up in the code as they stand.
func TestVariablesAndTestFlagsOfThePagesExist(t *testing.T) {
	sources := sources(t)
	help := shardway(t, "run", "--help")
	name := regexp.MustCompile(`\bSHARDWAY_[A-Z][A-Z_]*[A-Z]\b|-(?:sim|chaos|faults|steady)\.[a-z]+`)
	for page, text := range pages(t) {
		for _, n := range name.FindAllString(text, -1) {
			flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(n, "SHARDWAY_"), "_", "-"))
			if strings.Contains(help, flag) {
				continue
			}
			if !strings.Contains(sources, `"`+strings.TrimPrefix(n, "-")+`"`) {
				t.Errorf("%s names %s, which nothing reads", page, n)
			}
		}
	}
}

// goFiles returns the names of all Go files of the repository.
func goFiles(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "*.go")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// sources returns the Go code that git tracks, in one string.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, f := range goFiles(t) {
		b, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			continue // deleted, and not committed yet
		}
		all.Write(b)
	}
	return all.String()
}

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

func TestLinksOfThePagesLead(t *testing.T) {
	all := pages(t)
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", page, target)
				continue
			}
			if m[2] != "" && !slices.Contains(anchors(all[target]), m[2]) {
				t.Errorf("%s links to %s#%s: no such heading", page, target, m[2])
			}
		}
	}
}

// anchors returns the fragments by which a page's headings are reached.
func anchors(text string) []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		a := strings.ToLower(strings.ReplaceAll(m[1], " ", "-"))
		out = append(out, regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(a, ""))
	}
	return out
}

// Comments name "rule 5" of docs/internals/protocol.md and "reason 14" of protocol-reasons.md, and no comment names a
// page that is not in the tree.
func TestCommentsNameWhatIsInTheTree(t *testing.T) {
	protocol := pages(t)["docs/internals/protocol.md"]
	reasons := pages(t)["docs/internals/protocol-reasons.md"]
	text := sources(t)
	for _, m := range regexp.MustCompile(`\b(rule|reason) (\d+)\b`).FindAllStringSubmatch(text, -1) {
		page := protocol
		if m[1] == "reason" {
			page = reasons
		}
		if !strings.Contains(page, "\n"+m[2]+". ") {
			t.Errorf("a comment says %q, and docs/internals/protocol.md has no such number", m[0])
		}
	}
	for _, name := range []string{"DES" + "IGN", "LIBR" + "ARIES", "PROTOCOL" + "-WHY"} {
		if strings.Contains(text, name) {
			t.Errorf("Go code names %s, which is not in the tree", name)
		}
	}
}
