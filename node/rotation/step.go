package rotation

import (
	"errors"
	"fmt"

	"shardway/internal/secret"
	"shardway/node/logs"
)

// The steps that a leader can request from a node.
const (
	show    = "show"    // only report the secrets
	install = "install" // also accept the secret in Wrapped
	use     = "use"     // use the secret with Fingerprint, and still accept the others
	retire  = "retire"  // accept only the secret with Fingerprint
)

// Step is the request for one step of a rotation.
type Step struct {
	Do          string `json:"do"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Wrapped is the encrypted line of the secret to install. The key is derived from the secret with
	// fingerprint By and from the channel binding of the stream.
	By      string `json:"by,omitempty"`
	Wrapped []byte `json:"wrapped,omitempty"`
}

// State is the response to a Step: the secrets of the node after the step.
type State struct {
	Held []secret.Summary `json:"held"`
}

// performStep performs a step of a rotation that node from leads. shown contains the secrets of this node that from
// has proven to have. secret.Store decides whether they permit the step.
func (r *Rotation) performStep(from string, s Step, shown secret.List, binding []byte) (State, error) {
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

// unwrap decrypts the secret in a step with one of the secrets in l.
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
