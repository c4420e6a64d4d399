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
