package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"shardway/node/consensus"
	"shardway/node/diskhistory"
	"shardway/peer"
)

const (
	// greetEvery is the interval at which a voter greets the next voter that needs a greeting.
	greetEvery = time.Second
	// greetAllWithin is the longest time between two greetings of the same voter.
	greetAllWithin = 10 * time.Second
	// greetTimeout bounds one greeting.
	greetTimeout = time.Second
	// greetRetryPause is the pause between two attempts of the first greeting.
	greetRetryPause = 25 * time.Millisecond
)

// greeting records the last greeting of a voter: a connection that is opened only for its handshake, in
// which both nodes state the condition of their disks. said is the statement that this node has sent. It
// is zero if the voter was not reachable.
type greeting struct {
	said diskhistory.Statement
	at   time.Time
}

// unknownServers are the servers that have greeted this node with an unknown process. Such a
// greeting is not trusted, because every holder of the secret can send it.
type unknownServers struct {
	added chan struct{} // cap 1: a server was added
	mu    sync.Mutex
	all   map[string]bool
}

// newUnknownServers returns an empty set.
func newUnknownServers() *unknownServers {
	return &unknownServers{added: make(chan struct{}, 1), all: map[string]bool{}}
}

// add adds server if it is one of voters.
func (s *unknownServers) add(server string, voters []string) {
	if !slices.Contains(voters, server) {
		return
	}
	s.mu.Lock()
	s.all[server] = true
	s.mu.Unlock()
	notify(s.added)
}

// has reports whether server is in the set.
func (s *unknownServers) has(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[server]
}

// remove removes server from the set.
func (s *unknownServers) remove(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, server)
}

// greetVoters greets the other voters until ctx ends, while this node is a voter: all at the start, so
// that the leader sends Raft heartbeats to this node, and then one after the other. In a greeting,
// both nodes exchange statements about their disks. The nodes use the resulting records when there is no leader.
//
// Each greeting opens a connection, which wakes both nodes. So a voter that has received the current
// statement gets no other greeting for greetAllWithin. A voter that has restarted greets this node,
// but that greeting is not trusted: this node greets it back at the address that gossip has for it.
func (n *Node) greetVoters(ctx context.Context) {
	for _, server := range n.view.OtherVoters() {
		n.asks.Go(func() { n.greetFirst(ctx, server) })
	}
	t := n.scheduler.NewTicker(greetEvery)
	defer t.Stop()
	unknown := n.diskRecords.unknownServers
	last := map[string]greeting{}
	for round := 0; ; round++ {
		forUnknown := false
		select {
		case <-ctx.Done():
			return
		case <-unknown.added:
			forUnknown = true
		case <-t.C:
		}
		own, voters := n.diskRecords.ownStatement(), n.view.OtherVoters()
		for i := range voters {
			server := voters[(round+i)%len(voters)]
			to, since := last[server], time.Since(last[server].at)
			if !unknown.has(server) && (forUnknown || to.said == own && since < greetAllWithin) || forUnknown && since < greetEvery {
				continue
			}
			unknown.remove(server) // before the greeting: during it, another unknown process may be added
			to = greeting{at: time.Now()}
			if n.greet(ctx, server) == nil { // after an error, the voter is greeted again
				to.said = own
			}
			if last[server] = to; !forUnknown {
				break
			}
		}
	}
}

// greetFirst greets a voter, and retries for greetEvery while gossip does not have its address.
func (n *Node) greetFirst(ctx context.Context, server string) {
	for range greetEvery / greetRetryPause {
		if !errors.Is(n.greet(ctx, server), peer.ErrUnknownNode) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(greetRetryPause):
		}
	}
}

// greet opens and closes a connection to the node of server: the handshake exchanges the statements.
func (n *Node) greet(ctx context.Context, server string) error {
	greeting, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	c, err := n.port.Dial(greeting, consensus.NodeOf(server), peer.Control)
	if err != nil {
		return err
	}
	closeStream(c)
	return nil
}
