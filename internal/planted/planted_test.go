package planted_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"shardway/internal/planted"
)

func TestParseFindsEveryBug(t *testing.T) {
	for b := planted.TwoOwners; b <= planted.OtherShard; b++ {
		if found, err := planted.Parse(b.String()); err != nil || found != b {
			t.Errorf("Parse(%q) = %v, %v", b, found, err)
		}
	}
	if b, err := planted.Parse(""); b != 0 || err != nil {
		t.Errorf("no name is %v, %v", b, err)
	}
	for _, name := range []string{"two owners", "Bug(0)", " "} {
		if b, err := planted.Parse(name); err == nil {
			t.Errorf("Parse(%q) = %v", name, b)
		}
	}
}

// What users run has no trace of the bugs: not a function, not a name, not the
// variable. Debug information apart: it names whatever was inlined, if to nothing.
func TestProgramWithoutTheTagHasNoBugs(t *testing.T) {
	if planted.Built {
		t.Skip("built with the tag")
	}
	if allocs := testing.AllocsPerRun(100, func() {
		if planted.On(planted.TwoOwners) {
			t.Error("a bug is on")
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	for _, tt := range []struct {
		tags  string
		trace bool
	}{{"", false}, {"planted", true}} {
		path := filepath.Join(t.TempDir(), "shardway")
		cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-tags", tt.tags, "-o", path, "shardway")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		program, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, trace := range []string{"internal/planted.", planted.Variable, planted.TwoOwners.String(), "with bugs for tests"} {
			if found := bytes.Contains(program, []byte(trace)); found != tt.trace {
				t.Errorf("with tags %q: %q in the program: %v, want %v", tt.tags, trace, found, tt.trace)
			}
		}
	}
}
