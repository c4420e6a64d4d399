package secret_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/secret"
)

func keeper(t *testing.T, l secret.List) (*secret.Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := secret.WriteFile(path, l); err != nil {
		t.Fatal(err)
	}
	k, err := secret.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return k, path
}

func TestRotationGoesThroughTheFile(t *testing.T) {
	old, next := secret.Generate(time.Unix(1e9, 0)), secret.Generate(time.Unix(1.1e9, 0))
	k, path := keeper(t, secret.List{old})
	var told []secret.List
	k.OnChange(func(l secret.List) error {
		told = append(told, l)
		return nil
	})
	f := next.Fingerprint()
	if err := k.Use(f, k.List()); err == nil {
		t.Error("used before it was installed")
	}
	for _, step := range []struct {
		do   func() error
		want secret.List
	}{
		{func() error { return k.Install(next, k.List()) }, secret.List{old, next}},
		{func() error { return k.Install(next, k.List()) }, secret.List{old, next}},
		{func() error { return k.Use(f, k.List()) }, secret.List{next, old}},
		{func() error { return k.Use(f, k.List()) }, secret.List{next, old}},
		{func() error { return k.Retire(f, k.List()) }, secret.List{next}},
		{func() error { return k.Retire(f, k.List()) }, secret.List{next}},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		got, err := secret.ReadFile(path)
		if err != nil || !got.Equal(step.want) || !k.List().Equal(step.want) {
			t.Fatalf("file %v (%v), list %v, want %v", got, err, k.List(), step.want)
		}
	}
	if err := k.Retire(old.Fingerprint(), k.List()); err == nil {
		t.Error("retired for one that is not in use")
	}
	want := []secret.List{{old, next}, {next, old}, {next}}
	if !slices.EqualFunc(told, want, secret.List.Equal) {
		t.Errorf("told %v, want %v", told, want)
	}
	if h := k.Summaries(); len(h) != 1 || h[0].Fingerprint != f || !h[0].Made.Equal(next.Made()) {
		t.Errorf("Summary = %v", h)
	}
}

func TestKeeperBoundsItsList(t *testing.T) {
	k, _ := keeper(t, secret.List{secret.Generate(time.Time{})})
	for i := range 7 {
		if err := k.Install(secret.Generate(time.Unix(int64(i), 0)), k.List()); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Install(secret.Generate(time.Unix(7, 0)), k.List()); err == nil || !strings.Contains(err.Error(), "the maximum") {
		t.Errorf("the ninth: %v", err)
	}
}

func TestUnwritableFileChangesNothing(t *testing.T) {
	if os.Geteuid() == 0 {
		// Root writes anywhere: take the directory away instead.
		k, path := keeper(t, fresh())
		before := k.List()
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		err := k.Install(secret.Generate(time.Now().Add(time.Hour)), k.List())
		if err == nil || !strings.Contains(err.Error(), "by hand") || !k.List().Equal(before) {
			t.Errorf("Install = %v, list %v", err, k.List())
		}
		return
	}
	k, path := keeper(t, fresh())
	before := k.List()
	if err := os.Chmod(filepath.Dir(path), 0o500); err != nil {
		t.Fatal(err)
	}
	err := k.Install(secret.Generate(time.Now().Add(time.Hour)), k.List())
	if err == nil || !strings.Contains(err.Error(), "by hand") || !k.List().Equal(before) {
		t.Errorf("Install = %v, list %v", err, k.List())
	}
}

func TestFileChangedByHandIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := fresh(), fresh()
		k, path := keeper(t, old)
		var mu sync.Mutex
		var told []secret.List
		k.OnChange(func(l secret.List) error {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, l)
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go k.Run(ctx, zerolog.Nop())
		synctest.Wait()
		put := func(b []byte, mode os.FileMode) {
			t.Helper()
			if err := errors.Join(os.Remove(path), os.WriteFile(path, b, mode)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		put([]byte("nonsense"), 0o600)
		put(next.Text(), 0o644) // others may read it
		if !k.List().Equal(old) || len(told) > 0 {
			t.Fatalf("list %v, told %v: want the old one kept", k.List(), told)
		}
		put(next.Text(), 0o600)
		if !k.List().Equal(next) || len(told) != 1 {
			t.Fatalf("list %v, told %v: want the new one", k.List(), told)
		}
		put(append(next.Text(), "# a word\n"...), 0o600)
		if len(told) != 1 {
			t.Errorf("told %v of what is no change", told)
		}
	})
}

// What stands behind a secret decides which one is the newest, and whether it may be
// sent. Errors tell to set it in the file, and that was not taken; the next step of
// a rotation wrote back what had been there.
func TestWhatTheFileSaysOfASecretIsTaken(t *testing.T) {
	one, two := secret.Generate(time.Time{}), secret.Generate(time.Time{})
	k, path := keeper(t, secret.List{one, two})
	if err := k.Use(two.Fingerprint(), k.List()); err == nil {
		t.Fatal("used, though nothing says which is the newest")
	}
	byHand := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		if changed, err := k.Reload(); !changed || err != nil {
			t.Errorf("Reload = %v, %v, want the change taken", changed, err)
		}
	}
	byHand(one.Line()+" made=2026-01-01T00:00:00Z", two.Line()+" made=2026-01-02T00:00:00Z by=rotate")
	if err := k.Use(two.Fingerprint(), k.List()); err != nil {
		t.Errorf("Use = %v, and the file says which is the newest", err)
	}
	byHand(two.Line()+" made=2026-01-02T00:00:00Z", one.Line()+" made=2026-01-01T00:00:00Z")
	if s, _ := k.List().Find(two.Fingerprint()); s.ByRotation() {
		t.Error("a secret may still be sent that the file does not say so of")
	}
}

// A file that changed after it was read and before it was watched was the old one
// until it changed again: the watch took what it found for what had been read.
func TestChangeBeforeTheWatchIsNotLost(t *testing.T) {
	old, next := secret.Generate(time.Unix(1e9, 0)), secret.Generate(time.Unix(1.1e9, 0))
	synctest.Test(t, func(t *testing.T) {
		k, path := keeper(t, secret.List{old})
		if err := secret.WriteFile(path, secret.List{next}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go k.Run(ctx, zerolog.Nop())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !k.List().Equal(secret.List{next}) {
			t.Errorf("the secrets are %v, want those of the file", k.Summaries())
		}
		stop()
		synctest.Wait()
	})
}
