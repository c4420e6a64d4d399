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

// performStep performs a step of a rotation that another node leads, and returns the secrets of this node after it.
// proven contains the secrets of this node that the leader has proven to have. secret.Store decides whether they
// permit the step.
func (r *Rotation) performStep(leader string, step Step, proven secret.List, binding []byte) (State, error) {
	err := r.changeSecrets(step, proven, binding)
	if err != nil {
		if r.refusals.Pass(leader) {
			r.o.Log.Warn().Err(err).Str("step", logs.Cut(step.Do)).Str("secret", logs.Cut(step.Fingerprint)).Str("peer", leader).Msg("secret step refused")
		}
	} else if step.Do != show {
		r.o.Log.Info().Str("step", step.Do).Str("secret", step.Fingerprint).Str("peer", leader).Msg("secret step taken")
	}
	return State{Held: r.o.Secrets.Summaries()}, err
}

// changeSecrets changes the secrets of this node as a step requires.
func (r *Rotation) changeSecrets(step Step, proven secret.List, binding []byte) error {
	secrets := r.o.Secrets
	switch step.Do {
	case show:
		return nil
	case install:
		added, err := unwrap(secrets.List(), step, binding)
		if err != nil {
			return err
		}
		return secrets.Install(added, proven)
	case use:
		return secrets.Use(step.Fingerprint, proven)
	case retire:
		return secrets.Retire(step.Fingerprint, proven)
	}
	return fmt.Errorf("node: unknown step %q: the other node may be newer", step.Do)
}

// unwrap decrypts the secret in a step with one of the secrets in own. binding is the channel binding of the
// stream.
func unwrap(own secret.List, step Step, binding []byte) (secret.Secret, error) {
	wrappingSecret, ok := own.Find(step.By)
	if !ok {
		return secret.Secret{}, errors.New("node: the secret that wraps the new one is not here")
	}
	line, err := wrappingSecret.Unwrap(binding, step.Wrapped)
	if err != nil {
		return secret.Secret{}, err
	}
	added, err := secret.ParseLine(string(line))
	if err == nil && added.Fingerprint() != step.Fingerprint {
		err = errors.New("node: the secret is another one than the step names")
	}
	return added, err
}
