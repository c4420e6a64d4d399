package node

import (
	"errors"
	"fmt"
	"slices"

	"shardway/admin"
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
	secretInstall = "install" // accept the secret of Line too
	secretUse     = "use"     // use that of Fingerprint, accept the others
	secretRetire  = "retire"  // accept no other than that of Fingerprint
	secretGive    = "give"    // tell that of Fingerprint
)

type secretStep struct {
	Do          string `json:"do"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Line        string `json:"line,omitempty"`
}

type secretState struct {
	Held []secret.Held `json:"held"`
	Line string        `json:"line,omitempty"`
}

var errNoSecrets = fmt.Errorf("%w: this node has no secret file (--secret-file), so there is nothing to rotate", admin.ErrRefused)

// secretStep takes a step of a rotation that another node leads. Whoever may ask
// has shown that he holds one of the secrets.
func (n *Node) secretStep(from string, s secretStep) (secretState, error) {
	k := n.o.Secrets
	if k == nil {
		return secretState{}, errNoSecrets
	}
	var state secretState
	var err error
	switch s.Do {
	case secretShow:
	case secretInstall:
		var add secret.Secret
		if add, err = secret.ParseLine(s.Line); err == nil {
			s.Fingerprint = add.Fingerprint()
			err = k.Install(add)
		}
	case secretUse:
		err = k.Use(s.Fingerprint)
	case secretRetire:
		err = k.Retire(s.Fingerprint)
	case secretGive:
		found, ok := k.List().Find(s.Fingerprint)
		if !ok {
			err = errors.New("node: the secret is not here any more")
			break
		}
		state.Line = found.Line()
	default:
		err = fmt.Errorf("node: unknown step %q: is the other node newer?", s.Do)
	}
	if s.Do != secretShow {
		n.log.Info().Str("step", s.Do).Str("secret", s.Fingerprint).Str("peer", from).Err(err).Msg("secret step taken")
	}
	state.Held = k.Held()
	return state, err
}
