package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shardway/config"
)

// Bounds of the texts of the program.
const (
	maxLogWords       = 6
	maxFlagWords      = 20
	maxCommandHelpLen = 60
)

// production calls f with each Go file of the program, and not of its tests.
func production(t *testing.T, f func(path string, fset *token.FileSet, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "testdata" || name == "e2e" || path != root && strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		f(path, fset, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// logMessage returns the argument of x.Msg(…), nil if call is something else.
func logMessage(call *ast.CallExpr) ast.Expr {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Msg" || len(call.Args) != 1 {
		return nil
	}
	return call.Args[0]
}

// variableMessages are the log messages that are chosen from constants, or come from a library.
var variableMessages = map[string]string{
	"node/eventlog/node_watcher.go": "one of the constants of a map",
	"node/logs/hclog.go":            "messages of Serf and Raft",
}

func TestLogMessagesAreShortConstants(t *testing.T) {
	seen := 0
	production(t, func(path string, fset *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			arg := logMessage(call)
			if arg == nil {
				return true
			}
			seen++
			where := fset.Position(arg.Pos())
			lit, ok := arg.(*ast.BasicLit)
			if !ok {
				if rel, _ := filepath.Rel(root, path); variableMessages[filepath.ToSlash(rel)] == "" {
					t.Errorf("%s: the log message is not a constant: put what varies into fields", where)
				}
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			if words := len(strings.Fields(text)); words > maxLogWords {
				t.Errorf("%s: %q has %d words, at most %d: put causes and effects into fields", where, text, words, maxLogWords)
			}
			return true
		})
	})
	if seen < 100 {
		t.Fatalf("only %d log messages found", seen)
	}
}

// metricHelp is how the help text of a metric starts.
var metricHelp = regexp.MustCompile(`^(Number of|Total number of|Time|Bytes|1 if) `)

// metricLabels are the names that labels may have.
var metricLabels = []string{
	"app_instance", "certificate", "class", "code", "commit", "direction", "error", "go", "node", "phase", "reason", "result", "route", "stage", "state", "type", "version",
}

func TestMetricsHaveStandardHelpAndLabels(t *testing.T) {
	all := meters(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		if !metricHelp.MatchString(m.help) {
			t.Errorf("the help of %s is %q: start with Number of, Total number of, Time, Bytes or 1 if", name, m.help)
		}
		for _, l := range m.labels {
			if !slices.Contains(metricLabels, l) {
				t.Errorf("%s has the label %q: use one of %q", name, l, metricLabels)
			}
		}
	}
}

// commandHelp is a line of a command's summary in the help of the program.
var commandHelp = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) {2,}(\S.*(?:\n {4,}\S.*)*)$`)

func TestHelpIsShort(t *testing.T) {
	help := shardway(t, "--help")
	_, list, _ := strings.Cut(help, "\nCommands:\n")
	all := commandHelp.FindAllStringSubmatch(list, -1)
	if len(all) < 30 {
		t.Fatalf("only %d commands in %q", len(all), help)
	}
	for _, m := range all {
		if text := strings.Join(strings.Fields(m[2]), " "); len(text) > maxCommandHelpLen {
			t.Errorf("the help of %s has %d characters, at most %d: %q", m[1], len(text), maxCommandHelpLen, text)
		}
	}
	check := func(command, flag, text string) {
		text = defaultOf.ReplaceAllString(text, "")
		if n := len(strings.Fields(text)); n > maxFlagWords {
			t.Errorf("the help of %s %s has %d words, at most %d: %q", command, flag, n, maxFlagWords, text)
		}
	}
	for name := range commands(t) {
		for _, f := range defined(t, name) {
			check(name, f[0], f[1])
		}
	}
	for _, f := range config.Flags() {
		check("run", "--"+f.Name, f.Help)
	}
}

// defaultOf is the default value at the end of the help of a flag.
var defaultOf = regexp.MustCompile(` \([^()]*\)\.?$`)
