package secret

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Store holds the list of a file of secrets, and tells those who use it of
// every change: one that Run finds in the file, and one that a rotation makes,
// which goes into the file first. It is safe for any number of goroutines.
type Store struct {
	path  string
	files FileState // what the file was before it was read first

	// change keeps two changes, and their file, apart. It is held while listeners
	// are told, so they learn of changes in order.
	change    sync.Mutex
	listeners []func(List) error
	// unreportedChange means that Reload has not reported a change of the file yet.
	unreportedChange bool

	mu struct {
		sync.Mutex
		list List
	}
}

// Open reads a file of secrets.
func Open(path string) (*Store, error) {
	files := StatFiles(path)
	l, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	k := &Store{path: path, files: files}
	k.mu.list = l
	return k, nil
}

// List returns the secrets of this moment.
func (k *Store) List() List {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.list
}

// OnChange has f called with every later list, one after the other. The error
// of f is that of the change; f must leave things as they were then.
func (k *Store) OnChange(f func(List) error) {
	k.change.Lock()
	defer k.change.Unlock()
	k.listeners = append(k.listeners, f)
}

// Summary is what may be said about a secret.
type Summary struct {
	Fingerprint string    `json:"fingerprint"`
	Made        time.Time `json:"made,omitzero"`
}

// Summary tells which secrets the node has; the first one is used.
func (k *Store) Summaries() []Summary {
	l := k.List()
	out := make([]Summary, len(l))
	for i, s := range l {
		out[i] = Summary{Fingerprint: s.Fingerprint(), Made: s.Made()}
	}
	return out
}

// Install accepts s beside the others. Like Use and Retire it is asked for by
// somebody who has shown that he has the secrets of shown, and judged by that.
//
// Who installs must have the newest secret that is here, in use or not: a newer
// one may be on its way by hand, to shut out whoever has the older one.
func (k *Store) Install(s Secret, shown List) error {
	return k.apply(func(l List) (List, error) {
		if l.Has(s) {
			return l, nil
		}
		newest, ok := l.Newest()
		switch {
		case !ok:
			return nil, fmt.Errorf("secret: nothing says which of %s is the newest (made=TIME behind it in the file): finish by hand", fingerprints(l))
		case !shown.Has(newest):
			return nil, fmt.Errorf("secret: %s is here, the newest, and who installs another must show it", newest.Fingerprint())
		case !s.made.After(newest.made):
			return nil, fmt.Errorf("secret: %s is not newer than %s", s.Fingerprint(), newest.Fingerprint())
		case len(l) == maxSecrets:
			return nil, fmt.Errorf("secret: %d secrets are there already, the maximum", len(l))
		}
		if err := s.CheckDate(time.Now()); err != nil {
			return nil, err
		}
		return l.With(s.Rotated()), nil
	})
}

// Use makes the secret with that fingerprint the one that is used: the newest
// one, by the word of who has it.
func (k *Store) Use(fingerprint string, shown List) error {
	return k.apply(func(l List) (List, error) {
		s, err := l.findSuccessor(fingerprint, shown)
		if err != nil {
			return nil, err
		}
		return l.WithFirst(s), nil
	})
}

// Retire ends the acceptance of all others than the secret with that
// fingerprint, which must be in use: the newest one, by the word of who has it.
func (k *Store) Retire(fingerprint string, shown List) error {
	return k.apply(func(l List) (List, error) {
		s, err := l.findSuccessor(fingerprint, shown)
		switch {
		case err != nil:
			return nil, err
		case !l[0].Equal(s):
			return nil, fmt.Errorf("secret: %s is not the one in use", fingerprint)
		}
		return l[:1], nil
	})
}

// succeeds returns the secret with that fingerprint if it may take the place of
// the others.
func (l List) findSuccessor(fingerprint string, shown List) (Secret, error) {
	s, ok := l.Find(fingerprint)
	if !ok {
		return Secret{}, fmt.Errorf("secret: %s is not installed", fingerprint)
	}
	if newest, ok := l.Newest(); !ok || !newest.Equal(s) {
		return Secret{}, fmt.Errorf("secret: %s is not known to be the newest of %s", fingerprint, fingerprints(l))
	}
	if !shown.Has(s) {
		return Secret{}, fmt.Errorf("secret: who would have %s used or the others retired must show it", fingerprint)
	}
	return s, nil
}

// apply makes a change: in the file, then with the listeners. The file counts, also
// when it was changed by hand a moment ago.
func (k *Store) apply(change func(List) (List, error)) error {
	k.change.Lock()
	defer k.change.Unlock()
	changed, err := k.reloadLocked()
	if err != nil {
		return fmt.Errorf("%w; an unreadable file is left as it is: fix it by hand", err)
	}
	k.unreportedChange = k.unreportedChange || changed
	old := k.List()
	l, err := change(old)
	if err != nil || l.Equal(old) {
		return err
	}
	if err := WriteFile(k.path, l); err != nil {
		return fmt.Errorf("%w; where nodes may not write it, change the file by hand: shardway rotate --help says how", err)
	}
	return k.publishLocked(l)
}

// tell makes l the list that counts. With change held.
func (k *Store) publishLocked(l List) error {
	k.mu.Lock()
	k.mu.list = l
	k.mu.Unlock()
	var errs []error
	for _, f := range k.listeners {
		errs = append(errs, f(l))
	}
	return errors.Join(errs...)
}

// Reload takes the file as it is now. It reports whether that is a change. A
// file that cannot be used leaves everything as it is.
func (k *Store) Reload() (bool, error) {
	k.change.Lock()
	defer k.change.Unlock()
	changed, err := k.reloadLocked()
	changed, k.unreportedChange = changed || k.unreportedChange, false
	return changed, err
}

// reload is Reload with change held.
func (k *Store) reloadLocked() (bool, error) {
	l, err := ReadFile(k.path)
	if err != nil {
		return false, err
	}
	if l.identical(k.List()) {
		return false, nil
	}
	return true, k.publishLocked(l)
}

// Run looks after the file until ctx ends.
func (k *Store) Run(ctx context.Context, log zerolog.Logger) {
	k.files.Watch(ctx, func() {
		changed, err := k.Reload()
		if err != nil {
			log.Error().Err(err).Msg("secret file rejected: the old secrets stay in use")
			return
		}
		if changed {
			log.Info().Strs("secrets", Fingerprints(k.List())).Msg("secret file changed")
		}
	})
}

func fingerprints(l List) string { return strings.Join(Fingerprints(l), ", ") }

// Fingerprints returns those of a list, for logs.
func Fingerprints(l List) []string {
	out := make([]string, 0, len(l))
	for _, s := range l {
		out = append(out, s.Fingerprint())
	}
	return out
}
