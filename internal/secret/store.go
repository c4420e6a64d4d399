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

// Store holds the list of a secret file and notifies its listeners of every change. A
// change is either found in the file by Run or made by a rotation, which writes it to the
// file first. Store is safe for concurrent use.
type Store struct {
	path  string
	files FileState // state of the file before it was first read

	// change serializes changes and the access to the file. It is held while the listeners
	// are called, so that they see changes in order.
	change    sync.Mutex
	listeners []func(List) error
	// unreportedChange reports that the file changed and Reload has not reported it yet.
	unreportedChange bool

	mu struct {
		sync.Mutex
		list List
	}
}

// Open reads a secret file.
func Open(path string) (*Store, error) {
	files := StatFiles(path)
	list, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	st := &Store{path: path, files: files}
	st.mu.list = list
	return st, nil
}

// List returns the current secrets.
func (st *Store) List() List {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.mu.list
}

// OnChange registers a listener, which is called with every later list, one call at a time. An
// error of the listener is returned to the caller that made the change. The listener must then
// leave its own state unchanged.
func (st *Store) OnChange(listener func(List) error) {
	st.change.Lock()
	defer st.change.Unlock()
	st.listeners = append(st.listeners, listener)
}

// Summary is the public description of a secret.
type Summary struct {
	Fingerprint string    `json:"fingerprint"`
	Made        time.Time `json:"made,omitzero"`
}

// Summaries describes the secrets of this node. The first one is used.
func (st *Store) Summaries() []Summary {
	list := st.List()
	summaries := make([]Summary, len(list))
	for i, secret := range list {
		summaries[i] = Summary{Fingerprint: secret.Fingerprint(), Made: secret.Made()}
	}
	return summaries
}

// Install adds a secret to the accepted ones. Install, Use and Retire are requested by a peer that
// has proven possession of the secrets in shown, and that list decides whether the request is
// allowed.
//
// The peer must have the newest secret of this node, whether that secret is used or not. An
// operator may be distributing a newer secret by hand to lock out everyone who has the
// older one.
func (st *Store) Install(added Secret, shown List) error {
	return st.apply(func(secrets List) (List, error) {
		if secrets.Has(added) {
			return secrets, nil
		}
		newest, ok := secrets.Newest()
		switch {
		case !ok:
			return nil, fmt.Errorf("secret: the newest of %s is unknown: add made=TIME to the secrets in the file, and complete the rotation manually", fingerprints(secrets))
		case !shown.Has(newest):
			return nil, fmt.Errorf("secret: %s is the newest secret here; a node that installs another secret must prove that it has this one", newest.Fingerprint())
		case !added.createdAt.After(newest.createdAt):
			return nil, fmt.Errorf("secret: %s is not newer than %s", added.Fingerprint(), newest.Fingerprint())
		case len(secrets) == maxSecrets:
			return nil, fmt.Errorf("secret: the file already contains %d secrets, the maximum", len(secrets))
		}
		if err := added.CheckDate(time.Now()); err != nil {
			return nil, err
		}
		return secrets.With(added.Rotated()), nil
	})
}

// Use moves the secret with the given fingerprint to the front. It must be the newest one,
// and the peer must have proven possession of it.
func (st *Store) Use(fingerprint string, shown List) error {
	return st.apply(func(secrets List) (List, error) {
		successor, err := secrets.findSuccessor(fingerprint, shown)
		if err != nil {
			return nil, err
		}
		return secrets.WithFirst(successor), nil
	})
}

// Retire removes all secrets but the one with the given fingerprint. That secret must be
// the newest one and the one in use, and the peer must have proven possession of it.
func (st *Store) Retire(fingerprint string, shown List) error {
	return st.apply(func(secrets List) (List, error) {
		successor, err := secrets.findSuccessor(fingerprint, shown)
		switch {
		case err != nil:
			return nil, err
		case !secrets[0].Equal(successor):
			return nil, fmt.Errorf("secret: %s is not the secret in use", fingerprint)
		}
		return secrets[:1], nil
	})
}

// findSuccessor returns the secret with the given fingerprint if that secret may replace
// the others.
func (l List) findSuccessor(fingerprint string, shown List) (Secret, error) {
	successor, ok := l.Find(fingerprint)
	if !ok {
		return Secret{}, fmt.Errorf("secret: %s is not installed", fingerprint)
	}
	if newest, ok := l.Newest(); !ok || !newest.Equal(successor) {
		return Secret{}, fmt.Errorf("secret: %s cannot be confirmed as the newest of %s", fingerprint, fingerprints(l))
	}
	if !shown.Has(successor) {
		return Secret{}, fmt.Errorf("secret: a node that requests use of %s, or retirement of the others, must prove that it has it", fingerprint)
	}
	return successor, nil
}

// apply writes a change to the file and then calls the listeners. It reads the file first,
// so that a manual edit just before is not overwritten.
func (st *Store) apply(change func(List) (List, error)) error {
	st.change.Lock()
	defer st.change.Unlock()
	changed, err := st.reloadLocked()
	if err != nil {
		return fmt.Errorf("%w; the unusable file was not changed: repair it", err)
	}
	st.unreportedChange = st.unreportedChange || changed
	old := st.List()
	list, err := change(old)
	if err != nil || list.Equal(old) {
		return err
	}
	if err := WriteFile(st.path, list); err != nil {
		return fmt.Errorf("%w; if nodes may not write the file, change it manually as shardway rotate-secret --help describes", err)
	}
	return st.publishLocked(list)
}

// publishLocked makes list the current list and calls the listeners. st.change must be held.
func (st *Store) publishLocked(list List) error {
	st.mu.Lock()
	st.mu.list = list
	st.mu.Unlock()
	var errs []error
	for _, listener := range st.listeners {
		errs = append(errs, listener(list))
	}
	return errors.Join(errs...)
}

// Reload reads the file and reports whether it has changed since the last call. If the file
// is unusable, the current list remains.
func (st *Store) Reload() (bool, error) {
	st.change.Lock()
	defer st.change.Unlock()
	changed, err := st.reloadLocked()
	changed, st.unreportedChange = changed || st.unreportedChange, false
	return changed, err
}

// reloadLocked is Reload without the pending report. st.change must be held.
func (st *Store) reloadLocked() (bool, error) {
	list, err := ReadFile(st.path)
	if err != nil {
		return false, err
	}
	if list.identical(st.List()) {
		return false, nil
	}
	return true, st.publishLocked(list)
}

// Run watches the file until ctx ends.
func (st *Store) Run(ctx context.Context, log zerolog.Logger) {
	st.files.Watch(ctx, func() {
		changed, err := st.Reload()
		if err != nil {
			log.Error().Err(err).Msg("secret file rejected, keeping old secrets")
			return
		}
		if changed {
			log.Info().Strs("secrets", Fingerprints(st.List())).Msg("secret file changed")
		}
	})
}

func fingerprints(list List) string { return strings.Join(Fingerprints(list), ", ") }

// Fingerprints returns the fingerprints of a list, for logs.
func Fingerprints(list List) []string {
	fingerprints := make([]string, 0, len(list))
	for _, secret := range list {
		fingerprints = append(fingerprints, secret.Fingerprint())
	}
	return fingerprints
}
