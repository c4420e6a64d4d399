package statefile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"shardway/internal/statefile"
)

func take(t *testing.T, d statefile.Dir, epoch uint64, want string) {
	t.Helper()
	if state, err := d.Take(17, epoch); err != nil || string(state) != want {
		t.Fatalf("Take(%d) = %q, %v, want %q", epoch, state, err, want)
	}
}

func save(t *testing.T, d statefile.Dir, epoch uint64, state string) {
	t.Helper()
	if err := d.Save(17, epoch, []byte(state)); err != nil {
		t.Fatal(err)
	}
}

// The state goes from owner to owner, and whoever was one before is told and changes
// nothing.
func TestStateFollowsTheEpoch(t *testing.T) {
	d := statefile.Dir(filepath.Join(t.TempDir(), "new"))
	take(t, d, 3, "")
	save(t, d, 3, "one")
	take(t, d, 3, "one") // the same owner, again
	take(t, d, 7, "one")
	for range 2 {
		if err := d.Save(17, 3, []byte("late")); !errors.Is(err, statefile.ErrFenced) {
			t.Errorf("a write of epoch 3 after 7 was taken: %v", err)
		}
		if _, err := d.Take(17, 3); !errors.Is(err, statefile.ErrFenced) {
			t.Errorf("epoch 3 is taken after 7: %v", err)
		}
	}
	take(t, d, 7, "one")
	save(t, d, 7, "two")
	if state, err := d.Take(18, 1); err != nil || state != nil {
		t.Errorf("another shard has %q, %v", state, err)
	}
	take(t, d, 9, "two")
	save(t, d, 9, "three")
	take(t, d, 9, "three")
}

// A write that comes while the next owner reads is told that it came too late, or is read:
// both would be the loss of what was acknowledged.
func TestConcurrentSaveIsReadByTakeOrFenced(t *testing.T) {
	d := statefile.Dir(t.TempDir())
	take(t, d, 1, "")
	for epoch := uint64(1); epoch < 200; epoch++ {
		want := fmt.Sprint("w", epoch)
		wrote := make(chan error)
		go func() { wrote <- d.Save(17, epoch, []byte(want)) }()
		state, err := d.Take(17, epoch+1)
		late := <-wrote
		if err != nil {
			state, err = d.Take(17, epoch+1)
		}
		if err != nil || late == nil && string(state) != want {
			t.Fatalf("written %q, %v, and taken %q, %v", want, late, state, err)
		}
	}
}

// What was written in part only, by a process that was killed, is not there.
func TestHalfWrittenStateIsNotRead(t *testing.T) {
	d := statefile.Dir(t.TempDir())
	take(t, d, 3, "")
	save(t, d, 3, "one")
	if err := os.WriteFile(filepath.Join(string(d), "17", "new-1"), []byte("ha"), 0o600); err != nil {
		t.Fatal(err)
	}
	take(t, d, 4, "one")
}
