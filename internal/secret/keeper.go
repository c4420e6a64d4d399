package secret

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Keeper holds the list of a file of secrets, and tells those who use it of
// every change: one that Run finds in the file, and one that a rotation makes,
// which goes into the file first. It is safe for any number of goroutines.
type Keeper struct {
	path string

	// change keeps two changes, and their file, apart. It is held while users
	// are told, so they learn of changes in order.
	change sync.Mutex
	users  []func(List) error

	mu struct {
		sync.Mutex
		list List
	}
}

// Open reads a file of secrets.
func Open(path string) (*Keeper, error) {
	l, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	k := &Keeper{path: path}
	k.mu.list = l
	return k, nil
}

// List returns the secrets of this moment.
func (k *Keeper) List() List {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.list
}

// OnChange has f called with every later list, one after the other. The error
// of f is that of the change; f must leave things as they were then.
func (k *Keeper) OnChange(f func(List) error) {
	k.change.Lock()
	defer k.change.Unlock()
	k.users = append(k.users, f)
}

// Held is what may be said about a secret.
type Held struct {
	Fingerprint string    `json:"fingerprint"`
	Made        time.Time `json:"made,omitzero"`
}

// Held tells which secrets the node has; the first one is used.
func (k *Keeper) Held() []Held {
	l := k.List()
	out := make([]Held, len(l))
	for i, s := range l {
		out[i] = Held{Fingerprint: s.Fingerprint(), Made: s.Made()}
	}
	return out
}

// Install accepts s beside the others.
func (k *Keeper) Install(s Secret) error {
	return k.apply(func(l List) (List, error) {
		if !l.Has(s) && len(l) == maxSecrets {
			return nil, fmt.Errorf("secret: %d secrets are there already, as many as may be", len(l))
		}
		return l.With(s), nil
	})
}

// Use makes the secret with that fingerprint the one that is used.
func (k *Keeper) Use(fingerprint string) error {
	return k.apply(func(l List) (List, error) {
		s, ok := l.Find(fingerprint)
		if !ok {
			return nil, fmt.Errorf("secret: %s is not installed", fingerprint)
		}
		return l.First(s), nil
	})
}

// Retire ends the acceptance of all others than the secret with that
// fingerprint, which must be in use.
func (k *Keeper) Retire(fingerprint string) error {
	return k.apply(func(l List) (List, error) {
		if l[0].Fingerprint() != fingerprint {
			return nil, fmt.Errorf("secret: %s is not the one in use", fingerprint)
		}
		return l[:1], nil
	})
}

// apply makes a change: in the file, then with the users.
func (k *Keeper) apply(change func(List) (List, error)) error {
	k.change.Lock()
	defer k.change.Unlock()
	old := k.List()
	l, err := change(old)
	if err != nil || l.Equal(old) {
		return err
	}
	if err := WriteFile(k.path, l); err != nil {
		return fmt.Errorf("%w; where nodes may not write it, change the file by hand: shardway rotate --help says how", err)
	}
	return k.tell(l)
}

// tell makes l the list that counts. With change held.
func (k *Keeper) tell(l List) error {
	k.mu.Lock()
	k.mu.list = l
	k.mu.Unlock()
	var errs []error
	for _, f := range k.users {
		errs = append(errs, f(l))
	}
	return errors.Join(errs...)
}

// Reload takes the file as it is now. It reports whether that is a change. A
// file that cannot be used leaves everything as it is.
func (k *Keeper) Reload() (bool, error) {
	k.change.Lock()
	defer k.change.Unlock()
	l, err := ReadFile(k.path)
	if err != nil {
		return false, err
	}
	if l.Equal(k.List()) {
		return false, nil
	}
	return true, k.tell(l)
}

// Run looks after the file until ctx ends.
func (k *Keeper) Run(ctx context.Context, log zerolog.Logger) {
	Watch(ctx, []string{k.path}, func() {
		changed, err := k.Reload()
		if err != nil {
			log.Error().Err(err).Msg("secret file not taken: the secrets stay as they were")
			return
		}
		if changed {
			log.Info().Strs("secrets", Fingerprints(k.List())).Msg("secret file changed")
		}
	})
}

// Fingerprints returns those of a list, for logs.
func Fingerprints(l List) []string {
	out := make([]string, 0, len(l))
	for _, s := range l {
		out = append(out, s.Fingerprint())
	}
	return out
}
