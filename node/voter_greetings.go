package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"shardway/node/past"
	"shardway/peer"
)

const (
	// acquaintEvery is how often a voter greets the next of those that have something to
	// hear or to tell.
	greetEvery = time.Second
	// acquaintLeast is how often at least it greets each of the others.
	greetAllWithin = 10 * time.Second
	greetTimeout   = time.Second
	// acquaintAgain is the pause before the first greeting is tried again.
	greetRetryPause = 25 * time.Millisecond
)

// greeting is what a voter has said of its disk to another one last, nothing if that one was
// not reached, and when.
type greeting struct {
	said past.Statement
	at   time.Time
}

// strangers are the servers of which a process has greeted that is not known, and that nobody
// has believed: whoever has the secret can say that.
type unknownServers struct {
	added chan struct{} // hint
	mu    sync.Mutex
	all   map[string]bool
}

func newUnknownServers() *unknownServers {
	return &unknownServers{added: make(chan struct{}, 1), all: map[string]bool{}}
}

// add notes one of the voters.
func (s *unknownServers) add(server string, voters []string) {
	if !slices.Contains(voters, server) {
		return
	}
	s.mu.Lock()
	s.all[server] = true
	s.mu.Unlock()
	notify(s.added)
}

func (s *unknownServers) has(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[server]
}

func (s *unknownServers) remove(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, server)
}

// acquaint has a voter greet the other voters: all at once as it begins, so that the leader
// speaks to it, and then in turn. Each greeting says how the disks of both are; what is known
// of them decides when nobody leads.
//
// It is a connection of its own, which wakes both. So who has been told how this disk is has
// no other greeting for a while. A voter that was started again greets this one, too, but is
// not believed for that: it is greeted back, where gossip shows it.
func (n *Node) greetVoters(ctx context.Context) {
	for _, server := range n.otherVoters() {
		n.asks.Go(func() { n.greetFirst(ctx, server) })
	}
	t := n.pulse.Every(greetEvery)
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
		own, voters := n.diskRecords.ownStatement(), n.otherVoters()
		for i := range voters {
			server := voters[(round+i)%len(voters)]
			to, since := last[server], time.Since(last[server].at)
			if !unknown.has(server) && (forUnknown || to.said == own && since < greetAllWithin) || forUnknown && since < greetEvery {
				continue
			}
			unknown.remove(server) // before it is: it may be another one meanwhile
			to = greeting{at: time.Now()}
			if n.greet(ctx, server) == nil { // else it is greeted again
				to.said = own
			}
			if last[server] = to; !forUnknown {
				break
			}
		}
	}
}

// otherVoters returns the voters without this node; nil: it is none.
func (n *Node) otherVoters() []string {
	voters := n.raft.Voters()
	at := slices.Index(voters, n.server)
	if at < 0 {
		return nil
	}
	return slices.Delete(slices.Clone(voters), at, at+1)
}

// greetFirst greets a voter whose address gossip may not have told yet.
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

func (n *Node) greet(ctx context.Context, server string) error {
	greeting, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	c, err := n.port.Dial(greeting, nodeOf(server), peer.Control)
	if err != nil {
		return err
	}
	closeStream(c)
	return nil
}
