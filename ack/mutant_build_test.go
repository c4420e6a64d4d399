//go:build !planted

package ack_test

import (
	"fmt"
	"os/exec"
	"path"
	"strings"
	"testing"

	"shardway/internal/overlay"
)

// plantedPackages are the packages that contain mutants, by directory.
var plantedPackages = []string{"ack", "ack/agent", "ack/election", "ack/leader"}

// plantedSource is added to each of them for builds with mutants.
const plantedSource = `package %s

var planted int

// Plant plants the mutant of the given number.
func Plant(n int) { planted = n }

func plantedAs(on bool) int {
	if on {
		return 1
	}
	return 0
}
`

// TestEveryMutantIsCaught builds each mutant and checks that the simulation finds it. The
// mutants are edits of the source of plantedPackages, compiled with the -overlay flag of the go
// command. If an edit does not match any more because its line has changed, change the edit,
// too.
func TestEveryMutantIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the package with mutants")
	}
	overlay := plantAll(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-tags=planted", "-overlay="+overlay, "-run=^TestMutants$", "-v", "-count=1", "-timeout=20m", ".", "-sim.mutant="+*simMutant, fmt.Sprintf("-sim.caught=%v", *simCaught))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
		return
	}
	t.Logf("%s", out)
}

// plantAll writes the edited source and returns the overlay that names it.
func plantAll(t *testing.T) string {
	t.Helper()
	o := overlay.New("..")
	for _, dir := range plantedPackages {
		o.Add(dir+"/planted.go", fmt.Sprintf(plantedSource, path.Base(dir)))
	}
	for i, m := range mutants() {
		for _, e := range m.edits {
			e.new = strings.ReplaceAll(e.new, "PLANTED", fmt.Sprintf("(planted == %d)", i+1))
			if err := o.Edit(overlay.Edit{Decl: e.decl, Old: e.old, New: e.new}); err != nil {
				t.Fatalf("mutant %q: %v", m.name, err)
			}
		}
	}
	list, err := o.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return list
}
