package node

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"shardway/internal/secret"
)

// known reports whether a node may speak with this one: gossip shows it, or it
// is in Raft's configuration, so that a cut in gossip parts nobody.
func (n *Node) known(node string) bool {
	if n.gossip.Knows(node) {
		return true
	}
	voters, others := n.servers()
	return serverOf(slices.Concat(voters, others), node) != ""
}

// gossipKeys returns the keys that gossip starts with, none without a secret.
func (n *Node) gossipKeys() [][]byte {
	if n.o.Secrets == nil {
		return nil
	}
	return n.o.Secrets.List().GossipKeys()
}

// followSecrets keeps gossip, and the streams between nodes, by the secrets of
// the moment.
func (n *Node) followSecrets() {
	if n.o.Secrets == nil {
		return
	}
	n.o.Secrets.OnChange(func(l secret.List) error {
		err := n.gossip.SetKeys(l.GossipKeys())
		n.RenewPeers()
		return err
	})
}

// RenewPeers lets forwarded requests go over new streams: this node's
// certificate, or whom it believes, has changed.
func (n *Node) RenewPeers() { n.proxy.RenewPeers() }

// What a node does with its secrets when another one asks it to.
const (
	secretShow    = "show"
	secretInstall = "install" // accept the secret in Wrapped too
	secretUse     = "use"     // use that of Fingerprint, accept the others
	secretRetire  = "retire"  // accept no other than that of Fingerprint
)

type secretStep struct {
	Do          string `json:"do"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Wrapped is the line of the secret to install, for this stream and for who
	// has the secret By.
	By      string `json:"by,omitempty"`
	Wrapped []byte `json:"wrapped,omitempty"`
}

type secretState struct {
	Held []secret.Held `json:"held"`
}

// secretStep takes a step of a rotation that another node leads and that has
// shown some of this node's secrets; what they allow decides secret.Keeper.
func (n *Node) secretStep(from string, s secretStep, shown secret.List, binding []byte) (secretState, error) {
	k := n.o.Secrets
	if k == nil {
		return secretState{}, errNoSecrets
	}
	var err error
	switch s.Do {
	case secretShow:
	case secretInstall:
		var add secret.Secret
		if add, err = unwrap(k.List(), s, binding); err == nil {
			err = k.Install(add, shown)
		}
	case secretUse:
		err = k.Use(s.Fingerprint, shown)
	case secretRetire:
		err = k.Retire(s.Fingerprint, shown)
	default:
		err = fmt.Errorf("node: unknown step %q: is the other node newer?", s.Do)
	}
	switch {
	case err != nil && n.refusals.pass():
		n.log.Warn().Err(err).Str("step", cut(s.Do)).Str("secret", cut(s.Fingerprint)).Str("peer", from).Msg("secret step refused")
	case err != nil:
	case s.Do != secretShow:
		n.log.Info().Str("step", s.Do).Str("secret", s.Fingerprint).Str("peer", from).Msg("secret step taken")
	}
	return secretState{Held: k.Held()}, err
}

// unwrap returns the secret that a step brings.
func unwrap(l secret.List, s secretStep, binding []byte) (secret.Secret, error) {
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

// pace lets something through once in a second. The zero value is ready.
type pace struct{ last atomic.Int64 } // UnixNano

func (p *pace) pass() bool {
	now, last := time.Now().UnixNano(), p.last.Load()
	return now-last >= int64(time.Second) && p.last.CompareAndSwap(last, now)
}

// maxWord is as long as a node's id, a disk's, or who has asked and from where.
const maxWord = 256

// cut bounds a word of another process for the log.
func cut(s string) string { return s[:min(len(s), maxWord)] }
