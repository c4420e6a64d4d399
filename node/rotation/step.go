package rotation

import (
	"errors"
	"fmt"

	"shardway/internal/secret"
	"shardway/node/logs"
)

// What a node does with its secrets when another one asks it to.
const (
	show    = "show"
	install = "install" // accept the secret in Wrapped too
	use     = "use"     // use that of Fingerprint, accept the others
	retire  = "retire"  // accept no other than that of Fingerprint
)

// Step is one step of a rotation, as one node asks it of another.
type Step struct {
	Do          string `json:"do"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Wrapped is the line of the secret to install, for this stream and for who
	// has the secret By.
	By      string `json:"by,omitempty"`
	Wrapped []byte `json:"wrapped,omitempty"`
}

// State is what a node has after a step.
type State struct {
	Held []secret.Summary `json:"held"`
}

// take takes a step of a rotation that another node leads and that has
// shown some of this node's secrets; what they allow decides secret.Store.
func (r *Rotation) take(from string, s Step, shown secret.List, binding []byte) (State, error) {
	k := r.o.Secrets
	var err error
	switch s.Do {
	case show:
	case install:
		var add secret.Secret
		if add, err = unwrap(k.List(), s, binding); err == nil {
			err = k.Install(add, shown)
		}
	case use:
		err = k.Use(s.Fingerprint, shown)
	case retire:
		err = k.Retire(s.Fingerprint, shown)
	default:
		err = fmt.Errorf("node: unknown step %q: is the other node newer?", s.Do)
	}
	switch {
	case err != nil && r.refusals.Pass(from):
		r.o.Log.Warn().Err(err).Str("step", logs.Cut(s.Do)).Str("secret", logs.Cut(s.Fingerprint)).Str("peer", from).Msg("secret step refused")
	case err != nil:
	case s.Do != show:
		r.o.Log.Info().Str("step", s.Do).Str("secret", s.Fingerprint).Str("peer", from).Msg("secret step taken")
	}
	return State{Held: k.Summaries()}, err
}

// unwrap returns the secret that a step brings.
func unwrap(l secret.List, s Step, binding []byte) (secret.Secret, error) {
	by, ok := l.Find(s.By)
	if !ok {
		return secret.Secret{}, errors.New("node: the secret that wraps the new one is not here")
	}
	line, err := by.Unwrap(binding, s.Wrapped)
	if err != nil {
		return secret.Secret{}, err
	}
	add, err := secret.ParseLine(string(line))
	if err == nil && add.Fingerprint() != s.Fingerprint {
		err = errors.New("node: the secret is another one than the step names")
	}
	return add, err
}
