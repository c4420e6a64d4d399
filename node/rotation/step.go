package rotation

import (
	"errors"
	"fmt"

	"shardway/internal/secret"
	"shardway/node/logs"
)

// The steps that a leader can request from a node.
const (
	stepShow    = "show"    // report the fingerprints of the secrets, and change nothing
	stepInstall = "install" // also accept the secret in Step.Wrapped
	stepUse     = "use"     // use the secret with Step.Fingerprint, and still accept the others
	stepRetire  = "retire"  // accept only the secret with Step.Fingerprint
)

// Step is the request for one step of a rotation.
type Step struct {
	// Kind is the step: stepShow, stepInstall, stepUse or stepRetire.
	Kind string `json:"do"`
	// Fingerprint identifies the secret that the step is about. It is empty for stepShow.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Wrapped is the encrypted line of the secret to install. The encryption key is derived from the
	// secret whose fingerprint is WrappingSecret, and from the channel binding of the stream.
	WrappingSecret string `json:"by,omitempty"`
	Wrapped        []byte `json:"wrapped,omitempty"`
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
			r.options.Log.Warn().Err(err).Str("step", logs.Cut(step.Kind)).Str("secret", logs.Cut(step.Fingerprint)).Str("peer", leader).Msg("secret step refused")
		}
	} else if step.Kind != stepShow {
		r.options.Log.Info().Str("step", step.Kind).Str("secret", step.Fingerprint).Str("peer", leader).Msg("secret step taken")
	}
	return State{Held: r.options.Secrets.Summaries()}, err
}

// changeSecrets changes the secrets of this node as a step requires.
func (r *Rotation) changeSecrets(step Step, proven secret.List, binding []byte) error {
	secrets := r.options.Secrets
	switch step.Kind {
	case stepShow:
		return nil
	case stepInstall:
		added, err := unwrap(secrets.List(), step, binding)
		if err != nil {
			return err
		}
		return secrets.Install(added, proven)
	case stepUse:
		return secrets.Use(step.Fingerprint, proven)
	case stepRetire:
		return secrets.Retire(step.Fingerprint, proven)
	}
	return fmt.Errorf("node: unknown step %q: the other node may be newer", step.Kind)
}

// unwrap decrypts the secret in a step with one of the secrets in own. binding is the channel binding of the
// stream.
func unwrap(own secret.List, step Step, binding []byte) (secret.Secret, error) {
	wrappingSecret, ok := own.Find(step.WrappingSecret)
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
