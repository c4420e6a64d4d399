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

func newStore(t *testing.T, l secret.List) (*secret.Store, string) {
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

func TestRotationWritesEveryStepToFile(t *testing.T) {
	old, next := secret.Generate(time.Unix(1e9, 0)), secret.Generate(time.Unix(1.1e9, 0))
	k, path := newStore(t, secret.List{old})
	var notified []secret.List
	k.OnChange(func(l secret.List) error {
		notified = append(notified, l)
		return nil
	})
	f := next.Fingerprint()
	if err := k.Use(f, k.List()); err == nil {
		t.Error("Use accepted a secret that is not installed")
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
		t.Error("Retire accepted a secret that is not in use")
	}
	want := []secret.List{{old, next}, {next, old}, {next}}
	if !slices.EqualFunc(notified, want, secret.List.Equal) {
		t.Errorf("listener got %v, want %v", notified, want)
	}
	if h := k.Summaries(); len(h) != 1 || h[0].Fingerprint != f || !h[0].Made.Equal(next.Made()) {
		t.Errorf("Summary = %v", h)
	}
}

func TestInstallRefusesMoreThanMaximum(t *testing.T) {
	k, _ := newStore(t, secret.List{secret.Generate(time.Time{})})
	for i := range 7 {
		if err := k.Install(secret.Generate(time.Unix(int64(i), 0)), k.List()); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Install(secret.Generate(time.Unix(7, 0)), k.List()); err == nil || !strings.Contains(err.Error(), "the maximum") {
		t.Errorf("ninth secret: Install = %v, want an error", err)
	}
}

func TestInstallFailsIfFileIsNotWritable(t *testing.T) {
	if os.Geteuid() == 0 {
		// Root can write to any directory: remove the directory instead.
		k, path := newStore(t, newList())
		before := k.List()
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		err := k.Install(secret.Generate(time.Now().Add(time.Hour)), k.List())
		if err == nil || !strings.Contains(err.Error(), "repair it") || !k.List().Equal(before) {
			t.Errorf("Install = %v, list %v", err, k.List())
		}
		return
	}
	k, path := newStore(t, newList())
	before := k.List()
	if err := os.Chmod(filepath.Dir(path), 0o500); err != nil {
		t.Fatal(err)
	}
	err := k.Install(secret.Generate(time.Now().Add(time.Hour)), k.List())
	if err == nil || !strings.Contains(err.Error(), "manually") || !k.List().Equal(before) {
		t.Errorf("Install = %v, list %v", err, k.List())
	}
}

func TestManualChangeOfFileIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := newList(), newList()
		k, path := newStore(t, old)
		var mu sync.Mutex
		var notified []secret.List
		k.OnChange(func(l secret.List) error {
			mu.Lock()
			defer mu.Unlock()
			notified = append(notified, l)
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
		put(next.Text(), 0o644) // readable by others: rejected
		if !k.List().Equal(old) || len(notified) > 0 {
			t.Fatalf("list %v, listener got %v: want the old list", k.List(), notified)
		}
		put(next.Text(), 0o600)
		if !k.List().Equal(next) || len(notified) != 1 {
			t.Fatalf("list %v, listener got %v: want the new list", k.List(), notified)
		}
		put(append(next.Text(), "# a comment\n"...), 0o600)
		if len(notified) != 1 {
			t.Errorf("listener got %v for a change of a comment", notified)
		}
	})
}

// The fields after a secret decide which secret is the newest and whether it may be sent.
// Error messages tell the operator to edit them, so a reload must apply such an edit, and
// the next rotation step must not overwrite it.
func TestReloadUsesDateAndOriginFromFile(t *testing.T) {
	one, two := secret.Generate(time.Time{}), secret.Generate(time.Time{})
	k, path := newStore(t, secret.List{one, two})
	if err := k.Use(two.Fingerprint(), k.List()); err == nil {
		t.Fatal("Use accepted a secret although the newest is unknown")
	}
	byHand := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		if changed, err := k.Reload(); !changed || err != nil {
			t.Errorf("Reload = %v, %v, want a change", changed, err)
		}
	}
	byHand(one.Line()+" made=2026-01-01T00:00:00Z", two.Line()+" made=2026-01-02T00:00:00Z by=rotate")
	if err := k.Use(two.Fingerprint(), k.List()); err != nil {
		t.Errorf("Use = %v, want success: the file dates the secrets", err)
	}
	byHand(two.Line()+" made=2026-01-02T00:00:00Z", one.Line()+" made=2026-01-01T00:00:00Z")
	if s, _ := k.List().Find(two.Fingerprint()); s.ByRotation() {
		t.Error("the secret is still marked as rotated after the file dropped the mark")
	}
}

// A file may change after Open has read it and before Run watches it. Run must compare the
// file with the state at Open, and not with the state that it finds when it starts.
func TestChangeBetweenOpenAndRunIsLoaded(t *testing.T) {
	old, next := secret.Generate(time.Unix(1e9, 0)), secret.Generate(time.Unix(1.1e9, 0))
	synctest.Test(t, func(t *testing.T) {
		k, path := newStore(t, secret.List{old})
		if err := secret.WriteFile(path, secret.List{next}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go k.Run(ctx, zerolog.Nop())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !k.List().Equal(secret.List{next}) {
			t.Errorf("secrets = %v, want those of the file", k.Summaries())
		}
		stop()
		synctest.Wait()
	})
}
