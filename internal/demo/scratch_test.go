package demo

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

// A demo that was killed cannot remove its directory. The next one does, once no
// process of the first lives.
func TestNextDemoRemovesWhatAKilledOneLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	make1 := func() *scratch {
		t.Helper()
		s, err := newScratch()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	there := func(s *scratch, want bool) {
		t.Helper()
		if _, err := os.Stat(s.dir); errors.Is(err, os.ErrNotExist) == want {
			t.Errorf("%s: %v, want it there: %v", s.dir, err, want)
		}
	}
	first, second := make1(), make1()
	there(first, true)
	child := exec.CommandContext(t.Context(), "sleep", "60")
	child.ExtraFiles = []*os.File{first.lock}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := first.lock.Close(); err != nil { // as the kernel does for the killed
		t.Fatal(err)
	}
	third := make1()
	there(first, true) // a node of it lives
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	fourth := make1()
	there(first, false)
	for _, s := range []*scratch{second, third, fourth} {
		there(s, true)
		if err := s.remove(); err != nil {
			t.Error(err)
		}
		there(s, false)
	}
}
