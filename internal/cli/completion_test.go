package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// script writes the completion script of a shell to a file.
func script(t *testing.T, shell string) (name, text string) {
	t.Helper()
	code, out, errOut := run(t, "completion "+shell)
	if code != 0 || errOut != "" {
		t.Fatalf("completion %s: exit %d, %s", shell, code, errOut)
	}
	name = filepath.Join(t.TempDir(), "_shardway")
	if err := os.WriteFile(name, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return name, out
}

// Each script contains all commands and flags of the help, and the shell can load it from its
// installation path.
func TestCompletionKnowsWhatHelpKnows(t *testing.T) {
	_, help, _ := run(t, "--help")
	names := regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) `).FindAllStringSubmatch(help, -1)
	if len(names) < 20 {
		t.Fatalf("help lists %d commands:\n%s", len(names), help)
	}
	flags := map[string][]string{}
	for _, n := range names {
		_, one, _ := run(t, n[1]+" --help")
		for _, f := range regexp.MustCompile(`(?m)^ +(?:-\w, +)?--([a-z][a-z-]*[a-z])`).FindAllStringSubmatch(one, -1) {
			flags[n[1]] = append(flags[n[1]], f[1])
		}
	}
	for shell, dashes := range map[string]string{"bash": "--", "zsh": "--", "fish": "-l "} {
		file, text := script(t, shell)
		for _, n := range names {
			for _, f := range flags[n[1]] {
				if !strings.Contains(text, dashes+f) {
					t.Errorf("%s: %s has no %s%s", shell, n[1], dashes, f)
				}
			}
			if !regexp.MustCompile(`\b` + n[1] + `\b`).MatchString(text) {
				t.Errorf("%s has no command %s", shell, n[1])
			}
		}
		if _, err := exec.LookPath(shell); err == nil {
			if out, err := exec.CommandContext(t.Context(), shell, "-n", file).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s -n: %v\n%s", shell, err, out)
			}
		}
	}
}

// The first argument of commands about nodes is completed from the running cluster.
func TestBashCompletesNodesAndInstances(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	file, _ := script(t, "bash")
	dir := t.TempDir()
	nodes := "NODE  STATE\na  active\nb  active\n$(touch hurt)  active\n\nINSTANCE  STATE\nb/1  active\nb/2  active\n"
	if err := os.WriteFile(filepath.Join(dir, "nodes"), []byte(nodes), 0o600); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"shardway drain ''":         "a b b/1 b/2",
		"shardway uncordon b/":      "b/1 b/2",
		"shardway app-restarted b/": "b/1 b/2",
		"shardway cordon ''":        "a b",
		"shardway remove b":         "b",
		"shardway drain b/1 --saf":  "--safe",
	} {
		program := `source "$0"; shardway() { cat nodes; }; COMP_WORDS=(` + words + `); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shardway; echo "${COMPREPLY[*]}"`
		command := exec.CommandContext(t.Context(), "bash", "-c", program, file)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s completes to %q, %v, want %q", words, out, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "hurt")); err == nil {
		t.Error("the name of a node was run as a command")
	}
}

func TestBashCompletes(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	file, _ := script(t, "bash")
	for line, want := range map[string]string{
		"shardway dr":                     "drain",
		"shardway drain --loc":            "--local",
		"shardway run --takeover i":       "immediate",
		"shardway run --max-upstream-con": "--max-upstream-conns",
		"shardway check --al":             "--all",
		"shardway completion f":           "fish",
		"shardway run --secret-file ":     "",
	} {
		words := strings.Fields(line)
		if strings.HasSuffix(line, " ") {
			words = append(words, "''")
		}
		program := `source "$0"; COMP_WORDS=(` + strings.Join(words, " ") + `); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shardway; echo "${COMPREPLY[*]}"`
		out, err := exec.CommandContext(t.Context(), "bash", "-c", program, file).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q completes to %q (%v), want %q", line, got, err, want)
		}
	}
}
